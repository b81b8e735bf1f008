//! `missing` aggregation: one bucket of the documents without a value.

use firn_model::Result;
use serde_json::Value;

use super::AggregationKind;
use super::parse::{self, Request, unknown_field};

pub(super) const NAME: &str = "missing";

/// `missing`.
#[derive(Debug, Clone, PartialEq)]
pub struct MissingField {
    /// Full path.
    pub field: String,
    /// Value of documents without the field; with it, no document is missing.
    pub missing: Option<Value>,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut field = None;
    let mut missing = None;
    for (key, value) in request.body {
        match key.as_str() {
            "field" => field = Some(parse::text(NAME, key, value)?),
            "missing" => missing = Some(parse::scalar(NAME, key, value)?),
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    let field = parse::required_field(field)?;
    Ok(AggregationKind::Missing(MissingField { field, missing }))
}

impl MissingField {
    pub(super) fn print(&self) -> Value {
        let mut body = parse::body_of(&self.field);
        parse::put(&mut body, "missing", self.missing.as_ref());
        Value::Object(body)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(
            json!({"x": {"missing": {"field": "a", "missing": "-"}, "aggs": {"y": {"max": {"field": "b"}}}}}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"x": {"missing": {}}}),
            "Required one of fields [field, script], but none were specified. ",
        );
        check_refused(
            json!({"x": {"missing": {"field": "a", "foo": 1}}}),
            "[missing] unknown field [foo]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"missing": {"field": "a"}}}), &["a"]);
    }
}
