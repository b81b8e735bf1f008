//! Progress of a delete by query, for `_tasks` and the answer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};

/// Counters of a running delete by query.
#[derive(Debug)]
pub(crate) struct Progress {
    requests_per_second: Option<f32>,
    counts: Mutex<Counts>,
}

/// Counters so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// Matching documents, at most `max_docs`.
    pub(crate) total: u64,
    pub(crate) deleted: u64,
    pub(crate) batches: u64,
    pub(crate) version_conflicts: u64,
    /// Retries of batches and of searches.
    pub(crate) bulk_retries: u64,
    pub(crate) search_retries: u64,
    /// Time waited for the rate limit.
    pub(crate) throttled: Duration,
    /// Remaining wait for the rate limit.
    pub(crate) throttled_until: Duration,
    pub(crate) is_cancelled: bool,
}

impl Progress {
    /// Creates empty counters.
    pub(crate) fn new(requests_per_second: Option<f32>) -> Self {
        Self {
            requests_per_second,
            counts: Mutex::default(),
        }
    }

    pub(crate) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `status` of a task.
    pub(crate) fn status(&self) -> Value {
        self.print(true)
    }

    /// Prints the counters; tasks have `updated` and `created` in addition to those of answers.
    pub(crate) fn print(&self, is_task: bool) -> Value {
        let counts = self.counts().clone();
        let mut status = Map::new();
        status.insert("total".into(), counts.total.into());
        if is_task {
            status.insert("updated".into(), 0.into());
            status.insert("created".into(), 0.into());
        }
        let rest = json!({
            "deleted": counts.deleted,
            "batches": counts.batches,
            "version_conflicts": counts.version_conflicts,
            // A delete always changes something, or is a conflict.
            "noops": 0,
            "retries": {"bulk": counts.bulk_retries, "search": counts.search_retries},
            "throttled_millis": counts.throttled.as_millis() as u64,
            "requests_per_second": self.requests_per_second.unwrap_or(-1.0),
        });
        if let Value::Object(rest) = rest {
            status.extend(rest);
        }
        if counts.is_cancelled {
            status.insert("canceled".into(), "by user request".into());
        }
        status.insert(
            "throttled_until_millis".into(),
            (counts.throttled_until.as_millis() as u64).into(),
        );
        Value::Object(status)
    }
}
