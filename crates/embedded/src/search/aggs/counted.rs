//! Aggregations answered from the order of rows.
//!
//! Where the rows that match are ordered by `@timestamp`, the edges of intervals are found by binary
//! search: counts over time and its extremes need a few values of that column and no other.

use std::ops::Range;

use firn_engine::aggs::Partials;
use firn_model::Result;
use tantivy::DocId;

use super::super::column::NumColumn;
use super::super::memory::Memory;
use super::super::prune::TIMESTAMP;
use super::super::tenant_rows::{TenantSpan, count_alive, first_row};
use super::{Kind, Plan};
use crate::segment::Segment;

/// Rows that are ordered by `@timestamp`, newest first, each with one value.
pub(super) struct OrderedRows<'a> {
    pub(super) rows: Range<DocId>,
    segment: &'a Segment,
    column: NumColumn,
}

impl<'a> OrderedRows<'a> {
    /// `None`: they are not in order.
    fn open(segment: &'a Segment, span: &TenantSpan) -> Result<Option<Self>> {
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

    /// The value of a row, as it is stored.
    pub(super) fn stored(&self, row: DocId) -> i64 {
        self.column.as_i64(self.raw(row))
    }

    /// The value of a row, as a float.
    pub(super) fn as_f64(&self, row: DocId) -> f64 {
        self.column.as_f64(self.raw(row))
    }

    fn raw(&self, row: DocId) -> u64 {
        self.column.column.first(row).unwrap_or_default()
    }

    /// How many of some rows are alive.
    pub(super) fn count(&self, rows: Range<DocId>) -> u64 {
        count_alive(self.segment, rows)
    }

    /// Whether any document of the segment is deleted.
    pub(super) fn has_deleted(&self) -> bool {
        self.segment.deleted_count > 0 || self.segment.alive.is_some()
    }

    /// The first row after `row` that is stored as something before `start`.
    pub(super) fn first_before(&self, row: DocId, start: impl Fn(i64) -> bool) -> DocId {
        let is_past = |row| start(self.stored(row));
        // Intervals are mostly of a length, so the end is looked for near by first.
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

impl Plan {
    /// What the aggregations answer over rows that all match; `None`: some has to read them.
    pub(in super::super) fn count_rows(
        &self,
        segment: &Segment,
        span: &TenantSpan,
        memory: &Memory,
    ) -> Result<Option<Partials>> {
        let counts = |kind: &Kind| matches!(kind, Kind::DateHistogram(_) | Kind::Metric(_));
        if !span.newest_first || self.0.iter().any(|node| !counts(&node.kind) || !node.sub.is_empty()) {
            return Ok(None);
        }
        let Some(rows) = OrderedRows::open(segment, span)? else {
            return Ok(None);
        };
        let mut partials = Partials::default();
        for node in &self.0 {
            let partial = match &node.kind {
                Kind::DateHistogram(plan) => plan.count_rows(&rows, memory)?,
                Kind::Metric(plan) => plan.count_rows(&rows),
                _ => None,
            };
            let Some(partial) = partial else {
                return Ok(None);
            };
            partials.0.insert(node.name.clone(), partial);
        }
        Ok(Some(partials))
    }
}
