//! Request context of every engine call, and its cancellation.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::{Error, ErrorKind, Progress, Result, Scope, Work};

/// Cancellation flag of a request. The API layer raises it when the client disconnects; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    flag: Arc<Flag>,
    /// See [`Cancel::pausing`].
    pause: Option<fn()>,
    /// See [`Cancel::until`].
    deadline: Option<Deadline>,
}

#[derive(Debug, Default)]
struct Flag {
    raised: AtomicBool,
    /// Flag of the work that this is a part of.
    whole: Option<Arc<Flag>>,
}

impl Flag {
    fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed) || self.whole.as_ref().is_some_and(|whole| whole.is_raised())
    }
}

/// Deadline for waiting, and whether a check failed because of it. Clones share it.
#[derive(Debug, Clone)]
struct Deadline {
    at: Instant,
    passed: Arc<AtomicBool>,
}

impl Deadline {
    fn is_over(&self) -> bool {
        self.passed.load(Ordering::Relaxed) || Instant::now() >= self.at
    }

    /// Fails with [`ErrorKind::Timeout`] and records that it did.
    fn fail(&self) -> Result<()> {
        self.passed.store(true, Ordering::Relaxed);
        Err(Error::new(ErrorKind::Timeout, "the search timed out"))
    }
}

impl Cancel {
    /// Returns a flag for a part of the work: raising this flag raises the part's flag too, but raising the part's
    /// stops only the part.
    #[must_use]
    pub fn part(&self) -> Self {
        let flag = Flag {
            whole: Some(Arc::clone(&self.flag)),
            ..Flag::default()
        };
        Self {
            flag: Arc::new(flag),
            ..self.clone()
        }
    }

    /// Returns the same flag for work that yields to other work: loops under a [`Watch`] call `pause` at intervals, so
    /// they must not hold a lock.
    #[must_use]
    pub fn pausing(&self, pause: fn()) -> Self {
        Self {
            pause: Some(pause),
            ..self.clone()
        }
    }

    /// Returns the same flag with a deadline for reads from remote stores; `None`: no deadline.
    #[must_use]
    pub fn until(&self, at: Option<Instant>) -> Self {
        let deadline = at.map(|at| Deadline {
            at,
            passed: Arc::default(),
        });
        Self {
            deadline,
            ..self.clone()
        }
    }

    /// Whether a check has failed because of the deadline of [`Cancel::until`].
    pub fn is_timed_out(&self) -> bool {
        let deadline = self.deadline.as_ref();
        deadline.is_some_and(|deadline| deadline.passed.load(Ordering::Relaxed))
    }

    /// Whether the deadline of [`Cancel::until`] has passed; does not record a failure.
    pub fn is_over(&self) -> bool {
        self.deadline.as_ref().is_some_and(Deadline::is_over)
    }

    /// Ends the waiting before the deadline of [`Cancel::until`], for callers that know that waiting is useless: this
    /// call and later calls of [`Cancel::check`] fail. Does nothing if there is no deadline.
    pub fn give_up(&self) -> Result<()> {
        self.deadline.as_ref().map_or(Ok(()), Deadline::fail)
    }

    /// Requests cancellation. The work stops within some milliseconds.
    pub fn cancel(&self) {
        self.flag.raised.store(true, Ordering::Relaxed);
    }

    /// Whether the work should stop.
    pub fn is_cancelled(&self) -> bool {
        self.flag.is_raised()
    }

    /// Fails with [`ErrorKind::Cancelled`] once the work should stop, or with [`ErrorKind::Timeout`] after the
    /// deadline. Cheap enough for every thousandth round of the tightest loop.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            return Err(Error::new(
                ErrorKind::Cancelled,
                "task cancelled because the client went away",
            ));
        }
        match &self.deadline {
            Some(deadline) if deadline.is_over() => deadline.fail(),
            _ => Ok(()),
        }
    }
}

/// Periodic check of a [`Cancel`], for loops whose rounds take less than a microsecond.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    cancel: Cancel,
    rounds: u32,
}

impl Watch {
    /// Rounds between two checks: some 100 µs at most, with no measurable cost.
    const EVERY: u32 = 1024;
    /// Rounds between two pauses, for loops with slower rounds.
    const PAUSE_EVERY: u32 = 64;

    /// Creates a watch of `cancel`.
    pub fn new(cancel: &Cancel) -> Self {
        Self {
            cancel: cancel.clone(),
            rounds: 0,
        }
    }

    /// Counts one round; loops call it in each. Fails with [`ErrorKind::Cancelled`] once the work should stop.
    pub fn tick(&mut self) -> Result<()> {
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(Self::PAUSE_EVERY)
            && let Some(pause) = self.cancel.pause
        {
            pause();
        }
        match self.rounds.is_multiple_of(Self::EVERY) {
            true => self.cancel.check(),
            false => Ok(()),
        }
    }
}

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
    fn a_deadline_fails_checks_after_it_passed() {
        let cancel = Cancel::default();
        let patient = cancel.until(None);
        let later = cancel.until(Instant::now().checked_add(Duration::from_secs(600)));
        let over = cancel.until(Some(Instant::now()));
        assert!(patient.check().is_ok() && later.check().is_ok());
        assert!(!over.is_timed_out());
        assert_eq!(over.check().unwrap_err().kind(), ErrorKind::Timeout);
        assert!(over.clone().is_timed_out() && !later.is_timed_out());
        cancel.cancel();
        assert_eq!(over.check().unwrap_err().kind(), ErrorKind::Cancelled);
    }

    #[test]
    fn giving_up_before_the_deadline_fails_later_checks() {
        let cancel = Cancel::default();
        let patient = cancel.until(Instant::now().checked_add(Duration::from_secs(600)));
        assert!(patient.check().is_ok() && !patient.is_over());
        assert_eq!(patient.give_up().unwrap_err().kind(), ErrorKind::Timeout);
        assert_eq!(patient.check().unwrap_err().kind(), ErrorKind::Timeout);
        assert!(patient.is_over() && patient.is_timed_out());
        assert!(cancel.give_up().is_ok() && cancel.check().is_ok(), "without a deadline");
    }

    #[test]
    fn a_part_of_the_work_stops_alone_or_with_the_whole() {
        let whole = Cancel::default();
        let (first, second) = (whole.part(), whole.part());
        let within = second.part();
        first.cancel();
        assert!(first.is_cancelled());
        assert!(!whole.is_cancelled() && !second.is_cancelled() && !within.is_cancelled());
        whole.cancel();
        assert!(second.is_cancelled() && within.is_cancelled());
    }

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

    #[test]
    fn a_loop_that_watches_ends_soon() {
        let cancel = Cancel::default();
        let mut watch = Watch::new(&cancel);
        assert!((0..10_000).all(|_| watch.tick().is_ok()));
        cancel.cancel();
        let rounds = (0..10_000).take_while(|_| watch.tick().is_ok()).count();
        assert!(rounds < 1024, "{rounds}");
    }
}
