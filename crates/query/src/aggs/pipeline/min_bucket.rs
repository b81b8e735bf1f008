//! `min_bucket` pipeline: smallest of the buckets' values, and the keys of its buckets.

use firn_model::Result;
use serde_json::{Map, Value};

use super::Pipeline;
use super::common::Common;
use super::sibling::{Answer, Sibling, extreme};
use crate::aggs::parse::Request;

pub(super) const NAME: &str = "min_bucket";

pub(super) fn parse(request: &Request<'_>) -> Result<Pipeline> {
    Sibling::parse(request, Answer::Min, Pipeline::MinBucket)
}

/// Prints null and no keys without values.
pub(super) fn answer(common: &Common, values: &[f64], name: &dyn Fn(usize) -> String) -> Map<String, Value> {
    let best = values.iter().copied().fold(f64::INFINITY, f64::min);
    extreme(common, values, best, name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_support::{beside, check_refused_beside};

    #[test]
    fn answers() {
        let days: &[&[f64]] = &[&[1.0, 3.0], &[], &[10.0], &[4.0]];
        assert_eq!(
            beside(days, json!({"min_bucket": {"buckets_path": "days>total"}})),
            json!({"value": 4.0, "keys": ["1970-01-01", "1970-01-04"]})
        );
        assert_eq!(
            beside(&[], json!({"min_bucket": {"buckets_path": "days>total"}})),
            json!({"value": null, "keys": []})
        );
    }

    #[test]
    fn refuses() {
        check_refused_beside(
            json!({"min_bucket": {}}),
            "Missing required field [buckets_path] for aggregation [p]",
        );
    }
}
