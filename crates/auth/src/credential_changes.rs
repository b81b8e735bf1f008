//! Rules for changes of users, roles and API keys by an API key: a key never grants more than it has.
//!
//! Users and roles that a key creates outlive the key, and a user may create further users. A key that could grant more
//! than it has, or create users until it expires, would have no effective limit. The rules:
//!
//! - A key changes users and roles only if its `role_descriptors` name `manage_security`, and other keys only if they
//!   name that or `manage_api_key`. Privileges inherited from its creator are not enough.
//! - A key with an expiration changes no users or roles.
//! - A key never changes the user who created it.
//! - The changed object must not grant more than the key has, neither before nor after the change. A user who may
//!   manage users counts as one with all privileges of its tenant (or of the node).

use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};

use crate::api_keys::ApiKey;
use crate::identity::{Identity, Principal};
use crate::privilege::{Privilege, PrivilegeSet};
use crate::roles::Grants;
use crate::state::State;
use crate::users::User;

/// Cluster privilege that lets a key change users and roles.
const MANAGE_SECURITY: &str = "manage_security";
/// Cluster privilege that lets a key end other keys.
const MANAGE_API_KEY: &str = "manage_api_key";

impl Identity {
    /// Returns whether requests with the privileges for users and roles can succeed at all: a key needs the explicit
    /// privilege, and no expiration.
    pub fn may_change_users(&self) -> bool {
        !self.is_viewing()
            && match self.principal() {
                Principal::ApiKey(key) => key.expires_ms.is_none() && names(key, &[MANAGE_SECURITY]),
                Principal::Open | Principal::User(_) => true,
            }
    }

    /// Returns whether it may end other keys, as far as its privileges reach.
    pub(crate) fn may_end_other_keys(&self) -> bool {
        match self.principal() {
            Principal::ApiKey(key) => names(key, &[MANAGE_SECURITY, MANAGE_API_KEY]),
            Principal::Open | Principal::User(_) => true,
        }
    }

    /// Fails for an operator in a tenant's view, and for a key that may not change users and roles. `state` is the
    /// changed state: the key may have ended since it was authenticated.
    pub(crate) fn check_may_change_users(&self, state: &State, now_ms: i64) -> Result<()> {
        self.check_not_viewing()?;
        let Principal::ApiKey(key) = self.principal() else {
            return Ok(());
        };
        check_active(key, state, now_ms)?;
        if !names(key, &[MANAGE_SECURITY]) {
            return Err(refused(format!(
                "{self} cannot change users or roles: an API key needs the cluster privilege [{MANAGE_SECURITY}] by name in its \
                 [role_descriptors]"
            )));
        }
        if key.expires_ms.is_some() {
            return Err(refused(format!(
                "{self} cannot change users or roles: they would outlive the key, which has an expiration"
            )));
        }
        Ok(())
    }

    /// Fails if a key has ended since it was authenticated.
    pub(crate) fn check_still_active(&self, state: &State, now_ms: i64) -> Result<()> {
        match self.principal() {
            Principal::ApiKey(key) => check_active(key, state, now_ms),
            Principal::Open | Principal::User(_) => Ok(()),
        }
    }

    /// Fails for a key if the user created the key, or has a privilege that the key lacks.
    pub(crate) fn check_outranks_user(&self, state: &State, user: &User) -> Result<()> {
        let Principal::ApiKey(key) = self.principal() else {
            return Ok(());
        };
        if key.owner == user.name {
            return Err(refused(format!("{self} cannot change the user who created it")));
        }
        let tenant = user.tenant();
        for name in &user.roles {
            // An undefined role could grant anything once it is defined.
            let role = state.roles.get(name).ok_or_else(|| {
                refused(format!(
                    "{self} cannot change user [{}]: the role [{name}] is not defined",
                    user.name
                ))
            })?;
            if !self.has_all_of(&role.grants, tenant.as_ref()) {
                return Err(refused(format!(
                    "{self} cannot change user [{}]: the role [{name}] grants more than the API key has",
                    user.name
                )));
            }
        }
        Ok(())
    }

    /// Fails for a key if a role has a privilege that the key lacks.
    pub(crate) fn check_outranks_role(&self, name: &str, grants: &Grants) -> Result<()> {
        match self.principal() {
            Principal::ApiKey(_) if !self.has_all_of(grants, None) => Err(refused(format!(
                "{self} cannot change role [{name}]: it grants more than the API key has"
            ))),
            _ => Ok(()),
        }
    }

    /// Whether this identity has everything that `grants` gives a user of this tenant (or of none).
    fn has_all_of(&self, grants: &Grants, tenant: Option<&TenantId>) -> bool {
        let (most, managing) = match tenant {
            Some(_) => (PrivilegeSet::within_tenant(), Privilege::ManageTenant),
            None => (PrivilegeSet::all(), Privilege::ManageSecurity),
        };
        if grants.cluster().contains(managing) {
            return most.iter().all(|privilege| self.has_for_all(privilege));
        }
        let within = |set: PrivilegeSet| set.iter().filter(move |privilege| most.contains(*privilege));
        // In a tenant, a pattern also matches the tenant's private indices, which an operator's pattern does not.
        let widened = tenant.is_some() && self.tenant().is_none();
        let reaches = |privilege, pattern: &str| self.has_for(privilege, if widened { "*" } else { pattern });
        within(grants.cluster()).all(|privilege| self.has(privilege))
            && grants.entries().iter().all(|(names, set)| {
                within(*set).all(|privilege| names.iter().all(|pattern| reaches(privilege, pattern)))
            })
    }

    /// Fails if a key for a tenant could access more than its creator, who belongs to no tenant: for the key, the same
    /// pattern also matches the tenant's private indices.
    pub(crate) fn check_names_fit_tenant(&self, tenant: Option<&TenantId>) -> Result<()> {
        let Some(tenant) = tenant.filter(|_| self.tenant().is_none()) else {
            return Ok(());
        };
        let of_some_names = |privilege: Privilege| self.has(privilege) && !self.has_for_all(privilege);
        match PrivilegeSet::of_indices().iter().any(of_some_names) {
            true => Err(refused(format!(
                "{self} cannot create an API key for tenant [{tenant}]: only privileges for all names [*] \
                 can be given to a tenant"
            ))),
            false => Ok(()),
        }
    }

    /// Whether it has a privilege; for an index privilege: for every name.
    fn has_for_all(&self, privilege: Privilege) -> bool {
        match privilege.is_of_indices() {
            true => self.has_for(privilege, "*"),
            false => self.has(privilege),
        }
    }
}

/// Whether the key's role descriptors name one of these cluster privileges.
fn names(key: &ApiKey, privileges: &[&str]) -> bool {
    let mut named = key.role_descriptors.values().flat_map(|role| &role.cluster);
    named.any(|name| privileges.contains(&name.as_str()))
}

fn check_active(key: &ApiKey, state: &State, now_ms: i64) -> Result<()> {
    match state.api_keys.get(&key.id) {
        Some(present) if present.is_active(now_ms) => Ok(()),
        _ => Err(Error::new(ErrorKind::Unauthenticated, "the api key has ended")),
    }
}

fn refused(reason: String) -> Error {
    Error::new(ErrorKind::Forbidden, reason)
}
