//! Shard with its compiled plan and its partial results, and the segments to search in it.

use std::sync::Arc;

use firn_model::{Error, ErrorKind, Result};
use firn_query::aggs::Partials;
use firn_segment::segment::Segment;
use parking_lot::Mutex;

use super::collapse::GroupField;
use super::profile::ShardTimes;
use super::shard_plan::ShardPlan;
use super::shared_state::Shared;
use crate::ShardSearch;
use crate::compile::limits::Stop;
use crate::sort::ShardKey;

/// A shard with its compiled plan and its partial results.
pub(crate) struct PreparedShard {
    pub(crate) search: ShardSearch,
    /// The number of its first segment.
    pub(crate) first_segment: u32,
    /// Tells when to stop, for what is compiled later.
    pub(crate) stop: Stop,
    plan: ShardPlan,
    partials: Mutex<Partials>,
    failure: Mutex<Option<Error>>,
}

/// A segment to search.
#[derive(Clone)]
pub(crate) struct Task {
    pub(crate) shard: usize,
    pub(crate) segment: Arc<Segment>,
    /// Its number: ordered by shard, then as in the snapshot. It breaks ties in sorting.
    pub(crate) order: u32,
}

impl PreparedShard {
    /// Creates a shard without results.
    pub(crate) fn new(search: ShardSearch, first_segment: u32, stop: Stop, plan: ShardPlan, empty: Partials) -> Self {
        Self {
            search,
            first_segment,
            stop,
            plan,
            partials: Mutex::new(empty),
            failure: Mutex::new(None),
        }
    }

    /// Returns its sort keys.
    pub(crate) fn keys(&self) -> &[ShardKey] {
        &self.plan.keys
    }

    /// Returns the score of every hit, if it is the same for all.
    pub(crate) fn constant_score(&self) -> Option<f32> {
        self.plan.constant_score
    }

    /// Returns the timings of `profile`.
    pub(crate) fn times(&self) -> Option<&ShardTimes> {
        self.plan.times.as_ref()
    }

    /// Returns the field that groups hits.
    pub(crate) fn collapse(&self) -> Option<&GroupField> {
        self.plan.collapse.as_ref()
    }

    /// Returns its plan.
    pub(crate) fn plan(&self) -> &ShardPlan {
        &self.plan
    }

    /// Merges the partial result of a segment with those of the others. It does not hold the lock while merging,
    /// because merging may take long and be interrupted.
    pub(crate) fn merge(&self, mut own: Partials, shared: &Shared) -> Result<()> {
        loop {
            let theirs = {
                let mut partials = self.partials.lock();
                if partials.0.is_empty() {
                    *partials = own;
                    return Ok(());
                }
                std::mem::take(&mut *partials)
            };
            own.merge_watched(theirs, &shared.ctx.cancel)?;
        }
    }

    /// Stores a failure of this shard; returns one that fails the whole request.
    pub(crate) fn fail_with(&self, outcome: Result<()>) -> Result<()> {
        match outcome {
            Err(error) if !fails_request(error.kind()) => {
                self.failure.lock().get_or_insert(error);
                Ok(())
            }
            other => other,
        }
    }

    /// Returns whether the shard has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.lock().is_some()
    }

    /// Takes the failure of the shard.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.failure.lock().take()
    }

    /// Sets the partial results again after they were taken.
    pub(crate) fn put_partials(&self, partials: Partials) {
        *self.partials.lock() = partials;
    }

    /// Returns a copy of the partial aggregation results so far; `None`: a thread is merging them.
    pub(crate) fn copy_partials(&self) -> Option<Partials> {
        let partials = self.partials.lock();
        (!partials.0.is_empty()).then(|| partials.clone())
    }

    /// Takes the partial aggregation results of its segments.
    pub(crate) fn take_partials(&self) -> Partials {
        std::mem::take(&mut *self.partials.lock())
    }
}

/// Returns whether an error concerns the whole request rather than one shard.
pub(crate) fn fails_request(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Cancelled | ErrorKind::CircuitBreaking | ErrorKind::TooManyBuckets | ErrorKind::Rejected
    )
}
