//! The one place where a tenant's request is held against its quotas, and what tenants use.
//!
//! Searches are counted when their request begins. A write is held against the quotas as a whole, when its events
//! are known and before any of them is written: clients and shippers wait and send a refused
//! bulk again as it is, whereas after items refused one by one they have to put together another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_control::{Control, Meters, SearchPermit};
use firn_engine::document::{BulkItem, BulkRequest, BulkResponse, Operation};
use firn_engine::{Error, RequestContext, Scope, TenantUsage};
use firn_model::tenant::{Quotas, TenantId};
use tokio::sync::Mutex;

use crate::config::Security;
use crate::request::{Call, Edge};

/// How old what is known of stored bytes may be: to ask for them costs more than to write a bulk.
const USAGE_KEPT: Duration = Duration::from_secs(5);

/// What tenants use, by the value of the tenant field.
pub(crate) type UsageByName = BTreeMap<Arc<str>, TenantUsage>;

/// Counts what tenants do, and remembers what they have.
#[derive(Default)]
pub(crate) struct Accounts {
    pub(crate) meters: Meters,
    /// When it was asked for, and the answer.
    usage: Mutex<Option<(Instant, Arc<UsageByName>)>>,
}

impl Accounts {
    /// Begins anew for a tenant.
    pub(crate) async fn forget(&self, tenant: &TenantId) {
        self.meters.forget(tenant);
        // What is known of all is asked for again.
        *self.usage.lock().await = None;
    }
}

impl Edge {
    /// Whether operators declared a tenant.
    pub(crate) fn knows_tenant(&self, tenant: &TenantId) -> bool {
        self.control().is_some_and(|control| control.tenant(tenant).is_some())
    }

    fn control(&self) -> Option<&Arc<Control>> {
        match &self.config.security {
            Security::On(control) => Some(control),
            Security::Off(control) => control.as_ref(),
        }
    }

    /// What holds for a tenant.
    fn quotas(&self, tenant: &TenantId) -> Quotas {
        let settings = self.control().and_then(|control| control.tenant_settings(tenant));
        settings.map(|settings| settings.quotas).unwrap_or_default()
    }

    /// Lets a request begin that does `action`, or refuses it. What comes back is to be held until it is
    /// answered.
    pub(crate) fn admit(&self, scope: &Scope, action: &str) -> Result<Option<SearchPermit>, Error> {
        match scope.tenant_id() {
            Some(tenant) if is_search(action) => {
                let permit = self.accounts.meters.admit_search(tenant, &self.quotas(tenant));
                permit.map(Some).map_err(|exceeded| exceeded.error(tenant))
            }
            _ => Ok(None),
        }
    }

    /// Bytes that one search of the caller may fetch from snapshot repositories.
    pub(crate) fn repository_bytes_max(&self, scope: &Scope) -> Option<u64> {
        self.quotas(scope.tenant_id()?).search_repository_bytes
    }

    /// Writes what a request brings, if its tenant may write so much.
    pub(crate) async fn write(&self, call: &Call, request: BulkRequest) -> Result<BulkResponse, Error> {
        if let Some(tenant) = call.ctx.scope.tenant_id() {
            let quotas = self.quotas(tenant);
            let events = events_of(&request.items);
            let stored = match quotas.stored_bytes {
                // Who only deletes makes room.
                Some(_) if events > 0 => self
                    .usage(call.ctx.started)
                    .await?
                    .get(tenant.as_str())
                    .map_or(0, |usage| usage.by_tier.local()),
                _ => 0,
            };
            let amount = (events, call.body.len() as u64);
            let admitted = self
                .accounts
                .meters
                .admit_ingest(tenant, &quotas, stored, amount, call.ctx.started);
            admitted.map_err(|exceeded| exceeded.error(tenant))?;
        }
        self.engine.bulk(&call.ctx, request).await
    }

    /// What tenants use, by name, at most some seconds ago.
    pub(crate) async fn usage(&self, now: Instant) -> Result<Arc<UsageByName>, Error> {
        // Held while it asks: who comes meanwhile wants the same answer.
        let mut known = self.accounts.usage.lock().await;
        if let Some((at, usage)) = &*known
            && now.saturating_duration_since(*at) < USAGE_KEPT
        {
            return Ok(Arc::clone(usage));
        }
        let usage = self.engine.tenant_usage(&RequestContext::new()).await?;
        let usage: UsageByName = usage
            .into_iter()
            .map(|usage| (Arc::clone(&usage.tenant), usage))
            .collect();
        let usage = Arc::new(usage);
        *known = Some((now, Arc::clone(&usage)));
        Ok(usage)
    }
}

/// Whether an action looks through events, rather than for one by its id.
fn is_search(action: &str) -> bool {
    let Some(rest) = action.strip_prefix("indices:data/read/") else {
        return false;
    };
    !matches!(rest, "get" | "mget")
        // One that goes on after its request counts by itself.
        && !rest.starts_with("async_search/")
        && !matches!(rest, "firn/discover" | "firn/discover/get")
        && !rest.ends_with("/clear")
        && !rest.ends_with("/delete")
        && !rest.starts_with("close_")
}

/// Events that a request brings. Deletes bring none.
fn events_of(items: &[BulkItem]) -> u64 {
    let is_event = |item: &&BulkItem| !matches!(item.operation, Operation::Delete);
    items.iter().filter(is_event).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_are_told_by_their_action() {
        for action in [
            "search",
            "msearch",
            "scroll",
            "open_point_in_time",
            "field_caps",
            "xpack/termsenum/list",
            "firn/discover/tail",
        ] {
            assert!(is_search(&format!("indices:data/read/{action}")), "{action}");
        }
        for action in [
            "get",
            "mget",
            "scroll/clear",
            "close_point_in_time",
            "point_in_time/delete",
            "async_search/submit",
            "async_search/get",
            "firn/discover",
            "firn/discover/delete",
        ] {
            assert!(!is_search(&format!("indices:data/read/{action}")), "{action}");
        }
        assert!(!is_search("indices:data/write/bulk"));
    }
}
