//! One assigned partition: where it continues, the batch being built, and the batches that wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use firn_pipeline::sources::{Batch, SourceEvent};

use crate::config::KafkaConfig;

/// What a partition does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The place to continue is looked up from then on, once no batch is unfinished.
    Waiting(Instant),
    /// The place to continue is being looked up.
    Resolving,
    /// Messages are read.
    Active {
        /// `TOPICID/PARTITION`, with `+N` after the broker has lost records N times.
        name: Arc<str>,
    },
}

#[derive(Debug)]
pub(crate) struct Partition {
    /// Number of this assignment; another assignment of the same partition has another.
    pub(crate) assignment: u64,
    /// Counts how often the partition went back to its stored offset.
    pub(crate) generation: u64,
    pub(crate) phase: Phase,
    /// Offset of the next message.
    pub(crate) next_offset: u64,
    pub(crate) ready: VecDeque<Batch>,
    /// Batches that were sent and have no outcome.
    pub(crate) unfinished: usize,
    pub(crate) is_paused: bool,
    building: Vec<SourceEvent>,
    building_bytes: usize,
    building_since: Instant,
    /// First offset that the batch being built covers.
    first_offset: u64,
}

impl Partition {
    pub(crate) fn new(assignment: u64) -> Self {
        let now = Instant::now();
        Self {
            assignment,
            generation: 0,
            phase: Phase::Waiting(now),
            next_offset: 0,
            ready: VecDeque::new(),
            unfinished: 0,
            is_paused: true,
            building: Vec::new(),
            building_bytes: 0,
            building_since: now,
            first_offset: 0,
        }
    }

    /// Starts to read at `offset`.
    pub(crate) fn activate(&mut self, name: Arc<str>, offset: u64) {
        self.phase = Phase::Active { name };
        self.next_offset = offset;
        self.first_offset = offset;
    }

    /// Drops what is buffered; the place to continue is looked up again after `pause`.
    pub(crate) fn rewind(&mut self, pause: Duration) {
        self.generation += 1;
        self.phase = Phase::Waiting(Instant::now() + pause);
        self.building.clear();
        self.building_bytes = 0;
        self.ready.clear();
    }

    /// Covers the message at `offset`; `None`: a tombstone. Cuts the batch if it is full.
    pub(crate) fn push(&mut self, offset: u64, payload: Option<&[u8]>, received_ns: i64, config: &KafkaConfig) {
        self.next_offset = offset + 1;
        let Some(payload) = payload else { return };
        if self.building.is_empty() {
            self.building_since = Instant::now();
        }
        self.building_bytes += payload.len();
        self.building.push(SourceEvent {
            bytes: Bytes::copy_from_slice(payload),
            offset,
            received_ns,
            context: None,
            stored_at: None,
        });
        if self.building.len() >= config.batch_events_max || self.building_bytes >= config.batch_bytes_max {
            self.cut();
        }
    }

    /// Cuts the batch if its time is over.
    pub(crate) fn cut_if_due(&mut self, linger: Duration) {
        if !self.building.is_empty() && self.building_since.elapsed() >= linger {
            self.cut();
        }
    }

    /// Ends the batch being built. Covered offsets without an event stay for the next batch.
    fn cut(&mut self) {
        let Phase::Active { name } = &self.phase else { return };
        let events = std::mem::take(&mut self.building);
        self.building_bytes = 0;
        self.ready.push_back(Batch {
            stored: None,
            partition: Some(Arc::clone(name)),
            events,
            first_offset: self.first_offset,
            last_offset: self.next_offset - 1,
            retries: true,
            note: None,
            done: None,
        });
        self.first_offset = self.next_offset;
    }
}
