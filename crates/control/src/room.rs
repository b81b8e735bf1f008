//! How many keys and users there may be: so many of a tenant, and always some more for operators.
//!
//! All of them are in memory and in the file that every change replaces, which all tenants share.

use firn_model::tenant::TenantId;
use firn_model::{Error, Result};
use serde::Serialize;

/// Bytes of `metadata` of a user or key, printed.
const METADATA_BYTES_MAX: usize = 16 << 10;

/// How many there may be of something.
pub(crate) struct Room {
    /// What it is, in words.
    pub(crate) what: &'static str,
    /// Of all.
    pub(crate) all: usize,
    /// Of one tenant.
    pub(crate) of_tenant: usize,
    /// Of all, those that only somebody without a tenant gets: whatever tenants do, an operator can sign in and act.
    pub(crate) for_operators: usize,
}

impl Room {
    /// Refuses one more where `all` are there, and so many of the tenant that it is for.
    pub(crate) fn check(&self, name: &str, all: usize, tenant: Option<(&TenantId, usize)>) -> Result<()> {
        let what = self.what;
        let refused = |why: String| Err(Error::illegal_argument(format!("cannot make {what} [{name}]: {why}")));
        let most = match tenant {
            Some((tenant, own)) if own >= self.of_tenant => {
                let most = self.of_tenant;
                return refused(format!(
                    "tenant [{tenant}] has [{most}], the most that a tenant may have"
                ));
            }
            Some(_) => self.all - self.for_operators,
            None => self.all,
        };
        if all >= most {
            return refused(format!("there are [{all}], the most there may be"));
        }
        Ok(())
    }
}

/// Refuses metadata that is too large to be kept.
pub(crate) fn check_metadata_size(metadata: &serde_json::Map<String, serde_json::Value>) -> Result<()> {
    check_size("metadata", metadata, METADATA_BYTES_MAX)
}

/// Refuses a part of a user or key that is longer than this as JSON.
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
        let room = Room {
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
            "cannot make user [u]: tenant [a] has [3], the most that a tenant may have"
        );
        assert!(
            room.check("u", 8, Some((&tenant, 0))).is_err(),
            "the rest is for operators"
        );
        room.check("u", 9, None).unwrap();
        assert!(room.check("u", 10, None).is_err());
    }

    #[test]
    fn what_is_kept_is_small() {
        let metadata = |bytes: usize| json!({"a": "x".repeat(bytes)}).as_object().cloned().unwrap();
        check_metadata_size(&metadata(16_000)).unwrap();
        let error = check_metadata_size(&metadata(17_000)).unwrap_err();
        assert!(
            error.to_string().contains("[metadata] is [17008] bytes long"),
            "{error}"
        );
    }
}
