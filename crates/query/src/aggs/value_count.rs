//! `value_count` aggregation: number of values.

use firn_model::Result;
use serde_json::{Map, Value};

use super::parse::Request;
use super::{AggregationKind, Metric, MetricPartial};

pub(super) const NAME: &str = "value_count";

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    Metric::parse(NAME, request.body).map(AggregationKind::ValueCount)
}

pub(super) fn answer(partial: &MetricPartial) -> Map<String, Value> {
    [("value".to_owned(), Value::from(partial.count))].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::aggs::test_support::{check_fields, check_metric, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"value_count": {"field": "a.b"}}}));
        check_round_trip(
            json!({"x": {"value_count": {"field": "a", "missing": 3, "format": "yyyy"}, "meta": {"k": 1}}}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"x": {"value_count": {}}}),
            "Required one of fields [field, script], but none were specified. ",
        );
        check_refused(
            json!({"x": {"value_count": {"field": "a", "foo": 1}}}),
            "[value_count] unknown field [foo]",
        );
        check_refused(
            json!({"x": {"value_count": {"script": {}}}}),
            "parameter [script] of aggregation [value_count] is not implemented by firn",
        );
        check_refused(
            json!({"x": {"value_count": {"field": "a"}, "aggs": {"y": {"min": {"field": "b"}}}}}),
            "Aggregator [x] of type [value_count] cannot accept sub-aggregations",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"value_count": {"field": "a.b"}}}), &["a.b"]);
    }

    #[test]
    fn answers() {
        check_metric("value_count", &[3.0, 1.5], json!({"value": 2}));
        check_metric("value_count", &[], json!({"value": 0}));
    }
}
