//! Execution of one stage: its searches, their cost, and its events.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use firn_engine::cost::SearchCost;
use firn_engine::{Error, Progress, RequestContext, Work};
use firn_query::search::{SearchRequest, SearchResponse, SearchShards};
use serde_json::{Map, Value, json};

use super::request::{Frozen, Stage};
use super::run::Run;
use crate::endpoints::search;
use crate::endpoints::search::shards_object;
use crate::state::config::DiscoverLimits;
use crate::state::disclosure;
use crate::state::partial_results::{PartialResult, ResultKey};
use crate::wire::error::ApiError;

/// Polling interval for partial results of a search.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Requests to a repository that need no confirmation: about a second's worth.
const FREE_REQUESTS: u64 = 256;

/// Stage in execution; see the module.
pub(super) struct Step<'a> {
    pub(super) run: &'a Run,
    pub(super) stage: &'a Stage,
    /// Work of its searches.
    pub(super) work: Arc<Work>,
    number: usize,
    started: Instant,
    seen: Mutex<ShardCounts>,
}

/// Shard results of its searches.
#[derive(Default)]
struct ShardCounts {
    shards: SearchShards,
    /// Shards of the running search.
    latest: Option<SearchShards>,
    timed_out: bool,
}

impl<'a> Step<'a> {
    pub(super) fn new(run: &'a Run, number: usize, stage: &'a Stage) -> Self {
        Self {
            run,
            stage,
            work: Arc::default(),
            number,
            started: Instant::now(),
            seen: Mutex::default(),
        }
    }

    /// Runs a search, posts its progress, and passes partial results to `so_far`. Failures of some shards are
    /// remembered for the end of the stage; a failure of all shards fails the stage.
    pub(super) async fn search(
        &self,
        request: SearchRequest,
        so_far: &(dyn Fn(&SearchResponse) + Sync),
    ) -> Result<SearchResponse, ApiError> {
        let progress = Arc::new(Progress::default());
        let ctx = RequestContext {
            started: Instant::now(),
            work: Arc::clone(&self.work),
            progress: Some(Arc::clone(&progress)),
            ..self.run.ctx.clone()
        };
        let mut searching = std::pin::pin!(search::run(&self.run.edge, &ctx, request, b""));
        let mut shown: Option<Arc<SearchResponse>> = None;
        let response = loop {
            match tokio::time::timeout(LOOK_EVERY, &mut searching).await {
                Ok(response) => break response?,
                Err(_) => {
                    let latest = progress.latest();
                    if let Some(latest) = latest
                        && shown.as_ref().is_none_or(|shown| !Arc::ptr_eq(shown, &latest))
                    {
                        self.progress(&latest.shards);
                        self.seen().latest = Some(latest.shards.clone());
                        so_far(&latest);
                        shown = Some(latest);
                    }
                }
            }
        };
        self.see(&response);
        Ok(response)
    }

    /// Returns the cost of the searches if they need a confirmation first.
    pub(super) async fn too_dear(&self, requests: Vec<SearchRequest>) -> Result<Option<SearchCost>, ApiError> {
        let asks = self.run.frozen == Frozen::Ask && !matches!(self.stage, Stage::Sample { .. });
        if !asks || !self.run.reads_repositories() {
            return Ok(None);
        }
        let mut whole = SearchCost::default();
        for request in requests {
            let cost = self
                .run
                .edge
                .engine
                .search_cost(&self.run.ctx, request)
                .await?
                .require()?;
            whole.requests += cost.requests;
            whole.bytes += cost.bytes;
            whole.time_ms += cost.time_ms;
            whole.splits = whole.splits.max(cost.splits);
        }
        let is_free = is_free(&self.run.edge.config.discover, &whole);
        Ok((!is_free).then_some(whole))
    }

    /// Posts a partial result; `result` is JSON.
    pub(super) fn partial(&self, result: &[u8]) {
        let shards = {
            let seen = self.seen();
            done_of(seen.latest.as_ref().unwrap_or(&seen.shards))
        };
        let head = self.head("partial", [("shards", shards)]);
        // If there is no memory for it, the final result fails for the same reason and reports it.
        let _ = self.post(ResultKey::Result(self.number), "partial", head, Some(result));
    }

    /// Posts the final result.
    pub(super) fn done(&self, result: &[u8]) -> Result<(), Error> {
        let work = self.work.done();
        let head = {
            let seen = self.seen();
            let failed = !seen.shards.failures.is_empty();
            let was_searched = seen.shards.successful > seen.shards.skipped;
            let node_id = &self.run.edge.config.node_id;
            let mut head = self.head(
                "done",
                [
                    ("took_ms", self.took_ms()),
                    ("partial", (failed || seen.timed_out).into()),
                    ("timed_out", seen.timed_out.into()),
                    ("cached", (was_searched && work.segments == 0).into()),
                    ("shards", shards_object(&seen.shards, node_id, Some(&self.run.metadata))),
                ],
            );
            if disclosure::shows_cost(&self.run.ctx.scope) {
                let cost = json!({"requests": work.repository_requests, "bytes": work.repository_bytes});
                head.insert("cost".to_owned(), cost);
            }
            head
        };
        self.post(ResultKey::Result(self.number), "done", head, Some(result))
    }

    /// Posts the estimated cost.
    pub(super) fn estimated(&self, cost: &SearchCost) -> Result<(), Error> {
        let mut head = self.head("estimate", []);
        head.extend(estimate_of(cost));
        self.post(ResultKey::Result(self.number), "estimate", head, None)
    }

    /// Posts the error.
    pub(super) fn failed(&self, error: &ApiError) {
        let mut body = error.body(Some(&self.run.metadata), false);
        let head = self.head(
            "failed",
            [
                ("took_ms", self.took_ms()),
                ("status", error.status().as_u16().into()),
                ("error", body["error"].take()),
            ],
        );
        if let Err(full) = self.post(ResultKey::Result(self.number), "failed", head, None) {
            tracing::warn!(stage = self.stage.name(), error = %full, "a stage failed, and so did posting its error");
        }
    }

    fn progress(&self, shards: &SearchShards) {
        let head = self.head("progress", [("shards", done_of(shards))]);
        // A lost progress event is replaced by the next one.
        let _ = self.post(ResultKey::Progress(self.number), "progress", head, None);
    }

    fn head<const N: usize>(&self, event: &'static str, entries: [(&str, Value); N]) -> Map<String, Value> {
        let mut head = Map::new();
        head.insert("event".to_owned(), event.into());
        head.insert("stage".to_owned(), self.stage.name().into());
        if let Some(field) = self.stage.field() {
            head.insert("field".to_owned(), field.into());
        }
        for (name, value) in entries {
            head.insert(name.to_owned(), value);
        }
        head
    }

    fn post(
        &self,
        topic: ResultKey,
        event: &'static str,
        head: Map<String, Value>,
        result: Option<&[u8]>,
    ) -> Result<(), Error> {
        let mut json = Value::Object(head).to_string().into_bytes();
        if let Some(result) = result {
            // Sources are copied unchanged, before the closing brace of the head.
            json.pop();
            json.extend_from_slice(b",\"result\":");
            json.extend_from_slice(result);
            json.push(b'}');
        }
        self.run.board.post(
            topic,
            PartialResult {
                event,
                json: json.into(),
            },
        )
    }

    fn took_ms(&self) -> Value {
        (self.started.elapsed().as_millis() as u64).into()
    }

    /// The searches of a stage use the same shards: the worst result counts.
    fn see(&self, response: &SearchResponse) {
        let mut seen = self.seen();
        seen.timed_out |= response.timed_out;
        seen.latest = None;
        let shards = &response.shards;
        let known = &mut seen.shards;
        known.skipped = match known.total {
            0 => shards.skipped,
            _ => known.skipped.min(shards.skipped),
        };
        known.total = known.total.max(shards.total);
        for failure in &shards.failures {
            let is_known = |(index, shard, _): &(String, u32, Error)| *index == failure.0 && *shard == failure.1;
            if !known.failures.iter().any(is_known) {
                known.failures.push(failure.clone());
            }
        }
        known.successful = known.total.saturating_sub(known.failures.len() as u32);
    }

    fn seen(&self) -> MutexGuard<'_, ShardCounts> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a cost needs no confirmation.
pub(super) fn is_free(limits: &DiscoverLimits, cost: &SearchCost) -> bool {
    cost.bytes <= limits.ask_over_bytes && cost.requests <= FREE_REQUESTS
}

/// Returns the cost estimate as JSON.
pub(super) fn estimate_of(cost: &SearchCost) -> Map<String, Value> {
    Map::from_iter([
        ("requests".to_owned(), cost.requests.into()),
        ("bytes".to_owned(), cost.bytes.into()),
        ("ms".to_owned(), cost.time_ms.into()),
        ("splits".to_owned(), cost.splits.into()),
    ])
}

/// Returns the progress of a search.
fn done_of(shards: &SearchShards) -> Value {
    json!({
        "total": shards.total,
        "done": shards.successful + shards.failures.len() as u32,
        "skipped": shards.skipped,
        "failed": shards.failures.len(),
    })
}
