//! `date_histogram`.

use std::collections::HashMap;

use serde_json::Value;

use super::{Bucket, TermsOrder, ValueFormat};

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

/// Partial result of `date_histogram`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DateHistogramPartial {
    /// By the bucket's start, ms since epoch UTC.
    pub buckets: HashMap<i64, Bucket>,
    /// How keys print.
    pub format: ValueFormat,
}
