//! Channel from a source to its pipeline, bounded in events and bytes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use super::{Batch, Clock, Positions, Resume};

/// Batches that wait between a source and its pipeline.
const BATCHES_WAITING_MAX: usize = 64;
/// A batch counts with at least this many bytes.
const BATCH_BYTES_MIN: usize = 4 << 10;

/// Counters that only the source knows, by name (`udp_dropped`, `connections`).
#[derive(Debug, Default)]
pub struct SourceCounters {
    by_name: Mutex<BTreeMap<&'static str, Arc<AtomicU64>>>,
    /// Why a part of the source (a file) cannot be read now.
    last_error: Mutex<Option<String>>,
}

impl SourceCounters {
    /// Returns a counter, created at its first use.
    pub fn counter(&self, name: &'static str) -> Arc<AtomicU64> {
        Arc::clone(self.by_name.lock().entry(name).or_default())
    }

    /// Says why a part of the source cannot be read now, while the others are; `None`: all are.
    pub fn set_last_error(&self, error: Option<String>) {
        *self.last_error.lock() = error;
    }

    /// Returns why a part of the source cannot be read now.
    pub fn last_error(&self) -> Option<String> {
        self.last_error.lock().clone()
    }

    /// Returns all values by name.
    pub fn values(&self) -> BTreeMap<&'static str, u64> {
        let counters = self.by_name.lock();
        counters
            .iter()
            .map(|(name, counter)| (*name, counter.load(Ordering::Relaxed)))
            .collect()
    }
}

/// Why a batch was not taken.
#[derive(Debug)]
pub enum SendRefused {
    /// The pipeline has as many events waiting as it may have.
    Full(Batch),
    /// The pipeline stops.
    Stopped,
}

/// The end of the channel that a source has. Clones share the bounds.
#[derive(Clone)]
pub struct SourceOutput {
    sender: mpsc::Sender<Received>,
    /// One permit for a byte that may wait.
    bytes: Arc<Semaphore>,
    bytes_max: usize,
    stopped: watch::Receiver<bool>,
    positions: Arc<dyn Positions>,
    /// Partitions whose next batch is the first one since their position was looked up.
    looked_up: Arc<Mutex<HashSet<String>>>,
    counters: Arc<SourceCounters>,
    clock: Clock,
}

/// A batch, and its share of the bytes that may wait.
#[derive(Debug)]
pub struct Received {
    /// The batch.
    pub batch: Batch,
    /// The position of the partition was looked up since its last batch: everything before this batch is stored, also if the last
    /// batch was not.
    pub follows_position: bool,
    /// Held until the batch has its outcome.
    pub permit: OwnedSemaphorePermit,
}

/// Creates the channel of a source; at most `bytes_max` bytes of events wait in it or are being processed.
pub fn channel(
    bytes_max: usize,
    positions: Arc<dyn Positions>,
    counters: Arc<SourceCounters>,
    clock: Clock,
    stopped: watch::Receiver<bool>,
) -> (SourceOutput, mpsc::Receiver<Received>) {
    let (sender, receiver) = mpsc::channel(BATCHES_WAITING_MAX);
    let bytes_max = bytes_max.clamp(BATCH_BYTES_MIN, u32::MAX as usize);
    let output = SourceOutput {
        sender,
        bytes: Arc::new(Semaphore::new(bytes_max)),
        bytes_max,
        stopped,
        positions,
        looked_up: Arc::default(),
        counters,
        clock,
    };
    (output, receiver)
}

impl SourceOutput {
    /// Sends a batch; waits while the pipeline is full. Batches of one partition must be sent in the order of their offsets.
    /// Fails with [`ErrorKind::Unavailable`] if the pipeline stops.
    pub async fn send(&self, batch: Batch) -> Result<()> {
        let acquired = Arc::clone(&self.bytes).acquire_many_owned(self.weight(&batch)).await;
        let permit = acquired.map_err(|_| stopped_error())?;
        let sent = self.sender.send(self.received(batch, permit)).await;
        sent.map_err(|_| stopped_error())
    }

    /// Sends a batch if the pipeline can take it now.
    ///
    /// # Errors
    /// The pipeline is full, with the batch, or it stops.
    pub fn try_send(&self, batch: Batch) -> std::result::Result<(), SendRefused> {
        let Ok(permit) = Arc::clone(&self.bytes).try_acquire_many_owned(self.weight(&batch)) else {
            return Err(SendRefused::Full(batch));
        };
        self.sender
            .try_send(self.received(batch, permit))
            .map_err(|refused| match refused {
                mpsc::error::TrySendError::Full(received) => {
                    if let Some(partition) = received
                        .batch
                        .partition
                        .as_deref()
                        .filter(|_| received.follows_position)
                    {
                        self.looked_up.lock().insert(partition.to_owned());
                    }
                    SendRefused::Full(received.batch)
                }
                mpsc::error::TrySendError::Closed(_) => SendRefused::Stopped,
            })
    }

    /// Returns the offset from which a partition must be read again; `None`: nothing of it was ever stored.
    pub async fn resume_offset(&self, partition: &str) -> Result<Option<u64>> {
        let offset = self.positions.resume_offset(partition).await?;
        self.looked_up.lock().insert(partition.to_owned());
        Ok(offset)
    }

    /// The same with the note of the last batch of the partition.
    pub async fn resume(&self, partition: &str) -> Result<Option<Resume>> {
        let resume = self.positions.resume(partition).await?;
        self.looked_up.lock().insert(partition.to_owned());
        Ok(resume)
    }

    /// Returns the record of what of the source is stored.
    pub fn positions(&self) -> &Arc<dyn Positions> {
        &self.positions
    }

    fn received(&self, batch: Batch, permit: OwnedSemaphorePermit) -> Received {
        let partition = batch.partition.as_deref();
        let follows_position = partition.is_some_and(|partition| self.looked_up.lock().remove(partition));
        Received {
            batch,
            follows_position,
            permit,
        }
    }

    /// Resolves when the source must stop.
    pub async fn stopped(&self) {
        let mut stopped = self.stopped.clone();
        // A closed channel: the pipeline is gone.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }

    /// Whether the source must stop.
    pub fn is_stopped(&self) -> bool {
        *self.stopped.borrow()
    }

    /// Returns the time, nanoseconds since the epoch.
    pub fn now_ns(&self) -> i64 {
        (self.clock)()
    }

    /// Returns the counters of the source.
    pub fn counters(&self) -> &Arc<SourceCounters> {
        &self.counters
    }

    fn weight(&self, batch: &Batch) -> u32 {
        let bytes: usize = batch.events.iter().map(|event| event.bytes.len() + 64).sum();
        bytes.clamp(BATCH_BYTES_MIN, self.bytes_max) as u32
    }
}

fn stopped_error() -> Error {
    Error::new(ErrorKind::Unavailable, "the pipeline stops")
}
