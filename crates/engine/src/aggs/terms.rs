//! `terms`.

use std::collections::HashMap;

use serde_json::Value;

use super::{Bucket, KeyBytes, TermsOrder, ValueFormat};

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

/// `include` / `exclude`.
#[derive(Debug, Clone, PartialEq)]
pub enum TermsFilter {
    /// A regular expression over the whole key, as written (anchored).
    Pattern(String),
    /// Exactly these.
    Values(Vec<Value>),
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
