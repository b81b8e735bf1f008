//! What a shard is made of, and its limits.

use std::path::PathBuf;
use std::sync::Arc;

use firn_model::ids::{KEY_EXTRA_BYTES_MAX, id_of_key};
use firn_model::settings::Durability;
use firn_storage::disk::Disk;
use firn_storage::wal::Syncer;

use super::replay::ReplayThreads;
use crate::data_folder::{CatalogVersion, NotedVersion};

/// Settings and components of one shard.
#[derive(Clone)]
pub struct ShardConfig {
    /// Concrete index name, for errors and searches.
    pub index: Arc<str>,
    /// The index's uuid; a shard's files refuse to open under another.
    pub index_uuid: Arc<str>,
    /// Tag of made ids ([`firn_model::ids::AutoId::tag_of`]).
    pub index_tag: u32,
    /// The shard's number.
    pub shard: u32,
    /// The shard's folder: `commit-N.json`, `wal/`, `segments/_N/`.
    pub dir: PathBuf,
    /// The catalog that names the shard; `None`: none does, and the shard's files say nothing of one.
    pub catalog: Option<Arc<CatalogVersion>>,
    /// Where it lies.
    pub disk: Arc<dyn Disk>,
    /// Groups fsyncs of all shards of the node.
    pub syncer: Arc<Syncer>,
    /// Whether a write is acknowledged before or after it is on disk.
    pub durability: Durability,
    /// With [`Durability::Async`]: how long a write may stay unsynced, ms.
    pub sync_interval_ms: u64,
    /// [`Shard::needs_flush`](super::Shard::needs_flush) says yes from this many bytes of WAL on.
    pub flush_threshold_bytes: u64,
    /// The keyword field that names an event's tenant (`index.tenant.field`).
    pub tenant_field: Option<Arc<str>>,
    /// zstd level 9 for merged segments instead of 1.
    pub best_compression: bool,
    /// A write buffer becomes a segment at this many documents. Measured: segments of 128 to 250
    /// thousand events index fastest per CPU second within 206 MB.
    pub segment_docs_max: u32,
    /// Once a shard's write buffers have this many bytes together, the largest becomes a segment.
    pub buffer_bytes_max: usize,
    /// Write buffers that may be open at once, one for each thread that indexes in parallel.
    pub buffers_max: usize,
    /// Bytes of WAL that one thread maps and indexes in one go while the WAL is replayed.
    pub replay_window_bytes: usize,
    /// Threads that replays may use beside the one that opens the shard.
    pub replay_threads: Arc<ReplayThreads>,
    /// Merges make no segment with more documents than this (force-merge aside). A column is
    /// read whole in the cold tiers, hence at most 5 to 10 million.
    pub merged_docs_max: u32,
    /// Merges make no segment larger than this (force-merge aside).
    pub merged_bytes_max: u64,
    /// Merges of at least so many documents of an index with a tenant field order them by tenant and
    /// time. Smaller ones do not: what they make is soon merged again, and ordering is expected to double
    /// the cost of a merge.
    pub cluster_docs_min: u32,
    /// A tenant with at least so many documents in such a merge gets a segment of its own, so that
    /// merges of the others write its events no more.
    pub own_docs_min: u32,
    /// Segments of similar size that one merge takes; fewer are left alone. Lazy on purpose:
    /// merging four at a time costs a third of what indexing costs.
    pub merge_factor: usize,
}

impl ShardConfig {
    /// What a client calls a document that the shard knows by `key`.
    pub(super) fn shown_id<'a>(&self, key: &'a str) -> &'a str {
        match self.tenant_field {
            Some(_) => id_of_key(key),
            None => key,
        }
    }

    /// What a commit point written now says of the catalog.
    pub(super) fn noted_catalog(&self) -> Option<NotedVersion> {
        self.catalog.as_ref().map(|catalog| catalog.noted())
    }

    /// The longest key of a document, bytes: ids as in Elasticsearch, and what stands before them.
    pub(super) fn key_bytes_max(&self) -> usize {
        const ID_BYTES_MAX: usize = 512;
        match self.tenant_field {
            Some(_) => ID_BYTES_MAX + KEY_EXTRA_BYTES_MAX,
            None => ID_BYTES_MAX,
        }
    }

    /// The default limits.
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
            // Some ten milliseconds of work.
            replay_window_bytes: 512 << 10,
            replay_threads: ReplayThreads::new(1),
            merged_docs_max: 10_000_000,
            merged_bytes_max: 5 << 30,
            cluster_docs_min: 50_000,
            own_docs_min: 250_000,
            merge_factor: 10,
        }
    }
}
