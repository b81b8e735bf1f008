//! `range` aggregation: a bucket per numeric range.

use firn_model::{Error, Result};
use serde_json::Value;

use super::finish::Finisher;
use super::finished::Buckets;
use super::key::{double_text, float};
use super::parse::Request;
use super::ranges::{Ranges, Row, answer_rows};
use super::{AggregationKind, Aggregations, ListedPartial, ValueFormat};

pub(super) const NAME: &str = "range";

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let ranges = Ranges::parse(request, NAME, &["format"])?;
    ranges.bounds()?;
    Ok(AggregationKind::Range(ranges))
}

impl Ranges {
    /// Returns the bounds, `[from, to)`; an open bound is infinite.
    pub fn bounds(&self) -> Result<Vec<(f64, f64)>> {
        let bound = |value: &Value, open: f64| match value {
            Value::Null => Ok(open),
            Value::Number(number) => Ok(number.as_f64().unwrap_or(open)),
            other => {
                let text = other.as_str().map_or_else(|| other.to_string(), str::to_owned);
                let number = text.trim().parse::<f64>().ok().filter(|number| !number.is_nan());
                number.ok_or_else(|| Error::illegal_argument(format!("For input string: \"{text}\"")))
            }
        };
        let ranges = self.ranges.iter();
        ranges
            .map(|spec| Ok((bound(&spec.from, f64::NEG_INFINITY)?, bound(&spec.to, f64::INFINITY)?)))
            .collect()
    }
}

pub(super) fn answer(
    finisher: &mut Finisher<'_>,
    ranges: &Ranges,
    sub: &Aggregations,
    partial: ListedPartial,
) -> Result<Buckets> {
    let bounds = ranges.bounds()?;
    let format = partial.format.clone();
    let print = |value: f64| format.print(value).unwrap_or_else(|| double_text(value));
    let as_string = format != ValueFormat::Raw && format != ValueFormat::Integer;
    answer_with(finisher, NAME, ranges, sub, partial, &bounds, &print, as_string)
}

/// Returns the answer for ranges of numbers and dates, ordered by their bounds.
#[allow(clippy::too_many_arguments)]
pub(super) fn answer_with(
    finisher: &mut Finisher<'_>,
    type_name: &'static str,
    ranges: &Ranges,
    sub: &Aggregations,
    mut partial: ListedPartial,
    bounds: &[(f64, f64)],
    print: &dyn Fn(f64) -> String,
    as_string: bool,
) -> Result<Buckets> {
    let buckets = partial.take_buckets(bounds.len());
    let mut ordered: Vec<_> = bounds.iter().zip(&ranges.ranges).zip(buckets).collect();
    ordered.sort_by(|((left, _), _), ((right, _), _)| left.0.total_cmp(&right.0).then(left.1.total_cmp(&right.1)));
    let mut rows = Vec::with_capacity(ordered.len());
    for (((from, to), spec), bucket) in ordered {
        let mut printed = Vec::new();
        for (name, name_as_string, bound) in [("from", "from_as_string", *from), ("to", "to_as_string", *to)] {
            if bound.is_finite() {
                printed.push((name, float(bound)));
                if as_string {
                    printed.push((name_as_string, print(bound).into()));
                }
            }
        }
        let side = |bound: f64| match bound.is_finite() {
            true => print(bound),
            false => "*".to_owned(),
        };
        let key = spec.key.clone();
        rows.push(Row {
            key: key.unwrap_or_else(|| format!("{}-{}", side(*from), side(*to))),
            bounds: printed,
            bucket,
        });
    }
    answer_rows(finisher, type_name, ranges, sub, rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip, parsed};
    use crate::aggs::{Bucket, Partial, Partials};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"range": {
            "field": "n", "ranges": [{"from": 1}, {"to": "2.5", "key": "low"}, {"from": null}], "keyed": true, "missing": 3
        }, "aggs": {"y": {"max": {"field": "m"}}}}}));
    }

    #[test]
    fn refuses() {
        let check = |body: Value, error: &str| check_refused(json!({"x": {"range": body}}), error);
        check(json!({"field": "n"}), "No [ranges] specified for the [x] aggregation");
        check(
            json!({"ranges": [{"to": 1}]}),
            "Required one of fields [field, script], but none were specified. ",
        );
        check(
            json!({"field": "n", "ranges": [{"low": 1}]}),
            "[range] unknown field [low]",
        );
        check(
            json!({"field": "n", "ranges": [{"mask": "10.0.0.0/8"}]}),
            "[range] unknown field [mask]",
        );
        check(
            json!({"field": "n", "ranges": [{"to": "a"}]}),
            "For input string: \"a\"",
        );
        check(
            json!({"field": "n", "ranges": 3}),
            "[range] ranges doesn't support values of type: VALUE_NUMBER",
        );
        check(
            json!({"field": "n", "ranges": vec![json!({}); 1025]}),
            "[range] lists [1025] ranges, more than the allowed maximum of [1024]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"range": {"field": "a.b", "ranges": [{}]}}}), &["a.b"]);
    }

    fn answered(body: Value, counts: &[u64]) -> Value {
        let aggregations = parsed(json!({"x": {"range": body}}));
        let bucket = |doc_count: &u64| Bucket {
            doc_count: *doc_count,
            ..Bucket::default()
        };
        let partial = ListedPartial {
            buckets: counts.iter().map(bucket).collect(),
            ..ListedPartial::default()
        };
        let partials = Partials([("x".to_owned(), Partial::Listed(partial))].into_iter().collect());
        aggregations.finish(partials, 10).unwrap()["x"]["buckets"].clone()
    }

    #[test]
    fn answers_in_the_order_of_bounds() {
        let ranges = json!([{"from": 30}, {"to": 20}, {"from": 10, "to": 1e10, "key": "all"}, {"to": 1e10}]);
        assert_eq!(
            answered(json!({"field": "n", "ranges": ranges}), &[5, 1, 7, 8]),
            json!([
                {"key": "*-20.0", "to": 20.0, "doc_count": 1},
                {"key": "*-1.0E10", "to": 1e10, "doc_count": 8},
                {"key": "all", "from": 10.0, "to": 1e10, "doc_count": 7},
                {"key": "30.0-*", "from": 30.0, "doc_count": 5}
            ])
        );
        assert_eq!(
            answered(
                json!({"field": "n", "keyed": true, "ranges": [{"from": -0.5}, {}]}),
                &[]
            ),
            json!({"*-*": {"doc_count": 0}, "-0.5-*": {"from": -0.5, "doc_count": 0}})
        );
    }
}
