//! Configuration of a shard and its limits.

use std::path::PathBuf;
use std::sync::Arc;

use firn_model::ids::{ID_BYTES_MAX, KEY_EXTRA_BYTES_MAX, id_of_key};
use firn_model::settings::Durability;
use firn_segment::catalog_version::{CatalogVersion, NotedVersion};
use firn_storage::disk::Disk;
use firn_storage::wal::Syncer;

use super::replay_threads::ReplayThreads;

/// Settings and components of one shard.
#[derive(Clone)]
pub struct ShardConfig {
    /// Concrete index name, for errors and searches.
    pub index: Arc<str>,
    /// Uuid of the index; a shard refuses to open files of another index.
    pub index_uuid: Arc<str>,
    /// Tag in generated ids ([`firn_model::ids::AutoId::tag_of`]).
    pub index_tag: u32,
    /// Number of the shard.
    pub shard: u32,
    /// Folder of the shard: `commit-N.json`, `wal/`, `segments/_N/`.
    pub dir: PathBuf,
    /// Catalog that names the shard; `None`: no catalog names it, and its files contain no catalog version.
    pub catalog: Option<Arc<CatalogVersion>>,
    /// Disk of the folder.
    pub disk: Arc<dyn Disk>,
    /// Groups fsyncs of all shards of the node.
    pub syncer: Arc<Syncer>,
    /// Whether a write is acknowledged before or after it is on disk.
    pub durability: Durability,
    /// With [`Durability::Async`]: maximum time a write stays unsynced, ms.
    pub sync_interval_ms: u64,
    /// [`Shard::needs_flush`](super::Shard::needs_flush) returns true from this many bytes of WAL on.
    pub flush_threshold_bytes: u64,
    /// The keyword field with the tenant of an event (`index.tenant.field`).
    pub tenant_field: Option<Arc<str>>,
    /// zstd level 9 for merged segments instead of 1.
    pub best_compression: bool,
    /// A write buffer becomes a segment at this many documents. Measured: segments of 128 to 250
    /// thousand events have the highest indexing rate per CPU second within 206 MB.
    pub segment_docs_max: u32,
    /// When the write buffers of a shard reach this many bytes in total, the largest becomes a segment.
    pub buffer_bytes_max: usize,
    /// Maximum number of open write buffers, one for each thread that indexes in parallel.
    pub buffers_max: usize,
    /// Bytes of WAL that one thread maps and indexes as one unit during replay.
    pub replay_window_bytes: usize,
    /// Threads that replays may use besides the one that opens the shard.
    pub replay_threads: Arc<ReplayThreads>,
    /// Maximum documents in a merged segment (except by force merge). The cold tiers read a
    /// column as a whole, so use at most 5 to 10 million.
    pub merged_docs_max: u32,
    /// Maximum bytes of a merged segment (except by force merge).
    pub merged_bytes_max: u64,
    /// If a merge has at least this many documents and the index has a tenant field, it orders them by tenant and
    /// time. Smaller merges do not: their output is soon merged again, and ordering is expected to double
    /// the cost of a merge.
    pub cluster_docs_min: u32,
    /// A tenant with at least this many documents in such a merge gets a separate segment, so that
    /// merges of other tenants no longer rewrite its events.
    pub own_docs_min: u32,
    /// Segments of similar size in one merge; fewer are not merged. High on purpose:
    /// merging four segments at once costs a third of the indexing cost.
    pub merge_factor: usize,
    /// Whether a source mark is still needed, by its key, the index's uuid and the shard's number. Others are left out of
    /// the next commit point.
    pub is_mark_needed: MarkFilter,
}

/// Decides by key, uuid of the index and number of the shard.
type DecideMark = dyn Fn(&str, &str, u32) -> bool + Send + Sync;

/// See [`ShardConfig::is_mark_needed`].
#[derive(Clone)]
pub struct MarkFilter(pub Arc<DecideMark>);

impl std::fmt::Debug for MarkFilter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("MarkFilter")
    }
}

impl Default for MarkFilter {
    /// Every mark is needed.
    fn default() -> Self {
        Self(Arc::new(|_, _, _| true))
    }
}

impl ShardConfig {
    /// Returns the id that the client knows for the shard's `key`.
    pub(super) fn shown_id<'a>(&self, key: &'a str) -> &'a str {
        match self.tenant_field {
            Some(_) => id_of_key(key),
            None => key,
        }
    }

    /// Returns the catalog version for a commit point written now.
    pub(super) fn noted_catalog(&self) -> Option<NotedVersion> {
        self.catalog.as_ref().map(|catalog| catalog.noted())
    }

    /// Returns the maximum key length in bytes: that of an id in Elasticsearch, plus the prefix.
    pub(super) fn key_bytes_max(&self) -> usize {
        match self.tenant_field {
            Some(_) => ID_BYTES_MAX + KEY_EXTRA_BYTES_MAX,
            None => ID_BYTES_MAX,
        }
    }

    /// Creates a config with the default limits.
    pub fn new(
        index: impl Into<Arc<str>>,
        index_uuid: impl Into<Arc<str>>,
        shard: u32,
        dir: impl Into<PathBuf>,
        disk: Arc<dyn Disk>,
        syncer: Arc<Syncer>,
    ) -> Self {
        let index_uuid = index_uuid.into();
        Self {
            index: index.into(),
            index_tag: firn_model::ids::AutoId::tag_of(&index_uuid),
            index_uuid,
            shard,
            dir: dir.into(),
            catalog: None,
            disk,
            syncer,
            durability: Durability::Request,
            sync_interval_ms: 5_000,
            flush_threshold_bytes: 256 << 20,
            tenant_field: None,
            best_compression: false,
            segment_docs_max: 250_000,
            buffer_bytes_max: 160 << 20,
            buffers_max: 2,
            // About ten milliseconds of work.
            replay_window_bytes: 512 << 10,
            replay_threads: ReplayThreads::new(1),
            merged_docs_max: 10_000_000,
            merged_bytes_max: 5 << 30,
            cluster_docs_min: 50_000,
            own_docs_min: 250_000,
            merge_factor: 10,
            is_mark_needed: MarkFilter::default(),
        }
    }
}
