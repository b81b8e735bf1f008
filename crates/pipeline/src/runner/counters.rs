//! Counters of one pipeline since the start of the node.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::EventCounts;
use crate::sources::BatchOutcome;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) is_running: AtomicBool,
    pub(super) read: AtomicU64,
    pub(super) read_bytes: AtomicU64,
    pub(super) indexed: AtomicU64,
    pub(super) filtered: AtomicU64,
    pub(super) dead_lettered: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) map_nanos: AtomicU64,
    pub(super) write_nanos: AtomicU64,
    pub(super) retries: AtomicU64,
    /// Alerts that were stored.
    pub(super) alerts: AtomicU64,
    /// Why the source does not run.
    pub(super) source_error: Mutex<Option<String>>,
    /// Why the last write was refused.
    pub(super) write_error: Mutex<Option<String>>,
}

impl Counters {
    pub(super) fn add_read(&self, events: u64, bytes: u64) {
        self.read.fetch_add(events, Ordering::Relaxed);
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_outcome(&self, outcome: &BatchOutcome) {
        self.indexed.fetch_add(outcome.indexed, Ordering::Relaxed);
        self.filtered.fetch_add(outcome.filtered, Ordering::Relaxed);
        self.dead_lettered.fetch_add(outcome.dead_lettered, Ordering::Relaxed);
    }

    pub(super) fn events(&self) -> EventCounts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        // Outcomes first: an event that ends meanwhile must not make the account negative.
        let (indexed, filtered) = (get(&self.indexed), get(&self.filtered));
        let (dead_lettered, refused) = (get(&self.dead_lettered), get(&self.refused));
        let read = get(&self.read);
        EventCounts {
            read,
            read_bytes: get(&self.read_bytes),
            indexed,
            filtered,
            dead_lettered,
            refused,
            in_flight: read.saturating_sub(indexed + filtered + dead_lettered + refused),
        }
    }

    pub(super) fn error(&self) -> Option<String> {
        let source = self.source_error.lock().clone();
        source.or_else(|| self.write_error.lock().clone())
    }
}
