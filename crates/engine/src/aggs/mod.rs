//! Aggregations: requests, per-segment partial results that merge, and the printed answer.
//!
//! One file per aggregation with its request (parse, print), its partial result (merge) and its
//! answer. The engine fills a [`Partial`] per segment; [`Partials::merge`] folds them, whatever
//! the split into segments and shards; [`Aggregations::finish`] prints Elasticsearch's JSON.
//! Sizes are bounded: depth 20 (const), `search.max_buckets` buckets in an answer.

pub mod cardinality;
mod date_histogram;
mod key;
mod metric;
mod order;
mod partial;
mod terms;

use indexmap::IndexMap;
use serde_json::Value;

pub use cardinality::Cardinality;
pub use date_histogram::{DateHistogram, DateHistogramPartial, Interval};
pub use key::{Key, KeyBytes, ValueFormat};
pub use metric::{Metric, MetricPartial};
pub use order::TermsOrder;
pub use partial::{Bucket, Partial, Partials};
pub use terms::{Terms, TermsFilter, TermsPartial};

/// Named aggregations of one level, in the order of the request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Aggregations(pub IndexMap<String, Aggregation>);

/// One aggregation with those below it.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregation {
    /// What it does.
    pub kind: AggregationKind,
    /// Only under bucket aggregations.
    pub sub: Aggregations,
    /// Returned as it came.
    pub meta: Option<Value>,
}

/// What an aggregation computes.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum AggregationKind {
    Terms(Terms),
    DateHistogram(DateHistogram),
    Min(Metric),
    Max(Metric),
    Sum(Metric),
    Avg(Metric),
    Stats(Metric),
    ValueCount(Metric),
    Cardinality(Cardinality),
    /// `filter`, with the query that bounds its one bucket.
    Filter(Box<crate::query::Query>),
}

impl Aggregations {
    /// Reads the value of `aggs`.
    pub fn parse(_value: &Value) -> crate::Result<Self> {
        todo!()
    }
    /// The JSON that parses to this.
    pub fn print(&self) -> Value {
        todo!()
    }
    /// An empty result of this shape.
    pub fn empty(&self) -> Partials {
        todo!()
    }
    /// The answer. `max_buckets` bounds all buckets together
    /// ([`crate::ErrorKind::TooManyBuckets`]).
    pub fn finish(&self, _partials: Partials, _max_buckets: usize) -> crate::Result<Value> {
        todo!()
    }
    /// Every field path it reads, sorted.
    pub fn fields(&self) -> Vec<String> {
        todo!()
    }
}
