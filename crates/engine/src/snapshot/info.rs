//! Snapshot requests and descriptions.

use std::collections::BTreeMap;

use firn_query::search::IndexTarget;
use serde_json::{Map, Value};

/// Request of `PUT /_snapshot/REPOSITORY/SNAPSHOT`.
#[derive(Debug, Clone)]
pub struct CreateSnapshot {
    /// Repository name.
    pub repository: String,
    /// Snapshot name; date math is resolved.
    pub name: String,
    /// Indices and data streams.
    pub target: IndexTarget,
    /// Whether the snapshot also stores templates and cluster settings.
    pub include_global_state: bool,
    /// Leave out unavailable shards; if false, they fail the snapshot.
    pub partial: bool,
    /// Stored unchanged.
    pub metadata: Option<Map<String, Value>>,
    /// Return when the snapshot is complete, not when it has started.
    pub wait: bool,
}

/// Request of `PUT /_snapshot/REPOSITORY/SNAPSHOT/_clone/TARGET`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloneSnapshot {
    /// Repository name.
    pub repository: String,
    /// Snapshot to clone.
    pub source: String,
    /// Name of the clone.
    pub target: String,
    /// Names and patterns of indices in the source.
    pub indices: Vec<String>,
}

/// State of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SnapshotState {
    /// It is running.
    InProgress,
    /// It holds everything that was requested.
    Success,
    /// It lacks unavailable shards.
    Partial,
    /// It holds no usable data.
    Failed,
}

impl SnapshotState {
    /// Returns the name that Elasticsearch prints.
    pub fn name(self) -> &'static str {
        match self {
            Self::InProgress => "IN_PROGRESS",
            Self::Success => "SUCCESS",
            Self::Partial => "PARTIAL",
            Self::Failed => "FAILED",
        }
    }
}

/// Description of one snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotInfo {
    /// Snapshot name.
    pub name: String,
    /// 22 characters.
    pub uuid: String,
    /// Name under which this node registered the repository.
    pub repository: String,
    /// Names of indices, sorted.
    pub indices: Vec<String>,
    /// Names of data streams, sorted.
    pub data_streams: Vec<String>,
    /// See [`CreateSnapshot::include_global_state`].
    pub include_global_state: bool,
    /// See [`CreateSnapshot::metadata`].
    pub metadata: Option<Map<String, Value>>,
    /// State.
    pub state: SnapshotState,
    /// When it began, ms since epoch UTC.
    pub start_ms: i64,
    /// When it ended; `None`: not yet.
    pub end_ms: Option<i64>,
    /// Shards of all its indices.
    pub total_shards: u32,
    /// Shards that the snapshot holds.
    pub successful_shards: u32,
    /// Failed shards, set once the snapshot has ended.
    pub failures: Vec<ShardFailure>,
    /// By index; empty while the snapshot is running.
    pub index_details: BTreeMap<String, IndexDetails>,
}

/// A shard that is missing from a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardFailure {
    /// Index name.
    pub index: String,
    /// UUID of the index.
    pub index_uuid: String,
    /// Shard number.
    pub shard: u32,
    /// Cause.
    pub reason: String,
}

/// Size of one index in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexDetails {
    /// Shards of the index.
    pub shard_count: u32,
    /// Bytes of all splits, including those shared with other snapshots.
    pub size_bytes: u64,
    /// Splits of the shard with the most splits.
    pub segments_per_shard_max: u32,
}
