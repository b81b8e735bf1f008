//! Frozen segment: a committed segment that stays unchanged while a snapshot reads it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use firn_model::Result;
use tantivy::SegmentReader;

use crate::commit_point::{SegmentMeta, damaged};
use crate::deletes::DeleteSet;
use crate::tenants::SegmentTenants;

/// Segment of a commit point with the deletes of that moment. Its files are open: a merge may replace the segment
/// meanwhile.
pub struct FrozenSegment {
    /// Its properties, as in the commit point.
    pub meta: SegmentMeta,
    /// Its reader, which holds its files open.
    pub reader: SegmentReader,
    /// Content of every file of its folder.
    pub files: BTreeMap<String, Bytes>,
    /// Rows of each tenant; `None`: unknown, or the index does not separate tenants.
    pub tenants: Option<Arc<SegmentTenants>>,
    /// Its deletes at that moment.
    pub deletes: DeleteSet,
}

impl FrozenSegment {
    /// Returns the globally unique id: a segment with this id always has the same content.
    pub fn id(&self) -> String {
        self.reader.segment_id().uuid_string()
    }

    /// Returns the size on disk, bytes.
    pub fn size_bytes(&self) -> u64 {
        self.meta.size_bytes
    }

    /// Returns the number of documents, including deleted ones.
    pub fn docs(&self) -> u32 {
        self.meta.docs
    }

    /// Returns the number of deleted documents.
    pub fn deleted_count(&self) -> u32 {
        self.deletes.count()
    }

    /// Returns the deletes in the format of [`crate::splits::open_split`]; `None`: no document is deleted.
    pub fn deletes(&self) -> Option<Bytes> {
        (self.deletes.count() > 0).then(|| self.deletes.to_bytes().into())
    }

    /// Verifies every file against its checksum: damage must not get into a snapshot.
    pub fn verify(&self) -> Result<()> {
        for (name, sum) in &self.meta.files {
            let is_intact = self
                .files
                .get(name)
                .is_some_and(|bytes| crc32c::crc32c(bytes) == sum.crc);
            if !is_intact {
                return Err(damaged(name.as_ref(), "its checksum does not match"));
            }
        }
        Ok(())
    }
}
