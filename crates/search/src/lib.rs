//! Search execution: runs parsed queries and aggregations over the segments of some shards.
//!
//! A search compiles its query once per shard and prunes segments by `@timestamp`. It reads the
//! remaining segments one by one on the search pool and merges their partial results. All of it is
//! synchronous and runs on threads of that pool. This crate does not know index names, aliases or
//! catalogs: the caller passes snapshots.

pub mod result_cache;

mod aggs;
mod compile;
mod cost;
mod fetch;
mod fields_in_use;
mod format;
mod highlight;
pub mod pruning;
mod run;
mod shard_search;
mod sort;
mod tenancy;
mod terms_enum;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use firn_engine::RequestContext;
use firn_model::Result;
use firn_query::query::Query;
use firn_query::search::{SearchRequest, SearchResponse};

pub use self::cost::SearchReads;
pub use self::cost::tenant::Unopened;
pub use self::fields_in_use::has_values;
pub use self::shard_search::{FailedShard, NotOpened, SearchLimits, ShardSearch, TenantRestriction};
pub use self::sort::After;
pub use self::terms_enum::FoundTerms;
use crate::compile::Compiler;
use crate::compile::limits::{Deadline, Guard, Stop};
pub use crate::run::memory::Memory;
pub use crate::run::memory::NodeMemory;
pub use crate::tenancy::tenant_docs::{count as count_of_tenant, fields_of};
use firn_scheduler::Pool;
use firn_segment::splits::dry_run::catch;

/// Runs a search, or one page of it. Call it on a thread of `pool` to which the request was
/// admitted: it works on that thread, and spreads segments over idle threads.
///
/// The answer lists failed shards, unless all shards failed or the request does not allow partial
/// results. Fails with [`firn_model::ErrorKind::Cancelled`] if `ctx` is cancelled.
///
/// Hits start after `after`, or else after the request's `search_after`. Returns the end of the
/// page, if there are any hits.
pub fn search_page(
    shards: Vec<Result<ShardSearch, FailedShard>>,
    request: Arc<SearchRequest>,
    pool: &Arc<Pool>,
    ctx: &RequestContext,
    now_ms: i64,
    limits: SearchLimits,
    after: Option<&After>,
) -> Result<(SearchResponse, Option<After>)> {
    catch(|| crate::run::execute::search(shards, request, pool, ctx, now_ms, limits, after))
}

/// Memory for expanding the patterns of an `index_filter`, which selects indices by time or tenant.
const FILTER_BYTES_MAX: u64 = 64 << 20;

/// Returns whether a shard can hold a match of `filter`; false is certain, true is a guess.
pub fn can_match(shard: &ShardSearch, filter: &Query, now_ms: i64, ctx: &RequestContext) -> Result<bool> {
    let guard = Guard::new(&Stop::new(
        ctx,
        Deadline::NONE,
        &Memory::new(FILTER_BYTES_MAX, None, ctx.cancel.clone()),
    ));
    let compiler = Compiler::of_shard(shard, now_ms, &guard);
    if matches!(compiler.compile(filter)?, crate::compile::weight::Compiled::None) {
        return Ok(false);
    }
    let bounds = crate::pruning::segment_pruning::time_bounds(&compiler, filter);
    // The result must not depend on documents of other tenants, not even on their times.
    let tenant = shard
        .tenant
        .as_ref()
        .map(|restriction| Arc::from(restriction.tenant.as_str()));
    let segments = &shard.snapshot.segments;
    Ok(bounds.is_none()
        || segments.iter().any(|segment| {
            !crate::pruning::segment_pruning::lacks(segment, tenant.as_ref())
                && crate::pruning::segment_pruning::overlaps(
                    crate::pruning::segment_pruning::time_range_of(segment, tenant.as_ref()),
                    bounds,
                )
        }))
}

/// Returns what a query means on a shard, in Lucene's notation. Fails if the query cannot run.
pub fn describe(shard: &ShardSearch, query: &Query, now_ms: i64, ctx: &RequestContext) -> Result<String> {
    let memory = Memory::new(FILTER_BYTES_MAX, None, ctx.cancel.clone());
    let guard = Guard::new(&Stop::new(ctx, Deadline::NONE, &memory));
    let compiler = Compiler::of_shard(shard, now_ms, &guard);
    compiler.compile(query)?;
    compiler.describe(query)
}

/// Returns the cost estimate of a search of splits: the reads that it would make. It fetches
/// nothing and searches nothing. Dependent reads are guessed.
pub fn cost(
    shards: &[ShardSearch],
    request: &Arc<SearchRequest>,
    ctx: &RequestContext,
    now_ms: i64,
    limits: &SearchLimits,
) -> Result<SearchReads> {
    cost::cost(shards, request, ctx, now_ms, limits)
}

/// Returns the cost estimate that a tenant may see, from the number of unopened splits and the size
/// of all footers.
pub fn cost_for_tenant(
    shards: &[ShardSearch],
    request: &Arc<SearchRequest>,
    ctx: &RequestContext,
    now_ms: i64,
    limits: &SearchLimits,
    unopened: Unopened,
) -> Result<SearchReads> {
    cost::tenant::cost_for_tenant(shards, request, ctx, now_ms, limits, unopened)
}

/// Runs a search and returns its first page.
pub fn search(
    shards: Vec<Result<ShardSearch, FailedShard>>,
    request: Arc<SearchRequest>,
    pool: &Arc<Pool>,
    ctx: &RequestContext,
    now_ms: i64,
    limits: SearchLimits,
) -> Result<SearchResponse> {
    search_page(shards, request, pool, ctx, now_ms, limits, None).map(|(response, _)| response)
}
