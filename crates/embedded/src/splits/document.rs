//! A document as a split stores it.
//!
//! With everything that a hit shows: on disk its sequence number, version and ignored fields are
//! in columns, of which a split would have to fetch all of each to show one hit.

use bytes::Bytes;

use crate::varint::{self, Reader};

const HAS_ID: u8 = 1;
const HAS_ROUTING: u8 = 2;
const HAS_VERSION: u8 = 4;
const HAS_IGNORED: u8 = 8;
const KNOWN: u8 = HAS_ID | HAS_ROUTING | HAS_VERSION | HAS_IGNORED;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SplitDocument {
    /// `None`: firn made one.
    pub(crate) id: Option<String>,
    pub(crate) routing: Option<String>,
    pub(crate) seq_no: u64,
    pub(crate) version: u64,
    /// Names of fields whose values did not fit, ascending.
    pub(crate) ignored: Vec<String>,
    pub(crate) source: Bytes,
}

impl SplitDocument {
    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        bytes.push(
            flag(self.id.is_some(), HAS_ID)
                | flag(self.routing.is_some(), HAS_ROUTING)
                | flag(self.version != 1, HAS_VERSION)
                | flag(!self.ignored.is_empty(), HAS_IGNORED),
        );
        varint::put(bytes, self.seq_no);
        if self.version != 1 {
            varint::put(bytes, self.version);
        }
        for text in [&self.id, &self.routing].into_iter().flatten() {
            varint::put_text(bytes, text);
        }
        if !self.ignored.is_empty() {
            varint::put(bytes, self.ignored.len() as u64);
            self.ignored.iter().for_each(|name| varint::put_text(bytes, name));
        }
        bytes.extend_from_slice(&self.source);
    }

    /// `None`: these are not the bytes of a document.
    pub(super) fn decode(bytes: &Bytes) -> Option<Self> {
        let mut reader = Reader { rest: bytes };
        let flags = reader.byte().filter(|flags| flags & !KNOWN == 0)?;
        let has = |flag: u8| flags & flag != 0;
        let seq_no = reader.number()?;
        let version = if has(HAS_VERSION) { reader.number()? } else { 1 };
        let mut text = |flag: u8| match has(flag) {
            true => reader.text().map(|text| Some(text.to_owned())),
            false => Some(None),
        };
        let (id, routing) = (text(HAS_ID)?, text(HAS_ROUTING)?);
        let mut ignored = Vec::new();
        if has(HAS_IGNORED) {
            for _ in 0..reader.small()? {
                ignored.push(reader.text()?.to_owned());
            }
        }
        Some(Self {
            id,
            routing,
            seq_no,
            version,
            ignored,
            source: bytes.slice_ref(reader.rest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_come_back() {
        let plain = SplitDocument {
            id: None,
            routing: None,
            seq_no: 0,
            version: 1,
            ignored: Vec::new(),
            source: Bytes::from_static(b"{}"),
        };
        let full = SplitDocument {
            id: Some("ä".to_owned()),
            routing: Some(String::new()),
            seq_no: 1 << 40,
            version: 300,
            ignored: vec!["a".to_owned(), "b.c".to_owned()],
            source: Bytes::from_static(br#"{"a":"x"}"#),
        };
        for document in [plain, full] {
            let mut bytes = Vec::new();
            document.encode(&mut bytes);
            let head = bytes.len() - document.source.len();
            for len in 0..head {
                assert_eq!(
                    SplitDocument::decode(&Bytes::copy_from_slice(&bytes[..len])),
                    None,
                    "{len}"
                );
            }
            bytes[0] |= 0x80;
            assert_eq!(SplitDocument::decode(&Bytes::copy_from_slice(&bytes)), None);
            bytes[0] &= 0x7f;
            assert_eq!(SplitDocument::decode(&bytes.into()), Some(document));
        }
    }
}
