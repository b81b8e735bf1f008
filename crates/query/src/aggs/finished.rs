//! Finished tree: the answer before it is printed as JSON.
//!
//! Pipelines read and change this tree ([`crate::aggs::pipeline`]); then it is printed. A level holds one result per
//! aggregation of the request, in the same order, so names are not repeated for every bucket.

use serde_json::{Map, Value};

use super::key::{Key, double_text};
use super::top_hits::Page;
use super::{Aggregation, Aggregations, ValueFormat};

/// Results of one level, in the order of the request's aggregations.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Level(pub(super) Vec<Finished>);

/// Result of one aggregation.
#[derive(Debug, Clone, PartialEq)]
// A level has few of them; boxes would cost an allocation per metric of every bucket.
#[allow(clippy::large_enum_variant)]
pub(super) enum Finished {
    /// Several buckets.
    Buckets(Buckets),
    /// One bucket (`filter`, `global`, …).
    Single(SingleBucket),
    /// A result without buckets, as it prints.
    Metric(Map<String, Value>),
    /// Documents.
    Hits(Page),
    /// A pipeline without an answer at this position: nothing is printed.
    Absent,
}

/// Result of an aggregation with several buckets.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Buckets {
    /// Prefix of the name for `typed_keys`.
    pub(super) type_name: &'static str,
    /// Printed before `buckets`.
    pub(super) head: Vec<(&'static str, Value)>,
    /// Printed after `buckets`.
    pub(super) tail: Vec<(&'static str, Value)>,
    /// Print an object by [`FinishedBucket::name`] instead of a list.
    pub(super) keyed: bool,
    /// Printed key fields.
    pub(super) keys: Keys,
    /// In the order of the answer.
    pub(super) buckets: Vec<FinishedBucket>,
}

/// Printed key fields of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// `key`, then `key_as_string` (terms).
    KeyFirst,
    /// `key_as_string`, then `key` (histograms).
    TextFirst,
    /// None: the bucket's name or position is the key (filters, keyed ranges).
    Hidden,
}

/// One bucket of several.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct FinishedBucket {
    /// `key`.
    pub(super) key: Value,
    /// `key_as_string`.
    pub(super) key_as_string: Option<String>,
    /// Printed between the key and `doc_count` (`from`, `to`).
    pub(super) before: Vec<(&'static str, Value)>,
    /// Number of documents.
    pub(super) doc_count: u64,
    /// Printed after `doc_count` (`score`, `doc_count_error_upper_bound`).
    pub(super) after: Vec<(&'static str, Value)>,
    /// The level below.
    pub(super) sub: Level,
}

/// A single bucket.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct SingleBucket {
    /// Number of documents.
    pub(super) doc_count: u64,
    /// Printed after `doc_count`.
    pub(super) after: Vec<(&'static str, Value)>,
    /// The level below.
    pub(super) sub: Level,
}

impl FinishedBucket {
    /// Creates a bucket with a plain key.
    pub(super) fn new(key: Key, format: &ValueFormat, doc_count: u64, sub: Level) -> Self {
        Self {
            key_as_string: key.print_as_string(format),
            key: key.into_json(),
            doc_count,
            sub,
            ..Self::default()
        }
    }

    /// Returns the name in a keyed answer and in `buckets_path`.
    pub(super) fn name(&self) -> String {
        match (&self.key_as_string, &self.key) {
            (Some(text), _) => text.clone(),
            (None, Value::String(text)) => text.clone(),
            (None, Value::Number(number)) if number.is_f64() => double_text(number.as_f64().unwrap_or_default()),
            (None, other) => other.to_string(),
        }
    }

    fn print(self, keys: Keys, below: &Aggregations, typed: bool) -> Value {
        // Allocated with its final size: an answer may have tens of thousands of buckets.
        let fields = 3 + self.before.len() + self.after.len() + self.sub.0.len();
        let mut printed = Map::with_capacity(fields);
        let text = self.key_as_string.map(Value::String);
        match keys {
            Keys::KeyFirst => {
                printed.insert("key".into(), self.key);
                put(&mut printed, text.map(|text| ("key_as_string", text)));
            }
            Keys::TextFirst => {
                put(&mut printed, text.map(|text| ("key_as_string", text)));
                printed.insert("key".into(), self.key);
            }
            Keys::Hidden => {}
        }
        put(&mut printed, self.before);
        printed.insert("doc_count".into(), self.doc_count.into());
        put(&mut printed, self.after);
        self.sub.print(below, typed, &mut printed);
        Value::Object(printed)
    }
}

impl Buckets {
    fn print(self, below: &Aggregations, typed: bool, printed: &mut Map<String, Value>) {
        put(printed, self.head);
        let keys = self.keys;
        let buckets = self.buckets.into_iter();
        let buckets = if self.keyed {
            Value::Object(
                buckets
                    .map(|bucket| (bucket.name(), bucket.print(keys, below, typed)))
                    .collect(),
            )
        } else {
            Value::Array(buckets.map(|bucket| bucket.print(keys, below, typed)).collect())
        };
        printed.insert("buckets".into(), buckets);
        put(printed, self.tail);
    }
}

impl Level {
    /// Inserts the results into `answer` by name; `typed` prefixes the name with the type.
    pub(super) fn print(self, aggregations: &Aggregations, typed: bool, answer: &mut Map<String, Value>) {
        for ((name, aggregation), finished) in aggregations.0.iter().zip(self.0) {
            if matches!(finished, Finished::Absent) {
                continue;
            }
            let printed_name = if typed {
                format!("{}#{name}", finished.type_name(aggregation))
            } else {
                name.clone()
            };
            answer.insert(printed_name, Value::Object(finished.print(aggregation, typed)));
        }
    }
}

impl Finished {
    fn type_name(&self, aggregation: &Aggregation) -> &'static str {
        match self {
            Self::Buckets(buckets) => buckets.type_name,
            _ => aggregation.kind.type_name(),
        }
    }

    fn print(self, aggregation: &Aggregation, typed: bool) -> Map<String, Value> {
        let mut printed = Map::new();
        put(&mut printed, aggregation.meta.clone().map(|meta| ("meta", meta)));
        match self {
            Self::Buckets(buckets) => buckets.print(&aggregation.sub, typed, &mut printed),
            Self::Single(bucket) => {
                printed.insert("doc_count".into(), bucket.doc_count.into());
                put(&mut printed, bucket.after);
                bucket.sub.print(&aggregation.sub, typed, &mut printed);
            }
            Self::Metric(fields) if printed.is_empty() => return fields,
            Self::Metric(fields) => printed.extend(fields),
            Self::Hits(page) => printed.extend(page.print()),
            Self::Absent => {}
        }
        printed
    }
}

fn put(printed: &mut Map<String, Value>, fields: impl IntoIterator<Item = (&'static str, Value)>) {
    for (name, value) in fields {
        printed.insert(name.into(), value);
    }
}
