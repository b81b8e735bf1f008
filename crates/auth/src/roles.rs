//! Roles: named sets of privileges.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_model::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::control::Control;
use crate::identity::Identity;
use crate::privilege::{Privilege, PrivilegeSet};

/// Maximum number of roles: all of them are in memory and in the control file.
const ROLES_MAX: usize = 1000;
/// Maximum patterns of names in one role: each request of its users is checked against them.
const NAMES_MAX: usize = 256;
/// Maximum index entries in one role, for the same reason.
const ENTRIES_MAX: usize = 64;

/// Maximum length of a name in bytes, as in Elasticsearch.
const NAME_BYTES_MAX: usize = 507;

/// Role that reads the events of its tenant, and changes nothing.
pub(crate) const READER: &str = "tenant_reader";

/// Definition of a role, in Elasticsearch's format.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RoleDescriptor {
    /// Names of cluster privileges.
    #[serde(default)]
    pub cluster: Vec<String>,
    /// Privileges by names of indices.
    #[serde(default)]
    pub indices: Vec<IndexEntry>,
    /// Metadata from the user who defined it.
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

/// Privileges for indices, aliases and data streams with given names.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct IndexEntry {
    /// Patterns with `*`.
    pub names: Vec<String>,
    /// Names of index privileges.
    pub privileges: Vec<String>,
}

/// Role with its name.
#[derive(Debug, Clone)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// Its definition.
    pub descriptor: RoleDescriptor,
    /// Whether it is a built-in role, which cannot be changed.
    pub reserved: bool,
    pub(crate) grants: Arc<Grants>,
}

impl Role {
    /// Creates a user-defined role; fails for privileges that are unknown or that firn lacks.
    pub(crate) fn defined(name: &str, descriptor: RoleDescriptor) -> Result<Self> {
        let grants = Grants::of([&descriptor])?;
        Ok(Self {
            name: name.to_owned(),
            descriptor,
            reserved: false,
            grants: Arc::new(grants),
        })
    }
}

impl Control {
    /// Returns all roles, including built-in ones, by name.
    pub fn roles(&self) -> Vec<Arc<Role>> {
        self.state().roles.values().cloned().collect()
    }

    /// Defines a role; returns whether it is new. A key cannot define a role that grants more than the key has.
    pub fn put_role(&self, asker: &Identity, name: &str, descriptor: RoleDescriptor) -> Result<bool> {
        check_name(name)?;
        check_own(&descriptor)?;
        let role = Arc::new(Role::defined(name, descriptor)?);
        self.change(|state, now_ms| {
            asker.check_may_change_users(state, now_ms)?;
            asker.check_outranks_role(name, &role.grants)?;
            let present = state.roles.get(name);
            if let Some(present) = present {
                asker.check_outranks_role(name, &present.grants)?;
            }
            if present.is_some_and(|role| role.reserved) {
                return Err(Error::validation(&[format!(
                    "role [{name}] is reserved and may not be modified."
                )]));
            }
            if present.is_none() && state.roles.len() >= ROLES_MAX {
                return Err(Error::illegal_argument(format!(
                    "cannot define role [{name}]: there are [{ROLES_MAX}] roles, the maximum"
                )));
            }
            Ok(state.roles.insert(name.to_owned(), role).is_none())
        })
    }

    /// Removes a role; returns whether it existed.
    pub fn delete_role(&self, asker: &Identity, name: &str) -> Result<bool> {
        self.change(|state, now_ms| {
            asker.check_may_change_users(state, now_ms)?;
            match state.roles.get(name) {
                Some(role) if role.reserved => Err(Error::illegal_argument(format!(
                    "role [{name}] is reserved and cannot be deleted"
                ))),
                Some(role) => {
                    asker.check_outranks_role(name, &role.grants)?;
                    Ok(state.roles.remove(name).is_some())
                }
                None => Ok(false),
            }
        })
    }
}

/// Refuses invalid names of roles: Elasticsearch's rules, those for names of users, and special names of folders,
/// because clients build paths from them.
fn check_name(name: &str) -> Result<()> {
    let printable = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(printable)
        && name.trim() == name
        && !matches!(name, "." | "..");
    match is_name {
        true => Ok(()),
        false => Err(Error::validation(&[format!(
            "Role names must be at least 1 and no more than {NAME_BYTES_MAX} characters. They can contain alphanumeric characters \
             (a-z, A-Z, 0-9), spaces, punctuation, and printable symbols in the Basic Latin (ASCII) block. Leading or trailing \
             whitespace is not allowed."
        )])),
    }
}

/// Refuses privileges that only built-in roles grant. The admin of a tenant creates users with any role for the tenant,
/// so the admin must have all privileges of these roles.
pub(crate) fn check_own(descriptor: &RoleDescriptor) -> Result<()> {
    match descriptor.cluster.iter().any(|name| name == "manage_tenant") {
        true => Err(Error::illegal_argument(
            "only the role [tenant_admin] grants the cluster privilege [manage_tenant]",
        )),
        false => Ok(()),
    }
}

/// Compiled grants of roles.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Grants {
    cluster: PrivilegeSet,
    indices: Vec<(Vec<String>, PrivilegeSet)>,
}

/// Names for which a privilege is granted.
#[derive(Debug, PartialEq)]
pub(crate) enum Reach {
    /// No names.
    Nothing,
    /// Names that match these patterns.
    Names(Vec<String>),
    /// All names, or a privilege that does not depend on names.
    Everything,
}

impl Grants {
    /// Compiles the grants of several descriptors.
    pub(crate) fn of<'a>(descriptors: impl IntoIterator<Item = &'a RoleDescriptor>) -> Result<Self> {
        let mut grants = Self::default();
        for descriptor in descriptors {
            grants.add(descriptor)?;
        }
        Ok(grants)
    }

    /// Adds the grants of `other`.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.cluster = self.cluster.and(other.cluster);
        self.indices.extend(other.indices.iter().cloned());
    }

    fn add(&mut self, descriptor: &RoleDescriptor) -> Result<()> {
        for name in &descriptor.cluster {
            self.cluster = self.cluster.and(PrivilegeSet::of_cluster_name(name)?);
        }
        if descriptor.indices.len() > ENTRIES_MAX {
            return Err(Error::illegal_argument(format!(
                "a role has at most [{ENTRIES_MAX}] entries for indices"
            )));
        }
        for entry in &descriptor.indices {
            if entry.names.is_empty() || entry.privileges.is_empty() {
                return Err(Error::illegal_argument(
                    "indices privileges must refer to at least one index name or index name pattern, and grant at \
                     least one privilege",
                ));
            }
            if entry.names.len() > NAMES_MAX {
                return Err(Error::illegal_argument(format!(
                    "an entry for indices has at most [{NAMES_MAX}] names"
                )));
            }
            if let Some(name) = entry.names.iter().find(|name| !is_plain_pattern(name)) {
                return Err(Error::not_implemented(format!(
                    "a name [{name}] that is a regular expression or has [?]"
                )));
            }
            let mut set = PrivilegeSet::default();
            for name in &entry.privileges {
                set = set.and(PrivilegeSet::of_index_name(name)?);
            }
            self.indices.push((entry.names.clone(), set));
        }
        Ok(())
    }

    /// Returns the privileges for the whole node.
    pub(crate) fn cluster(&self) -> PrivilegeSet {
        self.cluster
    }

    /// Returns the patterns of names with their privileges.
    pub(crate) fn entries(&self) -> &[(Vec<String>, PrivilegeSet)] {
        &self.indices
    }

    /// Returns the names for which `privilege` is granted.
    pub(crate) fn reach(&self, privilege: Privilege) -> Reach {
        if privilege == Privilege::Any {
            return Reach::Everything;
        }
        if !privilege.is_of_indices() {
            return match self.cluster.contains(privilege) {
                true => Reach::Everything,
                false => Reach::Nothing,
            };
        }
        self.reach_where(|set| set.contains(privilege))
    }

    /// Returns the names for which any privilege is granted.
    pub(crate) fn names(&self) -> Reach {
        self.reach_where(|set| set != PrivilegeSet::default())
    }

    /// Returns whether there are no grants.
    pub(crate) fn is_empty(&self) -> bool {
        self.cluster == PrivilegeSet::default() && self.names() == Reach::Nothing
    }

    fn reach_where(&self, wanted: impl Fn(PrivilegeSet) -> bool) -> Reach {
        let mut patterns = Vec::new();
        for (names, set) in &self.indices {
            if !wanted(*set) {
                continue;
            }
            if names.iter().any(|name| name == "*") {
                return Reach::Everything;
            }
            patterns.extend(names.iter().cloned());
        }
        match patterns.is_empty() {
            true => Reach::Nothing,
            false => Reach::Names(patterns),
        }
    }
}

fn is_plain_pattern(name: &str) -> bool {
    !name.starts_with('/') && !name.contains('?')
}

/// Returns the built-in roles. `superuser` is Elasticsearch's name of `operator`.
pub(crate) fn built_in() -> BTreeMap<String, Arc<Role>> {
    let tenant = |privileges: &[&str], cluster: &[&str]| RoleDescriptor {
        cluster: owned(cluster),
        indices: vec![IndexEntry {
            names: owned(&["*"]),
            privileges: owned(privileges),
        }],
        metadata: reserved(),
    };
    let everything = tenant(&["all"], &["all"]);
    [
        ("operator", everything.clone()),
        ("superuser", everything),
        (
            "tenant_admin",
            tenant(
                &[
                    "read",
                    "write",
                    "view_index_metadata",
                    "monitor",
                    "refresh",
                    "create_index",
                    "manage_own_index",
                ],
                &["manage_own_api_key", "manage_tenant"],
            ),
        ),
        (
            "tenant_writer",
            tenant(&["write", "view_index_metadata", "refresh"], &[]),
        ),
        (READER, tenant(&["read", "view_index_metadata", "monitor"], &[])),
    ]
    .into_iter()
    .map(|(name, descriptor)| {
        let grants = Grants::of([&descriptor]).expect("firn's own roles name privileges that firn has");
        let role = Role {
            name: name.to_owned(),
            descriptor,
            reserved: true,
            grants: Arc::new(grants),
        };
        (name.to_owned(), Arc::new(role))
    })
    .collect()
}

/// Returns whether a role is only for users of a tenant.
pub(crate) fn is_for_tenants(name: &str) -> bool {
    matches!(name, "tenant_admin" | "tenant_writer" | READER)
}

/// Returns whether a role is only for users without a tenant.
pub(crate) fn is_for_operators(name: &str) -> bool {
    matches!(name, "operator" | "superuser")
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn reserved() -> Map<String, Value> {
    Map::from_iter([("_reserved".to_owned(), Value::Bool(true))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(entries: &[(&[&str], &[&str])]) -> Result<Grants> {
        let descriptor = RoleDescriptor {
            indices: entries
                .iter()
                .map(|(names, privileges)| IndexEntry {
                    names: owned(names),
                    privileges: owned(privileges),
                })
                .collect(),
            ..RoleDescriptor::default()
        };
        Grants::of([&descriptor])
    }

    #[test]
    fn a_privilege_reaches_the_names_of_its_entries() {
        let grants = grants(&[
            (&["a-*", "b"], &["read"]),
            (&["c"], &["write", "read"]),
            (&["*"], &["monitor"]),
        ])
        .unwrap();
        assert_eq!(grants.reach(Privilege::Read), Reach::Names(owned(&["a-*", "b", "c"])));
        assert_eq!(grants.reach(Privilege::Write), Reach::Names(owned(&["c"])));
        assert_eq!(grants.reach(Privilege::MonitorIndices), Reach::Everything);
        assert_eq!(grants.reach(Privilege::Manage), Reach::Nothing);
        assert_eq!(grants.reach(Privilege::Monitor), Reach::Nothing);
    }

    #[test]
    fn an_entry_without_names_or_with_expressions_is_refused() {
        assert!(grants(&[(&[], &["read"])]).is_err());
        assert!(grants(&[(&["a"], &[])]).is_err());
        assert!(grants(&[(&["/a.*/"], &["read"])]).is_err());
        assert!(grants(&[(&["a?"], &["read"])]).is_err());
    }

    #[test]
    fn tenants_roles_have_what_the_table_says() {
        let roles = built_in();
        let has = |role: &str, privilege| roles[role].grants.reach(privilege) == Reach::Everything;
        assert!(has("tenant_reader", Privilege::Read) && !has("tenant_reader", Privilege::Write));
        assert!(has("tenant_writer", Privilege::Write) && !has("tenant_writer", Privilege::Read));
        assert!(has("tenant_admin", Privilege::ManageOwnIndex) && !has("tenant_writer", Privilege::ManageOwnIndex));
        assert!(has("tenant_admin", Privilege::ManageTenant) && !has("tenant_admin", Privilege::Manage));
        assert!(has("operator", Privilege::ManageCluster));
    }
}
