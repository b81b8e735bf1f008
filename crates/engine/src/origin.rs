//! Origin of a bulk: where in a source that can be read again its events stand. With it a bulk is stored exactly once, however
//! often it is sent.

use std::sync::Arc;

/// Place of the events of a bulk in a partition of a source.
///
/// Bulks of one partition come one after another. A bulk that failed in part, or whose answer was lost, is sent again from
/// the same first offset; items that are stored already are answered with [`Effect::Noop`](crate::document::Effect::Noop).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Name of the source; one of its own for each pipeline.
    pub source: Arc<str>,
    /// Partition of the source. It must be another one if offsets start anew.
    pub partition: Arc<str>,
    /// First offset that the bulk covers.
    pub first_offset: u64,
    /// Last offset that the bulk covers.
    pub last_offset: u64,
    /// Offset of each item, strictly ascending.
    pub offsets: Vec<u64>,
    /// Items that are dead letters.
    pub dead_letters: u64,
    /// Covered events without an item, because they are dropped on purpose or stored already.
    pub filtered: u64,
    /// Whether the source stores more of these events after this bulk, such as their alerts: then the bulk does not count as complete,
    /// and the partition is read again from its start.
    pub more_follows: bool,
    /// What the source wants to know of the partition when it reads it again, such as a checksum of what it has read. It is stored with the
    /// position and not looked at.
    pub note: Option<Arc<str>>,
}

/// Events of a partition since it was first read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceTotals {
    /// Stored in their index.
    pub indexed: u64,
    /// Dropped on purpose.
    pub filtered: u64,
    /// Stored as dead letters, or refused for good by their index and to be stored as dead letters next.
    pub dead_lettered: u64,
}

impl SourceTotals {
    /// Number of events read.
    pub fn read(&self) -> u64 {
        self.indexed + self.filtered + self.dead_lettered
    }
}

/// Durable position of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePosition {
    /// The partition.
    pub partition: String,
    /// Offset from which the partition must be read again after a restart: the first of its last bulk.
    pub resume_offset: u64,
    /// Last offset whose bulk is complete since the node was started; `None`: none yet.
    pub complete_offset: Option<u64>,
    /// Totals of the complete bulks.
    pub totals: SourceTotals,
    /// See [`Origin::note`]; of the last bulk.
    pub note: Option<Arc<str>>,
}
