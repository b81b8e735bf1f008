//! Lookup from a sequence number to the document with it.

use std::sync::OnceLock;

use firn_segment::splits::dry_run;
use tantivy::SegmentReader;
use tantivy::columnar::Column;

use super::buffer::tantivy_error;

/// Documents of a zone. In a clustered segment the documents of a tenant are in time order, which is
/// nearly the order of their sequence numbers, so a number is within the bounds of about one zone for
/// each tenant: small zones read little, and need 16 bytes for each 256 documents.
const ZONE_DOCS: u32 = 256;

/// Sequence numbers of a segment.
pub(super) struct SeqNos {
    /// Opened on first use; the whole column is verified then.
    column: OnceLock<Column<u64>>,
    reader: SegmentReader,
    /// Documents are in the order of their numbers.
    is_ordered: bool,
    /// Minimum and maximum of each zone, if they are not in order; read on first use.
    zones: OnceLock<Box<[(u64, u64)]>>,
}

impl SeqNos {
    pub(super) fn new(reader: &SegmentReader, is_ordered: bool) -> Self {
        Self {
            column: OnceLock::new(),
            reader: reader.clone(),
            is_ordered,
            zones: OnceLock::new(),
        }
    }

    /// Unwinds with [`dry_run::ReadFailed`] if the column cannot be read.
    fn column(&self) -> &Column<u64> {
        self.column.get_or_init(|| {
            let column = self.reader.fast_fields().u64("_seq_no");
            column.unwrap_or_else(|error| dry_run::fail(tantivy_error(error)))
        })
    }

    pub(super) fn of(&self, doc: u32) -> u64 {
        self.column().first(doc).unwrap_or(0)
    }

    pub(super) fn find(&self, seq_no: u64) -> Option<u32> {
        match self.is_ordered {
            true => self.find_ordered(seq_no),
            false => self.find_in_zones(seq_no),
        }
    }

    fn find_ordered(&self, seq_no: u64) -> Option<u32> {
        let docs = self.column().num_docs();
        let mut range = 0..docs;
        while range.start < range.end {
            let middle = range.start + (range.end - range.start) / 2;
            if self.of(middle) < seq_no {
                range.start = middle + 1;
            } else {
                range.end = middle;
            }
        }
        Some(range.start).filter(|doc| *doc < docs && self.of(*doc) == seq_no)
    }

    fn find_in_zones(&self, seq_no: u64) -> Option<u32> {
        let mut values = [0; ZONE_DOCS as usize];
        for (number, (low, high)) in self.zones().iter().enumerate() {
            if !(*low..=*high).contains(&seq_no) {
                continue;
            }
            let start = number as u32 * ZONE_DOCS;
            let values = self.read(start, &mut values);
            if let Some(position) = values.iter().position(|value| *value == seq_no) {
                return Some(start + position as u32);
            }
        }
        None
    }

    fn zones(&self) -> &[(u64, u64)] {
        self.zones.get_or_init(|| {
            let mut values = [0; ZONE_DOCS as usize];
            let zones = (0..self.column().num_docs()).step_by(ZONE_DOCS as usize).map(|start| {
                let values = self.read(start, &mut values).iter();
                values.fold((u64::MAX, u64::MIN), |(low, high), value| {
                    (low.min(*value), high.max(*value))
                })
            });
            zones.collect()
        })
    }

    /// Returns the numbers of the zone that starts at a document. Each document has exactly one.
    fn read<'a>(&self, start: u32, values: &'a mut [u64; ZONE_DOCS as usize]) -> &'a [u64] {
        let count = ZONE_DOCS.min(self.column().num_docs() - start) as usize;
        self.column().values.get_range(start.into(), &mut values[..count]);
        &values[..count]
    }
}
