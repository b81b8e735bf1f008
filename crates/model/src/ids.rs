//! Document ids that firn generates. They contain the location of the document, so they need no term index.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// First byte of a generated id; another layout would take another number.
const FORMAT: u8 = 1;
/// Bytes of a generated id before base64.
const LENGTH: usize = 15;
/// Characters of a generated id.
const ENCODED_LENGTH: usize = 20;

/// Generated id: 20 characters of URL-safe base64 over 15 bytes: format version (1), index tag (4, from the index's
/// uuid), shard number (2), sequence number (8); big-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoId {
    /// First four bytes of a hash of the index's uuid. It tells this index's ids from those of other indices.
    pub index_tag: u32,
    /// The shard that holds the document.
    pub shard: u16,
    /// The sequence number of the write that created it.
    pub seq_no: u64,
}

impl AutoId {
    /// Returns the tag of an index: murmur3 of its uuid. Part of the stored format.
    pub fn tag_of(uuid: &str) -> u32 {
        crate::routing::hash_bytes(uuid.as_bytes())
    }

    /// Prints the id.
    pub fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.to_bytes())
    }

    /// Appends the id to `buffer`, without another allocation if `buffer` has the capacity.
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

    /// Reads a generated id. `None`: firn did not generate it. Every text has at most one meaning, and only the output
    /// of [`AutoId::encode`] has one.
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

/// Maximum bytes of a document id, as in Elasticsearch.
pub const ID_BYTES_MAX: usize = 512;

/// Returns Elasticsearch's text about an id that is too long; `None`: its length is allowed.
pub fn problem_of_length(id: &str) -> Option<String> {
    (id.len() > ID_BYTES_MAX).then(|| {
        format!(
            "id [{id}] is too long, must be no longer than {ID_BYTES_MAX} bytes but was: {}",
            id.len()
        )
    })
}

/// Separates a tenant from an id; tenant names cannot contain it.
const AFTER_TENANT: char = '\u{1f}';

/// Returns the key of a document whose client gave it an id, in an index that holds events by tenant. The id belongs to
/// the tenant, so no two tenants can have, find or replace the same document. Generated ids are used as keys without a
/// prefix.
pub fn key_of(tenant: &str, id: &str) -> String {
    format!("{tenant}{AFTER_TENANT}{id}")
}

/// Returns the id in a key of [`key_of`]; a key without a separator is a generated id.
pub fn id_of_key(key: &str) -> &str {
    key.split_once(AFTER_TENANT).map_or(key, |(_, id)| id)
}

/// Maximum number of bytes by which a key is longer than its id.
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
