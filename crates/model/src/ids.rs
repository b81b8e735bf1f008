//! Document ids that firn makes: they say where the document is, so they need no term index.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The first byte of a made id; another layout would take another number.
const FORMAT: u8 = 1;
/// Bytes of a made id before base64.
const LENGTH: usize = 15;
/// Characters of a made id.
const ENCODED_LENGTH: usize = 20;

/// A made id: 20 characters of URL-safe base64 over 15 bytes: format version (1), index tag (4,
/// from the index's uuid), shard number (2), sequence number (8); big-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoId {
    /// The first four bytes of a hash of the index's uuid: tells ids of other indices apart.
    pub index_tag: u32,
    /// The shard that holds it.
    pub shard: u16,
    /// The sequence number of the write that created it.
    pub seq_no: u64,
}

impl AutoId {
    /// The tag of an index: murmur3 of its uuid. Part of the stored format.
    pub fn tag_of(uuid: &str) -> u32 {
        crate::routing::hash_bytes(uuid.as_bytes())
    }

    /// Prints it.
    pub fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.to_bytes())
    }

    /// Prints it at the end of `buffer`, without another allocation if there is room.
    pub fn encode_to(&self, buffer: &mut String) {
        URL_SAFE_NO_PAD.encode_string(self.to_bytes(), buffer);
    }

    fn to_bytes(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[0] = FORMAT;
        bytes[1..5].copy_from_slice(&self.index_tag.to_be_bytes());
        bytes[5..7].copy_from_slice(&self.shard.to_be_bytes());
        bytes[7..].copy_from_slice(&self.seq_no.to_be_bytes());
        bytes
    }

    /// `None`: not an id that firn made. Every text has at most one meaning, and only what
    /// [`AutoId::encode`] prints has one.
    pub fn decode(id: &str) -> Option<Self> {
        if id.len() != ENCODED_LENGTH {
            return None;
        }
        let mut bytes = [0; LENGTH];
        let length = URL_SAFE_NO_PAD.decode_slice(id, &mut bytes).ok()?;
        if length != LENGTH || bytes[0] != FORMAT {
            return None;
        }
        Some(Self {
            index_tag: u32::from_be_bytes(bytes[1..5].try_into().ok()?),
            shard: u16::from_be_bytes(bytes[5..7].try_into().ok()?),
            seq_no: u64::from_be_bytes(bytes[7..].try_into().ok()?),
        })
    }
}

/// Stands between a tenant and an id; no tenant has it in its name.
const AFTER_TENANT: char = '\u{1f}';

/// The key under which an index that holds events by tenant keeps a document with an id of its own: the
/// id belongs to the tenant, so no two tenants can have, find or replace the same one. Ids that firn made
/// are their own keys.
pub fn key_of(tenant: &str, id: &str) -> String {
    format!("{tenant}{AFTER_TENANT}{id}")
}

/// The id in a key of [`key_of`]; what is no such key is an id that firn made.
pub fn id_of_key(key: &str) -> &str {
    key.split_once(AFTER_TENANT).map_or(key, |(_, id)| id)
}

/// What a key is longer than its id, at most.
pub const KEY_EXTRA_BYTES_MAX: usize = crate::tenant::TenantId::BYTES_MAX + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_ids_come_back() {
        for seq_no in [0, 1, 255, 1 << 40, u64::MAX] {
            for shard in [0, 1, u16::MAX] {
                let id = AutoId {
                    index_tag: AutoId::tag_of("YLdrCrFoQs6dGvLqsqxWyA"),
                    shard,
                    seq_no,
                };
                let text = id.encode();
                assert_eq!(text.len(), ENCODED_LENGTH);
                assert_eq!(AutoId::decode(&text), Some(id));
                let mut buffer = String::new();
                id.encode_to(&mut buffer);
                assert_eq!(buffer, text);
            }
        }
    }

    #[test]
    fn other_ids_are_not_made() {
        for id in [
            "",
            "1",
            "AAAAAAAAAAAAAAAAAAAA",
            "not twenty long here",
            "ÄÖÜÄÖÜÄÖÜÄ",
            "AQAAAAAAAAAAAAAAAAA=",
        ] {
            assert_eq!(AutoId::decode(id), None, "{id}");
        }
    }

    /// The tag is stored inside ids, so it may never change.
    #[test]
    fn tags_are_stable() {
        assert_ne!(AutoId::tag_of("a"), AutoId::tag_of("b"));
        assert_eq!(AutoId::tag_of(""), 0);
    }

    #[test]
    fn ids_of_tenants_have_keys_of_their_own() {
        assert_eq!(id_of_key(&key_of("a", "1")), "1");
        assert_eq!(id_of_key(&key_of("a", "b\u{1f}1")), "b\u{1f}1");
        assert_ne!(key_of("a", "b\u{1f}1"), key_of("b", "1"));
        let made = AutoId {
            index_tag: 1,
            shard: 2,
            seq_no: 3,
        }
        .encode();
        assert_eq!(id_of_key(&made), made);
        assert_eq!(AutoId::decode(&key_of("a", &made)), None);
    }
}
