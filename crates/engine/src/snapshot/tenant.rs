//! Which snapshots hold events of a tenant: what no purge of this node's indices reaches.

/// What was found, and where nobody could look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantSnapshots {
    /// By repository and name.
    pub holding: Vec<HoldingSnapshot>,
    /// Repositories, or snapshots in them, that cannot be read now, and why.
    pub unread: Vec<(String, String)>,
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
