//! Shards of a search: the fixed view of each, tenant restriction, failures, and limits of the search.

use std::sync::Arc;

use firn_model::Error;
use firn_model::mapping::Mapping;
use firn_model::tenant::TenantId;
use firn_query::query::Query;
use firn_segment::segment::ShardSnapshot;

use crate::result_cache::ShardCache;
use crate::run::memory::NodeMemory;

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
    pub(crate) fn named(&self) -> (String, u32, Error) {
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
