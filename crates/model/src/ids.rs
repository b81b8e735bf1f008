//! Document ids that firn makes: they say where the document is, so they need no term index.

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
    /// The tag of an index.
    pub fn tag_of(_uuid: &str) -> u32 {
        todo!()
    }
    /// Prints it.
    pub fn encode(&self) -> String {
        todo!()
    }
    /// `None`: not an id that firn made.
    pub fn decode(_id: &str) -> Option<Self> {
        todo!()
    }
}
