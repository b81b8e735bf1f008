//! An immutable segment, and the set of segments that a search sees.

use std::sync::Arc;

use firn_model::ids::id_of_key;
use tantivy::{DocId, SegmentReader};

pub use crate::deletes::AliveBits;
use crate::segment_memo::SegmentMemo;
use crate::tenants::SegmentTenants;

/// One immutable segment: a Tantivy index of one segment in a separate folder.
pub struct Segment {
    /// `_N` in its shard, N counting up; the name of its folder.
    pub generation: u64,
    /// The open reader of its only Tantivy segment.
    pub reader: SegmentReader,
    /// `None`: all documents are live. The reader itself knows of no deletes.
    pub alive: Option<Arc<AliveBits>>,
    /// Documents, including deleted ones.
    pub max_doc: DocId,
    /// Deleted documents.
    pub deleted_count: u32,
    /// Inclusive bounds of `@timestamp`, ms since epoch UTC, including deleted documents; `None`: no document has one.
    pub time_range_ms: Option<(i64, i64)>,
    /// Documents without an `@timestamp`.
    pub without_time_count: u32,
    /// Inclusive bounds of sequence numbers.
    pub seq_no_range: (u64, u64),
    /// Bytes on disk.
    pub size_bytes: u64,
    /// Whether a commit point names it.
    pub committed: bool,
    /// Rows of each tenant; `None`: unknown, or the index does not separate tenants.
    pub tenants: Option<Arc<SegmentTenants>>,
    /// Data computed from it.
    pub derived: Arc<SegmentMemo>,
}

impl Segment {
    /// Whether a document is live.
    pub fn is_alive(&self, doc: DocId) -> bool {
        self.alive.as_ref().is_none_or(|alive| alive.is_alive(doc))
    }
}

/// View of one shard for a search: never changes, keeps its files open.
pub struct ShardSnapshot {
    /// Concrete index name.
    pub index: Arc<str>,
    /// Generated ids of this index carry this tag.
    pub index_tag: u32,
    /// The shard's number.
    pub shard: u32,
    /// The field that names a document's tenant. If set, stored ids are keys ([`firn_model::ids::key_of`]).
    pub tenant_field: Option<Arc<str>>,
    /// Newest time range first.
    pub segments: Vec<Arc<Segment>>,
}

impl ShardSnapshot {
    /// Returns the same shard without segments.
    pub fn without_segments(&self) -> Self {
        Self {
            index: Arc::clone(&self.index),
            tenant_field: self.tenant_field.clone(),
            segments: Vec::new(),
            ..*self
        }
    }

    /// Returns the id of a document that is stored under a key.
    pub fn id_of(&self, stored: String) -> String {
        match self.tenant_field {
            Some(_) => id_of_key(&stored).to_owned(),
            None => stored,
        }
    }
}
