//! Who sends a request, and what it may touch.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::Scope;
use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};

use crate::api_keys::ApiKey;
use crate::privilege::{Privilege, PrivilegeSet};
use crate::roles::{Grants, Reach, Role, RoleDescriptor};
use crate::users::User;

/// What somebody signed in with.
#[derive(Debug, Clone)]
pub enum Principal {
    /// Nothing: security is off, and everybody is an operator.
    Open,
    /// Name and password.
    User(Arc<User>),
    /// A key.
    ApiKey(Arc<ApiKey>),
}

/// Somebody who signed in, with what he may do: each layer has to grant it.
#[derive(Debug, Clone)]
pub struct Identity {
    principal: Principal,
    tenant: Option<TenantId>,
    roles: Vec<Arc<Role>>,
    layers: Vec<Arc<Grants>>,
    /// Of his tenant's work in queues.
    weight: Option<u32>,
    /// An operator who looks at what a tenant sees.
    is_viewing: bool,
}

impl Identity {
    /// Everybody, where security is off.
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

    /// The same with a tenant's eyes: what a reader of it may, as far as he himself may it.
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

    /// What he signed in with.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The user he is or acts for; `None` where security is off.
    pub fn user_name(&self) -> Option<&str> {
        match &self.principal {
            Principal::Open => None,
            Principal::User(user) => Some(&user.name),
            Principal::ApiKey(key) => Some(&key.owner),
        }
    }

    /// The tenant he belongs to; `None`: none.
    pub fn tenant(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    /// Whether he is an operator who looks at what a tenant sees, and so may change nothing.
    pub fn is_viewing(&self) -> bool {
        self.is_viewing
    }

    /// Fails for whoever only looks at what a tenant sees.
    pub fn check_not_viewing(&self) -> Result<()> {
        match self.is_viewing {
            false => Ok(()),
            true => Err(Error::new(
                ErrorKind::Forbidden,
                "nothing can be changed while another tenant's view is taken: go back to your own first",
            )),
        }
    }

    /// Names of his roles that exist; an API key has none.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        self.roles.iter().map(|role| role.name.as_str())
    }

    /// What he may do, by the names of his roles: a key he makes can do no more.
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

    /// What his roles grant, in their words and each once, without what nobody of his tenant can have. A key that may less
    /// than its maker has no such list, as in Elasticsearch.
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

    /// Whether both see and may the same.
    pub(crate) fn may_the_same(&self, other: &Self) -> bool {
        self.tenant == other.tenant && self.layers == other.layers
    }

    /// Who belongs to no tenant has no index of its own: whatever he changes is everybody's.
    fn meant_by(&self, privilege: Privilege) -> Privilege {
        match privilege {
            Privilege::ManageOwnIndex if self.tenant.is_none() => Privilege::Manage,
            asked => asked,
        }
    }

    /// Whether he has a privilege, for indices: for at least one name.
    pub fn has(&self, privilege: Privilege) -> bool {
        let privilege = self.meant_by(privilege);
        (self.tenant.is_none() || PrivilegeSet::within_tenant().contains(privilege))
            && self.layers.iter().all(|layer| layer.reach(privilege) != Reach::Nothing)
    }

    /// Whether he has an index privilege for a name or pattern.
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

    /// What a request of his may touch at an endpoint that asks for `privilege`; `None`: he may not
    /// ask at all.
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
            // Who may ask anything of the node sees the node; who merely signed in sees his names.
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

    /// The error of whoever may not use an endpoint. It says nothing about what exists.
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

/// As Elasticsearch's errors call him.
impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.principal {
            Principal::Open => f.write_str("anybody"),
            Principal::User(user) => {
                let roles: Vec<&str> = self.roles().collect();
                write!(f, "user [{}] with effective roles [{}]", user.name, roles.join(","))
            }
            Principal::ApiKey(key) => write!(f, "API key id [{}] of user [{}]", key.id, key.owner),
        }
    }
}
