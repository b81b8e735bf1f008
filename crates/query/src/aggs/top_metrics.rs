//! `top_metrics` aggregation: values of the first documents of an order.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::parse::{self, Request, unknown_field};
use super::{AggregationKind, Key, ValueFormat};
use crate::json::token;

pub(super) const NAME: &str = "top_metrics";

/// Maximum rows (`index.top_metrics_max_size`).
const SIZE_MAX: u64 = 10;

/// Maximum metrics of a row: every bucket holds `size` rows of them.
const METRICS_MAX: usize = 100;

/// `top_metrics`.
#[derive(Debug, Clone, PartialEq)]
pub struct TopMetrics {
    /// Paths of the returned fields.
    pub metrics: Vec<String>,
    /// Path of the sort field; `_score` is the score.
    pub sort: String,
    /// Largest value first.
    pub descending: bool,
    /// Maximum rows.
    pub size: usize,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let (mut metrics, mut sort, mut size) = (Vec::new(), None, 1);
    for (key, value) in request.body {
        match key.as_str() {
            "metrics" => {
                let list = match value {
                    Value::Array(list) => list.as_slice(),
                    one => std::slice::from_ref(one),
                };
                metrics = list.iter().map(metric).collect::<Result<_>>()?;
            }
            "sort" => sort = Some(sort_key(value)?),
            "size" => size = parse::number(request, NAME, key, value, 1)?,
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    if size > SIZE_MAX {
        return Err(Error::illegal_argument(format!(
            "[top_metrics.size] must not be more than [{SIZE_MAX}] but was [{size}]. This limit can be set by changing the \
             [index.top_metrics_max_size] index level setting."
        )));
    }
    if metrics.len() > METRICS_MAX {
        return Err(Error::illegal_argument(format!(
            "[metrics] of [{}] lists [{}] fields, more than the allowed maximum of [{METRICS_MAX}]",
            request.name,
            metrics.len()
        )));
    }
    let required = |what: &str| Error::illegal_argument(format!("Required [{what}]"));
    if metrics.is_empty() {
        return Err(required("metrics"));
    }
    let (sort, descending) = sort.ok_or_else(|| required("sort"))?;
    Ok(AggregationKind::TopMetrics(TopMetrics {
        metrics,
        sort,
        descending,
        size: size as usize,
    }))
}

/// Parses `{"field": …}`.
fn metric(value: &Value) -> Result<String> {
    let Value::Object(body) = value else {
        return Err(wrong_type("metrics", value));
    };
    let mut field = None;
    for (key, value) in body {
        match key.as_str() {
            "field" => field = Some(parse::text(NAME, key, value)?),
            "missing" => {
                return Err(Error::not_implemented(format!(
                    "parameter [{key}] of [metrics] of [{NAME}]"
                )));
            }
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    parse::required_field(field)
}

/// Parses `"field"`, `{"field": "desc"}`, `{"field": {"order": "desc"}}`, or a list of one of these.
fn sort_key(value: &Value) -> Result<(String, bool)> {
    let body = match value {
        Value::String(field) => return Ok((field.clone(), field == "_score")),
        Value::Array(keys) => match keys.as_slice() {
            [one] => return sort_key(one),
            _ => return Err(Error::illegal_argument("only one sort is supported")),
        },
        Value::Object(body) => body,
        other => return Err(wrong_type("sort", other)),
    };
    let mut entries = body.iter();
    let (Some((field, order)), None) = (entries.next(), entries.next()) else {
        return Err(Error::illegal_argument("only one sort is supported"));
    };
    let order = match order {
        Value::Object(options) => match (options.get("order"), options.len()) {
            (Some(order), 1) => order,
            (None, 0) => return Ok((field.clone(), field == "_score")),
            _ => {
                let name = options.keys().find(|name| *name != "order").map_or("", String::as_str);
                return Err(Error::not_implemented(format!(
                    "parameter [{name}] of [sort] of [{NAME}]"
                )));
            }
        },
        order => order,
    };
    match order.as_str() {
        Some(text) if text.eq_ignore_ascii_case("asc") => Ok((field.clone(), false)),
        Some(text) if text.eq_ignore_ascii_case("desc") => Ok((field.clone(), true)),
        _ => Err(Error::illegal_argument(format!("Unknown SortOrder [{order}]"))),
    }
}

fn wrong_type(key: &str, value: &Value) -> Error {
    Error::parsing(format!(
        "[{NAME}] {key} doesn't support values of type: {}",
        token(value)
    ))
}

impl TopMetrics {
    pub(super) fn print(&self) -> Value {
        let metrics: Vec<Value> = self.metrics.iter().map(|field| json!({ "field": field })).collect();
        let order = if self.descending { "desc" } else { "asc" };
        json!({"metrics": metrics, "sort": [{ self.sort.as_str(): {"order": order} }], "size": self.size})
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        fields.extend(self.metrics.iter().cloned());
        if self.sort != "_score" {
            fields.insert(self.sort.clone());
        }
    }
}

/// Values of one document.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsRow {
    /// Sort value.
    pub sort: Key,
    /// One per metric; `None`: the document has no value.
    pub metrics: Vec<Option<Key>>,
}

/// Partial result: the first rows, best first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TopMetricsPartial {
    /// Sorted, at most `size` rows of each merged part.
    pub rows: Vec<MetricsRow>,
    /// Formats of the sort key and of each metric; empty if unknown.
    pub formats: Vec<ValueFormat>,
}

impl TopMetricsPartial {
    /// Whether a row sorted by `sort` could be among the first `size`.
    pub fn wants(&self, sort: &Key, request: &TopMetrics) -> bool {
        match self.rows.last() {
            Some(last) if self.rows.len() >= request.size => compare_keys(sort, &last.sort, request).is_le(),
            _ => true,
        }
    }

    /// Inserts a row in order, and drops the last row if there are too many.
    pub fn add(&mut self, row: MetricsRow, request: &TopMetrics) {
        let place = self.rows.partition_point(|own| compare(own, &row, request).is_lt());
        if place < request.size {
            self.rows.insert(place, row);
            self.rows.truncate(request.size);
        }
    }

    /// Adds the rows of another part. Only the answer has the request and cuts the rows; until then there are at most
    /// ten per segment.
    pub fn merge(&mut self, other: Self) {
        self.rows.extend(other.rows);
        if self.formats.is_empty() {
            self.formats = other.formats;
            return;
        }
        for (own, theirs) in self.formats.iter_mut().zip(&other.formats) {
            own.merge(theirs);
        }
    }

    /// Returns the first row of all parts, independent of the merge order.
    pub fn first(&self, request: &TopMetrics) -> Option<&MetricsRow> {
        self.rows.iter().min_by(|left, right| compare(left, right, request))
    }

    /// Sorts and truncates merged rows.
    fn settle(&mut self, request: &TopMetrics) {
        self.rows.sort_by(|left, right| compare(left, right, request));
        self.rows.truncate(request.size);
    }
}

fn compare_keys(left: &Key, right: &Key, request: &TopMetrics) -> Ordering {
    let ordering = left.compare(right);
    if request.descending {
        ordering.reverse()
    } else {
        ordering
    }
}

/// A total order, so that the answer does not depend on the merge order: equal rows compare by their values.
fn compare(left: &MetricsRow, right: &MetricsRow, request: &TopMetrics) -> Ordering {
    let by_values = || {
        let pairs = left.metrics.iter().zip(&right.metrics);
        let orderings = pairs.map(|pair| match pair {
            (Some(left), Some(right)) => left.compare(right),
            (left, right) => right.is_some().cmp(&left.is_some()),
        });
        orderings
            .into_iter()
            .find(|ordering| ordering.is_ne())
            .unwrap_or(Ordering::Equal)
    };
    compare_keys(&left.sort, &right.sort, request).then_with(by_values)
}

pub(super) fn answer(request: &TopMetrics, mut partial: TopMetricsPartial) -> Map<String, Value> {
    partial.settle(request);
    let formats = partial.formats;
    let print = |place: usize, key: Key| {
        let text = formats.get(place).and_then(|format| key.print_as_string(format));
        text.map_or_else(|| key.into_json(), Value::String)
    };
    let row = |row: MetricsRow| {
        let values = row.metrics.into_iter().enumerate();
        let values = values.map(|(number, value)| value.map_or(Value::Null, |value| print(number + 1, value)));
        let metrics: Map<String, Value> = request.metrics.iter().cloned().zip(values).collect();
        json!({"sort": [print(0, row.sort)], "metrics": metrics})
    };
    let rows = partial.rows.into_iter().map(row).collect();
    [("top".to_owned(), rows)].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::aggs::Partial;
    use crate::aggs::test_support::{check_fields, check_partial, check_refused, check_round_trip};

    fn request(size: usize, descending: bool) -> TopMetrics {
        TopMetrics {
            metrics: vec!["a".into(), "b".into()],
            sort: "s".into(),
            descending,
            size,
        }
    }

    fn of(rows: &[(i64, i64)], request: &TopMetrics) -> TopMetricsPartial {
        let mut partial = TopMetricsPartial::default();
        for (sort, value) in rows {
            let sort = Key::I64(*sort);
            if partial.wants(&sort, request) {
                let metrics = vec![Some(Key::I64(*value)), None];
                partial.add(MetricsRow { sort, metrics }, request);
            }
        }
        partial
    }

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"top_metrics": {"metrics": {"field": "a"}, "sort": "s"}}}));
        check_round_trip(json!({"x": {"top_metrics": {
            "metrics": [{"field": "a"}, {"field": "b"}], "sort": [{"s": {"order": "desc"}}], "size": 3
        }}}));
        check_round_trip(json!({"x": {"top_metrics": {"metrics": {"field": "a"}, "sort": {"_score": "asc"}}}}));
    }

    #[test]
    fn refuses() {
        let check = |body: Value, reason: &str| check_refused(json!({"x": {"top_metrics": body}}), reason);
        check(json!({"sort": "s"}), "Required [metrics]");
        check(json!({"metrics": {"field": "a"}}), "Required [sort]");
        check(
            json!({"metrics": {"field": "a"}, "sort": ["a", "b"]}),
            "only one sort is supported",
        );
        check(
            json!({"metrics": {"field": "a"}, "sort": "s", "size": 11}),
            "[top_metrics.size] must not be more than [10] but was [11]. This limit can be set by changing the \
             [index.top_metrics_max_size] index level setting.",
        );
        check(
            json!({"metrics": {"field": "a"}, "sort": {"s": {"mode": "max"}}}),
            "parameter [mode] of [sort] of [top_metrics] is not implemented by firn",
        );
        check(
            json!({"metrics": ["a"], "sort": "s"}),
            "[top_metrics] metrics doesn't support values of type: VALUE_STRING",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"x": {"top_metrics": {"metrics": [{"field": "b"}, {"field": "a"}], "sort": "s"}}}),
            &["a", "b", "s"],
        );
        check_fields(
            json!({"x": {"top_metrics": {"metrics": {"field": "b"}, "sort": "_score"}}}),
            &["b"],
        );
    }

    #[test]
    fn answers() {
        let mut partial = of(&[(1, 10), (3, 30), (2, 20)], &request(2, true));
        partial.formats = vec![
            ValueFormat::Date(firn_model::dates::DateFormat::new("epoch_millis").unwrap().into()),
            ValueFormat::Integer,
            ValueFormat::Raw,
        ];
        check_partial(
            json!({"top_metrics": {"metrics": [{"field": "a"}, {"field": "b"}], "sort": {"s": "desc"}, "size": 2}}),
            Partial::TopMetrics(partial),
            json!({"top": [
                {"sort": ["3"], "metrics": {"a": 30, "b": null}},
                {"sort": ["2"], "metrics": {"a": 20, "b": null}}
            ]}),
        );
        check_partial(
            json!({"top_metrics": {"metrics": {"field": "a"}, "sort": "s"}}),
            Partial::TopMetrics(TopMetricsPartial::default()),
            json!({"top": []}),
        );
    }

    proptest! {
        #[test]
        fn merging_does_not_depend_on_split_or_order(
            rows in prop::collection::vec((0_i64..10, 0_i64..10), 0..50),
            parts in 1_usize..5,
            size in 1_usize..5,
            descending in any::<bool>(),
        ) {
            let request = request(size, descending);
            let whole = answer(&request, of(&rows, &request));
            let mut merged = TopMetricsPartial::default();
            for part in (0..parts).rev() {
                merged.merge(of(&rows.iter().copied().skip(part).step_by(parts).collect::<Vec<_>>(), &request));
            }
            prop_assert_eq!(answer(&request, merged), whole);
        }
    }
}
