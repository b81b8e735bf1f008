//! Threads that the replays of all shards of a node share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that the replays of a node may use besides those that open the shards.
#[derive(Debug)]
pub struct ReplayThreads {
    free: AtomicUsize,
}

impl ReplayThreads {
    /// Creates a pool of `count` threads.
    pub fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            free: AtomicUsize::new(count),
        })
    }

    pub(crate) fn take(&self) -> Option<Taken<'_>> {
        let less = |free: usize| free.checked_sub(1);
        self.free
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less)
            .is_ok()
            .then_some(Taken(&self.free))
    }
}

/// Permit of [`ReplayThreads`]; returned when dropped.
pub(crate) struct Taken<'a>(&'a AtomicUsize);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}
