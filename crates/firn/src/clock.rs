//! The wall clock of the program.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time of the system clock.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
