//! Resource usage of a node by tenant.

use std::sync::Arc;
use std::time::Duration;

/// Resource usage of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantUsage {
    /// Tenant name: the value of the tenant field of its events.
    pub tenant: Arc<str>,
    /// Live, searchable documents of the tenant, in all indices that hold events by tenant.
    pub events: u64,
    /// The tenant's part of the bytes of local segments. A segment that tenants share is divided by number of
    /// documents, deleted ones included.
    pub stored_bytes: u64,
    /// The same by tier, mounted indices included.
    pub by_tier: StoredByTier,
    /// Bytes that caches hold for the tenant.
    pub cache_bytes: u64,
    /// CPU time of its searches since start.
    pub search_cpu: Duration,
    /// CPU time of its writes since start.
    pub write_cpu: Duration,
}

impl TenantUsage {
    /// Returns the usage of a tenant that uses nothing.
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

/// Bytes by tier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredByTier {
    /// `path.data`.
    pub hot: u64,
    /// `path.data.warm`.
    pub warm: u64,
    /// `path.data.cold`, and whole copies of snapshots.
    pub cold: u64,
    /// Snapshots that are read through the shared cache: bytes in the repository.
    pub frozen: u64,
}

impl StoredByTier {
    /// Returns the bytes on disks of this node.
    pub fn local(&self) -> u64 {
        self.hot + self.warm + self.cold
    }

    /// Returns the total bytes.
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
