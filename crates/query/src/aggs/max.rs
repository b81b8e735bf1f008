//! `max` aggregation: largest value.

use firn_model::Result;
use serde_json::{Map, Value};

use super::parse::Request;
use super::{AggregationKind, Metric, MetricPartial};

pub(super) const NAME: &str = "max";

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    Metric::parse(NAME, request.body).map(AggregationKind::Max)
}

pub(super) fn answer(partial: &MetricPartial) -> Map<String, Value> {
    partial.print_value((partial.count > 0).then_some(partial.max))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::aggs::test_support::{check_fields, check_metric, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"max": {"field": "a.b"}}}));
        check_round_trip(json!({"x": {"max": {"field": "a", "missing": 3, "format": "yyyy"}, "meta": {"k": 1}}}));
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"x": {"max": {}}}),
            "Required one of fields [field, script], but none were specified. ",
        );
        check_refused(
            json!({"x": {"max": {"field": "a", "foo": 1}}}),
            "[max] unknown field [foo]",
        );
        check_refused(
            json!({"x": {"max": {"script": {}}}}),
            "parameter [script] of aggregation [max] is not implemented by firn",
        );
        check_refused(
            json!({"x": {"max": {"field": "a"}, "aggs": {"y": {"min": {"field": "b"}}}}}),
            "Aggregator [x] of type [max] cannot accept sub-aggregations",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"max": {"field": "a.b"}}}), &["a.b"]);
    }

    #[test]
    fn answers() {
        check_metric("max", &[3.0, 1.5], json!({"value": 3.0}));
        check_metric("max", &[], json!({"value": null}));
    }
}
