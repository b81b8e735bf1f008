//! Rows of a segment that are ordered by `@timestamp`, searched by value.

use std::ops::Range;

use firn_model::Result;
use firn_model::metadata::TIMESTAMP;
use firn_segment::columns::column::NumColumn;
use firn_segment::segment::Segment;
use tantivy::DocId;

use crate::tenancy::tenant_rows::{TenantSpan, count_alive, first_row};

/// Rows that are ordered by `@timestamp`, newest first, each with one value.
pub(super) struct OrderedRows<'a> {
    pub(super) rows: Range<DocId>,
    segment: &'a Segment,
    column: NumColumn,
}

impl<'a> OrderedRows<'a> {
    /// Opens the column; `None`: the rows are not ordered.
    pub(super) fn open(segment: &'a Segment, span: &TenantSpan) -> Result<Option<Self>> {
        let Some(column) = NumColumn::open(&segment.reader, TIMESTAMP)? else {
            return Ok(None);
        };
        if !span.newest_first || column.column.get_cardinality().is_multivalue() {
            return Ok(None);
        }
        let index = &column.column.index;
        let end = first_row(&span.rows, |row| !index.has_value(row));
        Ok(Some(Self {
            rows: span.rows.start..end,
            segment,
            column,
        }))
    }

    /// Returns the value of a row in stored units.
    pub(super) fn stored(&self, row: DocId) -> i64 {
        self.column.as_i64(self.raw(row))
    }

    /// Returns the value of a row as a float.
    pub(super) fn as_f64(&self, row: DocId) -> f64 {
        self.column.as_f64(self.raw(row))
    }

    fn raw(&self, row: DocId) -> u64 {
        self.column.column.first(row).unwrap_or_default()
    }

    /// Returns how many of some rows are alive.
    pub(super) fn count(&self, rows: Range<DocId>) -> u64 {
        count_alive(self.segment, rows)
    }

    /// Returns whether any document of the segment is deleted.
    pub(super) fn has_deleted(&self) -> bool {
        self.segment.deleted_count > 0 || self.segment.alive.is_some()
    }

    /// Returns the first row after `row` whose stored value is before the start of an interval, according to
    /// `start`.
    pub(super) fn first_before(&self, row: DocId, start: impl Fn(i64) -> bool) -> DocId {
        let is_past = |row| start(self.stored(row));
        // Intervals mostly have similar numbers of rows, so the search starts close to `row`.
        let mut step = 1;
        let mut low = row;
        loop {
            let high = low.saturating_add(step);
            if high >= self.rows.end {
                return first_row(&(low..self.rows.end), is_past);
            }
            if is_past(high) {
                return first_row(&(low..high), is_past);
            }
            low = high;
            step *= 2;
        }
    }
}
