//! Limit of concurrent store requests over all repositories of a process.
//!
//! Overloaded stores answer more slowly, or with 503, and every request in flight holds its bytes in memory. All
//! repositories share one limit, so that a snapshot cannot add its requests on top of those of searches.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Semaphore for requests. Clones share it.
#[derive(Debug, Clone)]
pub struct Limit {
    turns: Arc<Semaphore>,
    count: usize,
}

impl Limit {
    /// Creates a limit of `count` concurrent requests.
    pub fn new(count: usize) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(count)),
            count,
        }
    }

    /// Returns the maximum number of requests in flight.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.count - self.turns.available_permits().min(self.count)
    }

    /// Acquires a permit, first come first served. Dropping it releases it.
    pub(super) async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns
            .acquire()
            .await
            .expect("the semaphore of a limit is never closed")
    }
}
