//! Enforcement of tenant quotas, and the usage of tenants. Only this module checks a request against quotas.
//!
//! Searches are counted when their request begins. A write is checked as a whole, after its events are known and before
//! any of them is written. Clients and shippers wait and repeat a refused bulk unchanged, whereas after item-by-item
//! refusals they would have to build another bulk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_auth::{Control, SearchPermit};
use firn_engine::document::{BulkItem, BulkRequest, BulkResponse, Operation};
use firn_engine::{Error, Knowledge, RequestContext, Scope};
use firn_model::tenant::{Quotas, TenantId};

use crate::state::accounts::UsageByName;
use crate::state::config::Security;
use crate::state::edge::Edge;

/// Maximum age of the stored bytes in the cache: to compute them costs more than to write a bulk.
const USAGE_CACHED_FOR: Duration = Duration::from_secs(5);

impl Edge {
    /// Returns whether operators declared a tenant.
    pub(crate) fn knows_tenant(&self, tenant: &TenantId) -> bool {
        self.control().is_some_and(|control| control.tenant(tenant).is_some())
    }

    fn control(&self) -> Option<&Arc<Control>> {
        match &self.config.security {
            Security::On(control) => Some(control),
            Security::Off(control) => control.as_ref(),
        }
    }

    /// Returns the quotas of a tenant.
    fn quotas(&self, tenant: &TenantId) -> Quotas {
        let settings = self.control().and_then(|control| control.tenant_settings(tenant));
        settings.map(|settings| settings.quotas).unwrap_or_default()
    }

    /// Admits or refuses a request that does `action`. The caller holds the returned permit until the answer is sent.
    pub(crate) fn admit(&self, scope: &Scope, action: &str) -> Result<Option<SearchPermit>, Error> {
        match scope.tenant_id() {
            Some(tenant) if is_search(action) => {
                let permit = self.accounts.meters.admit_search(tenant, &self.quotas(tenant));
                permit.map(Some).map_err(|exceeded| exceeded.error(tenant))
            }
            _ => Ok(None),
        }
    }

    /// Returns the bytes that one search of the caller may fetch from snapshot repositories.
    pub(crate) fn repository_bytes_max(&self, scope: &Scope) -> Option<u64> {
        self.quotas(scope.tenant_id()?).search_repository_bytes
    }

    /// Writes the items of a request if the quotas of its tenant allow it.
    /// `body_bytes`: length of the request's body.
    pub(crate) async fn write(
        &self,
        ctx: &RequestContext,
        body_bytes: u64,
        request: BulkRequest,
    ) -> Result<BulkResponse, Error> {
        self.admit_events(ctx, events_of(&request.items), body_bytes).await?;
        self.engine.bulk(ctx, request).await
    }

    /// Fails if the tenant of a scope has used its quotas up. Without events the stored bytes do not count.
    pub(crate) async fn check_quotas(&self, scope: &Scope, has_events: bool, now: Instant) -> Result<(), Error> {
        if let Some(tenant) = scope.tenant_id() {
            let quotas = self.quotas(tenant);
            let stored = match has_events {
                true => self.stored_bytes(tenant, &quotas, now).await?,
                false => 0,
            };
            let checked = self.accounts.meters.check_ingest(tenant, &quotas, stored, now);
            checked.map_err(|exceeded| exceeded.error(tenant))?;
        }
        Ok(())
    }

    /// Fails if the quotas of the caller's tenant do not allow `events` more events in a body of `body_bytes`.
    pub(crate) async fn admit_events(&self, ctx: &RequestContext, events: u64, body_bytes: u64) -> Result<(), Error> {
        if let Some(tenant) = ctx.scope.tenant_id() {
            let quotas = self.quotas(tenant);
            let stored = match events {
                // Deletes free space, so a request with only deletes is not checked.
                0 => 0,
                _ => self.stored_bytes(tenant, &quotas, ctx.started).await?,
            };
            let amount = (events, body_bytes);
            let admitted = self
                .accounts
                .meters
                .admit_ingest(tenant, &quotas, stored, amount, ctx.started);
            admitted.map_err(|exceeded| exceeded.error(tenant))?;
        }
        Ok(())
    }

    /// Returns the stored bytes of a tenant, if they are limited.
    async fn stored_bytes(&self, tenant: &TenantId, quotas: &Quotas, now: Instant) -> Result<u64, Error> {
        if quotas.stored_bytes.is_none() {
            return Ok(0);
        }
        let usage = self.usage(now).await?.require()?;
        Ok(usage.get(tenant.as_str()).map_or(0, |usage| usage.by_tier.local()))
    }

    /// Returns the usage of all tenants by name, if the engine measures it; at most some seconds old.
    pub(crate) async fn usage(&self, now: Instant) -> Result<Knowledge<Arc<UsageByName>>, Error> {
        // The lock is held during the computation: concurrent callers share its result.
        let mut known = self.accounts.usage.lock().await;
        if let Some((at, usage)) = &*known
            && now.saturating_duration_since(*at) < USAGE_CACHED_FOR
        {
            return Ok(Knowledge::Known(Arc::clone(usage)));
        }
        let usage = match self.engine.tenant_usage(&RequestContext::new()).await? {
            Knowledge::Known(usage) => usage,
            Knowledge::Unknown(capability) => return Ok(Knowledge::Unknown(capability)),
        };
        let usage: UsageByName = usage
            .into_iter()
            .map(|usage| (Arc::clone(&usage.tenant), usage))
            .collect();
        let usage = Arc::new(usage);
        *known = Some((now, Arc::clone(&usage)));
        Ok(Knowledge::Known(usage))
    }
}

/// Returns whether an action searches events rather than reads documents by id.
fn is_search(action: &str) -> bool {
    let Some(rest) = action.strip_prefix("indices:data/read/") else {
        return false;
    };
    !matches!(rest, "get" | "mget")
        // These continue after their request and are counted separately.
        && !rest.starts_with("async_search/")
        && !matches!(rest, "firn/discover" | "firn/discover/get")
        && !rest.ends_with("/clear")
        && !rest.ends_with("/delete")
        && !rest.starts_with("close_")
}

/// Returns the number of events in a request; deletes are none.
pub(crate) fn events_of(items: &[BulkItem]) -> u64 {
    let is_event = |item: &&BulkItem| !matches!(item.operation, Operation::Delete);
    items.iter().filter(is_event).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_classified_as_searches() {
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
