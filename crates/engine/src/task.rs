//! What every call carries, and how it is stopped.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::{Error, ErrorKind, Progress, Result, Scope, Work};

/// A flag that the edge raises when the client goes away. Clones share it.
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
    /// That of the work that this is a part of.
    whole: Option<Arc<Flag>>,
}

impl Flag {
    fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed) || self.whole.as_ref().is_some_and(|whole| whole.is_raised())
    }
}

/// The time at which somebody stops waiting, and whether he did. Clones share it.
#[derive(Debug, Clone)]
struct Deadline {
    at: Instant,
    passed: Arc<AtomicBool>,
}

impl Deadline {
    fn is_over(&self) -> bool {
        self.passed.load(Ordering::Relaxed) || Instant::now() >= self.at
    }

    /// Tells somebody that it is over.
    fn fail(&self) -> Result<()> {
        self.passed.store(true, Ordering::Relaxed);
        Err(Error::new(ErrorKind::Timeout, "the time of the search is over"))
    }
}

impl Cancel {
    /// A flag for a part of the work: it counts as raised with this one, and raising it stops that part alone.
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

    /// The same flag for work that lets others have their turn: loops under a [`Watch`] call `pause`
    /// now and then, so they must not be run with a lock held.
    #[must_use]
    pub fn pausing(&self, pause: fn()) -> Self {
        Self {
            pause: Some(pause),
            ..self.clone()
        }
    }

    /// The same flag for whoever waits for what is far away, and no longer than until `at`; `None`: for ever.
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

    /// Whether somebody was told that the time of [`Cancel::until`] is over.
    pub fn is_timed_out(&self) -> bool {
        let deadline = self.deadline.as_ref();
        deadline.is_some_and(|deadline| deadline.passed.load(Ordering::Relaxed))
    }

    /// Whether the time of [`Cancel::until`] is over; nobody counts as told.
    pub fn is_over(&self) -> bool {
        self.deadline.as_ref().is_some_and(Deadline::is_over)
    }

    /// For whoever knows before the time of [`Cancel::until`] is over that waiting on is in vain: it is over, and so this fails as
    /// [`Cancel::check`] does from now on. Without such a time nothing happens.
    pub fn give_up(&self) -> Result<()> {
        self.deadline.as_ref().map_or(Ok(()), Deadline::fail)
    }

    /// Asks the work to stop. It does so within some milliseconds.
    pub fn cancel(&self) {
        self.flag.raised.store(true, Ordering::Relaxed);
    }

    /// Whether the work should stop.
    pub fn is_cancelled(&self) -> bool {
        self.flag.is_raised()
    }

    /// Fails with [`ErrorKind::Cancelled`] once the work should stop, or with [`ErrorKind::Timeout`] once its time is over. Cheap
    /// enough for every thousandth round of the tightest loop.
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

/// Looks at a [`Cancel`] once in a while, for loops whose rounds take less than a microsecond.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    cancel: Cancel,
    rounds: u32,
}

impl Watch {
    /// Rounds between two looks: some 100 µs at most, and no cost that could be measured.
    const EVERY: u32 = 1024;
    /// Rounds between two pauses, for rounds that take more.
    const PAUSE_EVERY: u32 = 64;

    /// Looks at `cancel`.
    pub fn new(cancel: &Cancel) -> Self {
        Self {
            cancel: cancel.clone(),
            rounds: 0,
        }
    }

    /// To be called in each round; fails with [`ErrorKind::Cancelled`] once the work should stop.
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

/// Work that goes on when its request is answered: a flag of its own, which its client does not raise by going away, and
/// its entry in a list, where it stays until the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Lasting {
    /// Raised when the task is cancelled.
    pub cancel: Cancel,
    _entry: Arc<dyn fmt::Debug + Send + Sync>,
}

impl Lasting {
    /// Work that `cancel` ends; `entry` is dropped with it.
    pub fn new(cancel: Cancel, entry: impl fmt::Debug + Send + Sync + 'static) -> Self {
        Self {
            cancel,
            _entry: Arc::new(entry),
        }
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
    /// What the client does, as Elasticsearch names it (`indices:data/read/search`). Empty: nothing
    /// that a client asked for.
    pub action: &'static str,
    /// What the request may touch.
    pub scope: Arc<Scope>,
    /// What it costs, counted by the engine.
    pub work: Arc<Work>,
    /// Where a search leaves what it has found before it ends; `None`: nobody asks.
    pub progress: Option<Arc<Progress>>,
    /// What is begun for the request and outlives it (a snapshot, a restore) goes on under this; `None`: nobody
    /// lists it, and it ends by itself.
    pub lasting: Option<Lasting>,
    /// Bytes that one search of the caller may fetch from snapshot repositories; `None`: no limit of its own.
    pub repository_bytes_max: Option<u64>,
    /// See [`RequestContext::patient`].
    pub waiting: Option<Cancel>,
}

/// What tenants are told of a failure that says where a snapshot repository lies.
fn hidden(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Unavailable => Some("the snapshot repository does not answer"),
        ErrorKind::Repository => Some("the snapshot repository does not hold what it should"),
        _ => None,
    }
}

impl RequestContext {
    /// A context for a request that starts now, of an operator.
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

    /// The same for a search that gives up waiting for what is far away so long after the request came; `None`: it waits.
    #[must_use]
    pub fn patient(&self, timeout: Option<Duration>) -> Self {
        // A time past the end of all time is none.
        let deadline = timeout.and_then(|timeout| self.started.checked_add(timeout));
        Self {
            waiting: deadline.map(|_| self.cancel.until(deadline)),
            ..self.clone()
        }
    }

    /// The same for a trial that waits for nothing far away, is counted as nobody's work and tells nobody how it goes. Whether it
    /// found everything at hand is what [`Cancel::is_timed_out`] of [`RequestContext::waiting`] denies.
    #[must_use]
    pub fn at_hand(&self) -> Self {
        Self {
            waiting: Some(self.cancel.until(Some(Instant::now()))),
            work: Arc::default(),
            progress: None,
            ..self.clone()
        }
    }

    /// The flag for whoever waits for what is far away: it also says when the time of [`RequestContext::patient`] is over.
    pub fn waiting(&self) -> &Cancel {
        self.waiting.as_ref().unwrap_or(&self.cancel)
    }

    /// What a client is told instead of `error`: where not all is within reach, a name that is not
    /// there and one that is out of reach are refused in the same words. Where a snapshot repository lies, and what its objects
    /// are named, is told to no tenant.
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

    /// Whether [`RequestContext::tell`] keeps from the client what went wrong with a snapshot repository: then the log has to say it.
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
    fn who_waits_until_a_time_learns_that_it_is_over() {
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
    fn who_gives_up_before_the_time_is_over_is_late_from_then_on() {
        let cancel = Cancel::default();
        let patient = cancel.until(Instant::now().checked_add(Duration::from_secs(600)));
        assert!(patient.check().is_ok() && !patient.is_over());
        assert_eq!(patient.give_up().unwrap_err().kind(), ErrorKind::Timeout);
        assert_eq!(patient.check().unwrap_err().kind(), ErrorKind::Timeout);
        assert!(patient.is_over() && patient.is_timed_out());
        assert!(cancel.give_up().is_ok() && cancel.check().is_ok(), "who waits for ever");
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
    fn where_a_repository_lies_is_told_to_no_tenant() {
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
            assert!(!acme.hides(&told), "it is in the log once");
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
