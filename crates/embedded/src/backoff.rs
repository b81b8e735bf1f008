//! Backoff between attempts of work that keeps failing.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Pause after consecutive failures: 1, 2, 4, … seconds up to a limit, none after a success.
#[derive(Debug)]
pub(crate) struct Backoff {
    pause_s_max: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    not_before: Option<Instant>,
}

impl Backoff {
    /// Creates a backoff with pauses of at most `pause_s_max` seconds.
    pub(crate) fn new(pause_s_max: u64) -> Self {
        Self {
            pause_s_max,
            state: Mutex::default(),
        }
    }

    /// Whether the next attempt may start now.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.state.lock().not_before.is_none_or(|instant| now >= instant)
    }

    /// Records the result of an attempt.
    pub(crate) fn note(&self, succeeded: bool, now: Instant) {
        let mut state = self.state.lock();
        if succeeded {
            *state = State::default();
            return;
        }
        let pause_s = (1u64 << state.failures.min(32)).min(self.pause_s_max);
        state.failures = state.failures.saturating_add(1);
        state.not_before = now.checked_add(Duration::from_secs(pause_s));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_limit_and_end_with_a_success() {
        let backoff = Backoff::new(8);
        let start = Instant::now();
        let mut now = start;
        assert!(backoff.is_over(now));
        for pause_s in [1, 2, 4, 8, 8] {
            backoff.note(false, now);
            assert!(
                !backoff.is_over(now + Duration::from_millis(pause_s * 1000 - 1)),
                "{pause_s}"
            );
            now += Duration::from_secs(pause_s);
            assert!(backoff.is_over(now), "{pause_s}");
        }
        backoff.note(true, now);
        assert!(backoff.is_over(now));
        backoff.note(false, now);
        assert!(
            backoff.is_over(now + Duration::from_secs(1)),
            "it starts again at one second"
        );
    }
}
