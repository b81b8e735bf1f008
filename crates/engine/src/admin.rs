//! Statistics and maintenance operations.

use firn_model::Error;
use firn_model::mapping::Analyzer;
use firn_model::tenant::TenantId;
use firn_model::tier::Tier;
use firn_query::search::IndexTarget;

/// How many shards completed an operation.
#[derive(Debug, Clone, Default)]
pub struct ShardsOutcome {
    /// Shards of the target.
    pub total: u32,
    /// Shards that completed the operation.
    pub successful: u32,
    /// Failed shards: index, shard number, error.
    pub failures: Vec<(String, u32, Error)>,
}

/// Writes of a shard that are on disk and searchable, and that no crash takes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardCheckpoint {
    /// Name of the index.
    pub index: String,
    /// UUID of the index.
    pub index_uuid: String,
    /// Shard number.
    pub shard: u32,
    /// Highest sequence number; all writes up to it are meant. `None`: there was no write yet.
    pub seq_no: Option<u64>,
}

/// Request to merge the segments of every shard down to a number (`_forcemerge`).
#[derive(Debug, Clone)]
pub struct ForceMergeRequest {
    /// Target indices.
    pub target: IndexTarget,
    /// At most this many segments per shard; `None`: as many as the merge policy decides.
    pub max_num_segments: Option<usize>,
    /// Only drop deleted documents.
    pub only_expunge_deletes: bool,
    /// Flush afterwards (default true).
    pub flush: bool,
}

/// Statistics of the shards of one index.
#[derive(Debug, Clone)]
pub struct IndexStats {
    /// Index name.
    pub index: String,
    /// Index UUID.
    pub uuid: String,
    /// Sorted by shard number.
    pub shards: Vec<ShardStats>,
}

/// Statistics of one shard.
#[derive(Debug, Clone, Default)]
pub struct ShardStats {
    /// Shard number.
    pub shard: u32,
    /// Why the shard is not available; `None`: it is.
    pub failure: Option<String>,
    /// The shard is being opened and is not available yet.
    pub is_recovering: bool,
    /// Tier of its files; for a mounted shard, of its local copies.
    pub tier: Tier,
    /// Live, searchable documents.
    pub doc_count: u64,
    /// Deleted documents that are still in segments.
    pub deleted_count: u64,
    /// Bytes of segments on disks of this node.
    pub store_size_bytes: u64,
    /// Bytes of all its segments, wherever they are stored; for a mounted shard, those in the repository too.
    pub data_set_size_bytes: u64,
    /// Bytes of the WAL on disk.
    pub translog_size_bytes: u64,
    /// Operations in the WAL not yet covered by a flush.
    pub translog_operations: u64,
    /// Highest assigned sequence number; -1 before the first.
    pub max_seq_no: i64,
    /// Writes applied since start.
    pub indexing_total: u64,
    /// Time spent on those writes, ms.
    pub indexing_time_ms: u64,
    /// Deletes applied since start.
    pub delete_total: u64,
    /// Searches since start.
    pub search_total: u64,
    /// Time spent on those searches, ms.
    pub search_time_ms: u64,
    /// Scrolls and points in time that hold an old view of the shard.
    pub open_contexts: u64,
    /// Scrolls open now.
    pub scroll_current: u64,
    /// Scrolls closed since start.
    pub scroll_total: u64,
    /// Total time that closed scrolls were open, ms.
    pub scroll_time_ms: u64,
    /// Points in time open now.
    pub point_in_time_current: u64,
    /// Points in time closed since start.
    pub point_in_time_total: u64,
    /// Total time that closed points in time were open, ms.
    pub point_in_time_time_ms: u64,
    /// Bytes of segments that only search contexts still reference.
    pub held_size_bytes: u64,
    /// Reads by id since start.
    pub get_total: u64,
    /// Request cache usage of the shard.
    pub request_cache: RequestCacheStats,
    /// Refreshes, flushes, merges since start, and time spent on each, ms.
    pub refresh_total: u64,
    /// See `refresh_total`.
    pub refresh_time_ms: u64,
    /// See `refresh_total`.
    pub flush_total: u64,
    /// See `refresh_total`.
    pub flush_time_ms: u64,
    /// See `refresh_total`.
    pub merge_total: u64,
    /// See `refresh_total`.
    pub merge_time_ms: u64,
    /// Merges running now.
    pub merge_current: u64,
    /// Documents in the write buffers, not yet searchable.
    pub buffered_doc_count: u64,
    /// Memory of the write buffers.
    pub buffer_size_bytes: u64,
    /// Searchable segments.
    pub segments: Vec<SegmentStats>,
}

/// Contents of the request cache, and its counters since start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestCacheStats {
    /// Memory of the entries.
    pub memory_bytes: u64,
    /// Evicted entries.
    pub eviction_total: u64,
    /// Lookups of segment results that hit.
    pub hit_total: u64,
    /// Lookups of segment results that missed.
    pub miss_total: u64,
}

impl RequestCacheStats {
    /// Adds the numbers of another shard.
    pub fn add(&mut self, other: Self) {
        self.memory_bytes += other.memory_bytes;
        self.eviction_total += other.eviction_total;
        self.hit_total += other.hit_total;
        self.miss_total += other.miss_total;
    }
}

/// Statistics of one segment.
#[derive(Debug, Clone, Default)]
pub struct SegmentStats {
    /// `_0`, `_1`, … within its shard.
    pub name: String,
    /// Number in the name.
    pub generation: u64,
    /// Live documents.
    pub doc_count: u64,
    /// Deleted documents.
    pub deleted_count: u64,
    /// Bytes on disk.
    pub size_bytes: u64,
    /// Whether a flush made the segment durable.
    pub committed: bool,
    /// Inclusive bounds of `@timestamp`, ms since epoch UTC; `None`: no document has one.
    pub time_range_ms: Option<(i64, i64)>,
}

/// Statistics of the node.
#[derive(Debug, Clone, Default)]
pub struct NodeStats {
    /// Bytes of the file system that holds the data; of the hot path, if there are several.
    pub disk_total_bytes: u64,
    /// Bytes free on it.
    pub disk_available_bytes: u64,
    /// `None`, or why writes are refused.
    pub write_block: Option<String>,
    /// Searches running and waiting.
    pub search_active: u64,
    /// See `search_active`.
    pub search_queued: u64,
    /// Searches refused since start.
    pub search_rejected: u64,
    /// Completed searches since start.
    pub search_completed: u64,
    /// Memory that searches use for aggregations and sorting, and its limit.
    pub search_memory_bytes: u64,
    /// See `search_memory_bytes`.
    pub search_memory_limit_bytes: u64,
    /// Memory limit of one search.
    pub search_memory_each_limit_bytes: u64,
    /// Searches ended since start because all searches together exceeded the memory limit.
    pub search_memory_tripped: u64,
    /// Searches ended since start because one search exceeded its limit.
    pub search_memory_each_tripped: u64,
    /// Threads of the search pool.
    pub search_threads: u64,
    /// Write tasks running and waiting.
    pub write_active: u64,
    /// See `write_active`.
    pub write_queued: u64,
    /// Writes refused since start.
    pub write_rejected: u64,
    /// Completed writes since start.
    pub write_completed: u64,
    /// Threads of the write pool.
    pub write_threads: u64,
    /// Bytes of request bodies being written.
    pub write_bytes_in_flight: u64,
    /// Damaged segments, and the scrub that finds them.
    pub scrub: ScrubStats,
}

/// Damaged segments on disks of this node, and the scrub that finds them, since start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScrubStats {
    /// Bytes that the scrub read.
    pub bytes: u64,
    /// Completed passes over all segments.
    pub passes: u64,
    /// End of the last pass, ms since epoch UTC; 0: none yet.
    pub last_pass_ms: u64,
    /// Segments found damaged, by any reader, and shards that could not be opened because of damage.
    pub damaged: u64,
    /// Segments repaired from a snapshot.
    pub repaired: u64,
}

/// Statistics of one data path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceStats {
    /// Tier that the path serves.
    pub tier: Tier,
    /// Mount path.
    pub path: String,
    /// Bytes of its file system.
    pub total_bytes: u64,
    /// Bytes free on it.
    pub available_bytes: u64,
    /// Shards stored on the path.
    pub shards: u64,
    /// Bytes of their segments, WALs and copies.
    pub shard_bytes: u64,
    /// `None`, or why writes are refused.
    pub write_block: Option<String>,
}

/// Request of `_analyze`.
#[derive(Debug, Clone)]
pub struct AnalyzeRequest {
    /// Analyzer to run.
    pub analyzer: Analyzer,
    /// Texts; positions continue from one text to the next with Elasticsearch's gap of 100.
    pub text: Vec<String>,
}

/// One token of an analyzed text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnalyzedToken {
    /// Term.
    pub token: String,
    /// In UTF-16 units, as Elasticsearch counts.
    pub start_offset: u32,
    /// Exclusive.
    pub end_offset: u32,
    /// `<ALPHANUM>`, `<NUM>` or `word`.
    pub token_type: &'static str,
    /// Counted from 0.
    pub position: u32,
}

/// Request to remove the events of a tenant permanently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeRequest {
    /// Tenant whose events are removed.
    pub tenant: TenantId,
    /// Only events with an `@timestamp` before this instant (ms since epoch UTC); events without one stay. `None`: all
    /// events.
    pub before_ms: Option<i64>,
    /// Only from this index; `None`: from every index that holds events by tenant.
    pub index: Option<String>,
}

impl PurgeRequest {
    /// Request for all events of a tenant.
    pub fn all_of(tenant: TenantId) -> Self {
        Self {
            tenant,
            before_ms: None,
            index: None,
        }
    }
}

/// Result of a purge.
#[derive(Debug, Clone, Default)]
pub struct PurgeOutcome {
    /// Shards of indices that hold events by tenant; those of closed indices are failures.
    pub shards: ShardsOutcome,
    /// Events that were readable before the purge.
    pub documents: u64,
    /// Indices that held events of the tenant, by name, including those where all of them were already deleted.
    pub indices: Vec<PurgedIndex>,
}

impl PurgeOutcome {
    /// Whether every shard succeeded. If not, purge again after the cause is fixed.
    pub fn is_complete(&self) -> bool {
        self.shards.failures.is_empty()
    }
}

/// Result of a purge for one index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgedIndex {
    /// Index name.
    pub index: String,
    /// Events that were readable before the purge.
    pub documents: u64,
    /// Segments that were rewritten or dropped.
    pub segments: u32,
}
