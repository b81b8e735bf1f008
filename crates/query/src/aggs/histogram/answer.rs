//! Partial result and answer of `histogram`: merges and prints buckets, empty ones included.

use std::collections::HashMap;

use firn_model::Result;

use super::Histogram;
use crate::aggs::finish::Finisher;
use crate::aggs::finished::{Buckets, FinishedBucket, Keys};
use crate::aggs::key::float;
use crate::aggs::order::Sorter;
use crate::aggs::partial::{Room, fold_buckets};
use crate::aggs::{Aggregations, Bucket, Key, KeyBytes, ValueFormat};

/// Partial result of `histogram`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HistogramPartial {
    /// By bucket number ([`Histogram::number`]), which is an f64.
    pub buckets: HashMap<KeyBytes, Bucket>,
    /// Format of the keys.
    pub format: ValueFormat,
}

impl HistogramPartial {
    pub(in crate::aggs) fn fold(&mut self, other: Self, room: &mut Room) -> Result<()> {
        self.format.merge(&other.format);
        fold_buckets(&mut self.buckets, other.buckets, room)
    }
}

pub(in crate::aggs) fn answer(
    finisher: &mut Finisher<'_>,
    histogram: &Histogram,
    sub: &Aggregations,
    partial: HistogramPartial,
) -> Result<Buckets> {
    let format = partial.format.clone();
    let mut ordered = filled(finisher, histogram, partial)?;
    if !histogram.order.is_empty() {
        let sorter = Sorter::new(&histogram.order, sub)?;
        let ranked = ordered.into_iter();
        let mut ranked: Vec<_> = ranked
            .map(|(number, bucket)| sorter.rank(Key::F64(number), bucket))
            .collect();
        let count = ranked.len();
        sorter.sort_top(&mut ranked, count);
        let ranked = ranked.into_iter();
        ordered = ranked.map(|ranked| (ranked.key.as_f64(), ranked.bucket)).collect();
    }
    let mut buckets = Vec::with_capacity(ordered.len());
    for (number, bucket) in ordered {
        let key = histogram.key(number);
        buckets.push(FinishedBucket {
            key: float(key),
            key_as_string: format.print(key),
            doc_count: bucket.doc_count,
            sub: finisher.level(sub, bucket.sub)?,
            ..FinishedBucket::default()
        });
    }
    Ok(Buckets {
        type_name: super::NAME,
        head: Vec::new(),
        tail: Vec::new(),
        keyed: histogram.keyed,
        keys: Keys::TextFirst,
        buckets,
    })
}

/// Returns the buckets by number, ascending: those with at least `min_doc_count` documents; if that is 0, also the
/// empty ones between the first and the last and up to the extended bounds.
fn filled(finisher: &mut Finisher<'_>, histogram: &Histogram, partial: HistogramPartial) -> Result<Vec<(f64, Bucket)>> {
    let found = partial.buckets.into_iter();
    let mut found: Vec<(f64, Bucket)> = found
        .filter(|(_, bucket)| bucket.doc_count >= histogram.min_doc_count)
        .map(|(key, bucket)| (Key::from(key).as_f64(), bucket))
        .collect();
    finisher.count(found.len())?;
    for (number, _) in &found {
        histogram.check_number(*number)?;
    }
    found.sort_unstable_by(|(left, _), (right, _)| left.total_cmp(right));
    if histogram.min_doc_count > 0 {
        return Ok(found);
    }
    let bounds = &histogram.extended_bounds;
    let (min, max) = (
        bounds.min.map(|min| histogram.number(min)),
        bounds.max.map(|max| histogram.number(max)),
    );
    for bound in [min, max].into_iter().flatten() {
        histogram.check_number(bound)?;
    }
    let (first, last) = match (found.first(), found.last()) {
        (Some((first, _)), Some((last, _))) => (min.unwrap_or(*first).min(*first), max.unwrap_or(*last).max(*last)),
        _ => match (min, max) {
            (Some(min), Some(max)) => (min, max),
            _ => return Ok(found),
        },
    };
    let mut filled = Vec::with_capacity(found.len());
    let mut found = found.into_iter().peekable();
    let mut number = first;
    while number <= last {
        match found.next_if(|(found, _)| *found <= number) {
            Some(bucket) => filled.push(bucket),
            None => {
                finisher.count(1)?;
                filled.push((number, Bucket::default()));
            }
        }
        // Beyond 2^53 adding one does not change the number: the remaining buckets have no gaps to fill.
        if number + 1.0 <= number {
            break;
        }
        number += 1.0;
    }
    filled.extend(found);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::aggs::test_support::parsed;
    use crate::aggs::{Partial, Partials};
    use firn_model::ErrorKind;

    fn partial(counts: &[(f64, u64)]) -> HistogramPartial {
        let bucket = |doc_count| Bucket {
            doc_count,
            sub: Partials::default(),
        };
        HistogramPartial {
            buckets: counts
                .iter()
                .map(|(number, count)| (KeyBytes::from_f64(*number), bucket(*count)))
                .collect(),
            format: ValueFormat::Raw,
        }
    }

    #[test]
    fn keys_that_are_not_finite_are_refused() {
        let refused = |more: Value, counts: &[(f64, u64)]| {
            let error = finish(&more, partial(counts)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::IllegalArgument, "{more}");
            assert!(
                error.reason().contains("is too small for the field's values"),
                "{error}"
            );
        };
        let tiny = json!({"interval": 1e-300, "min_doc_count": 1});
        refused(tiny.clone(), &[(f64::NEG_INFINITY, 1)]);
        refused(tiny, &[(0.0, 1), (f64::INFINITY, 1)]);
        // The bucket number is finite, the key is not.
        refused(json!({"interval": 1e10, "min_doc_count": 1}), &[(1e300, 1)]);
        refused(
            json!({"interval": 1e-300, "extended_bounds": {"min": -1e10, "max": 1}}),
            &[(0.0, 1)],
        );
        let fits = finish(&json!({"interval": 1e-300, "min_doc_count": 1}), partial(&[(3e300, 1)])).unwrap();
        assert_eq!(fits[0]["doc_count"], 1);
    }

    fn finish(more: &Value, partial: HistogramPartial) -> Result<Value> {
        let mut body = json!({"field": "n", "interval": 25});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let aggregations = parsed(json!({"x": {"histogram": body}}));
        let partials = Partials([("x".to_owned(), Partial::Histogram(partial))].into_iter().collect());
        Ok(aggregations.finish(partials, 50)?["x"]["buckets"].clone())
    }

    fn keys(more: &Value, partial: HistogramPartial) -> String {
        let buckets = finish(more, partial).unwrap();
        let texts: Vec<String> = buckets
            .as_array()
            .unwrap()
            .iter()
            .map(|bucket| format!("{}:{}", bucket["key"], bucket["doc_count"]))
            .collect();
        texts.join(" ")
    }

    #[test]
    fn fills_gaps() {
        let some = || partial(&[(3.0, 2), (0.0, 1)]);
        let check = |more: Value, expected: &str| assert_eq!(keys(&more, some()), expected, "{more}");
        check(json!({}), "0.0:1 25.0:0 50.0:0 75.0:2");
        check(json!({"min_doc_count": 1}), "0.0:1 75.0:2");
        check(json!({"min_doc_count": 2}), "75.0:2");
        check(json!({"offset": 5}), "5.0:1 30.0:0 55.0:0 80.0:2");
        check(
            json!({"extended_bounds": {"min": -30, "max": 100}}),
            "-50.0:0 -25.0:0 0.0:1 25.0:0 50.0:0 75.0:2 100.0:0",
        );
        check(json!({"order": {"_count": "desc"}}), "75.0:2 0.0:1 25.0:0 50.0:0");
        check(json!({"order": {"_key": "desc"}}), "75.0:2 50.0:0 25.0:0 0.0:1");
        assert_eq!(keys(&json!({}), partial(&[])), "");
        assert_eq!(
            keys(&json!({"extended_bounds": {"min": 0, "max": 26}}), partial(&[])),
            "0.0:0 25.0:0"
        );
    }

    #[test]
    fn keyed_by_the_number_as_java_prints_it() {
        assert_eq!(
            finish(
                &json!({"keyed": true, "interval": 1e7, "min_doc_count": 1}),
                partial(&[(1.0, 2), (-3.0, 1)])
            )
            .unwrap(),
            json!({"-3.0E7": {"key": -3e7, "doc_count": 1}, "1.0E7": {"key": 1e7, "doc_count": 2}})
        );
    }

    #[test]
    fn gaps_are_bounded() {
        let error = finish(&json!({"interval": 0.001}), partial(&[(0.0, 1), (1e9, 1)])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooManyBuckets);
        // Where adjacent floats are further apart than buckets, there are no gaps.
        assert_eq!(
            keys(&json!({}), partial(&[(1e300, 1), (1e301, 1)])).split(' ').count(),
            2
        );
    }

    proptest! {
        #[test]
        fn merging_does_not_depend_on_split_or_order(numbers in prop::collection::vec(-5_i32..5, 0..30), cut in 0_usize..30) {
            let cut = cut.min(numbers.len());
            let of = |numbers: &[i32]| {
                let mut all = HistogramPartial::default();
                for number in numbers {
                    all.fold(partial(&[(f64::from(*number), 1)]), &mut Room::new(usize::MAX)).unwrap();
                }
                all
            };
            let mut forward = of(&numbers[..cut]);
            forward.fold(of(&numbers[cut..]), &mut Room::new(usize::MAX)).unwrap();
            let mut backward = of(&numbers[cut..]);
            backward.fold(of(&numbers[..cut]), &mut Room::new(usize::MAX)).unwrap();
            prop_assert_eq!(&forward, &backward);
            prop_assert_eq!(forward, of(&numbers));
        }
    }
}
