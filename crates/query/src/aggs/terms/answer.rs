//! Partial result and answer of `terms`: merges, cuts and prints buckets.

use std::collections::HashMap;

use firn_model::{Error, Result};
use serde_json::Value;

use super::Selection;
use super::counts::StoredCounts;
use crate::aggs::finish::Finisher;
use crate::aggs::finished::{Buckets, FinishedBucket, Keys, Level};
use crate::aggs::key::double_text;
use crate::aggs::order::{self, Ranked, Sorter};
use crate::aggs::partial::{Room, fold_buckets};
use crate::aggs::{Aggregations, Bucket, Key, KeyBytes, ValueFormat};
use crate::cancel::{Cancel, Watch};

/// Partial result of `terms`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TermsPartial {
    /// Candidates.
    pub buckets: HashMap<KeyBytes, Bucket>,
    /// Further candidates by count only, without their keys yet. Used only if the order is by count descending and
    /// there are no sub-aggregations.
    pub stored: StoredCounts,
    /// Documents in buckets that were cut.
    pub other_doc_count: u64,
    /// Maximum documents of a cut bucket, summed over the cuts.
    pub error_upper_bound: u64,
    /// Format of the keys; the first that is not `Raw` wins.
    pub format: ValueFormat,
    /// Number of shards whose cuts are included ([`TermsPartial::cut`]).
    pub shards: u32,
    /// A shard cut in an order that gives no bound for the counts of the cut buckets.
    pub error_unbounded: bool,
    /// By key, the part of `error_upper_bound` from shards that reported the bucket. Set only for
    /// `show_term_doc_count_error`.
    pub reported_errors: HashMap<KeyBytes, u64>,
    /// Format of each part of a `multi_terms` key.
    pub formats: Vec<ValueFormat>,
}

impl TermsPartial {
    /// Retains the first `shard_size` candidates of the order, and accounts for the rest. Called once, for the merged
    /// result of one whole shard ([`Aggregations::cut_shard`] does it on all levels). `sub` are the sub-aggregations,
    /// which the order may name.
    pub(in crate::aggs) fn cut(&mut self, terms: &Selection<'_>, sub: &Aggregations, cancel: &Cancel) -> Result<()> {
        self.shards = 1;
        let shard_size = terms.shard_size;
        if self.name_first(shard_size)? {
            let least = self.buckets.values().map(|bucket| bucket.doc_count).min();
            self.was_cut(least.unwrap_or(0), terms.show_errors);
        }
        if terms.shard_min_doc_count > 0 {
            // Elasticsearch does not count these in `sum_other_doc_count` either.
            self.buckets
                .retain(|_, bucket| bucket.doc_count >= terms.shard_min_doc_count);
        }
        if self.buckets.len() <= shard_size {
            return Ok(());
        }
        let sorter = Sorter::new(terms.order, sub)?;
        let mut watch = Watch::new(cancel);
        let mut ranked: Vec<Ranked> = Vec::with_capacity(self.buckets.len());
        for (key, bucket) in self.buckets.drain() {
            watch.tick()?;
            ranked.push(sorter.rank(key.into(), bucket));
        }
        sorter.sort_top(&mut ranked, shard_size);
        for cut in ranked.drain(shard_size..) {
            // This drops the sub-aggregation results of the cut bucket.
            watch.tick()?;
            self.other_doc_count += cut.bucket.doc_count;
        }
        let mut error = 0;
        if order::is_by_count_descending(terms.order) {
            error = ranked.last().map_or(0, |last| last.bucket.doc_count);
        } else if !order::is_by_key(terms.order) {
            self.error_unbounded = true;
        }
        for Ranked { key, bucket, .. } in ranked {
            self.buckets.insert(KeyBytes::from(key), bucket);
        }
        self.was_cut(error, terms.show_errors);
        Ok(())
    }

    /// Accounts for a cut of candidates that each had at most `error` documents; the remaining buckets were reported.
    /// With `by_key` (for `show_term_doc_count_error`) the error is recorded per remaining bucket.
    pub fn was_cut(&mut self, error: u64, by_key: bool) {
        self.error_upper_bound += error;
        if by_key && error > 0 {
            for key in self.buckets.keys() {
                *self.reported_errors.entry(key.clone()).or_default() += error;
            }
        }
    }

    /// Resolves the keys of the first `keep` candidates, if some have none yet; returns true if others were cut.
    fn name_first(&mut self, keep: usize) -> Result<bool> {
        if self.stored.0.is_empty() {
            return Ok(false);
        }
        let stored = std::mem::take(&mut self.stored);
        let known = self
            .buckets
            .drain()
            .map(|(key, bucket)| (key, bucket.doc_count))
            .collect();
        let first = stored.first(&known, keep)?;
        self.other_doc_count += first.other_doc_count;
        self.buckets = first
            .counts
            .into_iter()
            .map(|(key, doc_count)| {
                let bucket = Bucket {
                    doc_count,
                    ..Bucket::default()
                };
                (key, bucket)
            })
            .collect();
        Ok(first.is_cut)
    }

    pub(in crate::aggs) fn fold(&mut self, other: Self, room: &mut Room) -> Result<()> {
        self.stored.0.extend(other.stored.0);
        self.other_doc_count += other.other_doc_count;
        self.error_upper_bound += other.error_upper_bound;
        self.error_unbounded |= other.error_unbounded;
        self.shards += other.shards;
        self.format.merge(&other.format);
        if self.formats.is_empty() {
            self.formats = other.formats;
        } else {
            for (own, theirs) in self.formats.iter_mut().zip(&other.formats) {
                own.merge(theirs);
            }
        }
        for (key, error) in other.reported_errors {
            *self.reported_errors.entry(key).or_default() += error;
        }
        fold_buckets(&mut self.buckets, other.buckets, room)
    }

    /// Shards may map a field as integers and as floats: then all keys become floats.
    fn unify(&mut self) -> Result<()> {
        let has = |wanted: fn(&KeyBytes) -> bool| self.buckets.keys().any(wanted);
        let strings = has(|key| matches!(key, KeyBytes::Str(_) | KeyBytes::Ip(_)));
        let floats = has(|key| matches!(key, KeyBytes::F64(_)));
        let integers = has(|key| matches!(key, KeyBytes::I64(_) | KeyBytes::U64(_)));
        if strings && (floats || integers) {
            return Err(Error::illegal_argument(
                "Merging/Reducing the aggregations failed because the field you gave in the aggregation query existed as \
                 two different types in two different indices",
            ));
        }
        if floats && integers {
            let as_float = |key: KeyBytes| KeyBytes::from_f64(Key::from(key).as_f64());
            let buckets = std::mem::take(&mut self.buckets).into_iter();
            let buckets = buckets.map(|(key, bucket)| (as_float(key), bucket));
            fold_buckets(&mut self.buckets, buckets, &mut Room::new(usize::MAX))?;
            for (key, error) in std::mem::take(&mut self.reported_errors) {
                *self.reported_errors.entry(as_float(key)).or_default() += error;
            }
        }
        Ok(())
    }

    /// Returns the prefix for `typed_keys`, by the type of the keys.
    fn type_name<'a>(&self, keys: impl Iterator<Item = &'a Key>) -> &'static str {
        let mut integers = matches!(
            self.format,
            ValueFormat::Date(_) | ValueFormat::Boolean | ValueFormat::Integer
        );
        let mut unsigned = false;
        for key in keys {
            match key {
                Key::Str(_) | Key::Ip(_) | Key::Null | Key::Tuple(_) => return "sterms",
                Key::F64(_) => return "dterms",
                Key::U64(_) => unsigned = true,
                Key::I64(_) => integers = true,
            }
        }
        match (unsigned, integers) {
            (true, _) => "ulterms",
            (false, true) => "lterms",
            (false, false) => "sterms",
        }
    }
}

pub(in crate::aggs) fn answer(
    finisher: &mut Finisher<'_>,
    terms: &Selection<'_>,
    sub: &Aggregations,
    mut partial: TermsPartial,
) -> Result<Buckets> {
    partial.name_first(terms.size)?;
    partial.unify()?;
    // A single shard has no error; -1 means that the error is unknown, as in Elasticsearch.
    let error = |known: u64| -> Value {
        match (partial.error_unbounded, partial.shards) {
            (true, _) => Value::from(-1),
            (false, 0 | 1) => Value::from(0),
            (false, _) => Value::from(known),
        }
    };
    let sorter = Sorter::new(terms.order, sub)?;
    let mut ranked = Vec::new();
    for (key, bucket) in std::mem::take(&mut partial.buckets) {
        finisher.tick()?;
        if bucket.doc_count >= terms.min_doc_count {
            ranked.push(sorter.rank(key.into(), bucket));
        }
    }
    sorter.sort_top(&mut ranked, terms.size);
    let mut other_doc_count = partial.other_doc_count;
    for cut in ranked.drain(ranked.len().min(terms.size)..) {
        finisher.tick()?;
        other_doc_count += cut.bucket.doc_count;
    }
    finisher.count(ranked.len())?;
    let type_name = match terms.type_name {
        Some(name) => name,
        None => partial.type_name(ranked.iter().map(|ranked| &ranked.key)),
    };
    let mut buckets = Vec::with_capacity(ranked.len());
    for Ranked { key, bucket, .. } in ranked {
        let mut after = Vec::new();
        if terms.show_errors {
            let reported = partial.reported_errors.get(&KeyBytes::from(key.clone())).copied();
            let unknown = partial.error_upper_bound.saturating_sub(reported.unwrap_or(0));
            after.push(("doc_count_error_upper_bound", error(unknown)));
        }
        let sub = finisher.level(sub, bucket.sub)?;
        let finished = match key {
            Key::Tuple(parts) => tuple_bucket(parts, &partial.formats, bucket.doc_count, sub),
            key => FinishedBucket::new(key, &partial.format, bucket.doc_count, sub),
        };
        buckets.push(FinishedBucket { after, ..finished });
    }
    Ok(Buckets {
        type_name,
        head: vec![
            ("doc_count_error_upper_bound", error(partial.error_upper_bound)),
            ("sum_other_doc_count", other_doc_count.into()),
        ],
        tail: Vec::new(),
        keyed: false,
        keys: Keys::KeyFirst,
        buckets,
    })
}

/// Returns a bucket of `multi_terms`: the key is a list; as a string, its parts are joined by bars.
fn tuple_bucket(parts: Vec<Key>, formats: &[ValueFormat], doc_count: u64, sub: Level) -> FinishedBucket {
    let mut key = Vec::with_capacity(parts.len());
    let mut texts = Vec::with_capacity(parts.len());
    for (position, part) in parts.into_iter().enumerate() {
        let format = formats.get(position).unwrap_or(&ValueFormat::Raw);
        let text = part.print_as_string(format);
        let value = match (&text, format) {
            (Some(text), ValueFormat::Boolean) => Value::Bool(text == "true"),
            (Some(text), _) => Value::from(text.as_str()),
            (None, _) => part.into_json(),
        };
        texts.push(match (&value, text) {
            (_, Some(text)) => text,
            (Value::String(text), None) => text.clone(),
            (Value::Number(number), None) if number.is_f64() => double_text(number.as_f64().unwrap_or_default()),
            (other, None) => other.to_string(),
        });
        key.push(value);
    }
    FinishedBucket {
        key: Value::Array(key),
        key_as_string: Some(texts.join("|")),
        doc_count,
        sub,
        ..FinishedBucket::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::aggs::test_support::{metric, parsed};
    use crate::aggs::{Partial, Partials};

    fn partial(counts: &[(Key, u64)]) -> TermsPartial {
        let bucket = |doc_count| Bucket {
            doc_count,
            sub: Partials::default(),
        };
        TermsPartial {
            buckets: counts
                .iter()
                .map(|(key, count)| (key.clone().into(), bucket(*count)))
                .collect(),
            ..TermsPartial::default()
        }
    }

    fn strings(counts: &[(&str, u64)]) -> TermsPartial {
        let keys: Vec<_> = counts
            .iter()
            .map(|(key, count)| (Key::Str((*key).to_owned()), *count))
            .collect();
        partial(&keys)
    }

    fn check_answer(body: Value, partial: TermsPartial, expected: &Value) {
        let aggregations = parsed(json!({"x": {"terms": body}}));
        let partials = Partials([("x".to_owned(), Partial::Terms(partial))].into_iter().collect());
        assert_eq!(aggregations.finish(partials, 100).unwrap()["x"], *expected);
    }

    fn keys_in_order(body: Value, partial: TermsPartial) -> Vec<String> {
        let aggregations = parsed(json!({"x": {
            "terms": body, "aggs": {"m": {"avg": {"field": "n"}}, "s": {"stats": {"field": "n"}}}
        }}));
        let partials = Partials([("x".to_owned(), Partial::Terms(partial))].into_iter().collect());
        let answer = aggregations.finish(partials, 100).unwrap();
        let buckets = answer["x"]["buckets"].as_array().unwrap().iter();
        buckets
            .map(|bucket| bucket["key"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn answers_by_count_then_key() {
        check_answer(
            json!({"field": "a", "size": 3}),
            strings(&[("d", 1), ("b", 2), ("c", 2), ("a", 7)]),
            &json!({
                "doc_count_error_upper_bound": 0,
                "sum_other_doc_count": 1,
                "buckets": [
                    {"key": "a", "doc_count": 7}, {"key": "b", "doc_count": 2}, {"key": "c", "doc_count": 2}
                ]
            }),
        );
    }

    #[test]
    fn rare_buckets_are_omitted() {
        check_answer(
            json!({"field": "a", "min_doc_count": 2}),
            strings(&[("a", 1), ("b", 2)]),
            &json!({
                "doc_count_error_upper_bound": 0,
                "sum_other_doc_count": 0,
                "buckets": [{"key": "b", "doc_count": 2}]
            }),
        );
    }

    #[test]
    fn booleans_print_as_numbers_and_words() {
        let mut booleans = partial(&[(Key::I64(1), 2), (Key::I64(0), 1)]);
        booleans.format = ValueFormat::Boolean;
        check_answer(
            json!({"field": "a"}),
            booleans,
            &json!({
                "doc_count_error_upper_bound": 0,
                "sum_other_doc_count": 0,
                "buckets": [
                    {"key": 1, "key_as_string": "true", "doc_count": 2},
                    {"key": 0, "key_as_string": "false", "doc_count": 1}
                ]
            }),
        );
    }

    #[test]
    fn integers_and_floats_merge_as_floats() {
        check_answer(
            json!({"field": "a"}),
            partial(&[(Key::I64(1), 2), (Key::F64(1.0), 1), (Key::F64(0.5), 1)]),
            &json!({
                "doc_count_error_upper_bound": 0,
                "sum_other_doc_count": 0,
                "buckets": [{"key": 1.0, "doc_count": 3}, {"key": 0.5, "doc_count": 1}]
            }),
        );
    }

    #[test]
    fn strings_and_numbers_do_not_merge() {
        let aggregations = parsed(json!({"x": {"terms": {"field": "a"}}}));
        let mixed = partial(&[(Key::I64(1), 2), (Key::Str("1".into()), 1)]);
        let partials = Partials([("x".to_owned(), Partial::Terms(mixed))].into_iter().collect());
        let error = aggregations.finish(partials, 100).unwrap_err();
        assert!(error.reason().contains("two different types"), "{error}");
    }

    #[test]
    fn orders() {
        let candidates = || {
            let mut candidates = strings(&[("a", 1), ("b", 3), ("c", 2), ("d", 1)]);
            let values: [(&str, &[f64]); 4] = [("a", &[5.0]), ("b", &[1.0]), ("c", &[]), ("d", &[9.0, 1.0])];
            for (key, values) in values {
                let bucket = candidates.buckets.get_mut(&KeyBytes::Str(key.into())).unwrap();
                for name in ["m", "s"] {
                    bucket.sub.0.insert(name.to_owned(), metric(values));
                }
            }
            candidates
        };
        let check = |order: Value, expected: &str| {
            let keys = keys_in_order(json!({"field": "a", "order": order}), candidates());
            assert_eq!(keys.concat(), expected, "{order}");
        };
        check(json!({"_count": "asc"}), "adcb");
        check(json!({"_count": "desc"}), "bcad");
        check(json!({"_key": "desc"}), "dcba");
        check(json!({"_term": "asc"}), "abcd");
        // A mean without values comes last in either direction.
        check(json!({"m": "asc"}), "badc");
        check(json!({"m.value": "desc"}), "adbc");
        check(json!([{"s.min": "asc"}, {"_key": "desc"}]), "dbac");
        check(json!([{"s.count": "asc"}]), "cabd");
    }

    #[test]
    fn shards_cut_and_account() {
        let aggregations = parsed(json!({"x": {
            "terms": {"field": "a", "size": 2, "shard_size": 2, "show_term_doc_count_error": true}
        }}));
        let shard = |counts: &[(&str, u64)]| {
            let mut partials = Partials(
                [("x".to_owned(), Partial::Terms(strings(counts)))]
                    .into_iter()
                    .collect(),
            );
            aggregations.cut_shard(&mut partials, &Cancel::default()).unwrap();
            partials
        };
        let first = shard(&[("a", 10), ("b", 5), ("c", 4)]);
        let second = shard(&[("c", 6), ("a", 3), ("d", 2)]);
        let third = shard(&[("a", 1)]);
        for parts in [[&first, &second, &third], [&third, &second, &first]] {
            let mut merged = aggregations.empty();
            for part in parts {
                merged.merge(part.clone()).unwrap();
            }
            assert_eq!(
                aggregations.finish(merged, 10).unwrap()["x"],
                json!({
                    "doc_count_error_upper_bound": 8,
                    "sum_other_doc_count": 11,
                    "buckets": [
                        {"key": "a", "doc_count": 14, "doc_count_error_upper_bound": 0},
                        {"key": "c", "doc_count": 6, "doc_count_error_upper_bound": 5}
                    ]
                })
            );
        }
        let alone = aggregations.finish(first, 10).unwrap();
        assert_eq!(alone["x"]["doc_count_error_upper_bound"], 0);
        assert_eq!(alone["x"]["sum_other_doc_count"], 4);
    }

    #[test]
    fn a_cut_by_a_metric_has_an_unknown_error() {
        let aggregations = parsed(json!({"x": {
            "terms": {"field": "a", "size": 1, "shard_size": 1, "order": {"_count": "asc"}}
        }}));
        let candidates = strings(&[("a", 1), ("b", 2)]);
        let mut partials = Partials([("x".to_owned(), Partial::Terms(candidates))].into_iter().collect());
        aggregations.cut_shard(&mut partials, &Cancel::default()).unwrap();
        let answer = aggregations.finish(partials, 10).unwrap();
        assert_eq!(answer["x"]["doc_count_error_upper_bound"], -1);
        assert_eq!(answer["x"]["buckets"], json!([{"key": "a", "doc_count": 1}]));
    }
}
