//! Progress of a snapshot, by shard.

use super::SnapshotState;

/// Progress of one snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotStatus {
    /// Snapshot name.
    pub name: String,
    /// Snapshot UUID.
    pub uuid: String,
    /// Repository name.
    pub repository: String,
    /// State.
    pub state: SnapshotState,
    /// Whether the snapshot also stores templates and cluster settings.
    pub include_global_state: bool,
    /// When it began, ms since epoch UTC.
    pub start_ms: i64,
    /// Duration so far or in total.
    pub time_ms: u64,
    /// Sorted by name.
    pub indices: Vec<IndexSnapshotStatus>,
}

/// Progress of one index.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexSnapshotStatus {
    /// Index name.
    pub name: String,
    /// Sorted by shard number.
    pub shards: Vec<ShardSnapshotStatus>,
}

/// Stage of one shard of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardStage {
    /// It waits.
    Init,
    /// Its splits are being written.
    Started,
    /// All splits are written, and the snapshot is not committed yet.
    Finalize,
    /// The snapshot holds the shard.
    Done,
    /// The snapshot lacks the shard.
    Failure,
}

impl ShardStage {
    /// All stages, in the order of `_status`.
    pub const ALL: [Self; 5] = [Self::Init, Self::Started, Self::Finalize, Self::Done, Self::Failure];

    /// Returns the name that Elasticsearch prints.
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

/// Progress of one shard.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardSnapshotStatus {
    /// Shard number.
    pub shard: u32,
    /// Stage.
    pub stage: ShardStage,
    /// Objects to write because no earlier snapshot has them.
    pub incremental: FileCount,
    /// Of those, the objects written so far.
    pub processed: FileCount,
    /// All objects of the shard in the snapshot.
    pub total: FileCount,
    /// When it began, ms since epoch UTC.
    pub start_ms: i64,
    /// Duration so far or in total.
    pub time_ms: u64,
    /// Why the snapshot lacks it.
    pub reason: Option<String>,
}

/// Number of objects, and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileCount {
    /// Number of objects.
    pub files: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl FileCount {
    /// Adds another count.
    pub fn add(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
    }
}
