//! `cumulative_sum` pipeline: running sum of a value.

use firn_model::Result;

use super::common::{Common, put_answer};
use super::gap::GapPolicy;
use super::{Needs, Parent, Pipeline};
use crate::aggs::Aggregations;
use crate::aggs::finished::Buckets;
use crate::aggs::parse::Request;
use crate::expression::Steps;

pub(super) const NAME: &str = "cumulative_sum";

/// `cumulative_sum`.
#[derive(Debug, Clone, PartialEq)]
pub struct CumulativeSum {
    /// Path and format; a gap always adds 0.
    pub common: Common,
}

pub(super) fn parse(request: &Request<'_>) -> Result<Pipeline> {
    let common = Common::parse(request, |_, _| Ok(false))?;
    Ok(Pipeline::CumulativeSum(CumulativeSum { common }))
}

impl Parent for CumulativeSum {
    fn needs(&self) -> Needs {
        Needs::Sequence
    }

    fn apply(&self, place: usize, sub: &Aggregations, buckets: &mut Buckets, _: &mut Steps) -> Result<()> {
        let path = self.common.path.bind(sub)?;
        let mut sum = 0.0;
        for number in 0..buckets.buckets.len() {
            sum += GapPolicy::InsertZeros
                .read(&path, &buckets.buckets[number])?
                .unwrap_or(0.0);
            put_answer(buckets, number, place, self.common.simple_value(sum));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_support::{along, check_refused, values_along};

    #[test]
    fn answers() {
        let days: &[&[f64]] = &[&[1.0], &[], &[2.0, 3.0]];
        let sums = |path: &str| values_along(days, json!({"cumulative_sum": {"buckets_path": path}}));
        assert_eq!(sums("total"), [json!(1.0), json!(1.0), json!(6.0)]);
        assert_eq!(sums("_count"), [json!(1.0), json!(1.0), json!(3.0)]);
        assert_eq!(sums("most"), [json!(1.0), json!(1.0), json!(4.0)]);
        let formatted = along(
            days,
            json!({"cumulative_sum": {"buckets_path": "total", "format": "0.0"}}),
        );
        assert_eq!(formatted[2], json!({"value": 6.0, "value_as_string": "6.0"}));
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"cumulative_sum": {"buckets_path": "total", "format": "0.0.0"}}),
            "Malformed pattern \"0.0.0\"",
        );
    }
}
