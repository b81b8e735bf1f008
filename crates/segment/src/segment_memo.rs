//! Data computed once from a segment and cached while it is open: a segment never changes.

use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};

use firn_model::Error;
use tantivy::columnar::{Cardinality, Column, ColumnIndex};
use tantivy::index::SegmentId;
use tantivy::{DocId, SegmentReader};

use crate::directory::DiskDirectory;
use crate::field_lengths::Lengths;
use crate::segment_cache::CACHE;
use crate::splits::OpenSplit;

/// Documents of a zone: few enough that reading a zone which a range cuts costs microseconds, and enough that a million
/// documents have 4 KB of zones.
pub const ZONE_DOCS: u32 = 4096;

/// A cache of data that depends on segments.
pub trait DependentCache: Send + Sync {
    /// Removes everything that depends on a segment.
    fn forget(&self, segment: SegmentId);
}

/// See the module.
pub struct SegmentMemo {
    segment: SegmentId,
    /// The split, if the segment is not on disk: then much of this data is stored in it.
    split: Option<OpenSplit>,
    /// The folder of the segment, if it is on disk.
    directory: Option<DiskDirectory>,
    time_zones: OnceLock<Option<Arc<Zones>>>,
    /// The cache that holds results of the segment, if there is one.
    cache: OnceLock<Weak<dyn DependentCache>>,
    /// Lengths of texts, counted when a query first scores by them.
    pub lengths: Lengths,
}

impl Drop for SegmentMemo {
    /// Cached data of the segment would keep its files open.
    fn drop(&mut self) {
        CACHE.forget(self.segment);
        if let Some(cache) = self.cache.get().and_then(Weak::upgrade) {
            cache.forget(self.segment);
        }
    }
}

impl SegmentMemo {
    /// Creates the data of an open segment.
    pub fn new(reader: &SegmentReader) -> Self {
        Self {
            segment: reader.segment_id(),
            split: None,
            directory: None,
            time_zones: OnceLock::new(),
            cache: OnceLock::new(),
            lengths: Lengths::default(),
        }
    }

    /// Creates the data of a segment in a split.
    pub(crate) fn of_split(reader: &SegmentReader, split: OpenSplit) -> Self {
        let mut derived = Self::new(reader);
        derived.split = Some(split);
        derived
    }

    /// Creates the data of a segment in a folder.
    pub fn of_directory(reader: &SegmentReader, directory: DiskDirectory) -> Self {
        let mut derived = Self::new(reader);
        derived.directory = Some(directory);
        derived
    }

    /// Returns the damage that was found in the files of the segment.
    pub fn damage(&self) -> Option<&Error> {
        self.directory.as_ref().and_then(DiskDirectory::damage)
    }

    /// Returns the split of the segment.
    pub fn split(&self) -> Option<&OpenSplit> {
        self.split.as_ref()
    }

    /// Sets the cache that is notified when the segment is closed.
    pub fn cached_in(&self, cache: &Arc<dyn DependentCache>) {
        self.cache.get_or_init(|| Arc::downgrade(cache));
    }

    /// Returns the zones of `@timestamp` from its column; `None`: some document does not have exactly one value.
    pub fn time_zones(&self, column: &Column<u64>) -> Option<Arc<Zones>> {
        let find = || match &self.split {
            Some(split) => split.zones().cloned(),
            None => Zones::new(column).map(Arc::new),
        };
        self.time_zones.get_or_init(find).clone()
    }
}

/// Smallest and largest value of each run of [`ZONE_DOCS`] documents. Events arrive roughly in time order, so a time
/// range covers most zones completely or not at all, and neither kind has to be read.
#[derive(Debug, PartialEq, Eq)]
pub struct Zones {
    bounds: Box<[(u64, u64)]>,
    max_doc: DocId,
}

impl Zones {
    /// Reads the whole column; `None` unless each document has exactly one value.
    pub(crate) fn new(column: &Column<u64>) -> Option<Self> {
        if !is_full(column) {
            return None;
        }
        let max_doc = column.values.num_vals();
        let mut values = vec![0; ZONE_DOCS as usize];
        let mut bounds = Vec::with_capacity(max_doc.div_ceil(ZONE_DOCS) as usize);
        for start in (0..max_doc).step_by(ZONE_DOCS as usize) {
            let count = ZONE_DOCS.min(max_doc - start) as usize;
            column.values.get_range(start.into(), &mut values[..count]);
            let zone = values[..count].iter().fold((u64::MAX, u64::MIN), |(min, max), &value| {
                (min.min(value), max.max(value))
            });
            bounds.push(zone);
        }
        Some(Self {
            bounds: bounds.into(),
            max_doc,
        })
    }

    /// Encodes the zones for a split: the documents of a zone (u32), all documents (u32), then the bounds of each zone
    /// (two u64), little-endian.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = ZONE_DOCS.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.max_doc.to_le_bytes());
        for (min, max) in &self.bounds {
            bytes.extend_from_slice(&min.to_le_bytes());
            bytes.extend_from_slice(&max.to_le_bytes());
        }
        bytes
    }

    /// Decodes [`Zones::encode`]; `None`: the bytes are not zones of `docs` documents.
    pub(crate) fn decode(bytes: &[u8], docs: DocId) -> Option<Self> {
        let (zone_docs, rest) = bytes.split_first_chunk()?;
        let (max_doc, rest) = rest.split_first_chunk()?;
        let (bounds, rest) = rest.as_chunks::<16>();
        let is_right = u32::from_le_bytes(*zone_docs) == ZONE_DOCS
            && u32::from_le_bytes(*max_doc) == docs
            && bounds.len() == docs.div_ceil(ZONE_DOCS) as usize
            && rest.is_empty();
        let pair = |pair: &[u8; 16]| {
            let (min, max) = pair.split_at(8);
            let number = |bytes: &[u8]| bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            number(min).zip(number(max))
        };
        let bounds: Option<Box<[_]>> = bounds.iter().map(pair).collect();
        is_right.then_some(Self {
            bounds: bounds?,
            max_doc: docs,
        })
    }

    /// Returns bounds for all documents of the range, which must not be empty.
    pub fn bounds(&self, first: DocId, last: DocId) -> (u64, u64) {
        let zones = &self.bounds[(first / ZONE_DOCS) as usize..=(last / ZONE_DOCS) as usize];
        zones.iter().fold((u64::MAX, u64::MIN), |(min, max), zone| {
            (min.min(zone.0), max.max(zone.1))
        })
    }

    /// Returns the documents and bounds of each zone.
    pub fn iter(&self) -> impl Iterator<Item = (Range<DocId>, (u64, u64))> + '_ {
        self.bounds.iter().enumerate().map(|(number, bounds)| {
            let start = number as u32 * ZONE_DOCS;
            (start..(start + ZONE_DOCS).min(self.max_doc), *bounds)
        })
    }
}

/// Whether each document has exactly one value.
pub fn is_full(column: &Column<u64>) -> bool {
    column.index.get_cardinality() == Cardinality::Full && !matches!(column.index, ColumnIndex::Empty { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_come_back() {
        let zones = Zones {
            bounds: [(1, 5), (0, u64::MAX)].into(),
            max_doc: ZONE_DOCS + 1,
        };
        let bytes = zones.encode();
        assert_eq!(Zones::decode(&bytes, ZONE_DOCS), None);
        assert_eq!(Zones::decode(&bytes[..bytes.len() - 1], ZONE_DOCS + 1), None);
        assert_eq!(Zones::decode(&bytes, ZONE_DOCS + 1), Some(zones));
    }
}
