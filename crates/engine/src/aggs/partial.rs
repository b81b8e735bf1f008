//! Partial results: what segments found, and how it folds together.

use super::{DateHistogramPartial, MetricPartial, TermsPartial, cardinality};
use indexmap::IndexMap;

/// Partial results of one level, by aggregation name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Partials(pub IndexMap<String, Partial>);

/// What one segment (or several, merged) found for one aggregation.
#[derive(Debug, Clone, PartialEq)]
pub enum Partial {
    /// `terms`.
    Terms(TermsPartial),
    /// `date_histogram`.
    DateHistogram(DateHistogramPartial),
    /// All single metrics.
    Metric(MetricPartial),
    /// `cardinality`.
    Cardinality(cardinality::Sketch),
    /// `filter`: its one bucket.
    Filter(Bucket),
}

/// One bucket.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bucket {
    /// Documents in it.
    pub doc_count: u64,
    /// The level below.
    pub sub: Partials,
}

impl Partials {
    /// Adds another part's results. Associative and commutative.
    pub fn merge(&mut self, _other: Partials) -> crate::Result<()> {
        todo!()
    }
}
