//! Users: people and programs with a password.

use std::fmt;
use std::sync::Arc;

use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::control::Control;
use crate::entity_limits::{self, EntityLimit};
use crate::identity::{Identity, Principal};
use crate::privilege::Privilege;
use crate::state::State;
use crate::{passwords, roles};

/// The operator that exists from the first start; named as in Elasticsearch, because tools expect that name.
pub(crate) const OPERATOR: &str = "elastic";
/// Maximum length of a name in bytes, as in Elasticsearch.
const NAME_BYTES_MAX: usize = 507;
/// Maximum number of users: all of them are in memory and in the control file.
const ROOM: EntityLimit = EntityLimit {
    what: "user",
    all: 10_000,
    of_tenant: 500,
    for_operators: 1_000,
};
/// Maximum bytes of the names and email for display and of the names of roles of a user, as JSON.
const PERSON_BYTES_MAX: usize = 16 << 10;
/// Entry in the metadata of a user or API key that binds it to a tenant.
const TENANT_ENTRY: &str = "tenant";

/// User with a password.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct User {
    /// Name for the sign-in.
    pub name: String,
    pub(crate) password_hash: Hidden,
    /// Names of roles; undefined roles grant nothing.
    pub roles: Vec<String>,
    /// For display.
    #[serde(default)]
    pub full_name: Option<String>,
    /// For display.
    #[serde(default)]
    pub email: Option<String>,
    /// Metadata from the creator; the entry `tenant` binds the user to a tenant.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Whether the user may sign in.
    pub enabled: bool,
}

/// Definition of a new or changed user.
#[derive(Debug, Clone, Default)]
pub struct NewUser {
    /// `None`: the present password of the user.
    pub password: Option<Password>,
    /// Names of roles.
    pub roles: Vec<String>,
    /// For display.
    pub full_name: Option<String>,
    /// For display.
    pub email: Option<String>,
    /// The entry `tenant` binds the user to a tenant.
    pub metadata: Map<String, Value>,
    /// Whether the user may sign in.
    pub enabled: bool,
}

/// Password as typed; logs never show it.
#[derive(Clone)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// Hash of a password, which logs never show.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Hidden(pub(crate) String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(…)")
    }
}

impl User {
    /// Returns the tenant of the user; `None`: the user belongs to no tenant.
    pub fn tenant(&self) -> Option<TenantId> {
        // Checked when the metadata was set.
        tenant_of(&self.metadata).ok().flatten()
    }

    /// Returns whether it is a built-in user, which cannot be removed.
    pub fn is_reserved(&self) -> bool {
        self.name == OPERATOR
    }
}

impl Control {
    /// Returns the users that `asker` may see, by name.
    pub fn users(&self, asker: &Identity) -> Vec<Arc<User>> {
        let state = self.state();
        let seen = state.users.values().filter(|user| sees(asker, user));
        seen.cloned().collect()
    }

    /// Creates or changes a user; returns whether the user is new. `asker` may do so for users of its tenant; a key
    /// needs the explicit privilege, and only for users without more privileges than the key.
    pub fn put_user(&self, asker: &Identity, name: &str, new: NewUser) -> Result<bool> {
        check_name(name)?;
        check_metadata(&new.metadata)?;
        let person = (&new.roles, &new.full_name, &new.email);
        entity_limits::check_size("roles, full_name, email", &person, PERSON_BYTES_MAX)?;
        let mut metadata = new.metadata;
        let tenant = claim(asker, &mut metadata)?;
        check_roles(&new.roles, tenant.as_ref())?;
        if !new.enabled {
            // Elasticsearch accepts it here.
            check_not_own(asker, name)?;
        }
        let hash = match &new.password {
            Some(password) => Some(self.hash(password)?),
            None => None,
        };
        self.change_users(asker, |state| {
            state.check_tenant(tenant.as_ref())?;
            let present = state.users.get(name);
            if let Some(user) = present {
                check_changeable(asker, user)?;
                asker.check_outranks_user(state, user)?;
                if user.is_reserved() {
                    return Err(Error::validation(&[format!(
                        "user [{name}] is reserved and cannot be changed, only its password"
                    )]));
                }
            }
            let missing =
                || Error::validation(&["password must be specified unless you are updating an existing user"]);
            let password_hash = match (hash, present) {
                (Some(hash), _) => hash,
                (None, Some(user)) => user.password_hash.clone(),
                (None, None) => return Err(missing()),
            };
            // A user that comes from another tenant is new to this tenant.
            let is_own = |user: &User| user.tenant() == tenant;
            if !present.is_some_and(|user| is_own(user)) {
                let own = tenant.as_ref().map(|tenant| {
                    let users = state.users.values();
                    (tenant, users.filter(|user| is_own(user)).count())
                });
                let others = state.users.len() - usize::from(present.is_some());
                ROOM.check(name, others, own)?;
            }
            let user = User {
                name: name.to_owned(),
                password_hash,
                roles: new.roles,
                full_name: new.full_name,
                email: new.email,
                metadata,
                enabled: new.enabled,
            };
            asker.check_outranks_user(state, &user)?;
            Ok(state.users.insert(name.to_owned(), Arc::new(user)).is_none())
        })
    }

    /// Sets a user's password. Users may change their own.
    pub fn set_password(&self, asker: &Identity, name: &str, password: &Password) -> Result<()> {
        asker.check_not_viewing()?;
        let password_hash = self.hash(password)?;
        self.change_user(asker, name, |user| user.password_hash = password_hash)
    }

    /// Enables or disables a user. Users cannot do so for themselves: they could not undo it.
    pub fn set_enabled(&self, asker: &Identity, name: &str, enabled: bool) -> Result<()> {
        check_not_own(asker, name)?;
        self.change_user(asker, name, |user| user.enabled = enabled)
    }

    /// Removes a user; returns whether the user existed.
    pub fn delete_user(&self, asker: &Identity, name: &str) -> Result<bool> {
        self.change_users(asker, |state| {
            let Some(user) = state.users.get(name).filter(|user| sees(asker, user)) else {
                return Ok(false);
            };
            asker.check_outranks_user(state, user)?;
            if user.is_reserved() {
                return Err(Error::illegal_argument(format!(
                    "user [{name}] is reserved and cannot be deleted"
                )));
            }
            state.users.remove(name);
            Ok(true)
        })
    }

    fn change_user(&self, asker: &Identity, name: &str, change: impl FnOnce(&mut User)) -> Result<()> {
        self.change_users(asker, |state| {
            let user = state.users.get(name).filter(|user| sees(asker, user));
            let user = user.ok_or_else(|| Error::validation(&["user must exist in order to change it"]))?;
            asker.check_outranks_user(state, user)?;
            let mut changed = User::clone(user);
            change(&mut changed);
            state.users.insert(name.to_owned(), Arc::new(changed));
            Ok(())
        })
    }

    /// Changes users, if `asker` may do so at all, and unless no operator could sign in afterwards.
    fn change_users<T>(&self, asker: &Identity, decide: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        self.change(|state, now_ms| {
            asker.check_may_change_users(state, now_ms)?;
            let had_operator = has_operator(state);
            let outcome = decide(state)?;
            match had_operator && !has_operator(state) {
                true => Err(Error::illegal_argument(
                    "this would leave no operator who can sign in: create or enable another one first",
                )),
                false => Ok(outcome),
            }
        })
    }

    fn hash(&self, password: &Password) -> Result<Hidden> {
        passwords::check_new(&password.0)?;
        passwords::hash(&password.0, self.draw()).map(Hidden)
    }
}

/// Whether `asker` may see a user: all users, those of the tenant, or only itself. A key is not its creator: a limited
/// key must not set the creator's password.
fn sees(asker: &Identity, user: &User) -> bool {
    match asker.tenant() {
        None if asker.has(Privilege::ManageSecurity) => true,
        Some(tenant) if asker.has(Privilege::ManageTenant) => user.tenant().as_ref() == Some(tenant),
        _ => matches!(asker.principal(), Principal::User(own) if own.name == user.name),
    }
}

/// Whether an operator can sign in.
fn has_operator(state: &State) -> bool {
    let is_operator = |user: &User| user.enabled && user.roles.iter().any(|name| roles::is_for_operators(name));
    state
        .users
        .values()
        .any(|user| is_operator(user) && user.tenant().is_none())
}

/// Refuses changes by which users would lock themselves out, in Elasticsearch's words; a key counts as its creator.
fn check_not_own(asker: &Identity, name: &str) -> Result<()> {
    match asker.user_name() == Some(name) {
        true => Err(Error::illegal_argument(
            "users may not update the enabled status of their own account",
        )),
        false => Ok(()),
    }
}

/// Refuses to take over a user that `asker` may not see, in words that reveal nothing about that user.
fn check_changeable(asker: &Identity, user: &User) -> Result<()> {
    match sees(asker, user) {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Forbidden,
            format!("the name [{}] is not free", user.name),
        )),
    }
}

/// Returns the tenant of the object that `asker` creates with this metadata: the tenant of `asker`, or the named one if
/// `asker` has none. Naming another tenant fails.
pub(crate) fn claim(asker: &Identity, metadata: &mut Map<String, Value>) -> Result<Option<TenantId>> {
    let named = tenant_of(metadata)?;
    match (asker.tenant(), named) {
        (None, named) => Ok(named),
        (Some(own), Some(named)) if *own != named => Err(Error::new(
            ErrorKind::Forbidden,
            format!("{asker} belongs to tenant [{own}] and cannot create anything for tenant [{named}]"),
        )),
        (Some(own), _) => {
            bind(metadata, own);
            Ok(Some(own.clone()))
        }
    }
}

/// Returns the tenant that metadata of a user or API key names.
pub(crate) fn tenant_of(metadata: &Map<String, Value>) -> Result<Option<TenantId>> {
    match metadata.get(TENANT_ENTRY) {
        None => Ok(None),
        Some(Value::String(name)) => TenantId::parse(name).map(Some),
        Some(other) => Err(Error::illegal_argument(format!(
            "metadata field [{TENANT_ENTRY}] must be the id of a tenant, not [{other}]"
        ))),
    }
}

/// Stores the tenant in the metadata.
fn bind(metadata: &mut Map<String, Value>, tenant: &TenantId) {
    metadata.insert(TENANT_ENTRY.to_owned(), tenant.as_str().into());
}

/// Refuses metadata with entries that Elasticsearch reserves, and metadata that is too large.
pub(crate) fn check_metadata(metadata: &Map<String, Value>) -> Result<()> {
    match metadata.keys().find(|key| key.starts_with('_')) {
        Some(_) => Err(Error::validation(&["metadata keys may not start with [_]"])),
        None => entity_limits::check_metadata_size(metadata),
    }
}

/// Refuses invalid names of users.
fn check_name(name: &str) -> Result<()> {
    let printable = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    // A colon ends the name in the Basic scheme; `_privileges` and the like are endpoints beside the users.
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| printable(byte) && byte != b':')
        && !name.starts_with('_')
        && !matches!(name, "." | "..")
        && name.trim() == name;
    if !is_name {
        return Err(Error::validation(&[format!(
            "username [{name}] is invalid: names must be at least [1] and no more than [{NAME_BYTES_MAX}] printable \
             ASCII characters without [:], leading [_], leading or trailing whitespace, and not [.] or [..]"
        )]));
    }
    Ok(())
}

/// Refuses roles that do not fit users of this tenant, or users without a tenant.
fn check_roles(names: &[String], tenant: Option<&TenantId>) -> Result<()> {
    for name in names {
        if tenant.is_none() && roles::is_for_tenants(name) {
            return Err(Error::illegal_argument(format!(
                "role [{name}] is for users of a tenant: set [metadata.tenant]"
            )));
        }
        if let Some(tenant) = tenant
            && roles::is_for_operators(name)
        {
            return Err(Error::illegal_argument(format!(
                "role [{name}] is not for users of a tenant, and this one belongs to [{tenant}]"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_printable() {
        for name in ["elastic", "a b", "x@y.org", "a_b"] {
            check_name(name).unwrap();
        }
        for name in [
            "",
            ".",
            "..",
            " a",
            "a ",
            "ä",
            "a:b",
            "a\n",
            "_privileges",
            &"x".repeat(508),
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn roles_fit_whose_user_it_is() {
        let tenant = TenantId::parse("a").unwrap();
        let check = |role: &str, tenant| check_roles(&[role.to_owned()], tenant).is_ok();
        assert!(check("operator", None) && !check("operator", Some(&tenant)));
        assert!(check("tenant_admin", Some(&tenant)) && !check("tenant_admin", None));
        assert!(check("own", Some(&tenant)) && check("own", None));
    }

    #[test]
    fn secrets_are_not_printed() {
        assert_eq!(format!("{:?}", Password("abc".into())), "Password(…)");
        assert_eq!(format!("{:?}", Hidden("abc".into())), "Hidden(…)");
    }
}
