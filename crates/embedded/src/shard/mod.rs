//! The write path of one shard: version checks, WAL, write buffers, segments, commit points.
//!
//! A write is checked and numbered under the shard's lock, appended to the WAL, and gets a slot
//! in a write buffer; the expensive part (building postings and columns) happens under the lock of
//! that buffer only, so several threads index one shard in parallel. A buffer becomes an immutable
//! segment at refresh or at its limits; a flush makes segments durable, writes a commit point and
//! trims the WAL; a merge makes few segments of many. The files are described in
//! `docs/formats/shard.md`.

mod apply;
mod buffer;
mod checksums;
mod commit;
mod config;
mod deletes;
mod filter;
mod flush;
mod frozen;
mod get;
mod live;
mod merge;
mod moving;
mod purge;
mod record;
mod recovery;
mod repair;
mod replay;
mod restored;
mod scrub;
mod seq_nos;
mod state;
mod stoppable;
mod tenant_count;
mod tenant_file;
#[cfg(test)]
mod tests;
mod versions;
mod without;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use bytes::Bytes;
use firn_engine::document::{Expectation, StoredDocument, Written};
use firn_model::settings::Durability;
use firn_model::{Error, Result};
use firn_storage::disk::Disk;
use firn_storage::wal::{Position, Wal};
use parking_lot::Mutex;

use self::commit::CommitPoint;
pub(crate) use self::commit::{SegmentMeta, damaged};
pub use self::config::ShardConfig;
pub(crate) use self::deletes::DeleteSet;
pub use self::frozen::FrozenSegment;
use self::live::OpenSegment;
pub use self::moving::ShardCopy;
pub use self::purge::Purged;
pub use self::repair::{CommittedId, Replacement};
pub use self::replay::ReplayThreads;
pub use self::restored::RestoredSegment;
pub use self::scrub::{ScrubPosition, Scrubbed};
use self::state::{Flags, State};
#[cfg(test)]
pub(crate) use self::tenant_file::encode as encode_tenants;
pub(crate) use self::tenant_file::{TENANTS_FILE, decode as decode_tenants};
use crate::data_folder::NotedVersion;
use crate::mapper::MappedDocument;
use crate::segment::ShardSnapshot;
use crate::splits::reads::catch;

/// One shard of an index. All methods may be called from several threads; those that do heavy
/// work block the calling thread, so none may be called on an async thread.
///
/// Locks are taken in this order: `merge_lock`, `refresh_lock`, `commit_lock`, the lock of a
/// buffer's writer, `state`, `merged_away`, the lock of a buffer's queue.
pub struct Shard {
    config: ShardConfig,
    /// Set once, before anyone else sees the shard: a replay needs the shard before its WAL is open.
    wal: OnceLock<Wal>,
    /// Why it takes no writes though it serves everything: it was opened on a full disk, and what opening wrote is in
    /// memory.
    read_only: Option<Error>,
    durability: Mutex<Durability>,
    flush_threshold_bytes: AtomicU64,
    state: Mutex<State>,
    /// Those of `state`.
    flags: Arc<Flags>,
    /// One flush at a time; guards the last commit point.
    commit_lock: Mutex<CommitPoint>,
    /// One refresh at a time.
    refresh_lock: Mutex<()>,
    /// One merge at a time.
    merge_lock: Mutex<()>,
    /// Segments that merges replaced since the last flush.
    merged_away: Mutex<Vec<Arc<OpenSegment>>>,
    published: ArcSwap<Published>,
    counters: Counters,
}

/// What searches see, and the same segments open for reads by id.
struct Published {
    snapshot: Arc<ShardSnapshot>,
    open: Vec<Arc<OpenSegment>>,
}

#[derive(Default)]
struct Counters {
    refreshes: AtomicU64,
    flushes: AtomicU64,
    /// In a row, but for a full disk.
    failed_flushes: AtomicU64,
    merges: AtomicU64,
    merged_docs: AtomicU64,
    merged_bytes: AtomicU64,
    merge_ms: AtomicU64,
    merges_current: AtomicU64,
}

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
pub type ReplayMapper<'a> = dyn Fn(&Bytes) -> Result<MappedDocument> + Sync + 'a;

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
    pub fn create(config: ShardConfig) -> Result<Arc<Shard>> {
        Self::create_new(config)
    }

    /// Opens a shard and replays its WAL. Idempotent: a crash during it changes nothing.
    ///
    /// [`firn_model::ErrorKind::ShardDamaged`] names the file and, in the WAL, the offset.
    pub fn open(config: ShardConfig, map: &ReplayMapper<'_>) -> Result<Arc<Shard>> {
        Self::open_existing(config, map)
    }

    /// Opens a shard without writing to its disk: `config.disk` must keep what is written elsewhere
    /// ([`firn_storage::OverlayDisk`]). All of it can be read, nothing written; writes are refused with `reason`.
    pub fn open_read_only(config: ShardConfig, map: &ReplayMapper<'_>, reason: Error) -> Result<Arc<Shard>> {
        Self::open_for_reading(config, Some(map), reason)
    }

    /// The same without the events of the WAL: searches are told `reason`, as those are missing from them.
    pub fn open_committed(config: ShardConfig, reason: Error) -> Result<Arc<Shard>> {
        Self::open_for_reading(config, None, reason)
    }

    /// Removes the segments of a shard that is not open that its commit point does not name: a crash or a full disk cut
    /// their writing short.
    pub fn remove_uncommitted(config: &ShardConfig) -> Result<()> {
        Self::remove_uncommitted_segments(config)
    }

    /// Why it takes no writes, if it was opened for reading only.
    pub fn read_only(&self) -> Option<&Error> {
        self.read_only.as_ref()
    }

    fn check_writable(&self) -> Result<()> {
        match &self.read_only {
            None => Ok(()),
            Some(reason) => Err(reason.clone()),
        }
    }

    /// Whether a folder holds a shard.
    pub fn exists(disk: &dyn Disk, dir: &Path) -> Result<bool> {
        Ok(!commit::numbers(disk, dir)?.is_empty())
    }

    /// What the newest commit point in a folder says of the catalog; `None`: it says nothing, or cannot be read.
    pub(crate) fn committed_catalog(disk: &dyn Disk, dir: &Path) -> Option<NotedVersion> {
        CommitPoint::read_catalog(disk, dir)
    }

    /// Whether a folder holds no document and no operation: a shard that was never written to, or an unfinished one.
    /// False if that cannot be told.
    pub(crate) fn holds_nothing(disk: &dyn Disk, dir: &Path) -> Result<bool> {
        let is_without_segments = match CommitPoint::read_newest(disk, dir) {
            Ok(None) => true,
            Ok(Some(point)) => point.segments.is_empty() && point.next_seq_no == 0,
            Err(_) => false,
        };
        Ok(is_without_segments && Wal::holds_no_record(disk, &dir.join("wal"))?)
    }

    /// Bytes of the WAL of a shard that is not open.
    pub fn wal_bytes(config: &ShardConfig) -> Result<u64> {
        let files = config.disk.list(&config.dir.join("wal"))?;
        Ok(files.iter().map(|file| file.len).sum())
    }

    /// Applies a batch: each operation succeeds or fails alone. The documents are indexed when
    /// this returns, and acknowledged once [`Self::wait_durable`] says so. The error is of the
    /// whole batch: the shard is closed or its disk failed, and nothing may be acknowledged.
    pub fn apply(&self, ops: Vec<ShardOp>) -> Result<Applied> {
        self.apply_batch(ops)
    }

    /// Calls back, on any thread, maybe at once, when everything up to `position` is as durable
    /// as the index demands ([`firn_model::settings::Durability::Async`]: at once).
    pub fn wait_durable(&self, position: Position, callback: Box<dyn FnOnce(Result<()>) + Send>) {
        // Copied: the callback must not find the lock taken.
        let durability = *self.durability.lock();
        match durability {
            Durability::Async => callback(Ok(())),
            Durability::Request => self.wal().wait_durable(position, callback),
        }
    }

    /// Reads a document. `realtime`: what is applied, else only what is searchable.
    pub fn get(&self, id: &str, realtime: bool) -> Result<Option<StoredDocument>> {
        catch(|| match realtime {
            true => self.get_realtime(id),
            false => self.get_searchable(id),
        })
    }

    /// Makes everything applied so far searchable; false if there was nothing to do.
    pub fn refresh(&self) -> Result<bool> {
        self.refresh_now()
    }

    /// Whether a refresh would show something new, or one that is under way will.
    pub fn needs_refresh(&self) -> bool {
        self.flags.is_behind()
    }

    /// Writes the buffers out as segments to free their memory, without making them searchable.
    pub fn write_out_buffers(&self) -> Result<()> {
        self.write_out_all()
    }

    /// Makes everything applied so far durable as segments, writes a commit point and trims the
    /// WAL. False if there was nothing to do.
    pub fn flush(&self) -> Result<bool> {
        self.flush_now()
    }

    /// Whether the WAL is past the flush threshold.
    pub fn needs_flush(&self) -> bool {
        let threshold = self.flush_threshold_bytes.load(Ordering::Relaxed);
        self.has_uncommitted()
            && self.flags.uncommitted_ops.load(Ordering::Acquire) > 0
            && self.wal().size_bytes() >= threshold
    }

    /// Whether a flush would make something durable that only the WAL holds, or free space.
    pub fn has_uncommitted(&self) -> bool {
        self.read_only.is_none() && self.flags.has_uncommitted()
    }

    /// Picks and runs at most one merge; false if none is worth it. Long; never blocks writes.
    pub fn merge_tick(&self) -> Result<bool> {
        self.merge_one(u32::MAX)
    }

    /// The same, if what it would make has at most so many documents.
    pub fn merge_small(&self, docs_max: u32) -> Result<bool> {
        self.merge_one(docs_max)
    }

    /// Merges down to at most `max_segments` segments, or only rewrites segments with deletes.
    /// Ends with a flush and a refresh.
    pub fn force_merge(&self, max_segments: usize, only_expunge_deletes: bool) -> Result<()> {
        self.force_merge_now(max_segments, only_expunge_deletes)
    }

    /// Removes the documents that name a tenant in the tenant field, from every file. With `before_ms`
    /// only those that have an `@timestamp`, and none at or after it. What is written meanwhile may
    /// stay. Long; never blocks writes. After an error, ask again.
    pub fn purge_tenant(&self, tenant: &str, before_ms: Option<i64>) -> Result<Purged> {
        catch(|| self.purge_now(tenant, before_ms))
    }

    /// What searches see.
    pub fn snapshot(&self) -> Arc<ShardSnapshot> {
        Arc::clone(&self.published.load().snapshot)
    }

    /// Numbers.
    pub fn stats(&self) -> ShardStats {
        let counter = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        let state = self.state.lock();
        let segments = &state.segments;
        ShardStats {
            doc_count: state.live_docs(),
            deleted_count: segments.iter().map(|segment| u64::from(segment.deletes.count())).sum(),
            store_bytes: segments.iter().map(|segment| segment.open.meta.size_bytes).sum(),
            segment_count: segments.len() as u64,
            buffer_bytes: state.buffers.iter().map(buffer::BufferState::memory_bytes).sum(),
            buffer_doc_count: state.buffers.iter().map(|buffer| u64::from(buffer.docs)).sum(),
            wal_bytes: self.wal().size_bytes(),
            wal_ops: self.flags.uncommitted_ops.load(Ordering::Acquire),
            max_seq_no: state.next_seq_no.checked_sub(1),
            index_total: state.index_total,
            delete_total: state.delete_total,
            refresh_total: counter(&counters.refreshes),
            flush_total: counter(&counters.flushes),
            merge_total: counter(&counters.merges),
            merge_docs_total: counter(&counters.merged_docs),
            merge_bytes_total: counter(&counters.merged_bytes),
            merge_ms_total: counter(&counters.merge_ms),
            merges_current: counter(&counters.merges_current),
        }
    }

    /// How many segments it has, those not yet searched among them. Cheap.
    pub fn segment_count(&self) -> usize {
        self.state.lock().segments.len()
    }

    /// Memory of the write buffers, bytes. Cheap.
    pub fn buffer_bytes(&self) -> u64 {
        let state = self.state.lock();
        state.buffers.iter().map(buffer::BufferState::memory_bytes).sum()
    }

    /// Takes changed settings of the index: durability, sync interval and flush threshold.
    pub fn set_durability(&self, durability: Durability, sync_interval_ms: u64, flush_threshold_bytes: u64) {
        *self.durability.lock() = durability;
        self.wal()
            .set_sync_interval(recovery::sync_interval(durability, sync_interval_ms));
        self.flush_threshold_bytes
            .store(flush_threshold_bytes, Ordering::Relaxed);
    }

    /// Reads every byte of every segment against its checksum.
    pub fn verify(&self) -> Result<()> {
        let segments: Vec<_> = {
            let state = self.state.lock();
            state.segments.iter().map(|segment| Arc::clone(&segment.open)).collect()
        };
        // A merge may remove one meanwhile; its files stay until the next flush, which waits.
        let _commit = self.commit_lock.lock();
        segments.iter().try_for_each(|segment| segment.verify())
    }

    /// Why the shard stopped taking writes, if it did: an I/O error. Dropping it and opening it
    /// again recovers what was acknowledged.
    pub fn failure(&self) -> Option<Error> {
        let stopped = match self.flags.is_stopped() {
            true => self.state.lock().stopped.clone(),
            false => None,
        };
        stopped.or_else(|| self.wal().failure())
    }

    /// Flushes, and refuses everything from here on.
    pub fn close(&self) -> Result<()> {
        let flushed = self.flush_now();
        self.abandon();
        flushed.map(|_| ())
    }

    /// Refuses everything from here on without a flush, and closes the WAL: the shard is about to
    /// be deleted or opened again. What is under way goes on until [`Self::quiesce`] returns.
    pub fn abandon(&self) {
        let closed = state::closed(&self.config);
        self.state.lock().stop(closed.clone());
        // Not under the lock: this syncs.
        if let Some(wal) = self.wal.get() {
            wal.close(closed);
        }
    }

    /// Waits until no thread touches the shard's files any more, and frees its write buffers. Call
    /// it after [`Self::abandon`] or [`Self::close`], which make running merges and flushes give
    /// up, and before the folder is opened again or removed. Blocks for what is under way: at most
    /// one write of a merge, one sync of a flush. Must not be called by a thread that is inside
    /// another method of this shard.
    pub fn quiesce(&self) {
        drop(self.merge_lock.lock());
        drop(self.refresh_lock.lock());
        drop(self.commit_lock.lock());
        let buffers: Vec<_> = {
            let state = self.state.lock();
            state.buffers.iter().map(|buffer| Arc::clone(&buffer.buffer)).collect()
        };
        for buffer in buffers {
            let writer = buffer.writer.lock().take();
            buffer.queue.lock().clear();
            drop(writer);
        }
    }

    fn wal(&self) -> &Wal {
        self.wal.get().expect("the WAL is open once the shard is")
    }
}
