//! Meters of the tenants' requests, and a cache of their stored bytes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use firn_auth::Meters;
use firn_engine::TenantUsage;
use firn_model::tenant::TenantId;
use tokio::sync::Mutex;

/// Usage of tenants, by the value of the tenant field.
pub(crate) type UsageByName = BTreeMap<Arc<str>, TenantUsage>;

/// Meters of the tenants' requests, and a cache of their stored bytes.
#[derive(Default)]
pub(crate) struct Accounts {
    pub(crate) meters: Meters,
    /// Time of the last computation, and its result.
    pub(crate) usage: Mutex<Option<(Instant, Arc<UsageByName>)>>,
}

impl Accounts {
    /// Resets a tenant.
    pub(crate) async fn forget(&self, tenant: &TenantId) {
        self.meters.forget(tenant);
        // The cached usage is computed again for all tenants.
        *self.usage.lock().await = None;
    }
}
