//! Profile of a search (`profile: true`), by shard.
//!
//! Times are sums over all threads that worked for the shard, so they may exceed `took`.

use serde_json::Value;

/// Profile of one search.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The parsed query.
    pub query: Value,
    /// In the order in which the shards were searched.
    pub shards: Vec<ShardProfile>,
}

/// Profile of one shard.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ShardProfile {
    /// Concrete index.
    pub index: String,
    /// Shard number.
    pub shard: u32,
    /// Number of segments, and how each was handled.
    pub segments: SegmentCounts,
    /// Documents of the read segments that the query matched.
    pub documents_matched: u64,
    /// Blocks of documents passed from the query to the collectors.
    pub blocks: u64,
    /// Time by phase, ns.
    pub times: PartTimes,
    /// Top-level aggregations; their times include sub-aggregations.
    pub aggregations: Vec<AggregationProfile>,
}

/// Segments of a shard, by how the search handled them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentCounts {
    /// All segments.
    pub total: u64,
    /// Not opened: time range, a query that matches nothing, or deletes exclude every document.
    pub pruned: u64,
    /// Not opened: no events of the tenant.
    pub pruned_by_tenant: u64,
    /// Not opened: term filters exclude all values that the query needs.
    pub pruned_by_filter: u64,
    /// Answered from statistics, without reading rows.
    pub from_statistics: u64,
    /// Answered from the segment result cache.
    pub from_cache: u64,
    /// Opened, and only counted: their hits sort after the hits already found.
    pub passed_over: u64,
    /// Read for hits or aggregations.
    pub read: u64,
}

/// Time of a shard by phase, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartTimes {
    /// Compiling the query and the aggregations for the shard's mapping.
    pub compile: u64,
    /// Pruning segments.
    pub prune: u64,
    /// Opening posting lists and columns of segments.
    pub open: u64,
    /// Matching and scoring documents.
    pub matching: u64,
    /// Collecting the top-k hits.
    pub collect: u64,
    /// Collecting aggregations.
    pub aggregate: u64,
    /// Converting segment results into results that can be merged.
    pub finish: u64,
    /// Fetching hits.
    pub fetch: u64,
}

/// Profile of one aggregation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AggregationProfile {
    /// Name in the request.
    pub name: String,
    /// Aggregation type.
    pub kind: &'static str,
    /// Time to collect documents, ns.
    pub collect_ns: u64,
}
