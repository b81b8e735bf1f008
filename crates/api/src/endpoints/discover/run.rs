//! Run of a Discover request: all stages concurrently, each posting its results.
//!
//! The stages start in the order of their cost, and the engine's queue runs the searches of one caller in that order.
//! So the sample is available before the counts of sixty fields start, and cheap stages do not wait for expensive ones.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use firn_auth::SearchPermit;
use firn_engine::{Error, RequestContext};
use firn_model::metadata::Metadata;
use firn_query::search::SearchResponse;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::OnceCell;

use super::field_hints;
use super::known_fields::{self, KnownFields};
use super::request::{DiscoverRequest, EventSelection, Frozen};
use super::stage_run::Step;
use super::stages::{self, Outcome};
use crate::state::edge::Edge;
use crate::state::partial_results::{PartialResult, ResultBoard, ResultKey};
use crate::state::request_record::{StageTiming, Timings};
use crate::state::tasks::TaskGuard;
use crate::wire::error::ApiError;

/// Running request.
pub(super) struct Run {
    pub(super) edge: Arc<Edge>,
    pub(super) ctx: RequestContext,
    pub(super) question: EventSelection,
    pub(super) frozen: Frozen,
    pub(super) metadata: Arc<Metadata>,
    /// Concrete indices of the request.
    pub(super) indices: Vec<String>,
    pub(super) board: Arc<ResultBoard>,
    pub(super) timings: Arc<Timings>,
    pub(super) newest: OnceCell<SearchResponse>,
    pub(super) known: OnceCell<KnownFields>,
    pub(super) in_use: OnceCell<BTreeSet<String>>,
    pub(super) _permit: Option<SearchPermit>,
    /// Task of a background run.
    pub(super) _task: Option<TaskGuard>,
}

impl Run {
    /// Runs all stages and posts the end.
    pub(super) async fn go(self, asked: DiscoverRequest) {
        let steps = asked.stages.iter().enumerate();
        join_all(steps.map(|(number, stage)| self.step(Step::new(&self, number, stage)))).await;
        let took_ms = self.ctx.started.elapsed().as_millis() as u64;
        let json = json!({"event": "end", "took_ms": took_ms}).to_string().into();
        // A few bytes may fit where a result did not; if not, the end of the stream says it.
        let _ = self.board.post(ResultKey::End, PartialResult { event: "end", json });
        self.board.close();
    }

    /// Runs one stage. Its outcome is an event; other stages are not affected.
    async fn step(&self, step: Step<'_>) {
        let started = Instant::now();
        let outcome = AssertUnwindSafe(stages::run(&step))
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(Error::internal("a bug: the stage panicked, see the log").into()));
        let told = match outcome {
            Ok(Outcome::Done(result)) => step.done(&result).map(|()| "done").map_err(ApiError::from),
            Ok(Outcome::Estimated(cost)) => step.estimated(&cost).map(|()| "estimate").map_err(ApiError::from),
            Err(error) => Err(error),
        };
        let outcome = told.unwrap_or_else(|error| {
            step.failed(&error.told(&self.ctx));
            "failed"
        });
        self.ctx.work.add_done(&step.work.done());
        self.timings.push(StageTiming {
            stage: step.stage.name(),
            outcome,
            took: started.elapsed(),
        });
        if step.stage.begins_the_page() {
            self.tell_hints().await;
        }
    }

    /// Posts hints about unknown fields of the query, after the first events, so that they delay nothing.
    async fn tell_hints(&self) {
        let Some(typed) = &self.question.typed else {
            return;
        };
        let Ok(known) = self.known().await else {
            // The stages already report why the fields are unknown.
            return;
        };
        let in_use = || async { self.in_use().await.ok() };
        if let Some(json) = field_hints::print(typed, known, in_use).await {
            // If there is no memory for it, a stage fails for the same reason and reports it.
            let _ = self
                .board
                .post(ResultKey::Hints, PartialResult { event: "hints", json });
        }
    }

    /// Returns the fields of the indices, read once for all stages.
    pub(super) async fn known(&self) -> Result<&KnownFields, ApiError> {
        let ask = || async {
            let metadata = self.edge.engine.metadata_with_mappings(&self.ctx).await?;
            Ok(known_fields::fields(&metadata, &self.indices))
        };
        self.known.get_or_try_init(ask).await
    }

    /// Returns the fields with a value in some event, in indices that may match the time range. Read once for all
    /// stages.
    pub(super) async fn in_use(&self) -> Result<&BTreeSet<String>, ApiError> {
        let ask = || known_fields::in_use(&self.edge, &self.ctx, &self.question);
        self.in_use.get_or_try_init(ask).await
    }

    /// Returns whether an index of a field's values finds the events of one value faster than a scan of all events.
    pub(super) async fn finds_by_value(&self, field: &str) -> Result<bool, ApiError> {
        let known = self.known().await?.get(field);
        let is_indexed = known.is_some_and(|known| matches!(known.field_type, "keyword" | "ip"));
        Ok(is_indexed && !self.reads_repositories())
    }

    /// Returns whether the request may fetch from a snapshot repository.
    pub(super) fn reads_repositories(&self) -> bool {
        known_fields::any_mounted(&self.metadata, &self.indices)
    }
}
