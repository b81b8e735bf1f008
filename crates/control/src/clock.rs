//! The time that keys and sessions are held against.
//!
//! A wall clock may be set back, so that a key that has expired would be good again; and it may be years ahead for a while,
//! after which no key should stay expired. A stopwatch tells one from the other: what passed since the start passed for
//! certain, whatever the wall clock says, and nothing else is held on to.

use std::collections::HashMap;
use std::time::Duration;

use super::control::{Clock, Stopwatch};

/// A key is forgotten once it has been over, by all that was seen of the wall clock, while so much time passed for certain: a clock that is
/// wrong for less than that makes nobody's key vanish.
const CERTAIN_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// See the module.
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

    /// The wall clock, but not before the moment that it must be by what has passed since the start.
    pub(crate) fn now_ms(&self) -> i64 {
        let passed = (self.stopwatch)().saturating_sub(self.start);
        let passed_ms = i64::try_from(passed.as_millis()).unwrap_or(i64::MAX);
        (self.wall)().max(self.start_ms.saturating_add(passed_ms))
    }

    /// What the stopwatch says.
    pub(crate) fn passed(&self) -> Duration {
        (self.stopwatch)()
    }
}

/// Since when keys have been over, by their id.
#[derive(Debug, Default)]
pub(crate) struct Over(HashMap<String, Duration>);

impl Over {
    /// Takes note of the keys that are over now. Of those that were not, nothing is remembered.
    pub(crate) fn see<'a>(&mut self, over: impl Iterator<Item = &'a str>, passed: Duration) {
        let before = std::mem::take(&mut self.0);
        let since = |id: &str| before.get(id).copied().unwrap_or(passed);
        self.0 = over.map(|id| (id.to_owned(), since(id))).collect();
    }

    /// Whether a key has been over for long enough to be certain.
    pub(crate) fn is_certain(&self, id: &str, passed: Duration) -> bool {
        let since = self.0.get(id);
        since.is_some_and(|since| passed.saturating_sub(*since) >= CERTAIN_AFTER)
    }
}
