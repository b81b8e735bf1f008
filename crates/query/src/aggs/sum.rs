//! `sum` aggregation: sum of all values.

use firn_model::Result;
use serde_json::{Map, Value};

use super::parse::Request;
use super::{AggregationKind, Metric, MetricPartial};

pub(super) const NAME: &str = "sum";

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    Metric::parse(NAME, request.body).map(AggregationKind::Sum)
}

/// Without values the sum is 0, not null.
pub(super) fn answer(partial: &MetricPartial) -> Map<String, Value> {
    partial.print_value(Some(partial.total()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::aggs::test_support::{check_fields, check_metric, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"sum": {"field": "a.b"}}}));
        check_round_trip(json!({"x": {"sum": {"field": "a", "missing": 3, "format": "yyyy"}, "meta": {"k": 1}}}));
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"x": {"sum": {}}}),
            "Required one of fields [field, script], but none were specified. ",
        );
        check_refused(
            json!({"x": {"sum": {"field": "a", "foo": 1}}}),
            "[sum] unknown field [foo]",
        );
        check_refused(
            json!({"x": {"sum": {"script": {}}}}),
            "parameter [script] of aggregation [sum] is not implemented by firn",
        );
        check_refused(
            json!({"x": {"sum": {"field": "a"}, "aggs": {"y": {"min": {"field": "b"}}}}}),
            "Aggregator [x] of type [sum] cannot accept sub-aggregations",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"sum": {"field": "a.b"}}}), &["a.b"]);
    }

    #[test]
    fn answers() {
        check_metric("sum", &[3.0, 1.5], json!({"value": 4.5}));
        check_metric("sum", &[], json!({"value": 0.0}));
    }
}
