//! Tenants, as declared by operators.

use std::sync::Arc;

use firn_model::tenant::{Quotas, TenantId, TenantSettings};
use firn_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::control::Control;
use crate::identity::Identity;
use crate::state::State;

/// Maximum number of declared tenants: all of them are in memory and in the control file.
const TENANTS_MAX: usize = 10_000;

/// Stored record of a tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantRecord {
    /// Its name.
    pub id: TenantId,
    /// As declared, without inherited settings.
    pub settings: TenantSettings,
    /// Time of the first declaration, ms since epoch UTC.
    pub created_ms: i64,
    /// Start of its deletion, ms since epoch UTC: from then on its callers are refused.
    pub deleting_since_ms: Option<i64>,
}

impl Control {
    /// Returns the effective settings of a tenant, including inherited ones; `None`: the tenant is not declared.
    pub fn tenant_settings(&self, id: &TenantId) -> Option<TenantSettings> {
        let state = self.state();
        let record = state.tenants.get(id)?;
        Some(inherit(&record.settings, &state.tenant_defaults))
    }

    /// Returns a tenant as it was declared.
    pub fn tenant(&self, id: &TenantId) -> Option<Arc<TenantRecord>> {
        self.state().tenants.get(id).cloned()
    }

    /// Returns all tenants, by name.
    pub fn tenants(&self) -> Vec<Arc<TenantRecord>> {
        self.state().tenants.values().cloned().collect()
    }

    /// Returns the settings that tenants inherit.
    pub fn tenant_defaults(&self) -> TenantSettings {
        self.state().tenant_defaults.clone()
    }

    /// Declares a tenant, or changes its declaration; returns whether it is new.
    pub fn put_tenant(&self, id: &TenantId, settings: TenantSettings) -> Result<bool> {
        self.change(|state, now_ms| {
            let present = state.tenants.get(id);
            let deletion = state.deletions.get(id);
            if present.is_some_and(|record| record.deleting_since_ms.is_some())
                || deletion.is_some_and(|deletion| !deletion.is_done())
            {
                return Err(Error::new(
                    ErrorKind::VersionConflict,
                    format!("tenant [{id}] is being deleted: it can be created again when the deletion is complete"),
                ));
            }
            if present.is_none() && state.tenants.len() >= TENANTS_MAX {
                return Err(Error::illegal_argument(format!(
                    "cannot create tenant [{id}]: there are [{TENANTS_MAX}] tenants, the maximum"
                )));
            }
            let record = TenantRecord {
                id: id.clone(),
                settings,
                created_ms: present.map_or(now_ms, |record| record.created_ms),
                deleting_since_ms: None,
            };
            Ok(state.tenants.insert(id.clone(), Arc::new(record)).is_none())
        })
    }

    /// Changes the settings that tenants inherit.
    pub fn put_tenant_defaults(&self, settings: TenantSettings) -> Result<()> {
        self.change(|state, _| {
            state.tenant_defaults = settings;
            Ok(())
        })
    }

    /// Refuses all callers of a tenant from now on. Its keys are invalidated, its users and saved objects removed. A
    /// repeated call does nothing; an unknown tenant is an error.
    pub fn close_tenant(&self, id: &TenantId) -> Result<()> {
        self.change(|state, now_ms| state.close_tenant(id, now_ms))?;
        self.forget_saved_objects(id)
    }

    /// Removes the record of a closed tenant. A repeated call does nothing.
    pub fn forget_tenant(&self, id: &TenantId) -> Result<()> {
        self.change(|state, _| {
            state.forget_tenant(id);
            Ok(())
        })
    }
}

impl State {
    /// See [`Control::close_tenant`].
    pub(crate) fn close_tenant(&mut self, id: &TenantId, now_ms: i64) -> Result<()> {
        let record = self.tenants.get_mut(id).ok_or_else(|| missing_tenant(id))?;
        let closed = TenantRecord {
            deleting_since_ms: record.deleting_since_ms.or(Some(now_ms)),
            ..TenantRecord::clone(record)
        };
        *record = Arc::new(closed);
        self.users.retain(|_, user| user.tenant().as_ref() != Some(id));
        for key in self.api_keys.values_mut().filter(|key| key.tenant() == Some(id)) {
            *key = Arc::new(key.invalidated(now_ms));
        }
        Ok(())
    }

    /// See [`Control::forget_tenant`].
    pub(crate) fn forget_tenant(&mut self, id: &TenantId) {
        self.tenants.remove(id);
        self.api_keys.retain(|_, key| key.tenant() != Some(id));
    }

    /// Fails unless a tenant is declared and not being deleted.
    pub(crate) fn check_tenant(&self, tenant: Option<&TenantId>) -> Result<()> {
        match tenant {
            Some(id)
                if self
                    .tenants
                    .get(id)
                    .is_none_or(|record| record.deleting_since_ms.is_some()) =>
            {
                Err(Error::illegal_argument(format!(
                    "no tenant [{id}] is declared: declare it with PUT /_firn/tenants/{id}"
                )))
            }
            _ => Ok(()),
        }
    }
}

impl Identity {
    /// Fails if the caller's requests about tenants must not concern this tenant: callers of a tenant may only name
    /// their tenant, operators any.
    pub fn check_tenant(&self, id: &TenantId) -> Result<()> {
        match self.tenant() {
            Some(own) if own != id => Err(missing_tenant(id)),
            _ => Ok(()),
        }
    }
}

/// Creates the error of an undeclared tenant.
pub(crate) fn missing_tenant(id: &TenantId) -> Error {
    Error::new(ErrorKind::ResourceNotFound, format!("no tenant [{id}] is declared"))
}

/// Returns the effective settings of a tenant: its declared settings, with `defaults` for missing ones.
pub(crate) fn inherit(own: &TenantSettings, defaults: &TenantSettings) -> TenantSettings {
    let (quotas, beneath) = (&own.quotas, &defaults.quotas);
    TenantSettings {
        display_name: own.display_name.clone().or_else(|| defaults.display_name.clone()),
        retention_ms: own.retention_ms.or(defaults.retention_ms),
        quotas: Quotas {
            ingest_events_per_second: quotas.ingest_events_per_second.or(beneath.ingest_events_per_second),
            ingest_bytes_per_second: quotas.ingest_bytes_per_second.or(beneath.ingest_bytes_per_second),
            stored_bytes: quotas.stored_bytes.or(beneath.stored_bytes),
            concurrent_searches: quotas.concurrent_searches.or(beneath.concurrent_searches),
            search_cpu_share: quotas.search_cpu_share.or(beneath.search_cpu_share),
            search_repository_bytes: quotas.search_repository_bytes.or(beneath.search_repository_bytes),
            shared_cache_bytes: quotas.shared_cache_bytes.or(beneath.shared_cache_bytes),
        },
    }
}

/// [`TenantSettings`] in the control file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct StoredSettings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retention_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ingest_events_per_second: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ingest_bytes_per_second: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stored_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    concurrent_searches: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    search_cpu_share: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    search_repository_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shared_cache_bytes: Option<u64>,
}

impl From<&TenantSettings> for StoredSettings {
    fn from(settings: &TenantSettings) -> Self {
        Self {
            display_name: settings.display_name.clone(),
            retention_ms: settings.retention_ms,
            ingest_events_per_second: settings.quotas.ingest_events_per_second,
            ingest_bytes_per_second: settings.quotas.ingest_bytes_per_second,
            stored_bytes: settings.quotas.stored_bytes,
            concurrent_searches: settings.quotas.concurrent_searches,
            search_cpu_share: settings.quotas.search_cpu_share,
            search_repository_bytes: settings.quotas.search_repository_bytes,
            shared_cache_bytes: settings.quotas.shared_cache_bytes,
        }
    }
}

impl From<StoredSettings> for TenantSettings {
    fn from(stored: StoredSettings) -> Self {
        Self {
            display_name: stored.display_name,
            retention_ms: stored.retention_ms,
            quotas: Quotas {
                ingest_events_per_second: stored.ingest_events_per_second,
                ingest_bytes_per_second: stored.ingest_bytes_per_second,
                stored_bytes: stored.stored_bytes,
                concurrent_searches: stored.concurrent_searches,
                search_cpu_share: stored.search_cpu_share,
                search_repository_bytes: stored.search_repository_bytes,
                shared_cache_bytes: stored.shared_cache_bytes,
            },
        }
    }
}
