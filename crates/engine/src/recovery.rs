//! How shards came to be on this node, for `_recovery`.

/// Where a shard's data came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoverySource {
    /// Nowhere: it began empty.
    EmptyStore,
    /// This node's own disk, when the process started or the index was opened.
    ExistingStore,
    /// A snapshot.
    Snapshot {
        /// Its repository.
        repository: String,
        /// Its name.
        snapshot: String,
        /// The index in it.
        index: String,
    },
}

impl RecoverySource {
    /// As Elasticsearch prints it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::EmptyStore => "EMPTY_STORE",
            Self::ExistingStore => "EXISTING_STORE",
            Self::Snapshot { .. } => "SNAPSHOT",
        }
    }
}

/// How much is to come, and how much came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// All that the shard has.
    pub total: u64,
    /// Of that, what was on this node already.
    pub reused: u64,
    /// Of the rest, what came.
    pub recovered: u64,
}

impl Recovered {
    /// What there is and was here already.
    pub fn reused(total: u64) -> Self {
        Self {
            total,
            reused: total,
            recovered: 0,
        }
    }

    /// What had or has to come.
    pub fn to_recover(self) -> u64 {
        self.total.saturating_sub(self.reused)
    }

    /// Of what had to come, 0 to 100.
    pub fn percent(self) -> f64 {
        match self.to_recover() {
            0 => 100.0,
            all => (self.recovered as f64 * 100.0 / all as f64).min(100.0),
        }
    }
}

/// A shard on its way, or where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardRecovery {
    /// Its index.
    pub index: String,
    /// Its number.
    pub shard: u32,
    /// Where from.
    pub source: RecoverySource,
    /// When it began, ms since epoch UTC.
    pub start_ms: i64,
    /// When it was all there; `None`: not yet.
    pub stop_ms: Option<i64>,
    /// Segments or splits.
    pub files: Recovered,
    /// Their bytes.
    pub bytes: Recovered,
}

impl ShardRecovery {
    /// `INDEX` while files come, `DONE` from then on. firn replays what a flush has not covered before a shard shows
    /// itself, so the stages in between are never seen.
    pub fn stage(&self) -> &'static str {
        match self.stop_ms {
            None => "INDEX",
            Some(_) => "DONE",
        }
    }

    /// How long it took, or takes by now, ms.
    pub fn time_ms(&self, now_ms: i64) -> u64 {
        (self.stop_ms.unwrap_or(now_ms) - self.start_ms).max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_had_not_to_come_is_there() {
        assert_eq!(Recovered::reused(7).percent(), 100.0);
        let half = Recovered {
            total: 10,
            reused: 2,
            recovered: 4,
        };
        assert_eq!((half.to_recover(), half.percent()), (8, 50.0));
    }
}
