//! Whether a store is asked at all: one that answers nobody is asked by one request at a time.
//!
//! Without it every request of a search over thousands of splits would wait for its own time-outs and repeat them, which
//! takes hours and keeps a store down that is about to come back. Each store has one, shared by all that is asked of it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::ObjectErrorKind;

/// Failures in a row after which a store counts as out of reach. As long as one request of two gets through, so many in a
/// row happen once in 65,536.
const FAILURES_MAX: u32 = 16;
/// Whoever comes right after a failed probe fails like it, for this part of what it took: a store that hangs is asked rarely, one
/// that refuses at once nearly always.
const HOLD_PART: u32 = 4;
/// And no longer than this.
const HOLD_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// Until when nobody asks.
    held_until: Option<Instant>,
    /// Somebody asks right now whether it is there again.
    is_probing: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Breaker(Mutex<State>);

/// What a request may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// Ask, and ask again if that helps.
    Granted,
    /// Ask once, to see whether the store is there again.
    Probe,
    /// Not ask: the store does not answer.
    Refused,
}

impl Breaker {
    /// Whether to ask now.
    pub(super) fn admit(&self, now: Instant) -> Admission {
        let mut state = self.0.lock();
        if state.failures < FAILURES_MAX {
            return Admission::Granted;
        }
        if state.is_probing || state.held_until.is_some_and(|until| now < until) {
            return Admission::Refused;
        }
        state.is_probing = true;
        Admission::Probe
    }

    /// What came of a request that was admitted, and how long it took.
    pub(super) fn note(&self, outcome: Result<(), ObjectErrorKind>, now: Instant, took: Duration) {
        let mut state = self.0.lock();
        state.is_probing = false;
        match outcome {
            Err(ObjectErrorKind::Unavailable) => {
                state.failures = state.failures.saturating_add(1);
                state.held_until = Some(now + (took / HOLD_PART).min(HOLD_MAX));
            }
            // It answered, whatever it said.
            Ok(()) | Err(_) => *state = State::default(),
        }
    }

    /// A request that was admitted has been given up: it says nothing of the store.
    pub(super) fn abandon(&self) {
        self.0.lock().is_probing = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn broken(at: Instant, took: Duration) -> Breaker {
        let breaker = Breaker::default();
        for _ in 0..FAILURES_MAX {
            assert_eq!(breaker.admit(at), Admission::Granted);
            breaker.note(Err(ObjectErrorKind::Unavailable), at, took);
        }
        breaker
    }

    #[test]
    fn a_store_that_answers_nobody_is_asked_by_one_at_a_time() {
        let start = Instant::now();
        let breaker = broken(start, 400 * MS);
        assert_eq!(breaker.admit(start + 99 * MS), Admission::Refused);
        let later = start + 100 * MS;
        assert_eq!(breaker.admit(later), Admission::Probe);
        assert_eq!(breaker.admit(later), Admission::Refused);
        breaker.note(Err(ObjectErrorKind::Unavailable), later, 40 * MS);
        assert_eq!(breaker.admit(later + 9 * MS), Admission::Refused);
        assert_eq!(breaker.admit(later + 10 * MS), Admission::Probe);
        breaker.note(Ok(()), later, MS);
        assert_eq!(breaker.admit(later), Admission::Granted);
    }

    #[test]
    fn an_answer_of_any_kind_is_one() {
        let start = Instant::now();
        let breaker = broken(start, Duration::ZERO);
        assert_eq!(breaker.admit(start), Admission::Probe);
        breaker.note(Err(ObjectErrorKind::NotFound), start, MS);
        assert_eq!(breaker.admit(start), Admission::Granted);
    }

    #[test]
    fn a_probe_that_was_given_up_leaves_its_turn() {
        let start = Instant::now();
        let breaker = broken(start, Duration::ZERO);
        assert_eq!(breaker.admit(start), Admission::Probe);
        breaker.abandon();
        assert_eq!(breaker.admit(start), Admission::Probe);
    }
}
