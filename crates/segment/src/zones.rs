//! Zones of `@timestamp`: the smallest and largest value of each run of documents.

use std::ops::Range;

use tantivy::DocId;
use tantivy::columnar::Column;

use crate::columns::presence::is_full;

/// Documents of a zone: few enough that reading a zone which a range cuts costs microseconds, and enough that a million
/// documents have 4 KB of zones.
pub const ZONE_DOCS: u32 = 4096;

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
