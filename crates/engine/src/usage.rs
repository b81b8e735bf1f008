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
    /// Its part of the segments' bytes on this node's own disk (the hot tier), by documents: of a segment that
    /// tenants share, each has the part that its documents are of all, deleted ones included.
    pub stored_bytes: u64,
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
            cache_bytes: 0,
            search_cpu: Duration::ZERO,
            write_cpu: Duration::ZERO,
        }
    }
}
