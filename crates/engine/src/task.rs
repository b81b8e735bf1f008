//! Request context of every engine call, and work that outlives its request.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_model::Result;
use firn_query::Cancel;

use crate::{Progress, Scope, Work};

/// Work that continues after its request is answered. It has a separate flag, which a disconnect of the client does not
/// raise, and an entry in the task list, which stays until the last clone is dropped.
#[derive(Debug, Clone)]
pub struct BackgroundTask {
    /// Raised when the task is cancelled.
    pub cancel: Cancel,
    _entry: Arc<dyn fmt::Debug + Send + Sync>,
}

impl BackgroundTask {
    /// Creates work that `cancel` stops; `entry` is dropped with it.
    pub fn new(cancel: Cancel, entry: impl fmt::Debug + Send + Sync + 'static) -> Self {
        Self {
            cancel,
            _entry: Arc::new(entry),
        }
    }
}

/// Context of one request, passed to every engine call.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// Raised when the client disconnects or the task is cancelled.
    pub cancel: Cancel,
    /// When the request arrived; `took` counts from here.
    pub started: Instant,
    /// `X-Opaque-Id` of the client, for logs and `_tasks`.
    pub opaque_id: Option<String>,
    /// Action of the client, as Elasticsearch names it (`indices:data/read/search`). Empty: internal work.
    pub action: &'static str,
    /// Data that the request may access.
    pub scope: Arc<Scope>,
    /// Cost of the request, counted by the engine.
    pub work: Arc<Work>,
    /// Where a search publishes partial results; `None`: no reader.
    pub progress: Option<Arc<Progress>>,
    /// Task for work that the request starts and that outlives it (a snapshot, a restore); `None`: the work is in no
    /// task list and runs to its end.
    pub lasting: Option<BackgroundTask>,
    /// Maximum bytes that one search of the caller may fetch from snapshot repositories; `None`: no limit for the
    /// caller.
    pub repository_bytes_max: Option<u64>,
    /// See [`RequestContext::patient`].
    pub waiting: Option<Cancel>,
}

impl RequestContext {
    /// Returns the context of an operator's request that starts now.
    pub fn new() -> Self {
        Self {
            cancel: Cancel::default(),
            started: Instant::now(),
            opaque_id: None,
            action: "",
            scope: Arc::default(),
            work: Arc::default(),
            progress: None,
            lasting: None,
            repository_bytes_max: None,
            waiting: None,
        }
    }

    /// Returns the same context for a search that waits for remote stores until `timeout` after the request arrived;
    /// `None`: no limit.
    #[must_use]
    pub fn patient(&self, timeout: Option<Duration>) -> Self {
        // A deadline past the end of the clock's range means no deadline.
        let deadline = timeout.and_then(|timeout| self.started.checked_add(timeout));
        Self {
            waiting: deadline.map(|_| self.cancel.until(deadline)),
            ..self.clone()
        }
    }

    /// Returns the same context for a trial run that does not wait for remote stores, publishes no progress and does
    /// not count as work. If [`Cancel::is_timed_out`] of [`RequestContext::waiting`] is false afterwards, all data was
    /// local.
    #[must_use]
    pub fn at_hand(&self) -> Self {
        Self {
            waiting: Some(self.cancel.until(Some(Instant::now()))),
            work: Arc::default(),
            progress: None,
            ..self.clone()
        }
    }

    /// Returns the flag for reads from remote stores; it also fails after the deadline of [`RequestContext::patient`].
    pub fn waiting(&self) -> &Cancel {
        self.waiting.as_ref().unwrap_or(&self.cancel)
    }

    /// Fails with [`crate::ErrorKind::Cancelled`] once the work should stop.
    pub fn check(&self) -> Result<()> {
        self.cancel.check()
    }
}

impl Default for RequestContext {
    fn default() -> Self {
        Self::new()
    }
}
