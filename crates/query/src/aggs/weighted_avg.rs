//! `weighted_avg` aggregation: weighted mean.

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::parse::{self, Request, unknown_field};
use super::{AggregationKind, MetricPartial, ValueFormat};
use crate::json::token;

pub(super) const NAME: &str = "weighted_avg";

/// `weighted_avg`.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightedAvg {
    /// Averaged values.
    pub value: Weighed,
    /// Weights; at most one per document.
    pub weight: Weighed,
    /// Format of `value_as_string`.
    pub format: Option<String>,
}

/// A field with the default value of documents without it.
#[derive(Debug, Clone, PartialEq)]
pub struct Weighed {
    /// Full path.
    pub field: String,
    /// `None`: documents without the field do not count.
    pub missing: Option<Value>,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let (mut value, mut weight, mut format) = (None, None, None);
    for (key, body) in request.body {
        match key.as_str() {
            "value" => value = Some(Weighed::parse(key, body)?),
            "weight" => weight = Some(Weighed::parse(key, body)?),
            "format" => format = Some(parse::text(NAME, key, body)?),
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    let missing =
        |name: &str| Error::illegal_argument(format!("Could not find field name [{name}] in multiValuesSource"));
    Ok(AggregationKind::WeightedAvg(Box::new(WeightedAvg {
        value: value.ok_or_else(|| missing("value"))?,
        weight: weight.ok_or_else(|| missing("weight"))?,
        format,
    })))
}

impl Weighed {
    fn parse(key: &str, value: &Value) -> Result<Self> {
        let Value::Object(body) = value else {
            return Err(Error::parsing(format!(
                "[{NAME}] {key} doesn't support values of type: {}",
                token(value)
            )));
        };
        let (mut field, mut missing) = (None, None);
        for (key, value) in body {
            match key.as_str() {
                "field" => field = Some(parse::text(NAME, key, value)?),
                "missing" => missing = Some(parse::scalar(NAME, key, value)?),
                _ => return Err(unknown_field(NAME, key)),
            }
        }
        match field.filter(|field| !field.is_empty()) {
            Some(field) => Ok(Self { field, missing }),
            None => Err(Error::illegal_argument(
                "[field] and [script] cannot both be null.  Please specify one or the other.",
            )),
        }
    }

    fn print(&self) -> Value {
        let mut body = parse::body_of(&self.field);
        parse::put(&mut body, "missing", self.missing.as_ref());
        Value::Object(body)
    }
}

impl WeightedAvg {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("value".into(), self.value.print());
        body.insert("weight".into(), self.weight.print());
        parse::put(&mut body, "format", self.format.as_ref());
        Value::Object(body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        fields.extend([self.value.field.clone(), self.weight.field.clone()]);
    }
}

/// Partial result: two compensated sums.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WeightedAvgPartial {
    /// Sum of values times weights.
    products: MetricPartial,
    weights: MetricPartial,
}

impl WeightedAvgPartial {
    /// Creates a partial result without values.
    pub fn new(format: ValueFormat) -> Self {
        Self {
            products: MetricPartial::new(format),
            weights: MetricPartial::default(),
        }
    }

    /// Adds a value with its weight.
    pub fn add(&mut self, value: f64, weight: f64) {
        self.products.add(value * weight);
        self.weights.add(weight);
    }

    /// Adds another partial result.
    pub fn merge(&mut self, other: &Self) {
        self.products.merge(&other.products);
        self.weights.merge(&other.weights);
    }

    /// Returns the mean; `None` if the sum of weights is 0.
    pub(super) fn average(&self) -> Option<f64> {
        let weight = self.weights.total();
        (weight != 0.0).then(|| self.products.total() / weight)
    }
}

pub(super) fn answer(partial: &WeightedAvgPartial) -> Map<String, Value> {
    partial.products.format.print_value(partial.average())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::aggs::Partial;
    use crate::aggs::test_support::{check_fields, check_partial, check_refused, check_round_trip};

    fn of(values: &[(f64, f64)]) -> WeightedAvgPartial {
        let mut partial = WeightedAvgPartial::default();
        values.iter().for_each(|(value, weight)| partial.add(*value, *weight));
        partial
    }

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"weighted_avg": {"value": {"field": "a"}, "weight": {"field": "b"}}}}));
        check_round_trip(json!({"x": {"weighted_avg": {
            "value": {"field": "a", "missing": 2}, "weight": {"field": "b", "missing": 3}, "format": "0.0"
        }}}));
    }

    #[test]
    fn refuses() {
        let check = |body: Value, reason: &str| check_refused(json!({"x": {"weighted_avg": body}}), reason);
        check(
            json!({"value": {"field": "a"}}),
            "Could not find field name [weight] in multiValuesSource",
        );
        check(
            json!({"value": {}, "weight": {"field": "a"}}),
            "[field] and [script] cannot both be null.  Please specify one or the other.",
        );
        check(
            json!({"value": {"script": "1"}, "weight": {"field": "a"}}),
            "parameter [script] of aggregation [weighted_avg] is not implemented by firn",
        );
        check(
            json!({"value": "a"}),
            "[weighted_avg] value doesn't support values of type: VALUE_STRING",
        );
        check(json!({"field": "a"}), "[weighted_avg] unknown field [field]");
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"x": {"weighted_avg": {"value": {"field": "b"}, "weight": {"field": "a"}}}}),
            &["a", "b"],
        );
    }

    #[test]
    fn answers() {
        let definition = json!({"weighted_avg": {"value": {"field": "a"}, "weight": {"field": "b"}}});
        let some = Partial::WeightedAvg(of(&[(1.0, 3.0), (5.0, 1.0)]));
        check_partial(definition.clone(), some, json!({"value": 2.0}));
        check_partial(
            definition,
            Partial::WeightedAvg(of(&[(1.0, 0.0)])),
            json!({"value": null}),
        );
    }

    proptest! {
        #[test]
        fn merging_does_not_depend_on_split_or_order(
            values in prop::collection::vec((-1000_i32..1000, 0_i32..100), 0..50),
            parts in 1_usize..5,
        ) {
            let values: Vec<(f64, f64)> = values.into_iter().map(|(value, weight)| (value.into(), weight.into())).collect();
            let mut merged = WeightedAvgPartial::default();
            for part in (0..parts).rev() {
                merged.merge(&of(&values.iter().copied().skip(part).step_by(parts).collect::<Vec<_>>()));
            }
            prop_assert_eq!(merged, of(&values));
        }
    }
}
