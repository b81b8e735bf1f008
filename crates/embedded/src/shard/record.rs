//! A batch of operations as one WAL record. Format: `docs/formats/shard.md`.

use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};

/// First byte of a record.
const VERSION: u8 = 1;

const KIND_INDEX: u8 = 0;
const KIND_DELETE: u8 = 1;
const HAS_ID: u8 = 0x10;
const HAS_ROUTING: u8 = 0x20;

/// An operation as it was applied.
pub(super) enum Operation<'a> {
    /// A document was added or replaced.
    Index {
        /// `None`: made by the shard.
        id: Option<&'a str>,
        routing: Option<&'a str>,
        source: Bytes,
    },
    /// A document was removed, if it was there.
    Delete { id: &'a str },
}

/// Builds a record.
#[derive(Default)]
pub(super) struct RecordWriter {
    bytes: Vec<u8>,
}

impl RecordWriter {
    /// Starts a new record in the same memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        // A single huge batch must not keep its memory for ever.
        self.bytes.shrink_to(4 << 20);
        self.bytes.push(VERSION);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.len() <= 1
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn index(&mut self, seq_no: u64, version: u64, id: Option<&str>, routing: Option<&str>, source: &[u8]) {
        self.head(KIND_INDEX, seq_no, version, id, routing);
        self.slice(source);
    }

    pub(super) fn delete(&mut self, seq_no: u64, version: u64, id: &str) {
        self.head(KIND_DELETE, seq_no, version, Some(id), None);
    }

    fn head(&mut self, kind: u8, seq_no: u64, version: u64, id: Option<&str>, routing: Option<&str>) {
        let flags = if id.is_some() { HAS_ID } else { 0 } | if routing.is_some() { HAS_ROUTING } else { 0 };
        self.bytes.push(kind | flags);
        self.number(seq_no);
        self.number(version);
        for text in [id, routing].into_iter().flatten() {
            self.slice(text.as_bytes());
        }
    }

    fn slice(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// LEB128.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

/// Hands each operation of a record to `take`, with its sequence number and version.
pub(super) fn read(record: &Bytes, take: &mut dyn FnMut(u64, u64, Operation<'_>) -> Result<()>) -> Result<()> {
    let mut reader = Reader { rest: record };
    let version = reader.byte()?;
    if version != VERSION {
        return Err(bad(&format!("it has version {version}, this firn reads {VERSION}")));
    }
    while !reader.rest.is_empty() {
        let head = reader.byte()?;
        let seq_no = reader.number()?;
        let version = reader.number()?;
        let id = if head & HAS_ID != 0 { Some(reader.text()?) } else { None };
        let routing = if head & HAS_ROUTING != 0 {
            Some(reader.text()?)
        } else {
            None
        };
        let operation = match (head & 0x0f, id) {
            (KIND_INDEX, id) => Operation::Index {
                id,
                routing,
                // A slice of the record: events are not copied again.
                source: record.slice_ref(reader.slice()?),
            },
            (KIND_DELETE, Some(id)) => Operation::Delete { id },
            _ => return Err(bad("it holds an unknown operation")),
        };
        take(seq_no, version, operation)?;
    }
    Ok(())
}

fn bad(what: &str) -> Error {
    Error::new(
        ErrorKind::ShardDamaged,
        format!("a record of the WAL cannot be read: {what}"),
    )
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.rest.split_first().ok_or_else(|| bad("it ends too early"))?;
        self.rest = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(bad("a number in it has no end"))
    }

    fn slice(&mut self) -> Result<&'a [u8]> {
        let length = self.number()?;
        if length > self.rest.len() as u64 {
            return Err(bad("it ends too early"));
        }
        let (slice, rest) = self.rest.split_at(length as usize);
        self.rest = rest;
        Ok(slice)
    }

    fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.slice()?).map_err(|_| bad("an id in it is no text"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let mut writer = RecordWriter::default();
        writer.clear();
        assert!(writer.is_empty());
        writer.index(1, 1, None, None, b"{}");
        writer.index(300, 7, Some("a"), Some("r"), b"{\"x\":1}");
        writer.delete(u64::MAX, 2, "b");
        let mut seen = Vec::new();
        read(
            &Bytes::copy_from_slice(writer.bytes()),
            &mut |seq_no, version, operation| {
                seen.push(match operation {
                    Operation::Index { id, routing, source } => {
                        format!("{seq_no} {version} {id:?} {routing:?} {}", source.len())
                    }
                    Operation::Delete { id } => format!("{seq_no} {version} -{id}"),
                });
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(
            seen,
            [
                "1 1 None None 2",
                "300 7 Some(\"a\") Some(\"r\") 7",
                "18446744073709551615 2 -b"
            ]
        );
        for end in 2..writer.bytes().len() {
            let _ = read(&Bytes::copy_from_slice(&writer.bytes()[..end]), &mut |_, _, _| Ok(()));
        }
        assert!(read(&Bytes::from_static(&[9]), &mut |_, _, _| Ok(())).is_err());
    }
}
