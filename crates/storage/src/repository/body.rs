//! Codec for JSON objects: a header line with kind, checksum and length, then the JSON.

use bytes::Bytes;
use firn_model::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Repository;
use super::manifest::content_id;
use crate::object::ObjectError;

/// First word of every such object.
const MAGIC: &str = "firn-repository";
/// The only format version.
const VERSION: &str = "1";
/// Maximum length in bytes; a manifest of 100,000 splits takes about 60 MB.
pub(super) const LEN_MAX: u64 = 256 << 20;
/// Maximum number of reads of an object whose checksum does not match. Another read recovers from damage in transit,
/// but not from damage in the store.
pub(super) const READS_MAX: usize = 3;

/// Encodes an object of a kind.
pub(super) fn encode(kind: &str, value: &impl Serialize) -> Result<Bytes> {
    let json = serde_json::to_vec(value)?;
    let mut bytes = format!(
        "{MAGIC} {VERSION} {kind} {:08x} {}\n",
        crc32c::crc32c(&json),
        json.len()
    )
    .into_bytes();
    bytes.extend_from_slice(&json);
    Ok(bytes.into())
}

/// Decodes an object, or returns its defect.
pub(super) fn decode<T: DeserializeOwned>(kind: &str, bytes: &[u8]) -> Result<T, String> {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or("its header line has no end")?;
    let (head, json) = (&bytes[..end], &bytes[end + 1..]);
    let head = std::str::from_utf8(head).map_err(|_| "its header line is not UTF-8")?;
    let words: Vec<&str> = head.split(' ').collect();
    let [MAGIC, version, what, crc, len] = words[..] else {
        return Err("it was not written by firn".to_owned());
    };
    if version != VERSION {
        return Err(format!("it has format version {version}, this firn reads {VERSION}"));
    }
    if what != kind {
        return Err(format!("it is a {what} instead of a {kind}"));
    }
    let is_whole = len.parse() == Ok(json.len());
    if !is_whole || u32::from_str_radix(crc, 16) != Ok(crc32c::crc32c(json)) {
        return Err("its checksum does not match".to_owned());
    }
    serde_json::from_slice(json).map_err(|error| error.to_string())
}

impl Repository {
    /// Reads an object by its content id. The checksum in the header line detects damage; only the id detects that
    /// another object was put in its place.
    pub(super) async fn read_object<T: DeserializeOwned>(&self, kind: &str, key: &str, id: &str) -> Result<T> {
        let check = |bytes: &Bytes| match content_id(bytes) == id {
            true => decode(kind, bytes),
            false => Err("its content does not match its name".to_owned()),
        };
        self.read_checked(key, LEN_MAX, check)
            .await
            .map_err(|error| self.failed(&format!("read the {kind}"), error))?
            .map_err(|why| self.error(format!("object [{key}] is damaged: {why}")))
    }

    /// Reads an object and retries while it does not decode. The inner error is the defect.
    pub(super) async fn read_checked<T>(
        &self,
        key: &str,
        len_max: u64,
        decode: impl Fn(&Bytes) -> Result<T, String>,
    ) -> Result<Result<T, String>, ObjectError> {
        let mut reads = 1;
        loop {
            let (bytes, _) = self.store.read_all(key, len_max).await?;
            match decode(&bytes) {
                Err(_) if reads < READS_MAX => reads += 1,
                decoded => return Ok(decoded),
            }
        }
    }
}
