//! Aggregations computed from the order of rows.
//!
//! If the matching rows are ordered by `@timestamp`, binary search finds the edges of intervals: counts over time
//! and extremes of the timestamp need a few values of that column and no other column.

use firn_model::Result;
use firn_query::aggs::Partials;
use firn_segment::segment::Segment;

use super::ordered_rows::OrderedRows;
use super::plan::{Kind, Plan};
use crate::run::memory::Memory;
use crate::tenancy::tenant_rows::TenantSpan;

impl Plan {
    /// Computes the aggregations over rows that all match; `None`: some aggregation has to read the rows.
    pub(crate) fn count_rows(&self, segment: &Segment, span: &TenantSpan, memory: &Memory) -> Result<Option<Partials>> {
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
