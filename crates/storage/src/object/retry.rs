//! Retry policy of store requests: which errors are retried, and after which backoff.

use std::time::Duration;

use parking_lot::Mutex;

use super::{ObjectError, ObjectErrorKind};

/// Exponential backoff with full jitter: after attempt n the pause is between zero and `first * 2^n`, so that clients
/// that a store rejected at the same time do not retry at the same time.
#[derive(Debug)]
pub struct RetryPolicy {
    retries_max: u32,
    pause_first: Duration,
    pause_max: Duration,
    jitter: Mutex<fastrand::Rng>,
}

impl RetryPolicy {
    /// Elasticsearch's clients try four times; a few more short pauses outlast a brief outage of a store.
    pub const RETRIES_DEFAULT: u32 = 6;
    /// About one round trip to a store.
    const PAUSE_FIRST: Duration = Duration::from_millis(50);
    /// Longer pauses do not help callers that wait for an answer.
    const PAUSE_MAX: Duration = Duration::from_secs(5);

    /// Creates a policy of at most `retries_max` retries, with jitter from the seed.
    pub fn new(retries_max: u32, seed: u64) -> Self {
        Self::with_pauses(retries_max, Self::PAUSE_FIRST, Self::PAUSE_MAX, seed)
    }

    /// Like [`RetryPolicy::new`], with explicit pauses.
    pub fn with_pauses(retries_max: u32, pause_first: Duration, pause_max: Duration, seed: u64) -> Self {
        Self {
            retries_max,
            pause_first,
            pause_max,
            jitter: Mutex::new(fastrand::Rng::with_seed(seed)),
        }
    }

    /// Returns the pause after failed `attempt` (counted from 0), or `None` if the error is final.
    pub(super) fn pause(&self, attempt: u32, error: &ObjectError) -> Option<Duration> {
        use ObjectErrorKind::{Busy, Corrupt, Unavailable};
        let may_help = matches!(error.kind, Unavailable | Busy | Corrupt);
        if !may_help || attempt >= self.retries_max {
            return None;
        }
        let pause_max = (self.pause_first * 2u32.saturating_pow(attempt)).min(self.pause_max);
        Some(pause_max.mul_f64(self.jitter.lock().f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_end() {
        let policy = RetryPolicy::with_pauses(5, Duration::from_millis(10), Duration::from_millis(40), 7);
        let error = ObjectError::new(ObjectErrorKind::Busy, "k", "busy");
        for (attempt, max) in [10, 20, 40, 40, 40].into_iter().enumerate() {
            let pause = policy.pause(attempt as u32, &error).expect("a pause");
            assert!(pause <= Duration::from_millis(max), "{pause:?}");
        }
        assert_eq!(policy.pause(5, &error), None);
    }

    #[test]
    fn final_answers_are_not_retried() {
        let policy = RetryPolicy::new(5, 7);
        use ObjectErrorKind::{Changed, Denied, Exists, NotFound, Refused, Unsupported};
        for kind in [NotFound, Exists, Changed, Denied, Unsupported, Refused] {
            assert_eq!(policy.pause(0, &ObjectError::new(kind, "k", "")), None, "{kind:?}");
        }
    }
}
