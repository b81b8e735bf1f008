//! What tenants use of a node.

use std::sync::Arc;
use std::time::Duration;

/// What one tenant uses of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantUsage {
    /// The value of the tenant field of its events.
    pub tenant: Arc<str>,
    /// Its documents that are alive and searchable, in all indices that hold events by tenant.
    pub events: u64,
    /// Its part of the bytes of segments that are written here, by documents: of a segment that tenants share, each has
    /// the part that its documents are of all, deleted ones included.
    pub stored_bytes: u64,
    /// The same by tier, mounted indices included.
    pub by_tier: StoredByTier,
    /// Bytes of what caches keep for it.
    pub cache_bytes: u64,
    /// CPU time of its searches since start.
    pub search_cpu: Duration,
    /// CPU time of its writes since start.
    pub write_cpu: Duration,
}

impl TenantUsage {
    /// Of a tenant that uses nothing.
    pub fn none(tenant: impl Into<Arc<str>>) -> Self {
        Self {
            tenant: tenant.into(),
            events: 0,
            stored_bytes: 0,
            by_tier: StoredByTier::default(),
            cache_bytes: 0,
            search_cpu: Duration::ZERO,
            write_cpu: Duration::ZERO,
        }
    }
}

/// Bytes by where they lie.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredByTier {
    /// `path.data`.
    pub hot: u64,
    /// `path.data.warm`.
    pub warm: u64,
    /// `path.data.cold`, and whole copies of snapshots.
    pub cold: u64,
    /// Snapshots that are read through the shared cache: bytes in their repository.
    pub frozen: u64,
}

impl StoredByTier {
    /// On this node's own disks.
    pub fn local(&self) -> u64 {
        self.hot + self.warm + self.cold
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.local() + self.frozen
    }
}

impl std::ops::AddAssign for StoredByTier {
    fn add_assign(&mut self, other: Self) {
        self.hot += other.hot;
        self.warm += other.warm;
        self.cold += other.cold;
        self.frozen += other.frozen;
    }
}
