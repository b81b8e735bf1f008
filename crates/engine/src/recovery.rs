//! Recoveries of shards: how each shard was opened on this node, for `_recovery`.

/// Source of a shard's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoverySource {
    /// No source: the shard began empty.
    EmptyStore,
    /// Disk of this node, when the process started or the index was opened.
    ExistingStore,
    /// A snapshot.
    Snapshot {
        /// Repository of the snapshot.
        repository: String,
        /// Snapshot name.
        snapshot: String,
        /// Index in the snapshot.
        index: String,
    },
}

impl RecoverySource {
    /// Returns the name that Elasticsearch prints.
    pub fn name(&self) -> &'static str {
        match self {
            Self::EmptyStore => "EMPTY_STORE",
            Self::ExistingStore => "EXISTING_STORE",
            Self::Snapshot { .. } => "SNAPSHOT",
        }
    }
}

/// Progress of a recovery, in files or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Everything that the shard has.
    pub total: u64,
    /// Of that, what was already on this node.
    pub reused: u64,
    /// Of the rest, what has been copied so far.
    pub recovered: u64,
}

impl Recovered {
    /// Returns a recovery with nothing to copy: all of `total` was on this node.
    pub fn reused(total: u64) -> Self {
        Self {
            total,
            reused: total,
            recovered: 0,
        }
    }

    /// Returns how much has to be copied, including what has been copied.
    pub fn to_recover(self) -> u64 {
        self.total.saturating_sub(self.reused)
    }

    /// Returns the copied part of what has to be copied, 0 to 100.
    pub fn percent(self) -> f64 {
        match self.to_recover() {
            0 => 100.0,
            all => (self.recovered as f64 * 100.0 / all as f64).min(100.0),
        }
    }
}

/// A running or completed recovery of one shard.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardRecovery {
    /// Index name.
    pub index: String,
    /// Shard number.
    pub shard: u32,
    /// Source of the data.
    pub source: RecoverySource,
    /// When it began, ms since epoch UTC.
    pub start_ms: i64,
    /// When all data was present; `None`: not yet.
    pub stop_ms: Option<i64>,
    /// Segments or splits.
    pub files: Recovered,
    /// Their bytes.
    pub bytes: Recovered,
}

impl ShardRecovery {
    /// Returns `INDEX` while files are copied or the write-ahead log is replayed, then `DONE`. The stages in between
    /// never appear.
    pub fn stage(&self) -> &'static str {
        match self.stop_ms {
            None => "INDEX",
            Some(_) => "DONE",
        }
    }

    /// Returns the duration so far or in total, ms.
    pub fn time_ms(&self, now_ms: i64) -> u64 {
        (self.stop_ms.unwrap_or(now_ms) - self.start_ms).max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_data_counts_as_recovered() {
        assert_eq!(Recovered::reused(7).percent(), 100.0);
        let half = Recovered {
            total: 10,
            reused: 2,
            recovered: 4,
        };
        assert_eq!((half.to_recover(), half.percent()), (8, 50.0));
    }
}
