//! The write path of one shard: version checks, WAL, write buffers, segments, commit points.
//!
//! A write is checked and numbered under the shard's lock, appended to the WAL, and gets a slot
//! in a write buffer; the expensive part (building postings and columns) happens under the lock of
//! that buffer only, so several threads index one shard in parallel. A buffer becomes an immutable
//! segment at refresh or at its limits; a flush makes segments durable, writes a commit point and
//! trims the WAL; a merge makes few segments of many. The files are described in
//! `docs/formats/shard.md`.

mod config;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use firn_engine::document::{Expectation, StoredDocument, Written};
use firn_model::Result;
use firn_storage::disk::Disk;
use firn_storage::wal::Position;

pub use self::config::ShardConfig;
use crate::mapper::MappedDocument;
use crate::segment::ShardSnapshot;

/// One shard of an index. All methods may be called from several threads; those that do heavy
/// work block the calling thread, so none may be called on an async thread.
pub struct Shard {}

/// One operation, its document mapped already.
pub enum ShardOp {
    /// Adds or replaces.
    Index {
        /// `None`: the shard makes one; it is `AutoId { index_tag, shard, seq_no }` with the
        /// sequence number of the answer.
        id: Option<String>,
        /// Refuse if it exists.
        create: bool,
        /// What to index.
        document: Box<MappedDocument>,
        /// Version check.
        expect: Expectation,
        /// Kept with the document.
        routing: Option<String>,
    },
    /// Removes.
    Delete {
        /// The document's id.
        id: String,
        /// Version check.
        expect: Expectation,
        /// Kept in the WAL.
        routing: Option<String>,
    },
}

/// What became of a batch.
pub struct Applied {
    /// One for each operation, in order.
    pub results: Vec<Result<Written>>,
    /// Where the batch ends in the WAL; `None`: nothing was written. Hand it to
    /// [`Shard::wait_durable`].
    pub durable: Option<Position>,
}

/// Maps a source again while the WAL is replayed: with the index's present mapping, adding new
/// fields as the live path does.
pub type ReplayMapper<'a> = dyn Fn(&Bytes) -> Result<MappedDocument> + 'a;

/// Numbers about a shard, for `_stats`, `_cat` and metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardStats {
    /// Live documents, searchable or not.
    pub doc_count: u64,
    /// Deleted documents not merged away yet.
    pub deleted_count: u64,
    /// Bytes of segments on disk.
    pub store_bytes: u64,
    /// Segments.
    pub segment_count: u64,
    /// Memory of write buffers.
    pub buffer_bytes: u64,
    /// Documents in write buffers.
    pub buffer_doc_count: u64,
    /// Bytes of WAL since the last commit point.
    pub wal_bytes: u64,
    /// Operations in that WAL.
    pub wal_ops: u64,
    /// Highest sequence number given; `None`: none yet.
    pub max_seq_no: Option<u64>,
    /// Operations that added or replaced documents, since start.
    pub index_total: u64,
    /// Deletes since start.
    pub delete_total: u64,
    /// Refreshes that made something searchable.
    pub refresh_total: u64,
    /// Commit points written.
    pub flush_total: u64,
    /// Merges finished.
    pub merge_total: u64,
    /// Documents that went through merges.
    pub merge_docs_total: u64,
    /// Bytes that merges wrote.
    pub merge_bytes_total: u64,
    /// Time spent merging, ms.
    pub merge_ms_total: u64,
    /// Merges running.
    pub merges_current: u64,
}

impl Shard {
    /// Makes the files of an empty shard, durably. The folder must not hold one already.
    pub fn create(_config: ShardConfig) -> Result<Arc<Shard>> {
        todo!()
    }

    /// Opens a shard and replays its WAL. Idempotent: a crash during it changes nothing.
    ///
    /// [`firn_model::ErrorKind::ShardDamaged`] names the file and, in the WAL, the offset.
    pub fn open(_config: ShardConfig, _map: &ReplayMapper<'_>) -> Result<Arc<Shard>> {
        todo!()
    }

    /// Whether a folder holds a shard.
    pub fn exists(_disk: &dyn Disk, _dir: &Path) -> Result<bool> {
        todo!()
    }

    /// Applies a batch: each operation succeeds or fails alone. The documents are indexed when
    /// this returns, and acknowledged once [`Self::wait_durable`] says so. The error is of the
    /// whole batch: the shard is closed or its disk failed, and nothing may be acknowledged.
    pub fn apply(&self, _ops: Vec<ShardOp>) -> Result<Applied> {
        todo!()
    }

    /// Calls back, on any thread, maybe at once, when everything up to `position` is as durable
    /// as the index demands ([`firn_model::settings::Durability::Async`]: at once).
    pub fn wait_durable(&self, _position: Position, _callback: Box<dyn FnOnce(Result<()>) + Send>) {
        todo!()
    }

    /// Reads a document. `realtime`: what is applied, else only what is searchable.
    pub fn get(&self, _id: &str, _realtime: bool) -> Result<Option<StoredDocument>> {
        todo!()
    }

    /// Makes everything applied so far searchable; false if there was nothing to do.
    pub fn refresh(&self) -> Result<bool> {
        todo!()
    }

    /// Whether a refresh would show something new.
    pub fn needs_refresh(&self) -> bool {
        todo!()
    }

    /// Writes the buffers out as segments to free their memory, without making them searchable.
    pub fn write_out_buffers(&self) -> Result<()> {
        todo!()
    }

    /// Makes everything applied so far durable as segments, writes a commit point and trims the
    /// WAL. False if there was nothing to do.
    pub fn flush(&self) -> Result<bool> {
        todo!()
    }

    /// Whether the WAL is past `flush_threshold_bytes`.
    pub fn needs_flush(&self) -> bool {
        todo!()
    }

    /// Picks and runs at most one merge; false if none is worth it. Long; never blocks writes.
    pub fn merge_tick(&self) -> Result<bool> {
        todo!()
    }

    /// Merges down to at most `max_segments` segments, or only rewrites segments with deletes.
    /// Ends with a flush.
    pub fn force_merge(&self, _max_segments: usize, _only_expunge_deletes: bool) -> Result<()> {
        todo!()
    }

    /// What searches see.
    pub fn snapshot(&self) -> Arc<ShardSnapshot> {
        todo!()
    }

    /// Numbers.
    pub fn stats(&self) -> ShardStats {
        todo!()
    }

    /// Memory of the write buffers, bytes. Cheap.
    pub fn buffer_bytes(&self) -> u64 {
        todo!()
    }

    /// Takes changed settings of the index: durability, sync interval and flush threshold.
    pub fn set_durability(
        &self,
        _durability: firn_model::settings::Durability,
        _sync_interval_ms: u64,
        _flush_threshold_bytes: u64,
    ) {
        todo!()
    }

    /// Reads every byte of every segment against its checksum.
    pub fn verify(&self) -> Result<()> {
        todo!()
    }

    /// Why the shard stopped taking writes, if it did: an I/O error. Opening it again recovers.
    pub fn failure(&self) -> Option<firn_model::Error> {
        todo!()
    }

    /// Flushes, and refuses everything from here on.
    pub fn close(&self) -> Result<()> {
        todo!()
    }

    /// Refuses everything from here on without a flush: the shard is about to be deleted.
    pub fn abandon(&self) {
        todo!()
    }
}
