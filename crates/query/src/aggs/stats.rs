//! `stats` aggregation: count, min, max, avg and sum together.

use firn_model::Result;
use serde_json::{Map, Value};

use super::key::float;
use super::parse::Request;
use super::{AggregationKind, Metric, MetricPartial};

pub(super) const NAME: &str = "stats";

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    Metric::parse(NAME, request.body).map(AggregationKind::Stats)
}

pub(super) fn answer(partial: &MetricPartial) -> Map<String, Value> {
    let some = |value: f64| (partial.count > 0).then_some(value);
    let values = [
        ("min", some(partial.min)),
        ("max", some(partial.max)),
        ("avg", partial.average()),
        ("sum", Some(partial.total())),
    ];
    let mut answer = Map::with_capacity(1 + values.len());
    answer.insert("count".into(), partial.count.into());
    for (name, value) in values {
        answer.insert(name.into(), value.map_or(Value::Null, float));
    }
    if partial.count > 0 {
        for (name, value) in values {
            if let Some(text) = value.and_then(|value| partial.format.print_one_of_several(value)) {
                answer.insert(format!("{name}_as_string"), text);
            }
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::aggs::test_support::{check_fields, check_metric, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"stats": {"field": "a.b"}}}));
        check_round_trip(json!({"x": {"stats": {"field": "a", "missing": 3, "format": "yyyy"}, "meta": {"k": 1}}}));
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"x": {"stats": {}}}),
            "Required one of fields [field, script], but none were specified. ",
        );
        check_refused(
            json!({"x": {"stats": {"field": "a", "foo": 1}}}),
            "[stats] unknown field [foo]",
        );
        check_refused(
            json!({"x": {"stats": {"script": {}}}}),
            "parameter [script] of aggregation [stats] is not implemented by firn",
        );
        check_refused(
            json!({"x": {"stats": {"field": "a"}, "aggs": {"y": {"min": {"field": "b"}}}}}),
            "Aggregator [x] of type [stats] cannot accept sub-aggregations",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"stats": {"field": "a.b"}}}), &["a.b"]);
    }

    #[test]
    fn answers() {
        check_metric(
            "stats",
            &[3.0, 1.5],
            json!({"count": 2, "min": 1.5, "max": 3.0, "avg": 2.25, "sum": 4.5}),
        );
        check_metric(
            "stats",
            &[],
            json!({"count": 0, "min": null, "max": null, "avg": null, "sum": 0.0}),
        );
    }
}
