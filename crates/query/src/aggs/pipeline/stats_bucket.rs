//! `stats_bucket` pipeline: count, min, max, avg and sum of the buckets' values.

use firn_model::Result;
use serde_json::{Map, Value};

use super::Pipeline;
use super::common::Common;
use super::sibling::{Answer, Sibling};
use crate::aggs::parse::Request;
use crate::aggs::{MetricPartial, ValueFormat, stats};

pub(super) const NAME: &str = "stats_bucket";

pub(super) fn parse(request: &Request<'_>) -> Result<Pipeline> {
    Sibling::parse(request, Answer::Stats, Pipeline::StatsBucket)
}

pub(super) fn answer(common: &Common, values: &[f64]) -> Map<String, Value> {
    let mut partial = MetricPartial::new(ValueFormat::of_pattern(common.format.clone()));
    values.iter().for_each(|value| partial.add(*value));
    stats::answer(&partial)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_support::{beside, check_refused_beside};

    #[test]
    fn answers() {
        let days: &[&[f64]] = &[&[1.0, 3.0], &[], &[10.0]];
        assert_eq!(
            beside(days, json!({"stats_bucket": {"buckets_path": "days>total"}})),
            json!({"count": 2, "min": 4.0, "max": 10.0, "avg": 7.0, "sum": 14.0})
        );
        assert_eq!(
            beside(
                days,
                json!({"stats_bucket": {"buckets_path": "days>total", "format": "0.0"}})
            ),
            json!({
                "count": 2, "min": 4.0, "max": 10.0, "avg": 7.0, "sum": 14.0,
                "min_as_string": "4.0", "max_as_string": "10.0", "avg_as_string": "7.0", "sum_as_string": "14.0"
            })
        );
        assert_eq!(
            beside(&[], json!({"stats_bucket": {"buckets_path": "days>total"}})),
            json!({"count": 0, "min": null, "max": null, "avg": null, "sum": 0.0})
        );
    }

    #[test]
    fn refuses() {
        check_refused_beside(
            json!({"stats_bucket": {"buckets_path": {"a": "days>total"}}}),
            "Unexpected token START_OBJECT [buckets_path] in [p].",
        );
    }
}
