//! Tenants: their names, and what an operator declares about them.

use std::fmt;
use std::sync::Arc;

use crate::{Error, Result};

/// Name of a tenant: 1 to 64 of the letters, digits, `-`, `_` and `.`, not beginning with one of the last three. Case
/// is significant. It is the value of the tenant field of the tenant's events, and their routing.
///
/// It comes from the record of a user or an API key when a request is authenticated, or from the declaration of a
/// tenant; never from the content of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(Arc<str>);

impl TenantId {
    /// Maximum length in bytes: the name is part of ids, cache keys and metric labels.
    pub const BYTES_MAX: usize = 64;

    /// Checks a name; an invalid one fails with [`crate::ErrorKind::IllegalArgument`].
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

    /// Returns the name.
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

/// Settings of a tenant, declared by an operator.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TenantSettings {
    /// Name for display.
    pub display_name: Option<String>,
    /// Maximum age of its events, ms; older ones are removed. `None`: only the retention of their index applies.
    pub retention_ms: Option<u64>,
    /// Limits of its use.
    pub quotas: Quotas,
}

/// Quotas of a tenant on one node. `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Quotas {
    /// Ingested events per second.
    pub ingest_events_per_second: Option<u64>,
    /// Ingested bytes of events per second.
    pub ingest_bytes_per_second: Option<u64>,
    /// Stored bytes.
    pub stored_bytes: Option<u64>,
    /// Searches that run at the same time.
    pub concurrent_searches: Option<u32>,
    /// Weight in queues; a tenant without one has 100.
    pub search_cpu_share: Option<u32>,
    /// Bytes that one search may fetch from snapshot repositories.
    pub search_repository_bytes: Option<u64>,
    /// Bytes that its private mounted indices occupy in the shared cache.
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
