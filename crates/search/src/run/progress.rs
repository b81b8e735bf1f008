//! Progress reports of a running search: the count so far, and the aggregations as if the remaining segments were
//! empty. Only searches with a progress listener (`_async_search`) report.
//!
//! A thread that has just searched a segment copies and finishes the results so far, so no extra thread is needed.
//! Reports are rare enough to cost at most a tenth of the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use firn_engine::Progress;
use firn_query::search::{SearchRequest, SearchResponse, SearchShards, TotalHits, TrackTotalHits};
use firn_scheduler::Pool;
use serde_json::Value;

use super::answer::Answering;
use super::prepared_shard::{PreparedShard, Task};
use super::shared_state::Shared;
use crate::SearchLimits;

/// The pause before the next report is at least this many times the duration of the last one.
const COST_FACTOR: u64 = 10;

/// Reporter of one search.
pub(crate) struct Reporter {
    pub(crate) progress: Arc<Progress>,
    pub(crate) request: Arc<SearchRequest>,
    pub(crate) tasks: Arc<Vec<Task>>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) now_ms: i64,
    pub(crate) limits: SearchLimits,
    pace: Pace,
    /// Remaining segments to search, by shard.
    left: Vec<AtomicUsize>,
}

/// Time of the next report, in ms after the start of the search.
#[derive(Default)]
struct Pace {
    due_ms: AtomicU64,
    /// A thread is writing a report.
    is_busy: AtomicBool,
}

impl Reporter {
    /// Creates a reporter for a search of `shard_count` shards that reads these segments.
    pub(crate) fn new(
        progress: &Arc<Progress>,
        request: &Arc<SearchRequest>,
        tasks: &Arc<Vec<Task>>,
        shard_count: usize,
        pool: &Arc<Pool>,
        now_ms: i64,
        limits: &SearchLimits,
    ) -> Self {
        let left: Vec<AtomicUsize> = (0..shard_count).map(|_| AtomicUsize::new(0)).collect();
        for task in tasks.iter() {
            left[task.shard].fetch_add(1, Ordering::Relaxed);
        }
        Self {
            progress: Arc::clone(progress),
            request: Arc::clone(request),
            tasks: Arc::clone(tasks),
            pool: Arc::clone(pool),
            now_ms,
            limits: limits.clone(),
            pace: Pace::default(),
            left,
        }
    }

    /// Publishes the number of shards. Call it when a search begins.
    pub(crate) fn begin(&self, shared: &Shared) {
        self.rest(elapsed_ms(shared), 0);
        self.publish(shared, None);
    }

    /// Postpones the next report.
    fn rest(&self, now_ms: u64, cost_ms: u64) {
        let rest_ms = match u64::try_from(self.progress.pace().as_millis()).unwrap_or(u64::MAX) {
            0 => 0,
            every_ms => cost_ms.saturating_mul(COST_FACTOR).max(every_ms),
        };
        let due_ms = now_ms.saturating_add(rest_ms);
        self.pace.due_ms.store(due_ms, Ordering::Relaxed);
    }

    /// Counts a searched segment and publishes a report if one is due. Call it without holding a lock.
    pub(crate) fn segment_done(&self, ready: &Arc<Vec<PreparedShard>>, shard: usize, shared: &Shared) {
        let left = self.left[shard].fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_err() || elapsed_ms(shared) < self.pace.due_ms.load(Ordering::Relaxed) {
            return;
        }
        if self.pace.is_busy.swap(true, Ordering::Acquire) {
            return;
        }
        let begun_ms = elapsed_ms(shared);
        let known = self.progress.latest().and_then(|latest| latest.aggregations.clone());
        let aggregations = self.aggregations(ready, shared).map(Arc::new).or(known);
        self.publish(shared, aggregations);
        let now_ms = elapsed_ms(shared);
        self.rest(now_ms, now_ms.saturating_sub(begun_ms));
        self.pace.is_busy.store(false, Ordering::Release);
    }

    /// Returns the aggregations so far; `None`: there are none, or they are not available now (another thread is
    /// merging some, a second run over the segments follows, or a copy needs too much memory).
    fn aggregations(&self, ready: &Arc<Vec<PreparedShard>>, shared: &Shared) -> Option<Value> {
        let looks_twice = ready.iter().any(|shard| shard.plan().aggs.looks_twice());
        if self.request.aggs.0.is_empty() || looks_twice {
            return None;
        }
        let _lent = shared.memory.lend_copy()?;
        let partials = ready
            .iter()
            .map(PreparedShard::copy_partials)
            .collect::<Option<Vec<_>>>()?;
        let answering = Answering {
            ready,
            tasks: &self.tasks,
            shared,
            request: &self.request,
            pool: &self.pool,
            ctx: &shared.ctx,
            now_ms: self.now_ms,
            limits: self.limits.clone(),
            known: None,
        };
        // A failure to finish now is ignored; if it persists, the end of the search reports it.
        answering.finish(partials).ok()
    }

    fn publish(&self, shared: &Shared, aggregations: Option<Arc<Value>>) {
        let found = shared.total.load(Ordering::Relaxed);
        let total = match self.request.track_total_hits {
            TrackTotalHits::No => None,
            TrackTotalHits::UpTo(limit) => Some(found.min(limit)),
            TrackTotalHits::Exact => Some(found),
        };
        let done = self.left.iter().filter(|left| left.load(Ordering::Relaxed) == 0);
        self.progress.publish(SearchResponse {
            took_ms: elapsed_ms(shared),
            timed_out: shared.timed_out.load(Ordering::Relaxed),
            shards: SearchShards {
                total: self.left.len() as u32,
                successful: done.count() as u32,
                ..SearchShards::default()
            },
            total: total.map(|value| TotalHits { value, exact: false }),
            aggregations,
            ..SearchResponse::default()
        });
    }
}

fn elapsed_ms(shared: &Shared) -> u64 {
    u64::try_from(shared.ctx.started.elapsed().as_millis()).unwrap_or(u64::MAX)
}
