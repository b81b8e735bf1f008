//! Tells what a running search has found so far: the count, and the aggregations as they would be if the segments
//! that are left held nothing. Only searches that somebody asks about (`_async_search`) do so.
//!
//! What was found is copied and finished by whichever thread has just searched a segment, so that it needs no thread of
//! its own. It is done rarely enough to cost a tenth of the time at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use firn_engine::Progress;
use firn_engine::search::{SearchRequest, SearchResponse, SearchShards, TotalHits, TrackTotalHits};
use serde_json::Value;

use super::SearchLimits;
use super::answer::Answering;
use super::execute::{Ready, Task};
use super::segment_run::Shared;
use crate::pool::Pool;

/// Until the next report passes at least so many times what the last one took.
const COST_FACTOR: u64 = 10;

/// Reports one search.
pub(super) struct Reporter {
    pub(super) progress: Arc<Progress>,
    pub(super) request: Arc<SearchRequest>,
    pub(super) tasks: Arc<Vec<Task>>,
    pub(super) pool: Arc<Pool>,
    pub(super) now_ms: i64,
    pub(super) limits: SearchLimits,
    pace: Pace,
    /// Segments to search, by shard.
    left: Vec<AtomicUsize>,
}

/// When the next report is due, ms after the search began.
#[derive(Default)]
struct Pace {
    due_ms: AtomicU64,
    /// A thread is at it.
    is_busy: AtomicBool,
}

impl Reporter {
    /// Reports on a search of so many shards, which has these segments to read.
    pub(super) fn new(
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

    /// To be called when a search begins: how many shards it has.
    pub(super) fn begin(&self, shared: &Shared) {
        self.rest(elapsed_ms(shared), 0);
        self.publish(shared, None);
    }

    /// Puts the next report off.
    fn rest(&self, now_ms: u64, cost_ms: u64) {
        let rest_ms = match u64::try_from(self.progress.pace().as_millis()).unwrap_or(u64::MAX) {
            0 => 0,
            every_ms => cost_ms.saturating_mul(COST_FACTOR).max(every_ms),
        };
        let due_ms = now_ms.saturating_add(rest_ms);
        self.pace.due_ms.store(due_ms, Ordering::Relaxed);
    }

    /// To be called, without any lock held, when a segment of a shard was searched.
    pub(super) fn segment_done(&self, ready: &Arc<Vec<Ready>>, shard: usize, shared: &Shared) {
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

    /// The aggregations so far; `None`: there are none, or they cannot be told now (another thread is merging
    /// some, a second look at the segments is still to come, there is no memory for a copy).
    fn aggregations(&self, ready: &Arc<Vec<Ready>>, shared: &Shared) -> Option<Value> {
        let looks_twice = ready.iter().any(|shard| shard.plan().aggs.looks_twice());
        if self.request.aggs.0.is_empty() || looks_twice {
            return None;
        }
        let _lent = shared.memory.lend_copy()?;
        let partials = ready.iter().map(Ready::copy_partials).collect::<Option<Vec<_>>>()?;
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
        // What cannot be finished now may be in the end; if not, the end says so.
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
