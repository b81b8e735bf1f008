//! What a shard's lock guards.

use std::collections::{HashMap, HashSet};

use firn_model::{Error, ErrorKind, Result};

use super::buffer::{Buffer, BufferState};
use super::config::ShardConfig;
use super::live::LiveSegment;
use super::record::RecordWriter;
use super::versions::Tombstone;

/// Deletes remembered for version checks. Past it all are forgotten at the next flush, and a
/// document written again starts from version 1, as in Elasticsearch after `index.gc_deletes`.
pub(super) const TOMBSTONES_MAX: usize = 100_000;

/// What a shard's lock guards.
pub(super) struct State {
    /// Why nothing goes any more.
    pub(super) stopped: Option<Error>,
    pub(super) next_seq_no: u64,
    pub(super) next_generation: u64,
    /// Open and sealed ones. A sealed one goes when its segment appears below.
    pub(super) buffers: Vec<BufferState>,
    /// In the order in which they appeared.
    pub(super) segments: Vec<LiveSegment>,
    pub(super) tombstones: HashMap<Box<str>, Tombstone>,
    /// Generations that a merge reads.
    pub(super) merging: HashSet<u64>,
    /// Generations that a merge writes.
    pub(super) merging_into: HashSet<u64>,
    /// Something changed since searches got their last snapshot.
    pub(super) dirty: bool,
    /// Operations since the last commit point.
    pub(super) uncommitted_ops: u64,
    /// Segments or deletes changed since the last commit point.
    pub(super) commit_needed: bool,
    pub(super) record: RecordWriter,
    pub(super) index_total: u64,
    pub(super) delete_total: u64,
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
            dirty: false,
            uncommitted_ops: 0,
            commit_needed: false,
            record: RecordWriter::default(),
            index_total: 0,
            delete_total: 0,
        }
    }

    pub(super) fn check_running(&self) -> Result<()> {
        match &self.stopped {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Stops everything; the first reason stays.
    pub(super) fn stop(&mut self, error: Error) {
        self.stopped.get_or_insert(error);
    }

    pub(super) fn take_generation(&mut self) -> u64 {
        let generation = self.next_generation;
        self.next_generation += 1;
        generation
    }

    /// An open buffer, the one with the fewest threads in it; a new one if all are busy and there
    /// may be more.
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

    /// Documents alive, searchable or not.
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

/// The error of a closed shard.
pub(super) fn closed(config: &ShardConfig) -> Error {
    Error::new(
        ErrorKind::IndexClosed,
        format!("shard [{}][{}] is closed", config.index, config.shard),
    )
    .with_index(&*config.index)
}
