//! `rare_terms` aggregation: a bucket per value that few documents have.

use std::collections::{HashMap, HashSet};

use firn_model::{Error, Result};
use serde_json::{Value, json};

use super::finish::Finisher;
use super::finished::{Buckets, FinishedBucket, Keys};
use super::parse::{self, Request, unknown_field};
use super::partial::{Room, fold_buckets};
use super::terms::TermsFilter;
use super::{AggregationKind, Aggregations, Bucket, Key, KeyBytes, ValueFormat};

pub(super) const NAME: &str = "rare_terms";

/// Elasticsearch's limit of `max_doc_count`.
const DOC_COUNT_MAX: u64 = 100;

/// `rare_terms`. Elasticsearch stores frequent values in an approximate filter and takes `precision` to tune it; firn
/// stores a 64-bit hash of each instead, without that error.
#[derive(Debug, Clone, PartialEq)]
pub struct RareTerms {
    /// Full path.
    pub field: String,
    /// Maximum documents of a rare value (default 1).
    pub max_doc_count: u64,
    /// As given; sets the error rate in Elasticsearch.
    pub precision: Option<Value>,
    /// Value of documents without the field.
    pub missing: Option<Value>,
    /// Only these keys.
    pub include: Option<TermsFilter>,
    /// Not these keys.
    pub exclude: Option<TermsFilter>,
    /// Format of keys.
    pub format: Option<String>,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut field = None;
    let mut rare = RareTerms {
        field: String::new(),
        max_doc_count: 1,
        precision: None,
        missing: None,
        include: None,
        exclude: None,
        format: None,
    };
    for (key, value) in request.body {
        match key.as_str() {
            "field" => field = Some(parse::text(NAME, key, value)?),
            "max_doc_count" => {
                rare.max_doc_count = parse::number(request, NAME, key, value, 1)?;
                if rare.max_doc_count > DOC_COUNT_MAX {
                    return Err(Error::illegal_argument(format!(
                        "[max_doc_count] must be smaller than [{DOC_COUNT_MAX}] in [{}]",
                        request.name
                    )));
                }
            }
            "precision" => {
                if parse::double(NAME, key, value)? < 0.00001 {
                    return Err(Error::illegal_argument("[precision] must be greater than 0.00001"));
                }
                rare.precision = Some(value.clone());
            }
            "missing" => rare.missing = Some(parse::scalar(NAME, key, value)?),
            "include" => rare.include = Some(TermsFilter::parse(key, value)?),
            "exclude" => rare.exclude = Some(TermsFilter::parse(key, value)?),
            "format" => rare.format = Some(parse::text(NAME, key, value)?),
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    rare.field = parse::required_field(field)?;
    Ok(AggregationKind::RareTerms(rare))
}

impl RareTerms {
    pub(super) fn print(&self) -> Value {
        let mut body = parse::body_of(&self.field);
        body.insert("max_doc_count".into(), json!(self.max_doc_count));
        parse::put(&mut body, "precision", self.precision.as_ref());
        parse::put(&mut body, "missing", self.missing.as_ref());
        parse::put(&mut body, "include", self.include.as_ref().map(TermsFilter::print));
        parse::put(&mut body, "exclude", self.exclude.as_ref().map(TermsFilter::print));
        parse::put(&mut body, "format", self.format.as_ref());
        Value::Object(body)
    }
}

/// Partial result of `rare_terms`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RareTermsPartial {
    /// Values that are rare so far.
    pub buckets: HashMap<KeyBytes, Bucket>,
    /// Values that are not rare, by hash ([`KeyBytes::hash64`]).
    pub frequent: HashSet<u64>,
    /// Format of the keys.
    pub format: ValueFormat,
    /// Value of the request; 0 until a segment was collected.
    pub max_doc_count: u64,
}

impl RareTermsPartial {
    /// Creates a partial result from counted values.
    pub fn new(counted: HashMap<KeyBytes, Bucket>, format: ValueFormat, max_doc_count: u64) -> Self {
        let mut partial = Self {
            buckets: counted,
            frequent: HashSet::new(),
            format,
            max_doc_count,
        };
        partial.sift();
        partial
    }

    /// Moves values that are no longer rare.
    fn sift(&mut self) {
        let (frequent, max) = (&mut self.frequent, self.max_doc_count);
        self.buckets.retain(|key, bucket| {
            if bucket.doc_count > max {
                frequent.insert(key.hash64());
            }
            bucket.doc_count <= max
        });
    }

    pub(super) fn fold(&mut self, other: Self, room: &mut Room) -> Result<()> {
        self.format.merge(&other.format);
        self.max_doc_count = self.max_doc_count.max(other.max_doc_count);
        fold_buckets(&mut self.buckets, other.buckets, room)?;
        self.frequent.extend(other.frequent);
        if !self.frequent.is_empty() {
            let frequent = &self.frequent;
            self.buckets.retain(|key, _| !frequent.contains(&key.hash64()));
        }
        self.sift();
        Ok(())
    }
}

pub(super) fn answer(finisher: &mut Finisher<'_>, sub: &Aggregations, partial: RareTermsPartial) -> Result<Buckets> {
    let mut rare: Vec<(Key, Bucket)> = partial
        .buckets
        .into_iter()
        .filter(|(_, bucket)| bucket.doc_count > 0)
        .map(|(key, bucket)| (key.into(), bucket))
        .collect();
    finisher.count(rare.len())?;
    rare.sort_unstable_by(|(left_key, left), (right_key, right)| {
        left.doc_count
            .cmp(&right.doc_count)
            .then_with(|| left_key.compare(right_key))
    });
    let is_number = |(key, _): &(Key, Bucket)| !matches!(key, Key::Str(_) | Key::Ip(_));
    let numbers = partial.format != ValueFormat::Raw || rare.iter().any(is_number);
    let mut buckets = Vec::with_capacity(rare.len());
    for (key, bucket) in rare {
        let below = finisher.level(sub, bucket.sub)?;
        buckets.push(FinishedBucket::new(key, &partial.format, bucket.doc_count, below));
    }
    Ok(Buckets {
        type_name: if numbers { "lrareterms" } else { "srareterms" },
        head: Vec::new(),
        tail: Vec::new(),
        keyed: false,
        keys: Keys::KeyFirst,
        buckets,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip, parsed};
    use crate::aggs::{Partial, Partials};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"rare_terms": {
            "field": "a", "max_doc_count": 3, "precision": 0.01, "missing": "-", "include": "a.*", "exclude": ["b"]
        }, "aggs": {"y": {"max": {"field": "b"}}}}}));
    }

    #[test]
    fn refuses() {
        let check = |body: Value, error: &str| check_refused(json!({"x": {"rare_terms": body}}), error);
        check(
            json!({"field": "a", "max_doc_count": 0}),
            "[max_doc_count] must be greater than 0. Found [0] in [x]",
        );
        check(
            json!({"field": "a", "max_doc_count": 101}),
            "[max_doc_count] must be smaller than [100] in [x]",
        );
        check(
            json!({"field": "a", "precision": 0}),
            "[precision] must be greater than 0.00001",
        );
        check(json!({"field": "a", "size": 1}), "[rare_terms] unknown field [size]");
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"rare_terms": {"field": "a"}}}), &["a"]);
    }

    fn counted(values: &[u8]) -> RareTermsPartial {
        let mut counts: HashMap<KeyBytes, Bucket> = HashMap::new();
        for value in values {
            counts
                .entry(KeyBytes::Str(format!("v{value}").into()))
                .or_default()
                .doc_count += 1;
        }
        RareTermsPartial::new(counts, ValueFormat::Raw, 2)
    }

    #[test]
    fn answers_by_count_then_key() {
        let aggregations = parsed(json!({"x": {"rare_terms": {"field": "a", "max_doc_count": 2}}}));
        let partial = Partial::RareTerms(counted(&[1, 3, 3, 2, 4, 4, 4]));
        let partials = Partials([("x".to_owned(), partial)].into_iter().collect());
        assert_eq!(
            aggregations.finish(partials, 10).unwrap()["x"],
            json!({"buckets": [
                {"key": "v1", "doc_count": 1}, {"key": "v2", "doc_count": 1}, {"key": "v3", "doc_count": 2}
            ]})
        );
    }

    proptest! {
        /// A value that is frequent in one part is not rare because another part has it once.
        #[test]
        fn merging_does_not_depend_on_split_or_order(
            values in prop::collection::vec(0_u8..9, 0..40), first in 0_usize..40, second in 0_usize..40,
        ) {
            let (first, second) = (first.min(values.len()), second.min(values.len()));
            let (low, high) = (first.min(second), first.max(second));
            let parts = [&values[..low], &values[low..high], &values[high..]].map(counted);
            let whole = counted(&values);
            for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
                let mut merged = RareTermsPartial::default();
                for part in order {
                    merged.fold(parts[part].clone(), &mut Room::new(usize::MAX)).unwrap();
                }
                prop_assert_eq!(&merged, &whole);
            }
            let mut right = parts[1].clone();
            right.fold(parts[2].clone(), &mut Room::new(usize::MAX)).unwrap();
            let mut left = parts[0].clone();
            left.fold(right, &mut Room::new(usize::MAX)).unwrap();
            prop_assert_eq!(left, whole);
        }
    }
}
