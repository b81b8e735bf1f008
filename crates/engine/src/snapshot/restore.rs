//! Indices out of snapshots.

use serde_json::Value;

/// `POST /_snapshot/REPOSITORY/SNAPSHOT/_restore`.
#[derive(Debug, Clone, PartialEq)]
pub struct RestoreSnapshot {
    /// Where.
    pub repository: String,
    /// Which.
    pub snapshot: String,
    /// Names and patterns of indices and data streams in it; empty: all.
    pub indices: Vec<String>,
    /// Names that are not in it are no error.
    pub ignore_unavailable: bool,
    /// Templates and settings of the cluster too.
    pub include_global_state: bool,
    /// The indices' aliases too.
    pub include_aliases: bool,
    /// Indices of which the snapshot lacks shards too; those shards come back empty.
    pub partial: bool,
    /// A regular expression over names of indices, and what stands instead of what it matches (`$1`).
    pub rename: Option<(String, String)>,
    /// Settings over those of the snapshot, nested or flat.
    pub index_settings: Value,
    /// Settings of the snapshot that are left out; patterns are allowed.
    pub ignore_index_settings: Vec<String>,
    /// Return when the indices are there, not when it has begun.
    pub wait: bool,
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// Whether it is over; otherwise it has begun, and the rest says nothing yet.
    pub done: bool,
    /// The snapshot.
    pub snapshot: String,
    /// Names of the indices, as they are called now.
    pub indices: Vec<String>,
    /// Their shards.
    pub total_shards: u32,
    /// Those that came whole.
    pub successful_shards: u32,
}
