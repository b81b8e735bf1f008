//! Statistics and maintenance.

use firn_model::mapping::Analyzer;
use firn_model::tenant::TenantId;
use firn_model::tier::Tier;

use crate::Error;
use crate::search::IndexTarget;

/// How many shards did what was asked.
#[derive(Debug, Clone, Default)]
pub struct ShardsOutcome {
    /// Shards addressed.
    pub total: u32,
    /// Shards that did it.
    pub successful: u32,
    /// The rest, with the reason: index, shard number, error.
    pub failures: Vec<(String, u32, Error)>,
}

/// Merge down to at most so many segments.
#[derive(Debug, Clone)]
pub struct ForceMergeRequest {
    /// Where.
    pub target: IndexTarget,
    /// At most so many segments a shard; `None`: only what the merge policy wants.
    pub max_num_segments: Option<usize>,
    /// Only drop deleted documents.
    pub only_expunge_deletes: bool,
    /// Flush afterwards (default true).
    pub flush: bool,
}

/// One index's shards.
#[derive(Debug, Clone)]
pub struct IndexStats {
    /// Its name.
    pub index: String,
    /// Its uuid.
    pub uuid: String,
    /// By shard number.
    pub shards: Vec<ShardStats>,
}

/// One shard.
#[derive(Debug, Clone, Default)]
pub struct ShardStats {
    /// Its number.
    pub shard: u32,
    /// Why it does not serve, if it does not.
    pub failure: Option<String>,
    /// It does not serve yet: it is being opened.
    pub is_recovering: bool,
    /// Where its files lie; of one that is mounted, its copies.
    pub tier: Tier,
    /// Where they are to be moved; `None`: they lie where they belong.
    pub moves_to: Option<Tier>,
    /// Why they cannot be moved there now, in words; `None`: they can, or need not.
    pub move_waits_for: Option<String>,
    /// Live documents that a search can find.
    pub doc_count: u64,
    /// Deleted ones still in segments.
    pub deleted_count: u64,
    /// Bytes of segments on this node's disk.
    pub store_size_bytes: u64,
    /// Bytes of all its segments, wherever they lie: of one that is mounted also those in its repository.
    pub data_set_size_bytes: u64,
    /// Bytes of the WAL on disk.
    pub translog_size_bytes: u64,
    /// Operations in the WAL not yet covered by a flush.
    pub translog_operations: u64,
    /// Highest sequence number given out; -1 before the first.
    pub max_seq_no: i64,
    /// Writes applied since start.
    pub indexing_total: u64,
    /// Time spent on them, ms.
    pub indexing_time_ms: u64,
    /// Deletes applied since start.
    pub delete_total: u64,
    /// Searches since start.
    pub search_total: u64,
    /// Time spent on them, ms.
    pub search_time_ms: u64,
    /// Scrolls and points in time that hold the shard as it was.
    pub open_contexts: u64,
    /// Scrolls open now.
    pub scroll_current: u64,
    /// Scrolls closed since start.
    pub scroll_total: u64,
    /// How long those were open, ms.
    pub scroll_time_ms: u64,
    /// Points in time open now.
    pub point_in_time_current: u64,
    /// Points in time closed since start.
    pub point_in_time_total: u64,
    /// How long those were open, ms.
    pub point_in_time_time_ms: u64,
    /// Bytes of segments that the shard itself has no use for any more, held by contexts alone.
    pub held_size_bytes: u64,
    /// Reads by id since start.
    pub get_total: u64,
    /// What the request cache holds of it.
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
    /// The searchable segments.
    pub segments: Vec<SegmentStats>,
}

/// What the request cache holds, and did since start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestCacheStats {
    /// Memory of entries.
    pub memory_bytes: u64,
    /// Entries that made room for others.
    pub eviction_total: u64,
    /// Questions to segments that were answered.
    pub hit_total: u64,
    /// Questions to segments that were not.
    pub miss_total: u64,
}

impl RequestCacheStats {
    /// Adds another shard's.
    pub fn add(&mut self, other: Self) {
        self.memory_bytes += other.memory_bytes;
        self.eviction_total += other.eviction_total;
        self.hit_total += other.hit_total;
        self.miss_total += other.miss_total;
    }
}

/// One segment.
#[derive(Debug, Clone, Default)]
pub struct SegmentStats {
    /// `_0`, `_1`, … within its shard.
    pub name: String,
    /// The number in the name.
    pub generation: u64,
    /// Live documents.
    pub doc_count: u64,
    /// Deleted ones.
    pub deleted_count: u64,
    /// Bytes on disk.
    pub size_bytes: u64,
    /// Whether a flush made it durable.
    pub committed: bool,
    /// Inclusive bounds of `@timestamp`, ms since epoch UTC; `None`: no document has one.
    pub time_range_ms: Option<(i64, i64)>,
}

/// The node.
#[derive(Debug, Clone, Default)]
pub struct NodeStats {
    /// Bytes of the file system that holds the data.
    pub disk_total_bytes: u64,
    /// Bytes free on it.
    pub disk_available_bytes: u64,
    /// `None`, or why writes are refused.
    pub write_block: Option<String>,
    /// The data paths, from the hot one on; the two above are of that one.
    pub devices: Vec<DeviceStats>,
    /// Searches running and waiting.
    pub search_active: u64,
    /// See `search_active`.
    pub search_queued: u64,
    /// Searches refused since start.
    pub search_rejected: u64,
    /// Searches done since start.
    pub search_completed: u64,
    /// Bytes that searches have taken for aggregations and sorting, and may take.
    pub search_memory_bytes: u64,
    /// See `search_memory_bytes`.
    pub search_memory_limit_bytes: u64,
    /// What one of them may take.
    pub search_memory_each_limit_bytes: u64,
    /// Searches ended since start because all together took too much.
    pub search_memory_tripped: u64,
    /// Searches ended since start because they alone took too much.
    pub search_memory_each_tripped: u64,
    /// Threads of the search pool.
    pub search_threads: u64,
    /// Write tasks running and waiting.
    pub write_active: u64,
    /// See `write_active`.
    pub write_queued: u64,
    /// Writes refused since start.
    pub write_rejected: u64,
    /// Writes done since start.
    pub write_completed: u64,
    /// Threads of the write pool.
    pub write_threads: u64,
    /// Bytes of request bodies being written.
    pub write_bytes_in_flight: u64,
    /// Damage of segments, and the search for it.
    pub scrub: ScrubStats,
}

/// Damage of segments on this node's disks, and the scrub that looks for it, since start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScrubStats {
    /// Bytes that the scrub read.
    pub bytes: u64,
    /// Times that it came through all segments.
    pub passes: u64,
    /// When it last did, ms since epoch UTC; 0: it did not.
    pub last_pass_ms: u64,
    /// Segments in which damage was found, by whatever read them, and shards that could not be opened for it.
    pub damaged: u64,
    /// Segments that were repaired from a snapshot.
    pub repaired: u64,
}

/// A data path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceStats {
    /// The tier that it is for.
    pub tier: Tier,
    /// Where it is mounted.
    pub path: String,
    /// Bytes of its file system.
    pub total_bytes: u64,
    /// Bytes free on it.
    pub available_bytes: u64,
    /// Shards that lie on it.
    pub shards: u64,
    /// Bytes of their segments, WALs and copies.
    pub shard_bytes: u64,
    /// `None`, or why writes are refused.
    pub write_block: Option<String>,
}

/// `_analyze`.
#[derive(Debug, Clone)]
pub struct AnalyzeRequest {
    /// The analyzer to run.
    pub analyzer: Analyzer,
    /// The texts; positions go on from one to the next with Elasticsearch's gap of 100.
    pub text: Vec<String>,
}

/// One token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnalyzedToken {
    /// The term.
    pub token: String,
    /// In UTF-16 units, as Elasticsearch counts.
    pub start_offset: u32,
    /// Exclusive.
    pub end_offset: u32,
    /// `<ALPHANUM>`, `<NUM>` or `word`.
    pub token_type: &'static str,
    /// From 0.
    pub position: u32,
}

/// Remove the events of a tenant, for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeRequest {
    /// Whose.
    pub tenant: TenantId,
    /// Only those with an `@timestamp`, and none at or after this instant (ms since epoch UTC);
    /// `None`: all.
    pub before_ms: Option<i64>,
    /// Only from this index; `None`: from every one that holds events by tenant.
    pub index: Option<String>,
}

impl PurgeRequest {
    /// All events of a tenant.
    pub fn all_of(tenant: TenantId) -> Self {
        Self {
            tenant,
            before_ms: None,
            index: None,
        }
    }
}

/// What a purge removed.
#[derive(Debug, Clone, Default)]
pub struct PurgeOutcome {
    /// Shards of indices that hold events by tenant; those of closed indices are failures.
    pub shards: ShardsOutcome,
    /// Events that could be read until now.
    pub documents: u64,
    /// The indices that held any, by name; also where all of them had been deleted before.
    pub indices: Vec<PurgedIndex>,
}

impl PurgeOutcome {
    /// Whether every shard did it. If not, purge again once the reason is gone.
    pub fn is_complete(&self) -> bool {
        self.shards.failures.is_empty()
    }
}

/// What a purge removed from one index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgedIndex {
    /// Its name.
    pub index: String,
    /// Events that could be read until now.
    pub documents: u64,
    /// Segments that were written anew or dropped.
    pub segments: u32,
}
