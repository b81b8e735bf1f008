//! A mapped event, in the form that the segment library reads.

use bytes::Bytes;

/// A mapped event: its source and the values of its fields by class.
#[derive(Debug)]
pub struct MappedDocument {
    source: Bytes,
}

impl MappedDocument {
    /// A document none of whose fields are indexed.
    pub fn source_only(source: Bytes) -> Self {
        Self { source }
    }

    /// The event, byte for byte.
    pub fn source(&self) -> &Bytes {
        &self.source
    }
}
