//! Cached object: an immutable object in any store.

use std::fmt;
use std::sync::Arc;

use firn_model::tenant::TenantId;

use crate::object::Objects;

/// Id of an object: the SHA-256 of its content, so that all mounts of all snapshots share its cached pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub [u8; 32]);

impl ObjectId {
    /// Parses 64 lower-case hexadecimal digits; `None` for any other text.
    pub fn parse(hex: &str) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
        if pairs.len() != 32 || !rest.is_empty() {
            return None;
        }
        let mut id = [0; 32];
        for (byte, [high, low]) in id.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(id))
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Object that is read through the cache. Created once per object and shared by its readers.
#[derive(Debug, Clone)]
pub struct CachedObject {
    /// Id of the content: objects with the same id share cached pages.
    pub id: ObjectId,
    /// Key in the store.
    pub key: String,
    /// Physical length in bytes, a multiple of [`PAGE_BYTES`](crate::split::pages::PAGE_BYTES).
    pub len: u64,
    /// Part of every page's checksum. Differs between objects, so that the cache detects pages of another object.
    pub salt: u64,
    /// Store to fetch from.
    pub store: Arc<dyn Objects>,
    /// Tenant whose quota counts its pages, if the whole object belongs to one tenant.
    pub owner: Option<TenantId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_64_digits() {
        let hex = "00ff".repeat(16);
        let id = ObjectId::parse(&hex).unwrap();
        assert_eq!(id.0[..4], [0, 255, 0, 255]);
        assert_eq!(id.to_string(), hex);
        for wrong in [
            "",
            "00",
            &hex[..63],
            &format!("{hex}00"),
            &"00FF".repeat(16),
            &"00g0".repeat(16),
        ] {
            assert_eq!(ObjectId::parse(wrong), None, "{wrong}");
        }
    }
}
