//! How far a snapshot is.

use super::SnapshotState;

/// A snapshot by shard.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotStatus {
    /// Its name.
    pub name: String,
    /// Its uuid.
    pub uuid: String,
    /// The repository.
    pub repository: String,
    /// How it ended.
    pub state: SnapshotState,
    /// Whether templates and settings of the cluster are kept too.
    pub include_global_state: bool,
    /// When it began, ms since epoch UTC.
    pub start_ms: i64,
    /// How long it took, or takes by now.
    pub time_ms: u64,
    /// By name.
    pub indices: Vec<IndexSnapshotStatus>,
}

/// One index.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexSnapshotStatus {
    /// Its name.
    pub name: String,
    /// By number.
    pub shards: Vec<ShardSnapshotStatus>,
}

/// What happens to a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardStage {
    /// It has to wait.
    Init,
    /// Its splits are written.
    Started,
    /// All of them are there, and the snapshot is not committed yet.
    Finalize,
    /// The snapshot holds it.
    Done,
    /// The snapshot lacks it.
    Failure,
}

impl ShardStage {
    /// All of them, in the order of `_status`.
    pub const ALL: [Self; 5] = [Self::Init, Self::Started, Self::Finalize, Self::Done, Self::Failure];

    /// As Elasticsearch prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Init => "INIT",
            Self::Started => "STARTED",
            Self::Finalize => "FINALIZE",
            Self::Done => "DONE",
            Self::Failure => "FAILURE",
        }
    }
}

/// One shard.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardSnapshotStatus {
    /// Its number.
    pub shard: u32,
    /// What happens to it.
    pub stage: ShardStage,
    /// What had to be written, because no snapshot before had it.
    pub incremental: FileCount,
    /// The part of that which has been.
    pub processed: FileCount,
    /// All that the snapshot holds of it.
    pub total: FileCount,
    /// When it began, ms since epoch UTC.
    pub start_ms: i64,
    /// How long it took, or takes by now.
    pub time_ms: u64,
    /// Why the snapshot lacks it.
    pub reason: Option<String>,
}

/// Objects, and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileCount {
    /// How many.
    pub files: u64,
    /// Of all of them.
    pub bytes: u64,
}

impl FileCount {
    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
    }
}
