//! Removal of a tenant's events from snapshots: finds the snapshots that hold them and rewrites those. A purge of this
//! node's indices does not reach snapshots.

/// Snapshots that hold events of a tenant, and places that could not be searched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantSnapshots {
    /// Sorted by repository and name.
    pub holding: Vec<HoldingSnapshot>,
    /// Places that cannot be read now.
    pub unread: Vec<UnreadSnapshots>,
    /// Snapshots that were running on this node when the search began; they were not searched.
    pub running: Vec<RunningSnapshot>,
}

/// A snapshot that holds events of a tenant, or may hold some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldingSnapshot {
    /// Repository name.
    pub repository: String,
    /// Snapshot name.
    pub snapshot: String,
    /// Whether this node cannot remove the events, because the repository is registered read-only.
    pub is_readonly: bool,
    /// Its indices that hold such events, by name.
    pub indices: Vec<String>,
    /// Known number of the tenant's events: deleted ones count, segments without tenant statistics do not.
    pub documents: u64,
}

/// A repository, snapshot or index that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadSnapshots {
    /// `REPOSITORY`, `REPOSITORY:SNAPSHOT` or `REPOSITORY:SNAPSHOT/INDEX`.
    pub place: String,
    /// Cause.
    pub error: String,
    /// Whether a retry may succeed: the place is neither damaged nor read-only.
    pub may_answer: bool,
}

/// A running snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningSnapshot {
    /// Repository name.
    pub repository: String,
    /// Snapshot name.
    pub snapshot: String,
    /// Start, ms since epoch UTC: the snapshot holds the data of that moment or later.
    pub start_ms: i64,
}

/// Result of removing a tenant's events from a snapshot; all zero: it held none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RewrittenSnapshot {
    /// Its indices that held such events, by name.
    pub indices: Vec<String>,
    /// Splits that were replaced by splits without those events.
    pub splits_rewritten: u64,
    /// Splits that held no other events.
    pub splits_dropped: u64,
    /// Documents of the tenant, deleted ones included.
    pub documents: u64,
    /// Bytes of the new splits; splits that snapshots share are written and counted once, for the first snapshot.
    pub written_bytes: u64,
    /// Bytes of objects removed because no snapshot references them any more.
    pub removed_bytes: u64,
}
