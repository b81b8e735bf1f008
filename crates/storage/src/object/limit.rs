//! How many requests are on their way at a time, over all repositories of a process.
//!
//! Stores answer more slowly, or with 503, to whoever asks too much at once, and every request in
//! flight holds its bytes in memory. One limit for all: a snapshot cannot open a second door beside a search.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Turns for requests. Clones share them.
#[derive(Debug, Clone)]
pub struct Limit {
    turns: Arc<Semaphore>,
    count: usize,
}

impl Limit {
    /// At most `count` requests at a time.
    pub fn new(count: usize) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(count)),
            count,
        }
    }

    /// How many may be in flight.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many are in flight now.
    pub fn in_flight(&self) -> usize {
        self.count - self.turns.available_permits().min(self.count)
    }

    /// Waits for a turn, first come first served; it ends when the permit is dropped.
    pub(super) async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns
            .acquire()
            .await
            .expect("nobody closes the semaphore of a limit")
    }
}
