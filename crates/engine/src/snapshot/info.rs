//! Snapshots.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::search::IndexTarget;

/// `PUT /_snapshot/REPOSITORY/SNAPSHOT`.
#[derive(Debug, Clone)]
pub struct CreateSnapshot {
    /// Where.
    pub repository: String,
    /// Its name; date math is resolved.
    pub name: String,
    /// Indices and data streams.
    pub target: IndexTarget,
    /// Whether templates and settings of the cluster are kept too.
    pub include_global_state: bool,
    /// Go on without shards that do not serve; else they fail the snapshot.
    pub partial: bool,
    /// Kept as written.
    pub metadata: Option<Map<String, Value>>,
    /// Return when it is there, not when it has begun.
    pub wait: bool,
}

/// `PUT /_snapshot/REPOSITORY/SNAPSHOT/_clone/TARGET`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloneSnapshot {
    /// Where.
    pub repository: String,
    /// The one to clone.
    pub source: String,
    /// The name of the new one.
    pub target: String,
    /// Names and patterns of indices in the source.
    pub indices: Vec<String>,
}

/// How a snapshot ended, or that it has not yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SnapshotState {
    /// It is being made.
    InProgress,
    /// It holds all that was asked for.
    Success,
    /// It lacks shards that did not serve.
    Partial,
    /// It holds nothing of use.
    Failed,
}

impl SnapshotState {
    /// As Elasticsearch prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::InProgress => "IN_PROGRESS",
            Self::Success => "SUCCESS",
            Self::Partial => "PARTIAL",
            Self::Failed => "FAILED",
        }
    }
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotInfo {
    /// Its name.
    pub name: String,
    /// 22 characters.
    pub uuid: String,
    /// The repository, as it is registered here.
    pub repository: String,
    /// Names of indices, sorted.
    pub indices: Vec<String>,
    /// Of data streams, sorted.
    pub data_streams: Vec<String>,
    /// See [`CreateSnapshot::include_global_state`].
    pub include_global_state: bool,
    /// See [`CreateSnapshot::metadata`].
    pub metadata: Option<Map<String, Value>>,
    /// How it ended.
    pub state: SnapshotState,
    /// When it began, ms since epoch UTC.
    pub start_ms: i64,
    /// When it ended; `None`: not yet.
    pub end_ms: Option<i64>,
    /// Shards of all its indices.
    pub total_shards: u32,
    /// Those that it holds.
    pub successful_shards: u32,
    /// The rest, once it has ended.
    pub failures: Vec<ShardFailure>,
    /// By index; empty while it is being made.
    pub index_details: BTreeMap<String, IndexDetails>,
}

/// A shard that a snapshot lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardFailure {
    /// Its index.
    pub index: String,
    /// Of the index.
    pub index_uuid: String,
    /// Its number.
    pub shard: u32,
    /// Why.
    pub reason: String,
}

/// What a snapshot holds of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexDetails {
    /// Shards.
    pub shard_count: u32,
    /// Bytes of all splits, also of those that it shares with others.
    pub size_bytes: u64,
    /// Splits of the shard that has most.
    pub segments_per_shard_max: u32,
}
