//! Limits of the number of keys and users: per tenant and in total, with a reserve for operators.
//!
//! All of them are in memory and in the file that every change replaces, which all tenants share.

use firn_model::tenant::TenantId;
use firn_model::{Error, Result};
use serde::Serialize;

/// Maximum bytes of `metadata` of a user or key, printed.
const METADATA_BYTES_MAX: usize = 16 << 10;

/// Limits of one kind of object.
pub(crate) struct EntityLimit {
    /// Name of the kind.
    pub(crate) what: &'static str,
    /// Maximum in total.
    pub(crate) all: usize,
    /// Maximum of one tenant.
    pub(crate) of_tenant: usize,
    /// Part of the total that is reserved for users without a tenant: an operator can always sign in and act,
    /// independent of tenants.
    pub(crate) for_operators: usize,
}

impl EntityLimit {
    /// Refuses one more object if there are `all` already, or if its tenant has reached its limit.
    pub(crate) fn check(&self, name: &str, all: usize, tenant: Option<(&TenantId, usize)>) -> Result<()> {
        let what = self.what;
        let refused = |why: String| Err(Error::illegal_argument(format!("cannot create {what} [{name}]: {why}")));
        let most = match tenant {
            Some((tenant, own)) if own >= self.of_tenant => {
                let most = self.of_tenant;
                return refused(format!(
                    "tenant [{tenant}] has [{most}], which is the maximum of a tenant"
                ));
            }
            Some(_) => self.all - self.for_operators,
            None => self.all,
        };
        if all >= most {
            return refused(format!("there are [{all}], the maximum"));
        }
        Ok(())
    }
}

/// Refuses metadata that is too large to store.
pub(crate) fn check_metadata_size(metadata: &serde_json::Map<String, serde_json::Value>) -> Result<()> {
    check_size("metadata", metadata, METADATA_BYTES_MAX)
}

/// Refuses a part of a user or key that is longer than `max` as JSON.
pub(crate) fn check_size(what: &str, value: &impl Serialize, max: usize) -> Result<()> {
    let text = serde_json::to_vec(value).map_err(|error| Error::internal(format!("cannot print [{what}]: {error}")))?;
    if text.len() > max {
        return Err(Error::validation(&[format!(
            "[{what}] is [{}] bytes long and must be at most [{max}] bytes",
            text.len()
        )]));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use firn_model::ErrorKind;
    use serde_json::json;

    use super::*;

    #[test]
    fn no_tenant_takes_the_room_of_all() {
        let room = EntityLimit {
            what: "user",
            all: 10,
            of_tenant: 3,
            for_operators: 2,
        };
        let tenant = TenantId::parse("a").unwrap();
        room.check("u", 5, Some((&tenant, 2))).unwrap();
        let error = room.check("u", 5, Some((&tenant, 3))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IllegalArgument);
        assert_eq!(
            error.to_string(),
            "cannot create user [u]: tenant [a] has [3], which is the maximum of a tenant"
        );
        assert!(
            room.check("u", 8, Some((&tenant, 0))).is_err(),
            "the rest is for operators"
        );
        room.check("u", 9, None).unwrap();
        assert!(room.check("u", 10, None).is_err());
    }

    #[test]
    fn stored_metadata_is_small() {
        let metadata = |bytes: usize| json!({"a": "x".repeat(bytes)}).as_object().cloned().unwrap();
        check_metadata_size(&metadata(16_000)).unwrap();
        let error = check_metadata_size(&metadata(17_000)).unwrap_err();
        assert!(
            error.to_string().contains("[metadata] is [17008] bytes long"),
            "{error}"
        );
    }
}
