//! Control state at one moment.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use firn_lifecycle::Deletion;
use firn_model::Result;
use firn_model::tenant::{TenantId, TenantSettings};
use serde::{Deserialize, Serialize};

use crate::api_keys::{ApiKey, StoredKey};
use crate::clock::Over;
use crate::roles::{self, Role, RoleDescriptor};
use crate::sessions::{Sessions, StoredSession};
use crate::tenants::{StoredSettings, TenantRecord};
use crate::users::User;

/// Snapshot of the control state. Cloning it clones pointers.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) users: BTreeMap<String, Arc<User>>,
    /// Includes built-in roles.
    pub(crate) roles: BTreeMap<String, Arc<Role>>,
    pub(crate) api_keys: HashMap<String, Arc<ApiKey>>,
    pub(crate) tenants: BTreeMap<TenantId, Arc<TenantRecord>>,
    /// Settings that tenants inherit.
    pub(crate) tenant_defaults: TenantSettings,
    /// Deletions of tenants, running and finished.
    pub(crate) deletions: BTreeMap<TenantId, Arc<Deletion>>,
    pub(crate) sessions: Sessions,
}

impl Default for State {
    fn default() -> Self {
        Self {
            users: BTreeMap::new(),
            roles: roles::built_in(),
            api_keys: HashMap::new(),
            tenants: BTreeMap::new(),
            tenant_defaults: TenantSettings::default(),
            deletions: BTreeMap::new(),
            sessions: Sessions::new(),
        }
    }
}

impl State {
    /// Returns those roles of a user that exist.
    pub(crate) fn roles_of(&self, user: &User) -> Vec<Arc<Role>> {
        user.roles
            .iter()
            .filter_map(|name| self.roles.get(name))
            .cloned()
            .collect()
    }

    /// Removes keys that have certainly ended long ago. `passed` is the time of the monotonic clock.
    pub(crate) fn forget_old_keys(&mut self, now_ms: i64, over: &mut Over, passed: Duration) {
        let keys = self.api_keys.values();
        over.see(
            keys.filter(|key| key.is_over(now_ms)).map(|key| key.id.as_str()),
            passed,
        );
        self.api_keys.retain(|id, _| !over.is_certain(id, passed));
    }
}

/// [`State`] in the control file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stored {
    users: Vec<User>,
    roles: BTreeMap<String, RoleDescriptor>,
    api_keys: Vec<StoredKey>,
    tenants: Vec<StoredTenant>,
    tenant_defaults: StoredSettings,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    deletions: BTreeMap<String, Deletion>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sessions: Vec<StoredSession>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredTenant {
    id: String,
    created_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deleting_since_ms: Option<i64>,
    #[serde(flatten)]
    settings: StoredSettings,
}

impl Stored {
    pub(crate) fn of(state: &State) -> Self {
        let mut api_keys: Vec<&Arc<ApiKey>> = state.api_keys.values().collect();
        api_keys.sort_by(|left, right| (left.created_ms, &left.id).cmp(&(right.created_ms, &right.id)));
        Self {
            users: state.users.values().map(|user| User::clone(user)).collect(),
            roles: state
                .roles
                .values()
                .filter(|role| !role.reserved)
                .map(|role| (role.name.clone(), role.descriptor.clone()))
                .collect(),
            api_keys: api_keys.into_iter().map(|key| StoredKey::of(key)).collect(),
            tenants: state
                .tenants
                .values()
                .map(|tenant| StoredTenant {
                    id: tenant.id.as_str().to_owned(),
                    created_ms: tenant.created_ms,
                    deleting_since_ms: tenant.deleting_since_ms,
                    settings: (&tenant.settings).into(),
                })
                .collect(),
            tenant_defaults: (&state.tenant_defaults).into(),
            deletions: state
                .deletions
                .iter()
                .map(|(tenant, deletion)| (tenant.as_str().to_owned(), Deletion::clone(deletion)))
                .collect(),
            sessions: state
                .sessions
                .values()
                .map(|session| StoredSession::of(session))
                .collect(),
        }
    }

    pub(crate) fn open(self) -> Result<State> {
        let mut state = State {
            tenant_defaults: self.tenant_defaults.into(),
            ..State::default()
        };
        for user in self.users {
            state.users.insert(user.name.clone(), Arc::new(user));
        }
        for (name, descriptor) in self.roles {
            let role = Role::defined(&name, descriptor)?;
            state.roles.insert(name, Arc::new(role));
        }
        for key in self.api_keys {
            let key = key.open()?;
            state.api_keys.insert(key.id.clone(), Arc::new(key));
        }
        for tenant in self.tenants {
            let id = TenantId::parse(&tenant.id)?;
            let record = TenantRecord {
                id: id.clone(),
                settings: tenant.settings.into(),
                created_ms: tenant.created_ms,
                deleting_since_ms: tenant.deleting_since_ms,
            };
            state.tenants.insert(id, Arc::new(record));
        }
        for (tenant, deletion) in self.deletions {
            state.deletions.insert(TenantId::parse(&tenant)?, Arc::new(deletion));
        }
        for session in self.sessions {
            let (id, session) = session.open()?;
            state.sessions.insert(id, session);
        }
        Ok(state)
    }
}
