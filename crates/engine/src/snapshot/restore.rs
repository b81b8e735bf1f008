//! Restores of indices from snapshots.

use serde_json::Value;

/// Request of `POST /_snapshot/REPOSITORY/SNAPSHOT/_restore`.
#[derive(Debug, Clone, PartialEq)]
pub struct RestoreSnapshot {
    /// Repository name.
    pub repository: String,
    /// Snapshot name.
    pub snapshot: String,
    /// Names and patterns of indices and data streams in it; empty: all.
    pub indices: Vec<String>,
    /// Whether names that are missing from the snapshot are ignored.
    pub ignore_unavailable: bool,
    /// Restore templates and cluster settings too.
    pub include_global_state: bool,
    /// Restore the aliases of the indices too.
    pub include_aliases: bool,
    /// Also restore indices of which the snapshot lacks shards; those shards are empty.
    pub partial: bool,
    /// Regular expression for index names, and the replacement (`$1`).
    pub rename: Option<(String, String)>,
    /// Settings that override those of the snapshot, nested or flat.
    pub index_settings: Value,
    /// Settings of the snapshot to leave out; patterns are allowed.
    pub ignore_index_settings: Vec<String>,
    /// Return when the indices are complete, not when the restore has started.
    pub wait: bool,
}

/// Result of a restore.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// Whether the restore has ended; if not, the fields below are empty.
    pub done: bool,
    /// Snapshot name.
    pub snapshot: String,
    /// Names of the restored indices.
    pub indices: Vec<String>,
    /// Shards of the indices.
    pub total_shards: u32,
    /// Shards that were restored completely.
    pub successful_shards: u32,
}
