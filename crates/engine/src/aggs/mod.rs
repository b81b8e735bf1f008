//! Aggregations: requests, per-segment partial results that merge, and the printed answer.
//!
//! One file per aggregation with its request (parse, print), its partial result (merge) and its
//! answer. The engine fills a [`Partial`] per segment; [`Partials::merge`] folds them, whatever
//! the split into segments and shards; [`Aggregations::finish`] prints Elasticsearch's JSON.
//! Sizes are bounded: depth 20 (const), `search.max_buckets` buckets in an answer.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde_json::Value;

pub mod cardinality;

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

/// `terms`.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// Full path.
    pub field: String,
    /// Buckets returned (default 10).
    pub size: usize,
    /// Candidates per shard; `None`: `size * 1.5 + 10`. firn merges all candidates of a shard's
    /// segments exactly, so the error comes from the shard cut alone.
    pub shard_size: Option<usize>,
    /// Fewer documents: no bucket (default 1).
    pub min_doc_count: u64,
    /// Keys of the order; default count descending, ties by key ascending.
    pub order: Vec<(TermsOrder, bool)>,
    /// Value of documents without the field.
    pub missing: Option<Value>,
    /// Only these keys.
    pub include: Option<TermsFilter>,
    /// Not these keys.
    pub exclude: Option<TermsFilter>,
    /// Put each bucket's `doc_count_error_upper_bound` into the answer.
    pub show_term_doc_count_error: bool,
    /// Date format of keys of date fields.
    pub format: Option<String>,
}

/// A key of `order`; the bool beside it says ascending.
#[derive(Debug, Clone, PartialEq)]
pub enum TermsOrder {
    /// `_count`.
    Count,
    /// `_key`.
    Key,
    /// A metric below, `name` or `name.value` / `name.max`.
    Sub(String),
}

/// `include` / `exclude`.
#[derive(Debug, Clone, PartialEq)]
pub enum TermsFilter {
    /// A regular expression over the whole key, as written (anchored).
    Pattern(String),
    /// Exactly these.
    Values(Vec<Value>),
}

/// `date_histogram`.
#[derive(Debug, Clone, PartialEq)]
pub struct DateHistogram {
    /// Full path of a date field.
    pub field: String,
    /// How wide a bucket is.
    pub interval: Interval,
    /// As written; `None`: UTC.
    pub time_zone: Option<String>,
    /// Moves the start of buckets, ms.
    pub offset_ms: i64,
    /// Default 0: empty buckets between the first and the last are returned.
    pub min_doc_count: u64,
    /// `extended_bounds`, as written (dates or ms).
    pub extended_bounds: Option<(Value, Value)>,
    /// `hard_bounds`, as written.
    pub hard_bounds: Option<(Value, Value)>,
    /// Buckets as an object by key.
    pub keyed: bool,
    /// Date format of `key_as_string`; `None`: the field's.
    pub format: Option<String>,
    /// Value of documents without the field.
    pub missing: Option<Value>,
    /// Order of buckets; default key ascending. (key, ascending)
    pub order: Vec<(TermsOrder, bool)>,
}

/// The width of a date histogram's bucket.
pub use firn_model::dates::Interval;

/// `min`, `max`, `sum`, `avg`, `stats`, `value_count`.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Full path.
    pub field: String,
    /// Value of documents without the field.
    pub missing: Option<Value>,
    /// Format of `value_as_string`.
    pub format: Option<String>,
}

/// `cardinality`.
#[derive(Debug, Clone, PartialEq)]
pub struct Cardinality {
    /// Full path.
    pub field: String,
    /// Below this the count is nearly exact (default 3000, at most 40000).
    pub precision_threshold: u64,
    /// Value of documents without the field.
    pub missing: Option<Value>,
}

/// How a bucket key or metric of a field prints; resolved from the mapping by the engine.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ValueFormat {
    /// Strings as they are; numbers as JSON numbers.
    #[default]
    Raw,
    /// ms since epoch, printed with this format as `…_as_string`.
    Date(std::sync::Arc<firn_model::dates::DateFormat>),
    /// 0 and 1 with `true` and `false` as `key_as_string`.
    Boolean,
    /// An integer type: `key` has no fraction.
    Integer,
}

/// A bucket key. Strings order by bytes, numbers by value.
#[derive(Debug, Clone, PartialEq)]
pub enum Key {
    /// Keyword, ip (printed form) and the like.
    Str(String),
    /// Integers, dates (ms), booleans.
    I64(i64),
    /// `unsigned_long` beyond i64.
    U64(u64),
    /// Floats.
    F64(f64),
}

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

/// Partial result of `terms`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TermsPartial {
    /// Candidates.
    pub buckets: HashMap<KeyBytes, Bucket>,
    /// Documents in buckets that were cut.
    pub other_doc_count: u64,
    /// The most documents a cut bucket can have had, summed over the cuts.
    pub error_upper_bound: u64,
    /// How keys print; the first that is not `Raw` wins.
    pub format: ValueFormat,
}

/// A [`Key`] in hashable form (f64 by its bits).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyBytes {
    /// See [`Key::Str`].
    Str(Box<str>),
    /// See [`Key::I64`].
    I64(i64),
    /// See [`Key::U64`].
    U64(u64),
    /// Order-preserving bits of an f64.
    F64(u64),
}

/// Partial result of `date_histogram`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DateHistogramPartial {
    /// By the bucket's start, ms since epoch UTC.
    pub buckets: HashMap<i64, Bucket>,
    /// How keys print.
    pub format: ValueFormat,
}

/// Partial result of the single metrics: enough for any of them.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricPartial {
    /// Values seen.
    pub count: u64,
    /// Their sum (Kahan compensated).
    pub sum: f64,
    /// The compensation.
    pub sum_compensation: f64,
    /// Infinity if none.
    pub min: f64,
    /// Minus infinity if none.
    pub max: f64,
    /// How values print.
    pub format: ValueFormat,
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

impl Partials {
    /// Adds another part's results. Associative and commutative.
    pub fn merge(&mut self, _other: Partials) -> crate::Result<()> {
        todo!()
    }
}
