//! Time for checks of keys and sessions.
//!
//! A wall clock may be set back, which would make an expired key valid again. It may also be years ahead for a while,
//! and no key should stay expired after that. A monotonic clock tells the two cases apart: time that has passed since
//! the start has passed in any case. No other earlier value of the wall clock is used.

use std::collections::HashMap;
use std::time::Duration;

use super::control::{Clock, Stopwatch};

/// Time for which a key must have been expired by all values of the wall clock before it is removed: a clock that is
/// wrong for less than that removes no key.
const CERTAIN_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Combination of wall clock and monotonic clock; see the module.
pub(crate) struct Time {
    wall: Clock,
    stopwatch: Stopwatch,
    start_ms: i64,
    start: Duration,
}

impl Time {
    pub(crate) fn new(wall: Clock, stopwatch: Stopwatch) -> Self {
        Self {
            start_ms: wall(),
            start: stopwatch(),
            wall,
            stopwatch,
        }
    }

    /// Returns the wall clock, but not less than the start time plus the time that has passed since.
    pub(crate) fn now_ms(&self) -> i64 {
        let passed = (self.stopwatch)().saturating_sub(self.start);
        let passed_ms = i64::try_from(passed.as_millis()).unwrap_or(i64::MAX);
        (self.wall)().max(self.start_ms.saturating_add(passed_ms))
    }

    /// Returns the time of the monotonic clock.
    pub(crate) fn passed(&self) -> Duration {
        (self.stopwatch)()
    }
}

/// Ids of ended keys, with the time since when they have been seen as ended.
#[derive(Debug, Default)]
pub(crate) struct Over(HashMap<String, Duration>);

impl Over {
    /// Records the keys that are ended now. Keys that are not ended are removed from the record.
    pub(crate) fn see<'a>(&mut self, over: impl Iterator<Item = &'a str>, passed: Duration) {
        let before = std::mem::take(&mut self.0);
        let since = |id: &str| before.get(id).copied().unwrap_or(passed);
        self.0 = over.map(|id| (id.to_owned(), since(id))).collect();
    }

    /// Returns whether a key has been ended for long enough to be removed.
    pub(crate) fn is_certain(&self, id: &str, passed: Duration) -> bool {
        let since = self.0.get(id);
        since.is_some_and(|since| passed.saturating_sub(*since) >= CERTAIN_AFTER)
    }
}
