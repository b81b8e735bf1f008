//! Request context of every engine call, and work that outlives its request.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_model::{Error, ErrorKind, Result};
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

/// Message that tenants see instead of an error that would reveal the location of a snapshot repository.
fn hidden(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Unavailable => Some("the snapshot repository does not answer"),
        ErrorKind::Repository => Some("the snapshot repository is damaged or incomplete"),
        _ => None,
    }
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

    /// Returns the error that the client sees instead of `error`. If the scope is limited, a missing name and a
    /// forbidden name get the same error. No tenant sees where a snapshot repository is or how its objects are named.
    pub fn tell(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::IndexNotFound if !self.scope.is_unlimited() => {
                self.scope.refusal(self.action, error.index().unwrap_or_default())
            }
            kind if self.hides(&error) => {
                let told = Error::new(kind, hidden(kind).unwrap_or_default());
                match error.index() {
                    Some(index) => told.with_index(index),
                    None => told,
                }
            }
            _ => error,
        }
    }

    /// Whether [`RequestContext::tell`] hides the details of a snapshot repository failure from the client; then the
    /// log has to record them.
    pub fn hides(&self, error: &Error) -> bool {
        let is_said = |sentence| error.reason() == sentence && error.cause().is_none();
        self.scope.tenant_id().is_some() && hidden(error.kind()).is_some_and(|sentence| !is_said(sentence))
    }

    /// Fails with [`ErrorKind::Cancelled`] once the work should stop.
    pub fn check(&self) -> Result<()> {
        self.cancel.check()
    }
}

impl Default for RequestContext {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use firn_model::tenant::TenantId;

    use super::*;

    #[test]
    fn no_tenant_sees_the_location_of_a_repository() {
        let of = |scope: crate::Scope| RequestContext {
            scope: Arc::new(scope),
            ..RequestContext::new()
        };
        let acme = of(crate::Scope::tenant(TenantId::parse("acme").unwrap()));
        let error = |kind| {
            let cause = Error::new(kind, "GET http://store:9000/bucket/splits/39/a");
            Error::new(kind, "object [splits/39/a]: refused")
                .caused_by(cause)
                .with_index("logs")
        };
        for kind in [ErrorKind::Unavailable, ErrorKind::Repository] {
            assert!(acme.hides(&error(kind)));
            let told = acme.tell(error(kind));
            assert_eq!((told.kind(), told.index()), (kind, Some("logs")));
            assert!(!told.to_string().contains("splits") && told.cause().is_none(), "{told}");
            assert!(told.reason().contains("repository"), "{told}");
            assert!(!acme.hides(&told), "the hidden text hides nothing further");
            let operator = of(crate::Scope::operator());
            assert!(!operator.hides(&error(kind)));
            assert!(operator.tell(error(kind)).to_string().contains("http://store"));
        }
        assert!(!acme.hides(&error(ErrorKind::IllegalArgument)));
    }
}
