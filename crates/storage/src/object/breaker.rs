//! Whether a store is asked at all: one that answers nobody is asked by one request at a time.
//!
//! Without it every request of a search over thousands of splits would wait for its own time-outs and repeat them, which
//! takes hours and keeps a store down that is about to come back. Each store has one, shared by all that is asked of it.
//!
//! Only silence counts. A store that refuses because it is overloaded is there: retries with their pauses are the answer to
//! that, and whoever stopped asking it would not learn when it has room again.

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
/// A probe that is without an answer for so long leaves its turn to the next: the store may be back, and the probe's own
/// connection dead until its time-out.
const PROBE_TURN: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// When it last answered.
    answered: Option<Instant>,
    /// Until when nobody asks.
    held_until: Option<Instant>,
    /// Since when somebody asks whether it is there again.
    probing_since: Option<Instant>,
}

impl State {
    fn answered(now: Instant) -> Self {
        Self {
            answered: Some(now),
            ..Self::default()
        }
    }
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
        let is_probing = state.probing_since.is_some_and(|since| now < since + PROBE_TURN);
        if is_probing || state.held_until.is_some_and(|until| now < until) {
            return Admission::Refused;
        }
        state.probing_since = Some(now);
        Admission::Probe
    }

    /// What came of a request that was admitted, and how long it took until `now`.
    pub(super) fn note(
        &self,
        admission: Admission,
        outcome: Result<(), ObjectErrorKind>,
        now: Instant,
        took: Duration,
    ) {
        let mut state = self.0.lock();
        if admission == Admission::Probe {
            state.probing_since = None;
        }
        match outcome {
            Err(ObjectErrorKind::Unavailable) => {
                // One that began before the store's last answer says nothing of the store as it is now.
                let began = now.checked_sub(took);
                if state.answered.is_some_and(|answered| began < Some(answered)) {
                    return;
                }
                state.failures = state.failures.saturating_add(1);
                state.held_until = Some(now + (took / HOLD_PART).min(HOLD_MAX));
            }
            // Neither a failure nor a success, except to whoever doubts that it is there.
            Err(ObjectErrorKind::Busy) if state.failures < FAILURES_MAX => {}
            // It answered, whatever it said.
            Ok(()) | Err(_) => *state = State::answered(now),
        }
    }

    /// A request that was admitted has been given up: it says nothing of the store.
    pub(super) fn abandon(&self, admission: Admission) {
        if admission == Admission::Probe {
            self.0.lock().probing_since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ObjectErrorKind::{Busy, NotFound, Unavailable};
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn fail(breaker: &Breaker, times: u32, kind: ObjectErrorKind, at: Instant, took: Duration) {
        for _ in 0..times {
            assert_eq!(breaker.admit(at), Admission::Granted);
            breaker.note(Admission::Granted, Err(kind), at, took);
        }
    }

    fn broken(at: Instant, took: Duration) -> Breaker {
        let breaker = Breaker::default();
        fail(&breaker, FAILURES_MAX, Unavailable, at, took);
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
        breaker.note(Admission::Probe, Err(Unavailable), later, 40 * MS);
        assert_eq!(breaker.admit(later + 9 * MS), Admission::Refused);
        assert_eq!(breaker.admit(later + 10 * MS), Admission::Probe);
        breaker.note(Admission::Probe, Ok(()), later, MS);
        assert_eq!(breaker.admit(later), Admission::Granted);
    }

    #[test]
    fn an_answer_of_any_kind_is_one() {
        for answer in [NotFound, Busy] {
            let start = Instant::now();
            let breaker = broken(start, Duration::ZERO);
            assert_eq!(breaker.admit(start), Admission::Probe);
            breaker.note(Admission::Probe, Err(answer), start, MS);
            assert_eq!(breaker.admit(start), Admission::Granted, "{answer:?}");
        }
    }

    #[test]
    fn one_that_is_overloaded_is_asked_on() {
        let breaker = Breaker::default();
        let start = Instant::now();
        fail(&breaker, 10 * FAILURES_MAX, Busy, start, MS);
        assert_eq!(breaker.admit(start), Admission::Granted);
        // Nor does it hide that nobody answers.
        fail(&breaker, FAILURES_MAX - 1, Unavailable, start, MS);
        fail(&breaker, 1, Busy, start, MS);
        fail(&breaker, 1, Unavailable, start, MS);
        assert_eq!(breaker.admit(start), Admission::Refused);
    }

    #[test]
    fn requests_from_before_its_last_answer_do_not_count() {
        let start = Instant::now();
        let breaker = broken(start, Duration::ZERO);
        assert_eq!(breaker.admit(start), Admission::Probe);
        breaker.note(Admission::Probe, Ok(()), start + MS, MS);
        // A hundred were on their way when it went, and end one by one while it is there again.
        let late = start + 60_000 * MS;
        fail(&breaker, 100, Unavailable, late, 60_001 * MS);
        assert_eq!(breaker.admit(late), Admission::Granted);
    }

    #[test]
    fn a_probe_that_was_given_up_leaves_its_turn() {
        let start = Instant::now();
        let breaker = broken(start, Duration::ZERO);
        assert_eq!(breaker.admit(start), Admission::Probe);
        breaker.abandon(Admission::Granted);
        assert_eq!(breaker.admit(start), Admission::Refused, "the turn is another one's");
        breaker.abandon(Admission::Probe);
        assert_eq!(breaker.admit(start), Admission::Probe);
    }

    #[test]
    fn a_probe_that_hangs_leaves_its_turn() {
        let start = Instant::now();
        let breaker = broken(start, Duration::ZERO);
        assert_eq!(breaker.admit(start), Admission::Probe);
        assert_eq!(breaker.admit(start + PROBE_TURN - MS), Admission::Refused);
        let back = start + PROBE_TURN;
        assert_eq!(breaker.admit(back), Admission::Probe);
        breaker.note(Admission::Probe, Ok(()), back + MS, MS);
        assert_eq!(breaker.admit(back + MS), Admission::Granted);
        // The first one ends at last.
        breaker.note(Admission::Probe, Err(Unavailable), start + 60_000 * MS, 60_000 * MS);
        assert_eq!(breaker.admit(start + 60_000 * MS), Admission::Granted);
    }
}
