//! Sources: where events come from, in batches, with their positions.
//!
//! A source that can read its events again (a Kafka partition, a file) numbers them: an event's offset in its partition never
//! changes. After a restart it continues where the engine's record of stored events ends, and an event that it delivers twice
//! is stored once. A source that cannot (a socket) delivers batches without a partition.

mod channel;
mod files;
mod indices;
mod joiner;
mod syslog;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use firn_engine::origin::SourcePosition;
use firn_model::{Error, Result};
use parking_lot::Mutex;
use tokio::sync::oneshot;

pub use crate::clock::Clock;
use crate::definition::SourceDefinition;
pub use channel::{Received, SendRefused, SourceCounters, SourceOutput, channel};
pub use indices::{open_indices, tenant_of};

/// Maximum events of one batch.
pub const BATCH_EVENTS_MAX: usize = 10_000;

/// One event as the source has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceEvent {
    /// The record.
    pub bytes: Bytes,
    /// Offset in the partition; 0 if the batch has no partition.
    pub offset: u64,
    /// Time of arrival, nanoseconds since the epoch.
    pub received_ns: i64,
    /// Members of a JSON object, without braces, that the protocol carries beside the record: `"name":{…}`. They are added to
    /// the document at its top level.
    pub context: Option<Bytes>,
    /// Where the event is stored already; `None`: it is not.
    pub stored_at: Option<Box<StoredAt>>,
}

/// Where an event is stored that a source has read from there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAt {
    /// Index.
    pub index: Arc<str>,
    /// Document id.
    pub id: String,
    /// Tenant, if the index holds events by tenant.
    pub tenant: Option<String>,
}

/// Events of one partition in the order of their offsets.
#[derive(Debug)]
pub struct Batch {
    /// `None`: the source cannot read the events again.
    pub partition: Option<Arc<str>>,
    /// At most [`BATCH_EVENTS_MAX`], with ascending offsets. Offsets may be missing: a source may skip records that are no events.
    pub events: Vec<SourceEvent>,
    /// First offset that the batch covers: after a restart the source is read again from here if the batch may not be stored.
    pub first_offset: u64,
    /// Last offset that the batch covers; once the batch is stored, the source continues behind it.
    pub last_offset: u64,
    /// Whether a failure that may pass (a full disk, a full queue) is tried again until it has passed. Otherwise the failure
    /// is reported, and the sender of the events decides.
    pub retries: bool,
    /// Stored with the position, and returned by [`Positions::resume`].
    pub note: Option<Arc<str>>,
    /// Which events earlier attempts have stored; `None`: the batch is not sent again by parts.
    pub stored: Option<StoredEvents>,
    /// Receives the outcome once every event is stored as durably as its index demands, or is in the dead letters.
    pub done: Option<oneshot::Sender<Result<BatchOutcome>>>,
}

/// Which events of a batch are stored, by their places in it. Clones are the same set.
#[derive(Debug, Clone, Default)]
pub struct StoredEvents {
    words: Arc<Mutex<Vec<u64>>>,
    /// Place in the set of the first event.
    first: usize,
}

impl StoredEvents {
    /// Returns the same set for a part of the batch that begins at `place`.
    pub fn from_place(&self, place: usize) -> Self {
        Self {
            words: Arc::clone(&self.words),
            first: self.first + place,
        }
    }

    /// Returns whether an event is stored.
    pub fn contains(&self, place: usize) -> bool {
        let place = self.first + place;
        let words = self.words.lock();
        words.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// Notes that an event is stored.
    pub fn insert(&self, place: usize) {
        let place = self.first + place;
        let mut words = self.words.lock();
        if words.len() <= place / 64 {
            words.resize(place / 64 + 1, 0);
        }
        words[place / 64] |= 1 << (place % 64);
    }
}

/// What became of a batch: `read = indexed + filtered + dead_lettered`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchOutcome {
    /// Events of the batch.
    pub read: u64,
    /// Events that are stored in their index.
    pub indexed: u64,
    /// Events that the pipeline drops on purpose.
    pub filtered: u64,
    /// Events that are stored as dead letters.
    pub dead_lettered: u64,
}

/// Record of what of a source is stored. Partitions of events do not start with `#`.
#[async_trait]
pub trait Positions: Send + Sync {
    /// Returns the offset from which a partition must be read again; `None`: nothing of it was ever stored.
    async fn resume_offset(&self, partition: &str) -> Result<Option<u64>>;

    /// The same with the note of the last batch of the partition.
    async fn resume(&self, partition: &str) -> Result<Option<Resume>> {
        let offset = self.resume_offset(partition).await?;
        Ok(offset.map(|offset| Resume { offset, note: None }))
    }

    /// Returns the positions of all partitions, sorted by partition.
    async fn all(&self) -> Result<Vec<SourcePosition>> {
        Ok(Vec::new())
    }

    /// Removes the positions of partitions that will never be read again; those that are being written stay. Does nothing where
    /// positions cannot be removed.
    async fn forget(&self, partitions: &[String]) -> Result<()> {
        let _ = partitions;
        Ok(())
    }
}

/// Where a partition must be read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// The offset.
    pub offset: u64,
    /// Note of the last batch, whose end may lie behind the offset.
    pub note: Option<Arc<str>>,
}

/// A source of events. It runs until its output is stopped.
#[async_trait]
pub trait Source: Send {
    /// Reads events and sends them to `output`. Returns when [`SourceOutput::stopped`] resolves; an error means that the
    /// source cannot run (an address in use, a topic that is refused), and is shown to operators. The runner starts it again
    /// after a pause.
    async fn run(self: Box<Self>, output: SourceOutput) -> Result<()>;
}

/// Makes the source of a definition. A source of type `http` needs none: the runner hands its events over. One of type `kafka`
/// is made by the program, whose crate knows Kafka.
///
/// # Errors
/// [`firn_model::ErrorKind::IllegalArgument`]: the source of this definition cannot run.
pub fn open(definition: &SourceDefinition) -> Result<Box<dyn Source>> {
    match definition {
        SourceDefinition::Http {} | SourceDefinition::SplunkHec {} | SourceDefinition::Otlp {} => {
            Err(Error::internal("a source whose events are handed over has no task"))
        }
        SourceDefinition::Syslog(definition) => syslog::open(definition),
        SourceDefinition::File(definition) => files::open(definition),
        SourceDefinition::Kafka(_) => Err(Error::illegal_argument("this program has no [kafka] source")),
        SourceDefinition::Index(_) => Err(Error::illegal_argument(
            "a source of type [index] needs the engine of `firn serve`; a worker has none",
        )),
    }
}
