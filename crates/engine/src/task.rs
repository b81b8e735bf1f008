//! What every call carries, and how it is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::{Error, ErrorKind, Result};

/// A flag that the edge raises when the client goes away. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks the work to stop. It does so within some milliseconds.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the work should stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Travels with every engine call.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// Raised when the client goes away or the task is cancelled.
    pub cancel: Cancel,
    /// When the request came in; `took` counts from here.
    pub started: Instant,
    /// `X-Opaque-Id` of the client, for logs and `_tasks`.
    pub opaque_id: Option<String>,
}

impl RequestContext {
    /// A context for a request that starts now.
    pub fn new() -> Self {
        Self {
            cancel: Cancel::default(),
            started: Instant::now(),
            opaque_id: None,
        }
    }

    /// Fails with [`ErrorKind::Cancelled`] once the work should stop.
    pub fn check(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(Error::new(
                ErrorKind::Cancelled,
                "task cancelled because the client went away",
            ));
        }
        Ok(())
    }
}

impl Default for RequestContext {
    fn default() -> Self {
        Self::new()
    }
}
