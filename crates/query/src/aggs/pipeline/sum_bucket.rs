//! `sum_bucket` pipeline: sum of the buckets' values.

use firn_model::Result;
use serde_json::{Map, Value};

use super::Pipeline;
use super::common::Common;
use super::sibling::{Answer, Sibling};
use crate::aggs::parse::Request;

pub(super) const NAME: &str = "sum_bucket";

pub(super) fn parse(request: &Request<'_>) -> Result<Pipeline> {
    Sibling::parse(request, Answer::Sum, Pipeline::SumBucket)
}

/// Prints 0 without values. (Rust's sum of no floats is -0.)
pub(super) fn answer(common: &Common, values: &[f64]) -> Map<String, Value> {
    common.simple_value(values.iter().sum::<f64>() + 0.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_support::{beside, check_refused_beside};

    #[test]
    fn answers() {
        let days: &[&[f64]] = &[&[1.0, 3.0], &[], &[10.0]];
        assert_eq!(
            beside(
                days,
                json!({"sum_bucket": {"buckets_path": "days>total", "format": "$0"}})
            ),
            json!({"value": 14.0, "value_as_string": "$14"})
        );
        assert_eq!(
            beside(&[], json!({"sum_bucket": {"buckets_path": "days>total"}})),
            json!({"value": 0.0})
        );
    }

    #[test]
    fn refuses() {
        check_refused_beside(
            json!({"sum_bucket": {"buckets_path": "nothing"}}),
            "Validation Failed: 1: No aggregation found for path [nothing];",
        );
    }
}
