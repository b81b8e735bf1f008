//! Cancellation of running work: a flag with an optional deadline, and its periodic check in loops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use firn_model::{Error, ErrorKind, Result};

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
    fn a_loop_that_watches_ends_soon() {
        let cancel = Cancel::default();
        let mut watch = Watch::new(&cancel);
        assert!((0..10_000).all(|_| watch.tick().is_ok()));
        cancel.cancel();
        let rounds = (0..10_000).take_while(|_| watch.tick().is_ok()).count();
        assert!(rounds < 1024, "{rounds}");
    }
}
