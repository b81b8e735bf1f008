//! `percentiles_bucket` pipeline: percentiles of the buckets' values; each is one of the values.

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::common::{Common, unexpected};
use super::{Pipeline, Summary};
use crate::aggs::ValueFormat;
use crate::aggs::parse::Request;
use crate::aggs::percents::{self, PERCENTS};

pub(super) const NAME: &str = "percentiles_bucket";

/// `percentiles_bucket`.
#[derive(Debug, Clone, PartialEq)]
pub struct PercentilesBucket {
    /// Path, gap policy and format.
    pub common: Common,
    /// Requested percents.
    pub percents: Vec<f64>,
    /// Return an object by name instead of a list.
    pub keyed: bool,
}

pub(super) fn parse(request: &Request<'_>) -> Result<Pipeline> {
    let (mut percents, mut keyed) = (PERCENTS.to_vec(), true);
    let common = Common::parse(request, |key, value| {
        match key {
            "percents" => percents = parse_percents(key, value)?,
            "keyed" => keyed = value.as_bool().ok_or_else(|| unexpected(request, key, value))?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(Pipeline::PercentilesBucket(PercentilesBucket {
        common,
        percents,
        keyed,
    }))
}

/// Parses percents, in the order of the request.
fn parse_percents(key: &str, value: &Value) -> Result<Vec<f64>> {
    let percents = percents::parse_numbers(NAME, key, value)?;
    if percents.iter().any(|percent| !(0.0..=100.0).contains(percent)) {
        return Err(Error::illegal_argument(
            "percents must only contain non-null doubles from 0.0-100.0 inclusive",
        ));
    }
    Ok(percents)
}

impl PercentilesBucket {
    pub(super) fn print(&self, body: &mut Map<String, Value>) {
        self.common.print(body);
        body.insert("percents".into(), json!(self.percents));
        body.insert("keyed".into(), json!(self.keyed));
    }
}

impl Summary for PercentilesBucket {
    fn common(&self) -> &Common {
        &self.common
    }

    /// Returns the nearest values, without interpolation.
    fn answer(&self, values: &[f64], _: &dyn Fn(usize) -> String) -> Map<String, Value> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let nearest = |percent: f64| {
            let last = sorted.len().checked_sub(1)?;
            let index = (percent / 100.0 * last as f64 + 0.5).floor() as usize;
            sorted.get(index.min(last)).copied()
        };
        let values = self.percents.iter().map(|percent| (*percent, nearest(*percent)));
        percents::print(values, self.keyed, &ValueFormat::of_pattern(self.common.format.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{beside, check_refused_beside};
    use super::*;

    const DAYS: &[&[f64]] = &[&[1.0, 3.0], &[], &[10.0], &[2.0]];

    #[test]
    fn answers() {
        assert_eq!(
            beside(
                DAYS,
                json!({"percentiles_bucket": {"buckets_path": "days>total", "percents": [0, 50, 99.9]}})
            ),
            json!({"values": {"0.0": 2.0, "50.0": 4.0, "99.9": 10.0}})
        );
        assert_eq!(
            beside(
                DAYS,
                json!({"percentiles_bucket": {"buckets_path": "days>total", "percents": [50], "keyed": false}})
            ),
            json!({"values": [{"key": 50.0, "value": 4.0}]})
        );
        let nothing = beside(&[], json!({"percentiles_bucket": {"buckets_path": "days>total"}}));
        assert_eq!(nothing["values"].as_object().unwrap().len(), 7);
        assert_eq!(nothing["values"]["99.0"], Value::Null);
    }

    #[test]
    fn refuses() {
        check_refused_beside(
            json!({"percentiles_bucket": {"buckets_path": "days>total", "percents": [101]}}),
            "percents must only contain non-null doubles from 0.0-100.0 inclusive",
        );
    }
}
