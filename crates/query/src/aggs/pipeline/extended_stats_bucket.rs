//! `extended_stats_bucket` pipeline: `stats_bucket` with variance and deviation.

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::common::{Common, unexpected};
use super::{Pipeline, Summary};
use crate::aggs::ValueFormat;
use crate::aggs::extended_stats::{self, ExtendedStatsPartial};
use crate::aggs::parse::Request;

pub(super) const NAME: &str = "extended_stats_bucket";

/// `extended_stats_bucket`.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtendedStatsBucket {
    /// Path, gap policy and format.
    pub common: Common,
    /// Deviations between the mean and its bounds (default 2).
    pub sigma: f64,
}

pub(super) fn parse(request: &Request<'_>) -> Result<Pipeline> {
    let mut sigma = extended_stats::SIGMA;
    let common = Common::parse(request, |key, value| {
        if key != "sigma" {
            return Ok(false);
        }
        sigma = value.as_f64().ok_or_else(|| unexpected(request, key, value))?;
        if sigma < 0.0 {
            return Err(Error::illegal_argument("sigma must be a non-negative double"));
        }
        Ok(true)
    })?;
    Ok(Pipeline::ExtendedStatsBucket(ExtendedStatsBucket { common, sigma }))
}

impl ExtendedStatsBucket {
    pub(super) fn print(&self, body: &mut Map<String, Value>) {
        self.common.print(body);
        body.insert("sigma".into(), json!(self.sigma));
    }
}

impl Summary for ExtendedStatsBucket {
    fn common(&self) -> &Common {
        &self.common
    }

    fn answer(&self, values: &[f64], _: &dyn Fn(usize) -> String) -> Map<String, Value> {
        let mut partial = ExtendedStatsPartial::new(ValueFormat::of_pattern(self.common.format.clone()));
        values.iter().for_each(|value| partial.add(*value));
        extended_stats::answer(&partial, self.sigma)
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{beside, check_refused_beside};
    use super::*;

    #[test]
    fn answers() {
        let days: &[&[f64]] = &[&[1.0, 3.0], &[], &[10.0]];
        let answer = beside(
            days,
            json!({"extended_stats_bucket": {"buckets_path": "days>total", "sigma": 1}}),
        );
        assert_eq!(answer["avg"], 7.0);
        assert_eq!(answer["std_deviation"], 3.0);
        assert_eq!(answer["std_deviation_bounds"]["upper"], 10.0);
        let nothing = beside(&[], json!({"extended_stats_bucket": {"buckets_path": "days>total"}}));
        assert_eq!((&nothing["count"], &nothing["variance"]), (&json!(0), &Value::Null));
    }

    #[test]
    fn refuses() {
        check_refused_beside(
            json!({"extended_stats_bucket": {"buckets_path": "days>total", "sigma": -1}}),
            "sigma must be a non-negative double",
        );
    }
}
