//! Whose events these are.

use std::fmt;
use std::sync::Arc;

use crate::{Error, Result};

/// The name of a tenant: 1 to 64 of the letters, digits, `-`, `_` and `.`, not beginning with one of
/// the last three. Case counts. It is the value of the tenant field of its events and their routing.
///
/// Made from the record of a user or an API key when a request is authenticated, and where a tenant
/// is declared; never from what a request says about itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(Arc<str>);

impl TenantId {
    /// Longest name, bytes: it stands in ids, keys of caches and labels of metrics.
    pub const BYTES_MAX: usize = 64;

    /// Checks a name; [`crate::ErrorKind::IllegalArgument`] if it is none.
    pub fn parse(name: &str) -> Result<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_name = (1..=Self::BYTES_MAX).contains(&name.len())
            && name.bytes().all(plain)
            && name.as_bytes()[0].is_ascii_alphanumeric();
        if !is_name {
            return Err(Error::illegal_argument(format!(
                "invalid tenant id [{name}]: it takes 1 to {} letters, digits, [-], [_] and [.], and begins with a \
                 letter or digit",
                Self::BYTES_MAX
            )));
        }
        Ok(Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for TenantId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// What an operator declares about a tenant.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TenantSettings {
    /// For people.
    pub display_name: Option<String>,
    /// Its events are removed when they are older, ms. `None`: only their index's own retention counts.
    pub retention_ms: Option<u64>,
    /// What it may use.
    pub quotas: Quotas,
}

/// What a tenant may use of a node. `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Quotas {
    /// Events taken in, per second.
    pub ingest_events_per_second: Option<u64>,
    /// Bytes of events taken in, per second.
    pub ingest_bytes_per_second: Option<u64>,
    /// Bytes kept.
    pub stored_bytes: Option<u64>,
    /// Searches answered at one moment.
    pub concurrent_searches: Option<u32>,
    /// Its weight in queues, beside 100 of a tenant without one.
    pub search_cpu_share: Option<u32>,
    /// Bytes that one search may fetch from snapshot repositories.
    pub search_repository_bytes: Option<u64>,
    /// Bytes that its own mounted indices take of the shared cache.
    pub shared_cache_bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for name in ["a", "tenant-001", "Acme_Corp.eu", &"x".repeat(64)] {
            assert_eq!(TenantId::parse(name).unwrap().as_str(), name);
        }
        for name in [
            "",
            "-a",
            ".a",
            "_a",
            "a b",
            "a/b",
            "a,b",
            "a*",
            "ä",
            "a\u{1f}b",
            &"x".repeat(65),
        ] {
            assert!(TenantId::parse(name).is_err(), "{name}");
        }
    }
}
