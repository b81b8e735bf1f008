//! Execution of searches on the search pool.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firn_engine::RequestContext;
use firn_model::metadata::resolve;
use firn_model::{Error, ErrorKind, Result};
use firn_query::Cancel;
use firn_query::query::Query;
use firn_query::search::{IndexTarget, QueryExplanation, SearchRequest, SearchResponse};
use firn_scheduler::yield_now;
use firn_search::{After, FailedShard, SearchLimits, ShardSearch, describe, search_page};
use firn_segment::splits::dry_run::metered;
use parking_lot::Mutex;

use super::addressing::{ShardSelection, check_behind, split};
use super::response_cache::ResponseKey;
use super::search_service::SearchService;
use crate::node::pools::{panicked, run_on};
use crate::node::state::{ShardSlot, add_us};

/// Cancels work when the future that waits for it is dropped: the client disconnected or stopped waiting.
struct CancelOnDrop(Option<Cancel>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(cancel) = &self.0 {
            cancel.cancel();
        }
    }
}

/// Cancels `cancel` if the returned future is dropped before `work` is done. The flag belongs to this work alone
/// ([`Cancel::part`]): other work of the request may continue.
pub(super) async fn until_dropped<T>(cancel: &Cancel, work: impl Future<Output = T>) -> T {
    let mut guard = CancelOnDrop(Some(cancel.clone()));
    let outcome = work.await;
    guard.0 = None;
    outcome
}

/// Minimum time in the queue for a search whose timeout has already passed: it can still answer from local data.
const TURN_WITHIN: Duration = Duration::from_millis(250);

/// Runs the work of a search on the search pool; the work stops when the returned future is dropped.
pub(super) async fn on_search_pool<T: Send + 'static>(
    searches: &Arc<SearchService>,
    ctx: &RequestContext,
    work: impl FnOnce(&SearchService, &RequestContext) -> Result<T> + Send + 'static,
) -> Result<T> {
    let (shared, mut its) = (Arc::clone(searches), ctx.clone());
    let part = ctx.cancel.part();
    its.cancel = part.pausing(yield_now);
    let begun = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&begun);
    let searching = run_on(&searches.pools.search, ctx, move || {
        begins.store(true, Ordering::Relaxed);
        // The search may have waited long in the queue.
        its.check()?;
        metered(&its, || work(&shared, &its))
    });
    let mut searching = pin!(until_dropped(&part, searching));
    let patience = searches.node.config.search_queue_wait_max;
    match tokio::time::timeout(patience, searching.as_mut()).await {
        Ok(outcome) => outcome,
        Err(_) if begun.load(Ordering::Relaxed) => searching.await,
        // The future is dropped here; the queued work then ends as soon as it is dequeued.
        Err(_) => {
            searches.pools.search.count_rejected();
            Err(queued_too_long(patience))
        }
    }
}

/// Returns the error for a search that waited too long in the queue. Clients wait some tens of seconds at most: the
/// search is refused while its client still listens.
fn queued_too_long(patience: Duration) -> Error {
    let reason = format!(
        "rejected execution: the search waited in the search queue for [{}ms], the most that it may \
         [thread_pool.search.queue_wait_max]",
        patience.as_millis()
    );
    Error::new(ErrorKind::Rejected, reason)
}

/// Result of work that waits in the queue at most until its timeout.
pub(super) enum InTime<T, R> {
    /// The work ran.
    Done(T),
    /// The work did not begin in time; this is its request.
    Late(R),
}

/// As [`on_search_pool`] for work with a timeout, counted from the arrival of the request.
pub(super) async fn in_time_on_search_pool<T: Send + 'static, R: Send + 'static>(
    searches: &Arc<SearchService>,
    ctx: &RequestContext,
    timeout: Option<Duration>,
    request: R,
    work: impl FnOnce(&SearchService, &RequestContext, R) -> Result<T> + Send + 'static,
) -> Result<InTime<T, R>> {
    let Some(timeout) = timeout else {
        let done = on_search_pool(searches, ctx, move |searches, ctx| work(searches, ctx, request)).await;
        return done.map(InTime::Done);
    };
    // Taken by the first of the two: the work, or the timeout.
    let request = Arc::new(Mutex::new(Some(request)));
    let its = Arc::clone(&request);
    let mut searching = pin!(on_search_pool(searches, ctx, move |searches, ctx| {
        let request = its.lock().take();
        work(searches, ctx, request.ok_or_else(panicked)?)
    }));
    let left = timeout.saturating_sub(ctx.started.elapsed()).max(TURN_WITHIN);
    if let Ok(outcome) = tokio::time::timeout(left, searching.as_mut()).await {
        return outcome.map(InTime::Done);
    }
    let late = request.lock().take();
    match late {
        // The future is dropped here; the queued work then ends as soon as it is dequeued.
        Some(request) => Ok(InTime::Late(request)),
        // Running work checks its timeout itself.
        None => searching.await.map(InTime::Done),
    }
}

/// Returns the error for a page of a scroll or point in time: a page cannot be skipped.
fn too_late(timeout: Duration) -> Error {
    let reason = format!(
        "rejected execution: the search waited in the search queue for its whole timeout of [{}ms]",
        timeout.as_millis()
    );
    Error::new(ErrorKind::Rejected, reason)
}

impl SearchService {
    /// Compiles a query on every shard of a target and prints the result.
    pub(super) fn explain_query(
        &self,
        ctx: &RequestContext,
        target: &IndexTarget,
        query: &Query,
    ) -> Result<Vec<QueryExplanation>> {
        let now_ms = self.node.now_ms();
        let mut explanations = Vec::new();
        for shard in self.address(ctx, &ShardSelection::all_of(target), now_ms)? {
            ctx.check()?;
            explanations.push(match shard.search {
                Ok(search) => QueryExplanation {
                    index: search.snapshot.index.to_string(),
                    shard: search.snapshot.shard,
                    outcome: describe(&search, query, now_ms, ctx),
                },
                Err(failed) => QueryExplanation {
                    index: failed.index,
                    shard: failed.shard,
                    outcome: Err(failed.error),
                },
            });
        }
        Ok(explanations)
    }

    /// Searches on the calling thread, which belongs to the search pool, and on idle threads of that pool. Caches the
    /// answer under the given key.
    pub(super) fn search_now(
        &self,
        ctx: &RequestContext,
        mut request: SearchRequest,
        key: Option<ResponseKey>,
    ) -> Result<SearchResponse> {
        request.check_context()?;
        let patient = ctx.patient(request.timeout);
        let ctx = &patient;
        self.check_cost(ctx, &request)?;
        self.resolve_boosts(ctx, &mut request)?;
        if request.point_in_time.is_some() {
            return self.search_point_in_time(ctx, request);
        }
        if request.scroll.is_some() {
            return self.open_scroll(ctx, request);
        }
        let now_ms = self.node.now_ms();
        let (addressed, skipped) = self.address_narrowed(ctx, &ShardSelection::narrowed(&request), now_ms)?;
        check_behind(&addressed, request.allow_partial_results)?;
        let pending = key.zip(self.over(&addressed, &request));
        let (slots, shards, behind) = split(addressed);
        if let Some(progress) = &ctx.progress {
            progress.skip(skipped);
        }
        let (mut response, _) = self.search_shards(&slots, shards, Arc::new(request), ctx, now_ms, None)?;
        response.shards.total += skipped;
        response.shards.successful += skipped;
        response.shards.skipped += skipped;
        let response = with_failures(response, behind);
        if let Some((key, pending)) = pending {
            pending.put(key, &response);
        }
        Ok(response)
    }

    /// Returns the answer to a search that timed out in the queue: as if every shard had stopped
    /// at its first document. Fails with [`ErrorKind::Rejected`] for a page of a point in time or a scroll:
    /// the client would take the empty page for the last one.
    pub(super) fn unsearched(&self, ctx: &RequestContext, request: SearchRequest) -> Result<SearchResponse> {
        request.check_context()?;
        if request.point_in_time.is_some() || request.scroll.is_some() {
            return Err(too_late(request.timeout.unwrap_or_default()));
        }
        let now_ms = self.node.now_ms();
        let (shard_total, failures) = self.count_shards(ctx, &request, now_ms)?;
        if let Some((_, _, error)) = failures.first()
            && (!request.allow_partial_results || failures.len() as u32 == shard_total)
        {
            return Err(error.clone());
        }
        // The progress is not reported.
        let ctx = RequestContext {
            progress: None,
            ..ctx.clone()
        };
        let (pool, limits) = (&self.pools.search, self.search_limits());
        let (mut response, _) = search_page(Vec::new(), Arc::new(request), pool, &ctx, now_ms, limits, None)?;
        response.timed_out = true;
        response.shards.total = shard_total;
        response.shards.successful = shard_total.saturating_sub(failures.len() as u32);
        response.shards.failures = failures;
        Ok(response)
    }

    /// Resolves the names in `indices_boost` to concrete indices.
    pub(super) fn resolve_boosts(&self, ctx: &RequestContext, request: &mut SearchRequest) -> Result<()> {
        if request.indices_boost.is_empty() {
            return Ok(());
        }
        let view = self.node.view(&self.node.state(), &ctx.scope);
        let mut boosts = Vec::new();
        for (expression, boost) in &request.indices_boost {
            let expression = std::slice::from_ref(expression);
            let named = resolve(expression, request.target.options, &view, self.node.now_ms())?;
            boosts.extend(named.into_iter().map(|index| (index.name, *boost)));
        }
        request.indices_boost = boosts;
        Ok(())
    }

    /// Runs a page over shards and counts it.
    pub(super) fn search_shards(
        &self,
        slots: &[Arc<ShardSlot>],
        shards: Vec<Result<ShardSearch, FailedShard>>,
        request: Arc<SearchRequest>,
        ctx: &RequestContext,
        now_ms: i64,
        after: Option<&After>,
    ) -> Result<(SearchResponse, Option<After>)> {
        let started = Instant::now();
        let limits = self.search_limits();
        let run = || search_page(shards, request, &self.pools.search, ctx, now_ms, limits, after);
        let mut outcome = metered(ctx, run);
        if let Ok((response, _)) = &mut outcome {
            response.timed_out |= ctx.waiting().is_timed_out();
        }
        for slot in slots {
            slot.counters.search_total.fetch_add(1, Ordering::Relaxed);
            add_us(&slot.counters.search_us, started);
        }
        outcome
    }

    /// Returns the limits of one search.
    pub(super) fn search_limits(&self) -> SearchLimits {
        SearchLimits {
            buckets_max: self.buckets_max.load(Ordering::Relaxed),
            memory_bytes_max: self.node.config.search_memory_bytes_max,
            node_memory: Some(Arc::clone(&self.memory)),
        }
    }
}

/// Adds shards to the failures although their available documents were searched.
pub(super) fn with_failures(mut response: SearchResponse, behind: Vec<FailedShard>) -> SearchResponse {
    let shards = &mut response.shards;
    for FailedShard { index, shard, error } in behind {
        let known = shards
            .failures
            .iter()
            .any(|(other, number, _)| *other == index && *number == shard);
        if !known {
            shards.successful = shards.successful.saturating_sub(1);
            shards.failures.push((index, shard, error));
        }
    }
    response
}

#[cfg(test)]
mod tests;
