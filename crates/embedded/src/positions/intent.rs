//! Intent record of a bulk with an origin: which events may be where. Durable before the first of its shards is written.

use firn_engine::origin::SourceTotals;
use firn_model::{Error, Result};
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Intent {
    #[serde(rename = "s")]
    pub(crate) source: String,
    #[serde(rename = "p")]
    pub(crate) partition: String,
    /// Number of the attempt; marks of shards with another one say nothing about this bulk.
    #[serde(rename = "e")]
    pub(crate) epoch: u64,
    #[serde(rename = "f")]
    pub(crate) first_offset: u64,
    #[serde(rename = "l")]
    pub(crate) last_offset: u64,
    /// Ranges of offsets, inclusive, that earlier attempts applied; sorted, disjoint.
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) applied: Vec<(u64, u64)>,
    /// Offsets that were rejected for good, sorted. Without the reasons, which may quote the event of a tenant that is
    /// erased later.
    #[serde(rename = "r", default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rejected: Vec<u64>,
    /// Shards that this attempt writes to.
    #[serde(rename = "d")]
    pub(crate) shards: Vec<TargetShard>,
    /// Ranges of offsets, inclusive, with the place of their shard in `shards`.
    #[serde(rename = "g")]
    pub(crate) ranges: Vec<(u64, u64, u32)>,
    /// Set in a log that was written anew: everything up to here is stored, and the totals include it.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub(crate) complete_to: Option<u64>,
    /// Totals of the bulks before: indexed, filtered, dead-lettered.
    #[serde(rename = "t")]
    pub(crate) totals_before: (u64, u64, u64),
    /// See [`Origin::note`](firn_engine::origin::Origin::note).
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// The partition is forgotten: records before this one do not count.
    #[serde(rename = "x", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_forgotten: bool,
}

/// Shard of an intent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct TargetShard {
    #[serde(rename = "u")]
    pub(crate) index_uuid: String,
    #[serde(rename = "i")]
    pub(crate) index: String,
    #[serde(rename = "n")]
    pub(crate) shard: u32,
}

/// What is known of an event of an intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It is stored.
    Applied,
    /// It was rejected for good.
    Rejected,
}

impl Intent {
    /// Prints the record.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Reads the output of [`Intent::to_bytes`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes)
            .map_err(|error| Error::internal("a record of source positions cannot be read").caused_by(error))
    }

    /// Returns the record of a partition whose bulks are all complete.
    pub(crate) fn complete(&self, complete_to: u64, totals: &SourceTotals) -> Self {
        Self {
            source: self.source.clone(),
            partition: self.partition.clone(),
            epoch: self.epoch,
            first_offset: self.first_offset,
            last_offset: complete_to,
            complete_to: Some(complete_to),
            totals_before: (totals.indexed, totals.filtered, totals.dead_lettered),
            note: self.note.clone(),
            ..Self::default()
        }
    }

    /// Returns the totals of the bulks before.
    pub(crate) fn totals_before(&self) -> SourceTotals {
        let (indexed, filtered, dead_lettered) = self.totals_before;
        SourceTotals {
            indexed,
            filtered,
            dead_lettered,
        }
    }

    /// Adds ranges of offsets, inclusive, that are applied. Offsets in them that were rejected stay rejected.
    pub(crate) fn add_applied(&mut self, ranges: impl IntoIterator<Item = (u64, u64)>) {
        self.applied.extend(ranges);
        self.applied.sort_unstable();
        // The ranges of a later attempt may enclose those of an earlier one.
        self.applied.dedup_by(|next, range| {
            let is_joined = next.0 <= range.1;
            if is_joined {
                range.1 = range.1.max(next.1);
            }
            is_joined
        });
    }

    /// Adds an event to the ranges. Events are added in the order of their offsets.
    pub(crate) fn add(&mut self, offset: u64, shard: u32) {
        match self.ranges.last_mut() {
            // Offsets between the two belong to no event of the bulk, or are settled.
            Some((_, last, of)) if *of == shard => *last = offset,
            _ => self.ranges.push((offset, offset, shard)),
        }
    }

    /// Returns what is known of an event.
    pub(crate) fn settled(&self, offset: u64) -> Option<Settled> {
        if self.rejected.binary_search(&offset).is_ok() {
            return Some(Settled::Rejected);
        }
        let place = self.applied.partition_point(|(_, last)| *last < offset);
        let (first, _) = self.applied.get(place)?;
        (*first <= offset).then_some(Settled::Applied)
    }

    /// Returns the intent of the next attempt, without targets: what is known to be settled by now. `marks` holds for each
    /// shard the last offset that this attempt applied to it, and the rejected offsets.
    pub(crate) fn next_attempt(&self, marks: &[Option<ShardOutcome>]) -> Self {
        let mut applied = Vec::new();
        let mut rejected = self.rejected.clone();
        for (first, last, shard) in &self.ranges {
            let Some(outcome) = &marks[*shard as usize] else {
                continue;
            };
            if outcome.last_offset >= *first {
                applied.push((*first, (*last).min(outcome.last_offset)));
            }
            let in_range = |offset: &&u64| (first..=last).contains(offset);
            rejected.extend(outcome.rejected.iter().filter(in_range));
        }
        rejected.sort_unstable();
        rejected.dedup();
        let mut next = Self {
            epoch: self.epoch + 1,
            rejected,
            shards: Vec::new(),
            ranges: Vec::new(),
            complete_to: None,
            ..self.clone()
        };
        next.add_applied(applied);
        next
    }
}

/// How far an attempt came on one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShardOutcome {
    pub(crate) last_offset: u64,
    pub(crate) rejected: Vec<u64>,
}
