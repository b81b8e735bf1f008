//! Reader of a stored document that reads the bytes of the store in place.
//!
//! Tantivy would first build a document of values, byte by byte for the source, which took a fifth of the time of a
//! page of hits. Its encoding (0.27, the version that the crate is pinned to): the number of values, then for each
//! the field (u32, little-endian), the kind of value (u8), its length, and its bytes. Numbers and lengths have
//! seven bits per byte, the low ones first, and the highest bit set in the last byte.

use bytes::Bytes;

use crate::schema;

/// Kinds of values that firn stores.
const TEXT: u8 = 0;
const BYTES: u8 = 4;

/// The stored part of a document.
#[derive(Debug, PartialEq, Eq)]
pub struct Stored {
    /// `None`: firn generated the id.
    pub id: Option<String>,
    /// Routing value of the request.
    pub routing: Option<String>,
    /// The source, JSON.
    pub source: Bytes,
}

impl Stored {
    /// Reads a stored document; `None`: these are not the bytes of a document.
    pub fn read(document: &[u8]) -> Option<Self> {
        let fields = schema::fields();
        let (mut id, mut routing, mut source) = (None, None, None);
        let mut rest = document;
        for _ in 0..length(&mut rest)? {
            let field = u32::from_le_bytes(take(&mut rest, 4)?.try_into().ok()?);
            let kind = take(&mut rest, 1)?[0];
            let len = usize::try_from(length(&mut rest)?).ok()?;
            let value = take(&mut rest, len)?;
            match kind {
                BYTES if field == fields.source.field_id() => source = Some(Bytes::copy_from_slice(value)),
                TEXT if field == fields.stored_id.field_id() => id = Some(text(value)?),
                TEXT if field == fields.routing.field_id() => routing = Some(text(value)?),
                TEXT | BYTES => {}
                _ => return None,
            }
        }
        Some(Self {
            id,
            routing,
            source: source?,
        })
    }
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(taken)
}

fn length(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 != 0 {
            return Some(value);
        }
    }
    None
}

fn text(value: &[u8]) -> Option<String> {
    String::from_utf8(value.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use tantivy::directory::{Directory, RamDirectory};
    use tantivy::schema::Schema;
    use tantivy::store::{Compressor, StoreReader, StoreWriter};
    use tantivy::{TantivyDocument, doc};

    use super::*;

    /// Returns the bytes of documents as Tantivy stores them.
    fn stored_bytes(documents: &[TantivyDocument], schema: &Schema) -> Vec<Vec<u8>> {
        let directory = RamDirectory::create();
        let path = std::path::Path::new("store");
        let mut writer =
            StoreWriter::new(directory.open_write(path).unwrap(), Compressor::None, 1 << 14, false).unwrap();
        for document in documents {
            writer.store(document, schema).unwrap();
        }
        writer.close().unwrap();
        let reader = StoreReader::open(directory.open_read(path).unwrap(), 1).unwrap();
        let all = 0..documents.len() as u32;
        all.map(|doc| reader.get_document_bytes(doc).unwrap().to_vec())
            .collect()
    }

    #[test]
    fn documents_are_read_as_tantivy_writes_them() {
        let fields = schema::fields();
        let long = "x".repeat(300_000);
        let documents = [
            doc!(fields.source => b"{}".to_vec()),
            doc!(fields.stored_id => "an id", fields.routing => "r", fields.source => long.clone().into_bytes()),
        ];
        let bytes = stored_bytes(&documents, &fields.schema);
        let first = Stored {
            id: None,
            routing: None,
            source: Bytes::from_static(b"{}"),
        };
        let second = Stored {
            id: Some("an id".to_owned()),
            routing: Some("r".to_owned()),
            source: long.into(),
        };
        assert_eq!(Stored::read(&bytes[0]), Some(first));
        assert_eq!(Stored::read(&bytes[1]), Some(second));
        for cut in 0..bytes[0].len() {
            assert_eq!(Stored::read(&bytes[0][..cut]), None, "cut at {cut}");
        }
    }
}
