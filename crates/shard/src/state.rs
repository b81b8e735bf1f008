//! State of a shard under its lock.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_model::{Error, ErrorKind, Result};
use firn_segment::commit_point::SourceMark;

use super::buffer::{Buffer, BufferState};
use super::config::ShardConfig;
use super::live_segments::LiveSegment;
use super::versions::Tombstone;
use super::wal_record::{BatchTag, RecordWriter};

/// Maximum number of tombstones for version checks. Above it the older half is dropped, and a document of
/// that half that is written again starts from version 1, as in Elasticsearch after `index.gc_deletes`.
pub(super) const TOMBSTONES_MAX: usize = 100_000;

/// Flags that are read often, or while a lock is held that must not wait for the shard's lock. Changed only under
/// the shard's lock, read without it.
#[derive(Default)]
pub(super) struct Flags {
    /// The shard is stopped: merges give up, and no file is removed.
    pub(super) is_stopped: AtomicBool,
    /// Something changed since the cut of the last refresh.
    pub(super) dirty: AtomicBool,
    /// A refresh has made its cut and has not published it yet.
    pub(super) showing: AtomicBool,
    /// Segments or deletes changed since the last commit point.
    pub(super) commit_needed: AtomicBool,
    /// Number of operations since the last commit point.
    pub(super) uncommitted_ops: AtomicU64,
}

impl Flags {
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::Acquire)
    }

    pub(super) fn set_dirty(&self, dirty: bool) {
        self.dirty.store(dirty, Ordering::Release);
    }

    pub(super) fn set_showing(&self, showing: bool) {
        self.showing.store(showing, Ordering::Release);
    }

    /// Whether the published snapshot lacks changes.
    pub(super) fn is_behind(&self) -> bool {
        // `showing` is set before `dirty` is cleared, and is cleared after the snapshot is published.
        self.is_dirty() || self.showing.load(Ordering::Acquire)
    }

    pub(super) fn need_commit(&self) {
        self.commit_needed.store(true, Ordering::Release);
    }

    pub(super) fn has_uncommitted(&self) -> bool {
        self.uncommitted_ops.load(Ordering::Acquire) > 0 || self.commit_needed.load(Ordering::Acquire)
    }
}

/// State of a shard under its lock.
pub(super) struct State {
    /// Why the shard is stopped.
    pub(super) stopped: Option<Error>,
    pub(super) next_seq_no: u64,
    pub(super) next_generation: u64,
    /// Open and sealed buffers. A sealed one is removed when its segment is added below.
    pub(super) buffers: Vec<BufferState>,
    /// In order of creation.
    pub(super) segments: Vec<LiveSegment>,
    pub(super) tombstones: HashMap<Box<str>, Tombstone>,
    /// Generations that a merge reads.
    pub(super) merging: HashSet<u64>,
    /// Generations that a merge writes.
    pub(super) merging_into: HashSet<u64>,
    pub(super) flags: Arc<Flags>,
    pub(super) record: RecordWriter,
    pub(super) index_total: u64,
    pub(super) delete_total: u64,
    /// By source and partition.
    pub(super) source_marks: BTreeMap<String, SourceMark>,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            stopped: None,
            next_seq_no: 0,
            next_generation: 1,
            buffers: Vec::new(),
            segments: Vec::new(),
            tombstones: HashMap::new(),
            merging: HashSet::new(),
            merging_into: HashSet::new(),
            flags: Arc::default(),
            record: RecordWriter::default(),
            index_total: 0,
            delete_total: 0,
            source_marks: BTreeMap::new(),
        }
    }

    /// Records what a batch of a source applied.
    pub(super) fn mark_source(&mut self, tag: BatchTag) {
        self.source_marks.entry(tag.key).or_default().advance(tag.mark);
        self.flags.need_commit();
    }

    pub(super) fn check_running(&self) -> Result<()> {
        match &self.stopped {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Stops the shard; the first error stays.
    pub(super) fn stop(&mut self, error: Error) {
        self.stopped.get_or_insert(error);
        self.flags.is_stopped.store(true, Ordering::Release);
    }

    pub(super) fn take_generation(&mut self) -> u64 {
        let generation = self.next_generation;
        self.next_generation += 1;
        generation
    }

    /// Returns the open buffer with the fewest threads; a new one if all are busy and the limit
    /// is not reached.
    pub(super) fn pick_buffer(&mut self, config: &ShardConfig) -> Result<usize> {
        let busy = |buffer: &BufferState| buffer.buffer.busy.load(std::sync::atomic::Ordering::Relaxed);
        let open = self.buffers.iter().filter(|buffer| !buffer.sealed).count();
        let best = self
            .buffers
            .iter()
            .enumerate()
            .filter(|(_, buffer)| !buffer.sealed)
            .min_by_key(|(_, buffer)| busy(buffer));
        match best {
            Some((index, buffer)) if busy(buffer) == 0 || open >= config.buffers_max => Ok(index),
            _ => {
                let generation = self.take_generation();
                self.buffers.push(Buffer::create(config, generation)?);
                Ok(self.buffers.len() - 1)
            }
        }
    }

    /// Drops about half of the tombstones, the oldest.
    pub(super) fn forget_old_tombstones(&mut self) {
        let mut seq_nos: Vec<u64> = self.tombstones.values().map(|tombstone| tombstone.seq_no).collect();
        let middle = seq_nos.len() / 2;
        let median = *seq_nos.select_nth_unstable(middle).1;
        self.tombstones.retain(|_, tombstone| tombstone.seq_no > median);
    }

    /// Returns the number of live documents, searchable or not.
    pub(super) fn live_docs(&self) -> u64 {
        let segments: u64 = self.segments.iter().map(|segment| u64::from(segment.live_docs())).sum();
        let buffers: u64 = self
            .buffers
            .iter()
            .map(|buffer| u64::from(buffer.docs - buffer.deletes.count()))
            .sum();
        segments + buffers
    }
}

/// Returns the error of a closed shard.
pub(super) fn closed(config: &ShardConfig) -> Error {
    Error::new(
        ErrorKind::IndexClosed,
        format!("shard [{}][{}] is closed", config.index, config.shard),
    )
    .with_index(&*config.index)
}
