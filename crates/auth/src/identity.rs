//! Identity: the caller of a request, and its privileges.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::Scope;
use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};

use crate::api_keys::ApiKey;
use crate::privilege::{Privilege, PrivilegeSet};
use crate::roles::{Grants, Reach, Role, RoleDescriptor};
use crate::users::User;

/// Means of authentication.
#[derive(Debug, Clone)]
pub enum Principal {
    /// None: security is off, and every caller is an operator.
    Open,
    /// Name and password.
    User(Arc<User>),
    /// A key.
    ApiKey(Arc<ApiKey>),
}

/// Authenticated caller with its privileges: each layer must grant them.
#[derive(Debug, Clone)]
pub struct Identity {
    principal: Principal,
    tenant: Option<TenantId>,
    roles: Vec<Arc<Role>>,
    layers: Vec<Arc<Grants>>,
    /// Weight of the work of the caller's tenant in queues.
    weight: Option<u32>,
    /// Whether it is an operator in a tenant's view.
    is_viewing: bool,
}

impl Identity {
    /// Returns the identity of every caller if security is off.
    pub fn open() -> Self {
        Self {
            principal: Principal::Open,
            tenant: None,
            roles: Vec::new(),
            layers: Vec::new(),
            weight: None,
            is_viewing: false,
        }
    }

    pub(crate) fn user(user: Arc<User>, roles: Vec<Arc<Role>>, weight: Option<u32>) -> Self {
        let mut grants = Grants::default();
        for role in &roles {
            grants.extend(&role.grants);
        }
        Self {
            tenant: user.tenant(),
            principal: Principal::User(user),
            roles,
            layers: vec![Arc::new(grants)],
            weight,
            is_viewing: false,
        }
    }

    /// Returns the identity in a tenant's view: the privileges of a tenant's reader, as far as the operator has them.
    pub(crate) fn viewing(&self, tenant: TenantId, reader: Arc<Role>, weight: Option<u32>) -> Self {
        let mut layers = self.layers.clone();
        layers.push(Arc::clone(&reader.grants));
        Self {
            principal: self.principal.clone(),
            tenant: Some(tenant),
            roles: vec![reader],
            layers,
            weight,
            is_viewing: true,
        }
    }

    pub(crate) fn api_key(key: Arc<ApiKey>, weight: Option<u32>) -> Self {
        Self {
            tenant: key.tenant().cloned(),
            layers: key.layers.clone(),
            principal: Principal::ApiKey(key),
            roles: Vec::new(),
            weight,
            is_viewing: false,
        }
    }

    /// Returns the means of authentication.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Returns the user, or the user for whom a key acts; `None` if security is off.
    pub fn user_name(&self) -> Option<&str> {
        match &self.principal {
            Principal::Open => None,
            Principal::User(user) => Some(&user.name),
            Principal::ApiKey(key) => Some(&key.owner),
        }
    }

    /// Returns the caller's tenant; `None`: none.
    pub fn tenant(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    /// Returns whether the caller is an operator in a tenant's view, who may change nothing.
    pub fn is_viewing(&self) -> bool {
        self.is_viewing
    }

    /// Fails for an operator in a tenant's view.
    pub fn check_not_viewing(&self) -> Result<()> {
        match self.is_viewing {
            false => Ok(()),
            true => Err(Error::new(
                ErrorKind::Forbidden,
                "changes are not allowed in a tenant's view: leave the view first",
            )),
        }
    }

    /// Returns the names of the caller's roles that exist; an API key has none.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        self.roles.iter().map(|role| role.name.as_str())
    }

    /// Returns the caller's privileges by the names of the roles: upper bound of a key that the caller creates.
    pub(crate) fn descriptors(&self) -> BTreeMap<String, RoleDescriptor> {
        match &self.principal {
            Principal::ApiKey(key) => key.limited_by.clone(),
            _ => self
                .roles
                .iter()
                .map(|role| (role.name.clone(), role.descriptor.clone()))
                .collect(),
        }
    }

    /// Returns the grants of the caller's roles, as defined and each once, without those that no caller of the tenant
    /// can have. A key with fewer privileges than its creator has no such list, as in Elasticsearch.
    pub fn granted(&self) -> Result<RoleDescriptor> {
        if let Principal::ApiKey(key) = &self.principal
            && !key.role_descriptors.is_empty()
        {
            return Err(Error::illegal_argument(
                "Cannot retrieve privileges for API keys with assigned role descriptors. Please use the Get API key \
                 information API",
            ));
        }
        let mut granted = RoleDescriptor::default();
        for descriptor in self.descriptors().into_values() {
            for name in descriptor.cluster {
                let mut privileges = PrivilegeSet::of_cluster_name(&name)?.iter();
                if privileges.all(|privilege| self.has(privilege)) && !granted.cluster.contains(&name) {
                    granted.cluster.push(name);
                }
            }
            for entry in descriptor.indices {
                if !granted.indices.contains(&entry) {
                    granted.indices.push(entry);
                }
            }
        }
        granted.cluster.sort_unstable();
        Ok(granted)
    }

    /// Returns whether both see and may do the same.
    pub(crate) fn may_the_same(&self, other: &Self) -> bool {
        self.tenant == other.tenant && self.layers == other.layers
    }

    /// Maps `ManageOwnIndex` to `Manage` for callers without a tenant: they have no private indices, so every index
    /// they change is shared.
    fn meant_by(&self, privilege: Privilege) -> Privilege {
        match privilege {
            Privilege::ManageOwnIndex if self.tenant.is_none() => Privilege::Manage,
            other => other,
        }
    }

    /// Returns whether the caller has a privilege; for an index privilege: for at least one name.
    pub fn has(&self, privilege: Privilege) -> bool {
        let privilege = self.meant_by(privilege);
        (self.tenant.is_none() || PrivilegeSet::within_tenant().contains(privilege))
            && self.layers.iter().all(|layer| layer.reach(privilege) != Reach::Nothing)
    }

    /// Returns whether the caller has an index privilege for a name or pattern.
    pub fn has_for(&self, privilege: Privilege, name: &str) -> bool {
        let privilege = self.meant_by(privilege);
        self.has(privilege)
            && self.layers.iter().all(|layer| match layer.reach(privilege) {
                Reach::Nothing => false,
                Reach::Everything => true,
                Reach::Names(patterns) => patterns
                    .iter()
                    .any(|pattern| firn_model::names::matches_pattern(pattern, name)),
            })
    }

    /// Returns what a request of the caller may access at an endpoint with `privilege`; `None`: the caller may not use
    /// the endpoint.
    pub fn scope(&self, privilege: Privilege) -> Option<Scope> {
        let privilege = self.meant_by(privilege);
        if !self.has(privilege) {
            return None;
        }
        let mut scope = match &self.tenant {
            Some(tenant) => Scope::tenant(tenant.clone()),
            None => Scope::operator(),
        };
        for layer in &self.layers {
            // With a privilege of the node, the caller sees the node; with `Any`, only the names granted to it.
            let reach = match privilege {
                Privilege::Any => layer.names(),
                _ => layer.reach(privilege),
            };
            scope = match reach {
                Reach::Everything => scope,
                Reach::Names(names) => scope.within(names),
                Reach::Nothing => scope.within(Vec::new()),
            };
        }
        if let Principal::User(_) | Principal::ApiKey(_) = self.principal {
            scope = scope.of(self.to_string());
        }
        if self.is_viewing {
            scope = scope.viewing();
        }
        Some(match self.weight {
            Some(weight) => scope.weighted(weight),
            None => scope,
        })
    }

    /// Creates the error for a caller who may not use an endpoint. It reveals nothing about what exists.
    pub fn refusal(&self, action: &str, privilege: Privilege) -> Error {
        let privilege = self.meant_by(privilege);
        let kind = if privilege.is_of_indices() { "index" } else { "cluster" };
        Error::new(
            ErrorKind::Forbidden,
            format!(
                "action [{action}] is unauthorized for {self}, this action is granted by the {kind} privileges [{}]",
                privilege.granted_by().join(",")
            ),
        )
    }
}

/// Prints the caller as in Elasticsearch's errors.
impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.principal {
            Principal::Open => f.write_str("anonymous"),
            Principal::User(user) => {
                let roles: Vec<&str> = self.roles().collect();
                write!(f, "user [{}] with effective roles [{}]", user.name, roles.join(","))
            }
            Principal::ApiKey(key) => write!(f, "API key id [{}] of user [{}]", key.id, key.owner),
        }
    }
}
