//! `min` aggregation: smallest value.

use firn_model::Result;
use serde_json::{Map, Value};

use super::parse::Request;
use super::{AggregationKind, Metric, MetricPartial};

pub(super) const NAME: &str = "min";

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    Metric::parse(NAME, request.body).map(AggregationKind::Min)
}

pub(super) fn answer(partial: &MetricPartial) -> Map<String, Value> {
    partial.print_value((partial.count > 0).then_some(partial.min))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::aggs::test_support::{check_fields, check_metric, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"min": {"field": "a.b"}}}));
        check_round_trip(json!({"x": {"min": {"field": "a", "missing": 3, "format": "yyyy"}, "meta": {"k": 1}}}));
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"x": {"min": {}}}),
            "Required one of fields [field, script], but none were specified. ",
        );
        check_refused(
            json!({"x": {"min": {"field": "a", "foo": 1}}}),
            "[min] unknown field [foo]",
        );
        check_refused(
            json!({"x": {"min": {"script": {}}}}),
            "parameter [script] of aggregation [min] is not implemented by firn",
        );
        check_refused(
            json!({"x": {"min": {"field": "a"}, "aggs": {"y": {"min": {"field": "b"}}}}}),
            "Aggregator [x] of type [min] cannot accept sub-aggregations",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"min": {"field": "a.b"}}}), &["a.b"]);
    }

    #[test]
    fn answers() {
        check_metric("min", &[3.0, 1.5], json!({"value": 1.5}));
        check_metric("min", &[], json!({"value": null}));
    }
}
