//! `cardinality` aggregation: number of distinct values.

mod hash;
mod sketch;

use firn_model::Result;
use serde_json::{Map, Value, json};

use super::AggregationKind;
use super::parse::{self, Request, unknown_field};

pub use hash::{hash_bytes, hash_u64};
pub use sketch::{PRECISION_THRESHOLD_MAX, PREPARED_BITS, Sketch, prepare, record_prepared};

pub(super) const NAME: &str = "cardinality";

/// Default `precision_threshold`.
const PRECISION_THRESHOLD: u64 = 3000;

/// `cardinality`.
#[derive(Debug, Clone, PartialEq)]
pub struct Cardinality {
    /// Full path.
    pub field: String,
    /// Below this the count is nearly exact (default 3000, at most 40000).
    pub precision_threshold: u64,
    /// Value of documents without the field.
    pub missing: Option<Value>,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut field = None;
    let mut cardinality = Cardinality {
        field: String::new(),
        precision_threshold: PRECISION_THRESHOLD,
        missing: None,
    };
    for (key, value) in request.body {
        match key.as_str() {
            "field" => field = Some(parse::text(NAME, key, value)?),
            "missing" => cardinality.missing = Some(parse::scalar(NAME, key, value)?),
            "precision_threshold" => {
                let threshold = parse::number(request, NAME, key, value, 0)?;
                cardinality.precision_threshold = threshold.min(PRECISION_THRESHOLD_MAX);
            }
            // A hint for the computation that does not change the answer.
            "execution_hint" => drop(parse::text(NAME, key, value)?),
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    cardinality.field = parse::required_field(field)?;
    Ok(AggregationKind::Cardinality(cardinality))
}

pub(super) fn answer(sketch: &Sketch) -> Map<String, Value> {
    [("value".to_owned(), Value::from(sketch.estimate()))]
        .into_iter()
        .collect()
}

impl Cardinality {
    /// Returns an empty sketch.
    pub fn sketch(&self) -> Sketch {
        Sketch::new(self.precision_threshold)
    }

    pub(super) fn print(&self) -> Value {
        let mut body = parse::body_of(&self.field);
        if self.precision_threshold != PRECISION_THRESHOLD {
            body.insert("precision_threshold".into(), json!(self.precision_threshold));
        }
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
        check_round_trip(json!({"x": {"cardinality": {"field": "a"}}}));
        check_round_trip(json!({"x": {"cardinality": {"field": "a", "precision_threshold": 100, "missing": "-"}}}));
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"x": {"cardinality": {"field": "a", "precision_threshold": -1}}}),
            "[precisionThreshold] must be greater than or equal to 0. Found [-1] in [x]",
        );
        check_refused(
            json!({"x": {"cardinality": {"field": "a", "foo": 1}}}),
            "[cardinality] unknown field [foo]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"cardinality": {"field": "a.b"}}}), &["a.b"]);
    }
}
