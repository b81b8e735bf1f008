//! Circuit breaker for one object store: if the store stops answering, it refuses requests and admits one probe at a
//! time.
//!
//! Without it every request of a search over thousands of splits would wait for its timeouts and retry, which takes
//! hours and overloads a store that is about to recover. Each store has one breaker, shared by all its requests.
//!
//! Only missing answers count as failures. A store that rejects requests because it is overloaded is reachable: retries
//! with pauses handle that case, and without requests firn could not detect that the store has capacity again.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::ObjectErrorKind;

/// Consecutive failures that open the breaker. If half of all requests succeed, so many failures in a row happen once
/// in 65,536.
const FAILURES_MAX: u32 = 16;
/// After a failed probe, requests are refused for this fraction of the probe's duration: a store that hangs is probed
/// rarely, one that refuses connections at once nearly always.
const HOLD_PART: u32 = 4;
/// Upper limit of that pause.
const HOLD_MAX: Duration = Duration::from_secs(5);
/// After this time without an answer, another probe may start: the store may be back, while the first probe's
/// connection stays dead until its timeout.
const PROBE_TURN: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// Time of the last answer.
    answered: Option<Instant>,
    /// End of the pause after a failed probe.
    held_until: Option<Instant>,
    /// Start time of the running probe.
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

/// Circuit breaker; see the module.
#[derive(Debug, Default)]
pub(super) struct Breaker(Mutex<State>);

/// Decision about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// The request may run and be retried.
    Granted,
    /// The request may run once, as a probe.
    Probe,
    /// The request must not run: the store does not answer.
    Refused,
}

impl Breaker {
    /// Decides about a request that would start now.
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

    /// Records the outcome of an admitted request and its duration up to `now`.
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
                // A request that began before the store's last answer does not describe the current state of the store.
                let began = now.checked_sub(took);
                if state.answered.is_some_and(|answered| began < Some(answered)) {
                    return;
                }
                state.failures = state.failures.saturating_add(1);
                state.held_until = Some(now + (took / HOLD_PART).min(HOLD_MAX));
            }
            // Busy is neither a failure nor a success, unless the breaker is open: then it proves that the store is
            // reachable.
            Err(ObjectErrorKind::Busy) if state.failures < FAILURES_MAX => {}
            // Every other outcome is an answer.
            Ok(()) | Err(_) => *state = State::answered(now),
        }
    }

    /// Records that an admitted request was cancelled: it has no outcome.
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
    fn an_unreachable_store_gets_one_probe_at_a_time() {
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
    fn an_overloaded_store_still_gets_requests() {
        let breaker = Breaker::default();
        let start = Instant::now();
        fail(&breaker, 10 * FAILURES_MAX, Busy, start, MS);
        assert_eq!(breaker.admit(start), Admission::Granted);
        // Busy answers do not hide missing answers either.
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
        // A hundred requests were in flight when the store went away; they time out after it is back.
        let late = start + 60_000 * MS;
        fail(&breaker, 100, Unavailable, late, 60_001 * MS);
        assert_eq!(breaker.admit(late), Admission::Granted);
    }

    #[test]
    fn a_cancelled_probe_allows_the_next() {
        let start = Instant::now();
        let breaker = broken(start, Duration::ZERO);
        assert_eq!(breaker.admit(start), Admission::Probe);
        breaker.abandon(Admission::Granted);
        assert_eq!(breaker.admit(start), Admission::Refused, "another request is the probe");
        breaker.abandon(Admission::Probe);
        assert_eq!(breaker.admit(start), Admission::Probe);
    }

    #[test]
    fn a_hanging_probe_allows_the_next() {
        let start = Instant::now();
        let breaker = broken(start, Duration::ZERO);
        assert_eq!(breaker.admit(start), Admission::Probe);
        assert_eq!(breaker.admit(start + PROBE_TURN - MS), Admission::Refused);
        let back = start + PROBE_TURN;
        assert_eq!(breaker.admit(back), Admission::Probe);
        breaker.note(Admission::Probe, Ok(()), back + MS, MS);
        assert_eq!(breaker.admit(back + MS), Admission::Granted);
        // The first probe ends late.
        breaker.note(Admission::Probe, Err(Unavailable), start + 60_000 * MS, 60_000 * MS);
        assert_eq!(breaker.admit(start + 60_000 * MS), Admission::Granted);
    }
}
