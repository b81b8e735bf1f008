//! Which snapshots hold events of a tenant, and how those events are removed: what no purge of this node's indices reaches.

/// What was found, and where nobody could look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantSnapshots {
    /// By repository and name.
    pub holding: Vec<HoldingSnapshot>,
    /// Where nobody can look now.
    pub unread: Vec<UnreadSnapshots>,
    /// Snapshots that were being made on this node when the look began, and are not among those that were looked at.
    pub running: Vec<RunningSnapshot>,
}

/// A snapshot that holds events of a tenant, or may hold some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldingSnapshot {
    /// Where it lies.
    pub repository: String,
    /// Its name.
    pub snapshot: String,
    /// Whether this node cannot remove it: the repository is registered read-only.
    pub is_readonly: bool,
    /// Its indices that hold such events, by name.
    pub indices: Vec<String>,
    /// How many of the tenant's events, as far as is known: deleted ones count, and segments that say nothing of
    /// tenants do not.
    pub documents: u64,
}

/// A repository that cannot be read, or a snapshot in one, or an index in that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadSnapshots {
    /// `REPOSITORY`, `REPOSITORY:SNAPSHOT` or `REPOSITORY:SNAPSHOT/INDEX`.
    pub place: String,
    /// Why.
    pub error: String,
    /// It may be read another time and could be written then: not damaged, and not read-only.
    pub may_answer: bool,
}

/// A snapshot that is being made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningSnapshot {
    /// Where it will lie.
    pub repository: String,
    /// Its name.
    pub snapshot: String,
    /// When it began, ms since epoch UTC: it holds what was there then or later.
    pub start_ms: i64,
}

/// What removing a tenant's events did to a snapshot; all zero: it held none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RewrittenSnapshot {
    /// Its indices that held such events, by name.
    pub indices: Vec<String>,
    /// Splits that were replaced by others without them.
    pub splits_rewritten: u64,
    /// Splits that held nothing else.
    pub splits_dropped: u64,
    /// Documents of the tenant, deleted ones included.
    pub documents: u64,
    /// Bytes of splits written for it; what snapshots share is written for the first of them.
    pub written_bytes: u64,
    /// Bytes of objects that went, because no snapshot named them any more.
    pub removed_bytes: u64,
}
