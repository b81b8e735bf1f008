//! `global` aggregation: one bucket of all documents of the searched indices, independent of the query.

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::AggregationKind;
use super::parse::Request;

pub(super) const NAME: &str = "global";

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    match request.body.keys().next() {
        None => Ok(AggregationKind::Global),
        Some(key) => Err(Error::parsing(format!("[{NAME}] unknown field [{key}]"))),
    }
}

pub(super) fn print() -> Value {
    Value::Object(Map::new())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"global": {}, "aggs": {"y": {"max": {"field": "b"}}}}}));
    }

    #[test]
    fn refuses() {
        check_refused(json!({"x": {"global": {"a": 1}}}), "[global] unknown field [a]");
        check_refused(
            json!({"x": {"filter": {"match_all": {}}, "aggs": {"g": {"global": {}}}}}),
            "Aggregation [x] cannot have a global sub-aggregation [g]. Global aggregations can only be defined as top \
             level aggregations",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"x": {"global": {}, "aggs": {"y": {"max": {"field": "b"}}}}}),
            &["b"],
        );
    }
}
