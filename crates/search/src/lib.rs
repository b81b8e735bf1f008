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
mod sort;
mod tenancy;
mod terms_enum;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use firn_engine::RequestContext;
use firn_model::mapping::Mapping;
use firn_model::tenant::TenantId;
use firn_model::{Error, Result};
use firn_query::query::Query;
use firn_query::search::{SearchRequest, SearchResponse};

use self::compile::Compiler;
pub use self::cost::SearchReads;
pub use self::cost::tenant::Unopened;
pub use self::fields_in_use::has_values;
pub use self::terms_enum::FoundTerms;
use crate::compile::limits::{Deadline, Guard, Stop};
use crate::result_cache::ShardCache;
pub use crate::run::memory::Memory;
pub use crate::run::memory::NodeMemory;
pub use crate::tenancy::tenant_docs::{count as count_of_tenant, fields_of};
use firn_scheduler::Pool;
use firn_segment::segment::ShardSnapshot;
use firn_segment::splits::dry_run::catch;

/// One shard to search: a fixed view with the settings that the search needs.
#[derive(Clone)]
pub struct ShardSearch {
    /// The searchable segments.
    pub snapshot: Arc<ShardSnapshot>,
    /// The index's mapping.
    pub mapping: Arc<Mapping>,
    /// Filters of the aliases through which the request reached the index; a document must match
    /// one of them. Empty: no filter.
    pub filters: Vec<Query>,
    /// The field that holds a document's tenant (`index.tenant.field`).
    pub tenant_field: Option<Arc<str>>,
    /// The tenant whose documents are visible; `None`: documents of all tenants.
    pub tenant: Option<TenantRestriction>,
    /// `index.max_result_window`.
    pub max_result_window: u64,
    /// `index.max_inner_result_window`.
    pub max_inner_result_window: u64,
    /// `index.highlight.max_analyzed_offset`.
    pub max_analyzed_offset: u64,
    /// `index.query.default_field`.
    pub default_fields: Vec<String>,
    /// Caches the partial results of its segments; `None`: nothing is cached.
    pub cache: Option<ShardCache>,
    /// Whether it caches if the request does not say (`index.requests.cache.enable`).
    pub caches_by_default: bool,
    /// The number of the shard's first segment among all segments of the search; hits that compare
    /// equal are ordered by it. `None`: the numbers follow those of the shard before.
    pub first_segment: Option<u32>,
    /// Segments that are not in the snapshot, because they cannot hold a match.
    pub not_opened: NotOpened,
}

/// Numbers of segments of a mounted shard that were pruned before they were opened, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NotOpened {
    /// They have no document in the time window.
    pub by_time: u64,
    /// They have no document of the tenants.
    pub by_tenant: u64,
    /// They have none of the exact values that a match must have, according to their term filters.
    pub by_value: u64,
}

impl ShardSearch {
    /// Returns a compiler for queries without scores: only which documents match.
    fn compiler<'a>(&'a self, now_ms: i64, guard: &'a Guard) -> Compiler<'a> {
        Compiler {
            snapshot: &self.snapshot,
            mapping: &self.mapping,
            default_fields: &self.default_fields,
            tenant: self.tenant.as_ref(),
            now_ms,
            guard,
            statistics: None,
            marks: None,
        }
    }
}

/// Limits a search to the documents of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantRestriction {
    /// The keyword field that holds the tenant (`index.tenant.field`).
    pub field: Arc<str>,
    /// The tenant.
    pub tenant: TenantId,
}

/// A shard that cannot be searched, and why.
#[derive(Clone)]
pub struct FailedShard {
    /// Name of the concrete index.
    pub index: String,
    /// The shard's number.
    pub shard: u32,
    /// The reason.
    pub error: Error,
}

impl FailedShard {
    /// Returns the failure as the answer lists it: index, shard number, error.
    fn named(&self) -> (String, u32, Error) {
        (self.index.clone(), self.shard, self.error.clone())
    }
}

/// Limits of one search.
#[derive(Debug, Clone)]
pub struct SearchLimits {
    /// Most buckets in an answer (`search.max_buckets`).
    pub buckets_max: usize,
    /// Most bytes for aggregations and sorting, all shards together.
    pub memory_bytes_max: u64,
    /// Memory that all searches of the node share; `None`: this search shares none.
    pub node_memory: Option<Arc<NodeMemory>>,
}

/// End of a page of hits; the next page starts after it.
#[derive(Debug, Clone)]
pub struct After {
    values: Vec<sort::SortValue>,
    /// The segment's number and the document. `None`: after all hits with these values.
    tie: Option<(u32, tantivy::DocId)>,
}

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
    let compiler = shard.compiler(now_ms, &guard);
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
    let compiler = shard.compiler(now_ms, &guard);
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
pub fn told_to_tenant(
    shards: &[ShardSearch],
    request: &Arc<SearchRequest>,
    ctx: &RequestContext,
    now_ms: i64,
    limits: &SearchLimits,
    unopened: Unopened,
) -> Result<SearchReads> {
    cost::tenant::told(shards, request, ctx, now_ms, limits, unopened)
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
