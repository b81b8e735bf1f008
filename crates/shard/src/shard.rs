//! One shard: its state, its counters, and how it is created and opened.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use bytes::Bytes;
use firn_engine::document::{Expectation, StoredDocument, Written};
use firn_model::settings::Durability;
use firn_model::{Error, Result};
use firn_segment::catalog_version::NotedVersion;
use firn_segment::commit_point::{CommitPoint, SourceMark};
use firn_segment::segment::ShardSnapshot;
use firn_segment::splits::dry_run::catch;
use firn_storage::disk::Disk;
use firn_storage::wal::{Position, Wal};
use parking_lot::Mutex;

use crate::config::ShardConfig;
use crate::live_segments::OpenSegment;
use crate::mapper::MappedDocument;
use crate::purge::Purged;
use crate::state::{Flags, State};
use crate::wal_record::BatchTag;
use crate::{buffer, recovery, state};

/// One shard of an index. All methods may be called from several threads. Methods that do heavy
/// work block the calling thread, so none may be called on an async thread.
///
/// Lock order: `merge_lock`, `refresh_lock`, `commit_lock`, the lock of a
/// buffer's writer, `state`, `merged_away`, the lock of a buffer's queue.
pub struct Shard {
    pub(crate) config: ShardConfig,
    /// Set once, before the shard is shared: a replay needs the shard before its WAL is open.
    pub(crate) wal: OnceLock<Wal>,
    /// Reason of read-only mode: the shard was opened on a full disk, and data that opening would write is in
    /// memory.
    pub(crate) read_only: Option<Error>,
    pub(crate) durability: Mutex<Durability>,
    pub(crate) flush_threshold_bytes: AtomicU64,
    pub(crate) state: Mutex<State>,
    /// The flags of `state`.
    pub(crate) flags: Arc<Flags>,
    /// Serializes flushes; guards the last commit point.
    pub(crate) commit_lock: Mutex<CommitPoint>,
    /// Serializes refreshes.
    pub(crate) refresh_lock: Mutex<()>,
    /// Serializes merges.
    pub(crate) merge_lock: Mutex<()>,
    /// Segments that merges replaced since the last flush.
    pub(crate) merged_away: Mutex<Vec<Arc<OpenSegment>>>,
    pub(crate) published: ArcSwap<Published>,
    pub(crate) counters: Counters,
}

/// Snapshot for searches, and the same segments for reads by id.
pub(crate) struct Published {
    pub(crate) snapshot: Arc<ShardSnapshot>,
    pub(crate) open: Vec<Arc<OpenSegment>>,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) refreshes: AtomicU64,
    pub(crate) flushes: AtomicU64,
    /// Consecutive failures, without those of a full disk.
    pub(crate) failed_flushes: AtomicU64,
    pub(crate) merges: AtomicU64,
    pub(crate) merged_docs: AtomicU64,
    pub(crate) merged_bytes: AtomicU64,
    pub(crate) merge_ms: AtomicU64,
    pub(crate) merges_current: AtomicU64,
}

/// Operation with its mapped document.
pub enum ShardOp {
    /// Adds or replaces a document.
    Index {
        /// `None`: the shard generates an id: `AutoId { index_tag, shard, seq_no }` with the
        /// sequence number of the result.
        id: Option<String>,
        /// Fails if the id exists.
        create: bool,
        /// The document to index.
        document: Box<MappedDocument>,
        /// Version check.
        expect: Expectation,
        /// Stored with the document.
        routing: Option<String>,
    },
    /// Removes a document.
    Delete {
        /// Id of the document.
        id: String,
        /// Version check.
        expect: Expectation,
        /// Stored in the WAL.
        routing: Option<String>,
    },
}

/// Result of a batch.
pub struct Applied {
    /// One result for each operation, in order.
    pub results: Vec<Result<Written>>,
    /// End of the batch in the WAL; `None`: nothing was written. Pass it to
    /// [`Shard::wait_durable`].
    pub durable: Option<Position>,
}

/// Maps a source again during replay: with the current mapping of the index, adding new
/// fields as a normal write does.
pub type ReplayMapper<'a> = dyn Fn(&Bytes) -> Result<MappedDocument> + Sync + 'a;

/// Statistics of a shard, for `_stats`, `_cat` and metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardStats {
    /// Live documents, searchable or not.
    pub doc_count: u64,
    /// Deleted documents that no merge has removed yet.
    pub deleted_count: u64,
    /// Bytes of segments on disk.
    pub store_bytes: u64,
    /// Number of segments.
    pub segment_count: u64,
    /// Memory of write buffers.
    pub buffer_bytes: u64,
    /// Documents in write buffers.
    pub buffer_doc_count: u64,
    /// Bytes of WAL since the last commit point.
    pub wal_bytes: u64,
    /// Operations in that WAL.
    pub wal_ops: u64,
    /// Highest assigned sequence number; `None`: none yet.
    pub max_seq_no: Option<u64>,
    /// Operations that added or replaced documents, since start.
    pub index_total: u64,
    /// Deletes since start.
    pub delete_total: u64,
    /// Refreshes that changed the searchable documents.
    pub refresh_total: u64,
    /// Commit points written.
    pub flush_total: u64,
    /// Finished merges.
    pub merge_total: u64,
    /// Documents that merges processed.
    pub merge_docs_total: u64,
    /// Bytes that merges wrote.
    pub merge_bytes_total: u64,
    /// Time spent merging, ms.
    pub merge_ms_total: u64,
    /// Running merges.
    pub merges_current: u64,
}

impl Shard {
    /// Creates the files of an empty shard durably. The folder must not contain a shard.
    pub fn create(config: ShardConfig) -> Result<Arc<Shard>> {
        Self::create_new(config)
    }

    /// Opens a shard and replays its WAL. Idempotent: a crash during it changes nothing.
    ///
    /// [`firn_model::ErrorKind::ShardDamaged`] names the file and, in the WAL, the offset.
    pub fn open(config: ShardConfig, map: &ReplayMapper<'_>) -> Result<Arc<Shard>> {
        Self::open_existing(config, map)
    }

    /// Opens a shard without writing to its disk: `config.disk` must store writes elsewhere
    /// ([`firn_storage::OverlayDisk`]). All documents can be read; writes fail with `reason`.
    pub fn open_read_only(config: ShardConfig, map: &ReplayMapper<'_>, reason: Error) -> Result<Arc<Shard>> {
        Self::open_for_reading(config, Some(map), reason)
    }

    /// As [`Self::open_read_only`], but without the events of the WAL: searches report `reason`, as those events are
    /// missing.
    pub fn open_committed(config: ShardConfig, reason: Error) -> Result<Arc<Shard>> {
        Self::open_for_reading(config, None, reason)
    }

    /// Removes segments that the commit point of a closed shard does not name: a crash or a full disk
    /// interrupted their writing.
    pub fn remove_uncommitted(config: &ShardConfig) -> Result<()> {
        Self::remove_uncommitted_segments(config)
    }

    /// Returns why the shard takes no writes, if it was opened read-only.
    pub fn read_only(&self) -> Option<&Error> {
        self.read_only.as_ref()
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        match &self.read_only {
            None => Ok(()),
            Some(reason) => Err(reason.clone()),
        }
    }

    /// Whether a folder contains a shard.
    pub fn exists(disk: &dyn Disk, dir: &Path) -> Result<bool> {
        Ok(!firn_segment::commit_point::numbers(disk, dir)?.is_empty())
    }

    /// Returns the catalog version in the newest commit point of a folder; `None`: it has none, or cannot be read.
    pub fn committed_catalog(disk: &dyn Disk, dir: &Path) -> Option<NotedVersion> {
        CommitPoint::read_catalog(disk, dir)
    }

    /// Whether a folder has no document and no operation: a shard without writes, or an unfinished one.
    /// False if that is unknown.
    pub fn holds_nothing(disk: &dyn Disk, dir: &Path) -> Result<bool> {
        let is_without_segments = match CommitPoint::read_newest(disk, dir) {
            Ok(None) => true,
            Ok(Some(point)) => point.segments.is_empty() && point.next_seq_no == 0,
            Err(_) => false,
        };
        Ok(is_without_segments && Wal::holds_no_record(disk, &dir.join("wal"))?)
    }

    /// Returns the bytes of the WAL of a closed shard.
    pub fn wal_bytes(config: &ShardConfig) -> Result<u64> {
        let files = config.disk.list(&config.dir.join("wal"))?;
        Ok(files.iter().map(|file| file.len).sum())
    }

    /// Applies a batch: each operation succeeds or fails alone. The documents are indexed when
    /// this returns, and acknowledged once [`Self::wait_durable`] calls back. An error concerns the
    /// whole batch: the shard is closed or its disk failed, and nothing may be acknowledged.
    pub fn apply(&self, ops: Vec<ShardOp>) -> Result<Applied> {
        self.apply_batch(ops, None)
    }

    /// Like [`Shard::apply`], for events of a source that can be read again. `offsets` are those of the operations. The
    /// batch and its tag become durable together, and rejected operations are recorded in the tag. May be empty but for the
    /// tag. [`Self::wait_durable`] does not suffice for such a batch: see [`Self::wait_synced`].
    pub fn apply_tagged(&self, ops: Vec<ShardOp>, tag: BatchTag, offsets: Vec<u64>) -> Result<Applied> {
        self.apply_batch(ops, Some((tag, offsets)))
    }

    /// Returns how far a partition of a source is applied; `key` as in the tags.
    pub fn source_mark(&self, key: &str) -> Option<SourceMark> {
        self.state.lock().source_marks.get(key).cloned()
    }

    /// Calls back, on any thread, maybe at once, when everything up to `position` is on disk, also if the index demands less.
    pub fn wait_synced(&self, position: Position, callback: Box<dyn FnOnce(Result<()>) + Send>) {
        self.wal().wait_durable(position, callback);
    }

    /// Calls back, on any thread, maybe at once, when everything up to `position` is as durable
    /// as the index demands ([`firn_model::settings::Durability::Async`]: at once).
    pub fn wait_durable(&self, position: Position, callback: Box<dyn FnOnce(Result<()>) + Send>) {
        // Copied: the lock must not be held during the callback.
        let durability = *self.durability.lock();
        match durability {
            Durability::Async => callback(Ok(())),
            Durability::Request => self.wal().wait_durable(position, callback),
        }
    }

    /// Reads a document. `realtime`: all applied writes are visible, otherwise only searchable ones.
    pub fn get(&self, id: &str, realtime: bool) -> Result<Option<StoredDocument>> {
        catch(|| match realtime {
            true => self.get_realtime(id),
            false => self.get_searchable(id),
        })
    }

    /// Makes all applied writes searchable; false if there was nothing to do.
    pub fn refresh(&self) -> Result<bool> {
        self.refresh_now()
    }

    /// Makes all applied writes durable and searchable; returns their highest sequence number, `None` before the first write. No
    /// crash makes the shard assign a number up to this one again.
    pub fn checkpoint(&self) -> Result<Option<u64>> {
        let (seq_no, end) = {
            let state = self.state.lock();
            (state.next_seq_no.checked_sub(1), self.wal().end())
        };
        self.wal().sync_blocking(end)?;
        self.refresh_now()?;
        Ok(seq_no)
    }

    /// Whether a refresh would publish changes, or a running one will.
    pub fn needs_refresh(&self) -> bool {
        self.flags.is_behind()
    }

    /// Turns the buffers into segments to free their memory, without making them searchable.
    pub fn write_out_buffers(&self) -> Result<()> {
        self.write_out_all()
    }

    /// Makes all applied writes durable as segments, writes a commit point and trims the
    /// WAL. False if there was nothing to do.
    pub fn flush(&self) -> Result<bool> {
        self.flush_now()
    }

    /// Whether the WAL exceeds the flush threshold.
    pub fn needs_flush(&self) -> bool {
        let threshold = self.flush_threshold_bytes.load(Ordering::Relaxed);
        self.has_uncommitted()
            && self.flags.uncommitted_ops.load(Ordering::Acquire) > 0
            && self.wal().size_bytes() >= threshold
    }

    /// Whether a flush would make data of the WAL durable as segments, or free space.
    pub fn has_uncommitted(&self) -> bool {
        self.read_only.is_none() && self.flags.has_uncommitted()
    }

    /// Chooses and runs at most one merge; false if none is due. Long; never blocks writes.
    pub fn merge_tick(&self) -> Result<bool> {
        self.merge_one(u32::MAX)
    }

    /// As [`Self::merge_tick`], but only merges with at most `docs_max` documents.
    pub fn merge_small(&self, docs_max: u32) -> Result<bool> {
        self.merge_one(docs_max)
    }

    /// Merges down to at most `max_segments` segments, or only rewrites segments with deletes.
    /// Ends with a flush and a refresh.
    pub fn force_merge(&self, max_segments: usize, only_expunge_deletes: bool) -> Result<()> {
        self.force_merge_now(max_segments, only_expunge_deletes)
    }

    /// Removes the documents of a tenant, by the tenant field, from every file. With `before_ms`
    /// only those that have an `@timestamp`, and none at or after it. Concurrent writes may
    /// stay. Long; never blocks writes. After an error, call it again.
    pub fn purge_tenant(&self, tenant: &str, before_ms: Option<i64>) -> Result<Purged> {
        catch(|| self.purge_now(tenant, before_ms))
    }

    /// Returns the snapshot that searches read.
    pub fn snapshot(&self) -> Arc<ShardSnapshot> {
        Arc::clone(&self.published.load().snapshot)
    }

    /// Returns the statistics.
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

    /// Returns the number of segments, including those not searchable yet. Cheap.
    pub fn segment_count(&self) -> usize {
        self.state.lock().segments.len()
    }

    /// Returns the memory of the write buffers, bytes. Cheap.
    pub fn buffer_bytes(&self) -> u64 {
        let state = self.state.lock();
        state.buffers.iter().map(buffer::BufferState::memory_bytes).sum()
    }

    /// Applies changed index settings: durability, sync interval and flush threshold.
    pub fn set_durability(&self, durability: Durability, sync_interval_ms: u64, flush_threshold_bytes: u64) {
        *self.durability.lock() = durability;
        self.wal()
            .set_sync_interval(recovery::sync_interval(durability, sync_interval_ms));
        self.flush_threshold_bytes
            .store(flush_threshold_bytes, Ordering::Relaxed);
    }

    /// Verifies every file of every segment against its checksum.
    pub fn verify(&self) -> Result<()> {
        let segments: Vec<_> = {
            let state = self.state.lock();
            state.segments.iter().map(|segment| Arc::clone(&segment.open)).collect()
        };
        // A merge may replace a segment meanwhile; its files stay until the next flush, which waits.
        let _commit = self.commit_lock.lock();
        segments.iter().try_for_each(|segment| segment.verify())
    }

    /// Returns why the shard stopped taking writes, if it did: an I/O error. Dropping and reopening
    /// it recovers all acknowledged writes.
    pub fn failure(&self) -> Option<Error> {
        let stopped = match self.flags.is_stopped() {
            true => self.state.lock().stopped.clone(),
            false => None,
        };
        stopped.or_else(|| self.wal().failure())
    }

    /// Flushes, and refuses all further requests.
    pub fn close(&self) -> Result<()> {
        let flushed = self.flush_now();
        self.abandon();
        flushed.map(|_| ())
    }

    /// Refuses all further requests without a flush, and closes the WAL: the shard is about to
    /// be deleted or reopened. Running work continues until [`Self::quiesce`] returns.
    pub fn abandon(&self) {
        let closed = state::closed(&self.config);
        self.state.lock().stop(closed.clone());
        // Not under the lock: closing syncs.
        if let Some(wal) = self.wal.get() {
            wal.close(closed);
        }
    }

    /// Refuses all further requests and stops writing to the WAL at once, as if the process were killed: requests that
    /// wait for a sync get an error, and their operations may be lost. Another shard may then open the folder, if no
    /// thread is inside a method of this one.
    pub fn stop_writing(&self) {
        let closed = state::closed(&self.config);
        self.state.lock().stop(closed.clone());
        if let Some(wal) = self.wal.get() {
            wal.abandon(closed);
        }
    }

    /// Waits until no thread uses the shard's files any more, and frees its write buffers. Call
    /// it after [`Self::abandon`] or [`Self::close`], which cancel running merges and flushes,
    /// and before the folder is reopened or removed. Blocks for at most
    /// one write of a merge and one sync of a flush. Must not be called by a thread that is inside
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

    pub(crate) fn wal(&self) -> &Wal {
        self.wal.get().expect("the WAL is open once the shard is")
    }
}
