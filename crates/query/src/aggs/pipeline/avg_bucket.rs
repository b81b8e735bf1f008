//! `avg_bucket` pipeline: mean of the buckets' values.

use firn_model::Result;
use serde_json::{Map, Value};

use super::Pipeline;
use super::common::Common;
use super::sibling::{Answer, Sibling};
use crate::aggs::parse::Request;

pub(super) const NAME: &str = "avg_bucket";

pub(super) fn parse(request: &Request<'_>) -> Result<Pipeline> {
    Sibling::parse(request, Answer::Avg, Pipeline::AvgBucket)
}

/// Prints null without values.
pub(super) fn answer(common: &Common, values: &[f64]) -> Map<String, Value> {
    common.simple_value(values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_support::{beside, check_refused_beside};

    #[test]
    fn answers() {
        let days: &[&[f64]] = &[&[1.0, 3.0], &[], &[10.0]];
        assert_eq!(
            beside(days, json!({"avg_bucket": {"buckets_path": "days>total"}})),
            json!({"value": 7.0})
        );
        assert_eq!(
            beside(
                days,
                json!({"avg_bucket": {"buckets_path": "days>total", "gap_policy": "insert_zeros", "format": "0.0"}})
            ),
            json!({"value": 14.0 / 3.0, "value_as_string": "4.7"})
        );
        assert_eq!(
            beside(days, json!({"avg_bucket": {"buckets_path": "days._count"}})),
            json!({"value": 1.0})
        );
        assert_eq!(
            beside(&[], json!({"avg_bucket": {"buckets_path": "days>total"}})),
            json!({"value": null})
        );
    }

    #[test]
    fn refuses() {
        check_refused_beside(
            json!({"avg_bucket": {"buckets_path": "days>nothing"}}),
            "Validation Failed: 1: No aggregation [nothing] found for path [days>nothing];",
        );
        check_refused_beside(
            json!({"avg_bucket": {"buckets_path": "days"}}),
            "Validation Failed: 1: buckets_path must reference either a number value or a single value numeric metric \
             aggregation, but [days] contains multiple values. Please specify which to use.;",
        );
        check_refused_beside(
            json!({"avg_bucket": {"buckets_path": "days>total", "sigma": 1}}),
            "Unknown key for a VALUE_NUMBER in [p]: [sigma].",
        );
    }
}
