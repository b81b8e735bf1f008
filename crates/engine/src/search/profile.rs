//! What `profile: true` tells of a search, shard by shard.
//!
//! Times are sums over the threads that worked for the shard, so they may exceed `took`.

use serde_json::Value;

/// Where the time of a search went.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The query, as it was understood.
    pub query: Value,
    /// In the order of the search.
    pub shards: Vec<ShardProfile>,
}

/// One shard's share of a search.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ShardProfile {
    /// Concrete index.
    pub index: String,
    /// The shard's number.
    pub shard: u32,
    /// What segments it has, and what became of them.
    pub segments: SegmentCounts,
    /// Documents that the query matched in those that were read.
    pub documents_matched: u64,
    /// Blocks of documents handed from the query to what collects them.
    pub blocks: u64,
    /// Where the time went, ns.
    pub times: PartTimes,
    /// Aggregations of the first level, those below included.
    pub aggregations: Vec<AggregationProfile>,
}

/// Segments of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentCounts {
    /// All.
    pub total: u64,
    /// Not opened: the query's time range, its matching nothing at all, or deletes leave nothing.
    pub pruned: u64,
    /// Not opened: they hold nothing of the tenant.
    pub pruned_by_tenant: u64,
    /// Not opened: filters tell that they hold none of the values that the query is about.
    pub pruned_by_filter: u64,
    /// Answered from what is known of their rows, of which none were read.
    pub from_statistics: u64,
    /// Answered by what they answered before.
    pub from_cache: u64,
    /// Opened, and only counted: their hits come after those that were found.
    pub passed_over: u64,
    /// Read for hits or aggregations.
    pub read: u64,
}

/// Where the time of a shard went, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartTimes {
    /// Making the query and the aggregations ready for the shard's mapping.
    pub compile: u64,
    /// Deciding which segments to read.
    pub prune: u64,
    /// Opening lists and columns of segments.
    pub open: u64,
    /// Finding and scoring documents.
    pub matching: u64,
    /// Keeping the first hits.
    pub collect: u64,
    /// Filling aggregations.
    pub aggregate: u64,
    /// Turning what segments found into results that merge.
    pub finish: u64,
    /// Reading hits.
    pub fetch: u64,
}

/// One aggregation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AggregationProfile {
    /// Its name in the request.
    pub name: String,
    /// Its type.
    pub kind: &'static str,
    /// Taking documents, ns.
    pub collect_ns: u64,
}
