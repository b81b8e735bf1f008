//! `avg` aggregation: mean of the values.

use firn_model::Result;
use serde_json::{Map, Value};

use super::parse::Request;
use super::{AggregationKind, Metric, MetricPartial};

pub(super) const NAME: &str = "avg";

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    Metric::parse(NAME, request.body).map(AggregationKind::Avg)
}

pub(super) fn answer(partial: &MetricPartial) -> Map<String, Value> {
    partial.print_value(partial.average())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::aggs::test_support::{check_fields, check_metric, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"avg": {"field": "a.b"}}}));
        check_round_trip(json!({"x": {"avg": {"field": "a", "missing": 3, "format": "yyyy"}, "meta": {"k": 1}}}));
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"x": {"avg": {}}}),
            "Required one of fields [field, script], but none were specified. ",
        );
        check_refused(
            json!({"x": {"avg": {"field": "a", "foo": 1}}}),
            "[avg] unknown field [foo]",
        );
        check_refused(
            json!({"x": {"avg": {"script": {}}}}),
            "parameter [script] of aggregation [avg] is not implemented by firn",
        );
        check_refused(
            json!({"x": {"avg": {"field": "a"}, "aggs": {"y": {"min": {"field": "b"}}}}}),
            "Aggregator [x] of type [avg] cannot accept sub-aggregations",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"avg": {"field": "a.b"}}}), &["a.b"]);
    }

    #[test]
    fn answers() {
        check_metric("avg", &[3.0, 1.5], json!({"value": 2.25}));
        check_metric("avg", &[], json!({"value": null}));
    }
}
