//! Names of private indices, which tenants create for themselves.
//!
//! Tenants share one node but not a namespace: each may choose any index name. No tenant may find out by trying which
//! names other tenants use, or reserve a name against them. So the node's name of such an index consists of the tenant
//! and the tenant's name for it, and only the tenant's view shows the latter.

use super::validate_index_name;
use crate::tenant::TenantId;
use crate::{Error, ErrorKind, Result};

/// Separates the two; tenant names cannot contain it.
const AFTER_TENANT: char = '~';
/// Precedes a capital of the tenant's name, written in lower case: index names have no capitals.
const CAPITAL: char = '^';
/// Prefix of backing indices of data streams, which tenants share: no private index may hide one.
const BACKING: &str = ".ds-";

/// Returns the node's name of the private index that a tenant calls `name`; the node's name is accepted as well. Fails
/// if it is not a valid index name.
pub fn private_index_name(tenant: &TenantId, name: &str) -> Result<String> {
    let name = known_as(tenant, name).unwrap_or(name);
    validate_index_name(name)?;
    let refused = |start: &str| {
        let reason = format!("Invalid index name [{name}], must not start with {start}");
        Err(Error::new(ErrorKind::InvalidIndexName, reason).with_index(name))
    };
    if known_as(tenant, name).is_some() {
        return refused(&format!("'{}' twice", prefix(tenant)));
    }
    if name.starts_with(BACKING) {
        return refused("'.ds-'");
    }
    let private = format!("{}{name}", prefix(tenant));
    validate_index_name(&private)?;
    Ok(private)
}

/// Returns the tenant's name for its private index.
pub fn known_as<'a>(tenant: &TenantId, index: &'a str) -> Option<&'a str> {
    index.strip_prefix(&prefix(tenant)).filter(|name| !name.is_empty())
}

fn prefix(tenant: &TenantId) -> String {
    let mut prefix = String::with_capacity(tenant.as_str().len() + 1);
    for letter in tenant.as_str().chars() {
        if letter.is_ascii_uppercase() {
            prefix.push(CAPITAL);
        }
        prefix.push(letter.to_ascii_lowercase());
    }
    prefix.push(AFTER_TENANT);
    prefix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_share_no_names() {
        let private = |tenant: &str, name: &str| private_index_name(&TenantId::parse(tenant).unwrap(), name).unwrap();
        let names = [
            private("acme", "logs"),
            private("Acme", "logs"),
            private("acme-eu", "logs"),
            private("acme", "eu-logs"),
            private("a", "cme~logs"),
        ];
        assert_eq!(names[..2], ["acme~logs".to_owned(), "^acme~logs".to_owned()]);
        let different: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len());
    }

    #[test]
    fn a_tenant_knows_its_own_by_its_name() {
        let tenant = TenantId::parse("Acme").unwrap();
        assert_eq!(known_as(&tenant, "^acme~logs"), Some("logs"));
        for other in ["acme~logs", "^acme~", "logs", "x^acme~logs"] {
            assert_eq!(known_as(&tenant, other), None, "{other}");
        }
        assert_eq!(private_index_name(&tenant, "^acme~logs").unwrap(), "^acme~logs");
        for invalid in ["_x", "A", "a b", "", "^acme~^acme~logs", ".ds-logs-000001"] {
            assert!(private_index_name(&tenant, invalid).is_err(), "{invalid}");
        }
        assert!(
            private_index_name(&tenant, &"x".repeat(251)).is_err(),
            "too long together"
        );
    }
}
