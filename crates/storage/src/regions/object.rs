//! What is cached: an immutable object, wherever it lies.

use std::fmt;
use std::sync::Arc;

use firn_model::tenant::TenantId;

use crate::object::Objects;

/// Names an object by the SHA-256 of its content, so that all mounts of all snapshots share what is cached of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub [u8; 32]);

impl ObjectId {
    /// Reads 64 hexadecimal digits of lower case; `None` for anything else.
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

/// An object that is read through the cache. Made once per object and shared by its readers.
#[derive(Debug, Clone)]
pub struct CachedObject {
    /// Its content's name: objects with the same one share what is cached.
    pub id: ObjectId,
    /// Where it lies in its store.
    pub key: String,
    /// Physical bytes, a multiple of [`PAGE_BYTES`](crate::split::pages::PAGE_BYTES).
    pub len: u64,
    /// Part of every page's checksum. Differs between objects, which is how the cache knows a page of another one.
    pub salt: u64,
    /// Where it is fetched from.
    pub store: Arc<dyn Objects>,
    /// The tenant whose quota its pages count against, if all of it is one tenant's.
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
