//! Answers one request: its stages, all at once, each telling what it finds.
//!
//! The stages are begun cheapest first, and the engine's queue takes what one asker wants in that order: so the sample
//! is there before the counts of sixty fields are begun, and nobody waits for a stage that he does not need.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use firn_control::SearchPermit;
use firn_engine::search::SearchResponse;
use firn_engine::{Error, RequestContext};
use firn_model::metadata::Metadata;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::OnceCell;

use super::board::{Board, News, Topic};
use super::field_hints;
use super::known::{self, KnownFields};
use super::request::{Asked, Frozen, Question};
use super::stages::{self, Outcome};
use super::step::Step;
use crate::error::ApiError;
use crate::record::{StageTiming, Timings};
use crate::request::Edge;
use crate::tasks::TaskGuard;

/// A request on its way.
pub(super) struct Run {
    pub(super) edge: Arc<Edge>,
    pub(super) ctx: RequestContext,
    pub(super) question: Question,
    pub(super) frozen: Frozen,
    pub(super) metadata: Arc<Metadata>,
    /// Concrete indices that it is about.
    pub(super) indices: Vec<String>,
    pub(super) board: Arc<Board>,
    pub(super) timings: Arc<Timings>,
    pub(super) newest: OnceCell<SearchResponse>,
    pub(super) known: OnceCell<KnownFields>,
    pub(super) in_use: OnceCell<BTreeSet<String>>,
    pub(super) _permit: Option<SearchPermit>,
    /// Of one that goes on without its connection.
    pub(super) _task: Option<TaskGuard>,
}

impl Run {
    /// Runs all stages, and says so when they have ended.
    pub(super) async fn go(self, asked: Asked) {
        let steps = asked.stages.iter().enumerate();
        join_all(steps.map(|(number, stage)| self.step(Step::new(&self, number, stage)))).await;
        let took_ms = self.ctx.started.elapsed().as_millis() as u64;
        let json = json!({"event": "end", "took_ms": took_ms}).to_string().into();
        // Some bytes find room where a result was refused; if not, the end of the stream says it.
        let _ = self.board.post(Topic::End, News { event: "end", json });
        self.board.close();
    }

    /// Runs one stage. Whatever becomes of it is an event; the others go on.
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

    /// Tells which fields of the query do not exist. Only after the first events: nobody waits for it.
    async fn tell_hints(&self) {
        let Some(typed) = &self.question.typed else {
            return;
        };
        let Ok(known) = self.known().await else {
            // The query is answered, and so is why its fields are not known.
            return;
        };
        let in_use = || async { self.in_use().await.ok() };
        if let Some(json) = field_hints::print(typed, known, in_use).await {
            // Without room for it there is none for an answer either, which says so.
            let _ = self.board.post(Topic::Hints, News { event: "hints", json });
        }
    }

    /// The fields of the indices. Asked once for all stages.
    pub(super) async fn known(&self) -> Result<&KnownFields, ApiError> {
        let ask = || async {
            let metadata = self.edge.engine.metadata_with_mappings(&self.ctx).await?;
            Ok(known::fields(&metadata, &self.indices))
        };
        self.known.get_or_try_init(ask).await
    }

    /// The fields of which some event has a value, in indices that may hold one of the time that is asked for. Asked once
    /// for all stages.
    pub(super) async fn in_use(&self) -> Result<&BTreeSet<String>, ApiError> {
        let ask = || known::in_use(&self.edge, &self.ctx, &self.question);
        self.in_use.get_or_try_init(ask).await
    }

    /// Whether the events of one value of a field are found by it, sooner than by looking at all events.
    pub(super) async fn finds_by_value(&self, field: &str) -> Result<bool, ApiError> {
        let known = self.known().await?.get(field);
        let is_indexed = known.is_some_and(|known| matches!(known.field_type, "keyword" | "ip"));
        Ok(is_indexed && !self.reads_repositories())
    }

    /// Whether something of it may have to be fetched from a snapshot repository.
    pub(super) fn reads_repositories(&self) -> bool {
        known::any_mounted(&self.metadata, &self.indices)
    }
}
