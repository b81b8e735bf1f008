//! Partial result and answer of `date_histogram`: merges and prints buckets, empty ones included.

use std::collections::HashMap;

use firn_model::dates::DateFormat;
use firn_model::{Error, Result};

use super::{BoundsMs, DateHistogram, is_instant};
use crate::aggs::finish::Finisher;
use crate::aggs::finished::{Buckets, FinishedBucket, Keys};
use crate::aggs::order::{Ranked, Sorter};
use crate::aggs::partial::{Room, fold_buckets};
use crate::aggs::{Aggregations, Bucket, Key, ValueFormat};

/// Partial result of `date_histogram`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DateHistogramPartial {
    /// By bucket start, ms since epoch UTC.
    pub buckets: HashMap<i64, Bucket>,
    /// Format of the keys.
    pub format: ValueFormat,
}

impl DateHistogramPartial {
    pub(in crate::aggs) fn fold(&mut self, other: Self, room: &mut Room) -> Result<()> {
        self.format.merge(&other.format);
        fold_buckets(&mut self.buckets, other.buckets, room)
    }
}

pub(in crate::aggs) fn answer(
    finisher: &mut Finisher<'_>,
    name: &str,
    histogram: &DateHistogram,
    sub: &Aggregations,
    partial: DateHistogramPartial,
) -> Result<Buckets> {
    let format = match (&partial.format, &histogram.format) {
        (ValueFormat::Date(format), _) => format.clone(),
        (_, Some(format)) => DateFormat::new(format)?.into(),
        (_, None) => DateFormat::default_millis().into(),
    };
    let zone = histogram.zone()?;
    let buckets = filled(finisher, name, histogram, partial, &format)?;
    let mut ordered = Vec::with_capacity(buckets.len());
    if histogram.order.is_empty() {
        ordered.extend(buckets);
    } else {
        let sorter = Sorter::new(&histogram.order, sub)?;
        let rank = |(key, bucket)| sorter.rank(Key::I64(key), bucket);
        let mut ranked: Vec<Ranked> = buckets.into_iter().map(rank).collect();
        let count = ranked.len();
        sorter.sort_top(&mut ranked, count);
        for Ranked { key, bucket, .. } in ranked {
            if let Key::I64(key) = key {
                ordered.push((key, bucket));
            }
        }
    }
    let mut buckets = Vec::with_capacity(ordered.len());
    for (key, bucket) in ordered {
        buckets.push(FinishedBucket {
            key: key.into(),
            key_as_string: Some(format.print_ms(key, &zone)),
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

/// Returns the buckets by key, ascending: those within the hard bounds with at least `min_doc_count` documents; if that
/// is 0, also the empty ones between the first and the last and up to the extended bounds.
fn filled(
    finisher: &mut Finisher<'_>,
    name: &str,
    histogram: &DateHistogram,
    partial: DateHistogramPartial,
    format: &DateFormat,
) -> Result<Vec<(i64, Bucket)>> {
    let now_ms = finisher.now_ms();
    let (hard_min, hard_max) = histogram.hard_bounds_ms(format, now_ms)?;
    let (min, max) = histogram.resolve(histogram.extended_bounds.as_ref(), format, now_ms)?;
    check_bounds(name, (hard_min, hard_max), (min, max))?;
    let within = |key: i64| hard_min.is_none_or(|min| key >= min) && hard_max.is_none_or(|max| key < max);
    let full_enough = |bucket: &Bucket| bucket.doc_count >= histogram.min_doc_count;
    let found = partial.buckets.into_iter();
    let mut found: Vec<(i64, Bucket)> = found
        .filter(|(key, bucket)| within(*key) && full_enough(bucket))
        .collect();
    finisher.count(found.len())?;
    found.sort_unstable_by_key(|(key, _)| *key);
    if histogram.min_doc_count > 0 {
        return Ok(found);
    }
    let rounding = histogram.rounding()?;
    let (min, max) = (
        min.map(|min| rounding.round_down(min)),
        max.map(|max| rounding.round_down(max)),
    );
    let (first, last) = match (found.first(), found.last()) {
        (Some((first, _)), Some((last, _))) => (min.unwrap_or(*first).min(*first), max.unwrap_or(*last).max(*last)),
        _ => match (min, max) {
            (Some(min), Some(max)) => (min, max),
            _ => return Ok(found),
        },
    };
    let mut filled = Vec::with_capacity(found.len());
    let mut found = found.into_iter().peekable();
    let mut key = first;
    while key <= last && is_instant(key) {
        match found.next_if(|(found, _)| *found <= key) {
            // A bucket with a start from a different rounding keeps its position.
            Some(bucket) => {
                let earlier = bucket.0 < key;
                filled.push(bucket);
                if earlier {
                    continue;
                }
            }
            None if within(key) => {
                finisher.count(1)?;
                filled.push((key, Bucket::default()));
            }
            None => {}
        }
        // A rounding that does not advance would loop forever.
        let next = rounding.next(key);
        if next <= key {
            break;
        }
        key = next;
    }
    filled.extend(found);
    Ok(filled)
}

fn check_bounds(name: &str, hard: BoundsMs, extended: BoundsMs) -> Result<()> {
    if let (Some(min), Some(max)) = extended
        && min > max
    {
        return Err(Error::illegal_argument(format!(
            "[extended_bounds.min][{min}] cannot be greater than [extended_bounds.max][{max}] for histogram aggregation \
             [{name}]"
        )));
    }
    let below = matches!((hard.0, extended.0), (Some(hard), Some(extended)) if extended < hard);
    let above = matches!((hard.1, extended.1), (Some(hard), Some(extended)) if extended > hard);
    if below || above {
        return Err(Error::illegal_argument(format!(
            "Extended bounds have to be inside hard bounds, hard bounds: [{}], extended bounds: [{}]",
            print_bounds(hard),
            print_bounds(extended)
        )));
    }
    Ok(())
}

fn print_bounds((min, max): BoundsMs) -> String {
    let side = |bound: Option<i64>| bound.map(|bound| bound.to_string()).unwrap_or_default();
    format!("{}--{}", side(min), side(max))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::aggs::test_support::{metric, parsed};
    use crate::aggs::{FinishOptions, Partial, Partials};

    const DAY: i64 = 86_400_000;

    fn partial(counts: &[(i64, u64)]) -> DateHistogramPartial {
        let bucket = |doc_count| Bucket {
            doc_count,
            sub: Partials::default(),
        };
        DateHistogramPartial {
            buckets: counts.iter().map(|(key, count)| (*key, bucket(*count))).collect(),
            format: ValueFormat::Date(DateFormat::default_millis().into()),
        }
    }

    fn finish(body: Value, partial: DateHistogramPartial) -> Result<Value> {
        let aggregations = parsed(json!({"x": {"date_histogram": body, "aggs": {"m": {"max": {"field": "n"}}}}}));
        let partials = Partials(
            [("x".to_owned(), Partial::DateHistogram(partial))]
                .into_iter()
                .collect(),
        );
        let mut options = FinishOptions::new(50);
        options.now_ms = Some(3 * DAY + 5);
        Ok(aggregations.finish_with(partials, &options)?["x"]["buckets"].clone())
    }

    fn days(body: Value, partial: DateHistogramPartial) -> Vec<(i64, u64)> {
        let buckets = finish(body, partial).unwrap();
        let number = |bucket: &Value, name: &str| bucket[name].as_i64().unwrap();
        let buckets = buckets.as_array().unwrap().iter();
        buckets
            .map(|bucket| (number(bucket, "key") / DAY, number(bucket, "doc_count") as u64))
            .collect()
    }

    #[test]
    fn prints_keys_twice_and_sub_aggregations() {
        let mut partial = partial(&[(DAY, 3)]);
        partial
            .buckets
            .get_mut(&DAY)
            .unwrap()
            .sub
            .0
            .insert("m".into(), metric(&[2.0, 4.0]));
        assert_eq!(
            finish(json!({"field": "t", "fixed_interval": "1d"}), partial.clone()).unwrap(),
            json!([{"key_as_string": "1970-01-02T00:00:00.000Z", "key": DAY, "doc_count": 3, "m": {"value": 4.0}}])
        );
        assert_eq!(
            finish(json!({"field": "t", "fixed_interval": "1d", "keyed": true}), partial).unwrap(),
            json!({"1970-01-02T00:00:00.000Z": {
                "key_as_string": "1970-01-02T00:00:00.000Z", "key": DAY, "doc_count": 3, "m": {"value": 4.0}
            }})
        );
    }

    #[test]
    fn fills_gaps() {
        let body = |more: Value| {
            let mut body = json!({"field": "t", "fixed_interval": "1d"});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            body
        };
        let some = || partial(&[(5 * DAY, 2), (2 * DAY, 1)]);
        assert_eq!(days(body(json!({})), some()), [(2, 1), (3, 0), (4, 0), (5, 2)]);
        assert_eq!(days(body(json!({"min_doc_count": 1})), some()), [(2, 1), (5, 2)]);
        assert_eq!(days(body(json!({"min_doc_count": 2})), some()), [(5, 2)]);
        assert_eq!(days(body(json!({})), partial(&[])), []);
        let extended = json!({"extended_bounds": {"min": "1970-01-02T07:00:00Z", "max": 7 * DAY + 1}});
        assert_eq!(
            days(body(extended.clone()), some()),
            [(1, 0), (2, 1), (3, 0), (4, 0), (5, 2), (6, 0), (7, 0)]
        );
        assert_eq!(days(body(extended), partial(&[])).len(), 7);
        assert_eq!(
            days(body(json!({"hard_bounds": {"min": 3 * DAY, "max": 5 * DAY}})), some()),
            []
        );
        assert_eq!(
            days(
                body(json!({"hard_bounds": {"max": "now"}, "extended_bounds": {"max": "now/d"}})),
                some()
            ),
            [(2, 1), (3, 0)]
        );
        assert_eq!(
            days(body(json!({"order": {"_key": "desc"}})), some()),
            [(5, 2), (4, 0), (3, 0), (2, 1)]
        );
        assert_eq!(
            days(body(json!({"order": {"_count": "desc"}})), some()),
            [(5, 2), (2, 1), (3, 0), (4, 0)]
        );
    }

    #[test]
    fn gaps_are_bounded() {
        let wide = partial(&[(0, 1), (1000 * DAY, 1)]);
        let error = finish(json!({"field": "t", "fixed_interval": "1ms"}), wide).unwrap_err();
        assert_eq!(error.kind(), firn_model::ErrorKind::TooManyBuckets);
    }

    #[test]
    fn the_ends_of_time_do_not_panic() {
        for interval in [json!({"fixed_interval": "7d"}), json!({"calendar_interval": "1M"})] {
            for (min, max) in [(i64::MIN, i64::MIN + 5), (i64::MAX - 5, i64::MAX), (i64::MIN, i64::MAX)] {
                for zone in ["UTC", "Europe/Berlin"] {
                    let mut body = json!({
                        "field": "t", "time_zone": zone, "offset": "-5h", "extended_bounds": {"min": min, "max": max}
                    });
                    body.as_object_mut()
                        .unwrap()
                        .extend(interval.as_object().unwrap().clone());
                    let _ = finish(body, partial(&[(0, 1)]));
                    let mut body = json!({"field": "t", "time_zone": zone, "min_doc_count": 1});
                    body.as_object_mut()
                        .unwrap()
                        .extend(interval.as_object().unwrap().clone());
                    let _ = finish(body, partial(&[(min, 1), (max, 1)]));
                }
            }
        }
    }

    #[test]
    fn bounds_are_checked() {
        let check = |bounds: Value, expected: &str| {
            let mut body = json!({"field": "t", "fixed_interval": "1d"});
            body.as_object_mut()
                .unwrap()
                .extend(bounds.as_object().unwrap().clone());
            assert_eq!(finish(body, partial(&[])).unwrap_err().reason(), expected);
        };
        check(
            json!({"extended_bounds": {"min": 2, "max": 1}}),
            "[extended_bounds.min][2] cannot be greater than [extended_bounds.max][1] for histogram aggregation [x]",
        );
        check(
            json!({"extended_bounds": {"min": 1, "max": 9}, "hard_bounds": {"min": 2, "max": 8}}),
            "Extended bounds have to be inside hard bounds, hard bounds: [2--8], extended bounds: [1--9]",
        );
    }
}
