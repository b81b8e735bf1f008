//! Counters of damage of shards, and of repairs.

use std::sync::atomic::AtomicU64;

/// Counters of damage since the start.
#[derive(Debug, Default)]
pub(crate) struct DamageCounters {
    /// Damaged segments, and shards that could not be opened.
    pub(crate) found: AtomicU64,
    /// Segments that were replaced from a snapshot.
    pub(crate) repaired: AtomicU64,
}
