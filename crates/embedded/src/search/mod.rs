//! Searching: parsed queries and aggregations run over the segments of some shards.
//!
//! A search compiles its query once per shard, prunes segments by `@timestamp`, reads the rest
//! segment by segment on the search pool and merges what each found. All of it is synchronous and
//! runs on threads of that pool. Nothing here knows of indices by name, aliases or catalogs: the
//! caller brings snapshots.

mod aggs;
mod answer;
mod collapse;
mod column;
mod compile;
mod conditions;
mod cost;
mod describe;
mod docs;
pub(crate) mod exact;
mod execute;
mod fetch;
mod field;
mod fields_in_use;
mod format;
mod guard;
mod highlight;
mod inner_hits;
mod kept;
mod marks;
mod matched;
mod memory;
pub(crate) mod narrow;
mod newest;
mod own_terms;
mod owned;
mod paths;
mod phrase;
mod prepare;
mod presence;
mod profile;
mod progress;
mod prune;
mod query;
mod repeat;
mod scored_term;
mod second_run;
mod segment_run;
mod slice;
mod sort;
mod statistics;
mod strings;
mod tenant_rows;
mod terms_enum;
mod text;
mod texts;
mod time_window;
mod turns;
mod warm;
mod weight;
mod whole;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use firn_engine::RequestContext;
use firn_engine::query::Query;
use firn_engine::search::{SearchRequest, SearchResponse};
use firn_model::mapping::Mapping;
use firn_model::tenant::TenantId;
use firn_model::{Error, Result};

pub(crate) use self::column::{NumColumn, docs_with_value, failed};
use self::compile::Compiler;
pub use self::cost::SearchReads;
pub(crate) use self::cost::tenant::Unopened;
pub(crate) use self::fetch::Stored;
pub use self::fields_in_use::has_values;
use self::guard::{Deadline, Guard, Stop};
pub(crate) use self::memory::Memory;
pub use self::memory::NodeMemory;
pub use self::owned::{count as count_of_tenant, fields_of};
pub(crate) use self::paths::{column_name, end_of, term as path_term};
pub(crate) use self::prune::TIMESTAMP;
pub(crate) use self::strings::StrColumn;
pub use self::terms_enum::FoundTerms;
use crate::pool::Pool;
use crate::request_cache::ShardCache;
use crate::segment::ShardSnapshot;
use crate::splits::reads::catch;

/// One shard to search, at one moment.
#[derive(Clone)]
pub struct ShardSearch {
    /// What is searchable.
    pub snapshot: Arc<ShardSnapshot>,
    /// The index's mapping.
    pub mapping: Arc<Mapping>,
    /// Filters of the aliases it was reached by; a document must match one. Empty: no filter.
    pub filters: Vec<Query>,
    /// The field that names a document's tenant (`index.tenant.field`).
    pub tenant_field: Option<Arc<str>>,
    /// Whose documents are there to be seen; `None`: everybody's.
    pub tenant: Option<TenantRestriction>,
    /// `index.max_result_window`.
    pub max_result_window: u64,
    /// `index.max_inner_result_window`.
    pub max_inner_result_window: u64,
    /// `index.highlight.max_analyzed_offset`.
    pub max_analyzed_offset: u64,
    /// `index.query.default_field`.
    pub default_fields: Vec<String>,
    /// Keeps what its segments answer; `None`: nothing does.
    pub cache: Option<ShardCache>,
    /// Whether it does where the request does not say (`index.requests.cache.enable`).
    pub caches_by_default: bool,
    /// The number of its first segment among all of the search, by which hits that are equal
    /// otherwise are ordered. `None`: after those of the shards before it.
    pub first_segment: Option<u32>,
    /// Segments that are not in the snapshot, because they hold no match.
    pub not_opened: NotOpened,
}

/// How many segments of a mounted shard were left out before they were opened, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NotOpened {
    /// They have nothing in the window.
    pub by_time: u64,
    /// They have nothing of the tenants.
    pub by_tenant: u64,
    /// They have none of the exact values that a match has: filters told.
    pub by_value: u64,
}

impl ShardSearch {
    /// Compiles queries that only ask which documents match.
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
    /// The keyword field that names it (`index.tenant.field`).
    pub field: Arc<str>,
    /// Whose documents.
    pub tenant: TenantId,
}

/// A shard that cannot be searched, and why.
#[derive(Clone)]
pub struct FailedShard {
    /// Concrete index.
    pub index: String,
    /// The shard's number.
    pub shard: u32,
    /// Why.
    pub error: Error,
}

impl FailedShard {
    /// As the answer names it: index, number, why.
    fn named(&self) -> (String, u32, Error) {
        (self.index.clone(), self.shard, self.error.clone())
    }
}

/// What one search may use.
#[derive(Debug, Clone)]
pub struct SearchLimits {
    /// Buckets of an answer (`search.max_buckets`).
    pub buckets_max: usize,
    /// Bytes of aggregations and sorting, all shards together.
    pub memory_bytes_max: u64,
    /// What all searches share; `None`: this one is alone.
    pub node_memory: Option<Arc<NodeMemory>>,
}

/// Where a page of hits ended; the next one goes on after it.
#[derive(Debug, Clone)]
pub struct After {
    values: Vec<sort::SortValue>,
    /// The segment's number and the document. `None`: after all hits of these values.
    tie: Option<(u32, tantivy::DocId)>,
}

/// Answers a search, or one page of it. Call it on a thread of `pool` that the request was admitted to: it works
/// there, and spreads segments over threads that come free.
///
/// Shards that fail are named in the answer, unless all do or the request wants all or nothing.
/// Fails with [`firn_model::ErrorKind::Cancelled`] when `ctx` says so.
///
/// Hits come after `after`, or else after the request's `search_after`; where they end is returned,
/// if there are any.
pub fn search_page(
    shards: Vec<Result<ShardSearch, FailedShard>>,
    request: Arc<SearchRequest>,
    pool: &Arc<Pool>,
    ctx: &RequestContext,
    now_ms: i64,
    limits: SearchLimits,
    after: Option<&After>,
) -> Result<(SearchResponse, Option<After>)> {
    catch(|| execute::search(shards, request, pool, ctx, now_ms, limits, after))
}

/// Memory for expanding the patterns of an `index_filter`, which picks indices by time or tenant.
const FILTER_BYTES_MAX: u64 = 64 << 20;

/// Whether a shard can hold a match of `filter`; false is certain, true a guess.
pub fn can_match(shard: &ShardSearch, filter: &Query, now_ms: i64, ctx: &RequestContext) -> Result<bool> {
    let guard = Guard::new(&Stop::new(
        ctx,
        Deadline::NONE,
        &Memory::new(FILTER_BYTES_MAX, None, ctx.cancel.clone()),
    ));
    let compiler = shard.compiler(now_ms, &guard);
    if matches!(compiler.compile(filter)?, weight::Compiled::None) {
        return Ok(false);
    }
    let bounds = prune::time_bounds(&compiler, filter);
    // Of other tenants' documents it says nothing, not even when they are.
    let tenant = shard
        .tenant
        .as_ref()
        .map(|restriction| Arc::from(restriction.tenant.as_str()));
    let segments = &shard.snapshot.segments;
    Ok(bounds.is_none()
        || segments.iter().any(|segment| {
            !prune::lacks(segment, tenant.as_ref())
                && prune::overlaps(prune::time_range_of(segment, tenant.as_ref()), bounds)
        }))
}

/// What a query means on a shard, as Lucene would write it. Fails where it cannot run.
pub fn describe(shard: &ShardSearch, query: &Query, now_ms: i64, ctx: &RequestContext) -> Result<String> {
    let memory = Memory::new(FILTER_BYTES_MAX, None, ctx.cancel.clone());
    let guard = Guard::new(&Stop::new(ctx, Deadline::NONE, &memory));
    let compiler = shard.compiler(now_ms, &guard);
    compiler.compile(query)?;
    compiler.describe(query)
}

/// What a search would fetch of splits before it answers; nothing is fetched, and nothing is searched. Dependent
/// reads are guessed.
pub fn cost(
    shards: &[ShardSearch],
    request: &Arc<SearchRequest>,
    ctx: &RequestContext,
    now_ms: i64,
    limits: &SearchLimits,
) -> Result<SearchReads> {
    cost::cost(shards, request, ctx, now_ms, limits)
}

/// What a tenant is told of a search of splits, with so many that were not opened and what all footers cost.
pub(crate) fn told_to_tenant(
    shards: &[ShardSearch],
    request: &Arc<SearchRequest>,
    ctx: &RequestContext,
    now_ms: i64,
    limits: &SearchLimits,
    unopened: Unopened,
) -> Result<SearchReads> {
    cost::tenant::told(shards, request, ctx, now_ms, limits, unopened)
}

/// The first page.
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
