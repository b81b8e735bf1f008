//! `normalize` pipeline: a value relative to those of all buckets.

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::common::{Common, put_answer, required, unexpected};
use super::gap::GapPolicy;
use super::{Needs, Parent, Pipeline};
use crate::aggs::Aggregations;
use crate::aggs::finished::Buckets;
use crate::aggs::parse::Request;
use crate::expression::Steps;

pub(super) const NAME: &str = "normalize";

/// `normalize`.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalize {
    /// Path and format; gaps are always skipped.
    pub common: Common,
    /// Normalization method.
    pub method: Method,
}

/// `method`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Method {
    Rescale0To1,
    Rescale0To100,
    PercentOfSum,
    Mean,
    ZScore,
    Softmax,
}

const METHODS: &[(&str, Method)] = &[
    ("rescale_0_1", Method::Rescale0To1),
    ("rescale_0_100", Method::Rescale0To100),
    ("percent_of_sum", Method::PercentOfSum),
    ("mean", Method::Mean),
    ("z-score", Method::ZScore),
    ("softmax", Method::Softmax),
];

pub(super) fn parse(request: &Request<'_>) -> Result<Pipeline> {
    let mut method = None;
    let common = Common::parse(request, |key, value| {
        if key != "method" {
            return Ok(false);
        }
        let text = value.as_str().ok_or_else(|| unexpected(request, key, value))?;
        let found = METHODS.iter().find(|(name, _)| *name == text);
        let (_, found) = found.ok_or_else(|| Error::illegal_argument(format!("invalid method [{text}]")))?;
        method = Some(*found);
        Ok(true)
    })?;
    Ok(Pipeline::Normalize(Normalize {
        common,
        method: method.ok_or_else(|| required("method"))?,
    }))
}

impl Normalize {
    pub(super) fn print(&self, body: &mut Map<String, Value>) {
        self.common.print(body);
        let name = METHODS.iter().find(|(_, method)| *method == self.method);
        body.insert("method".into(), json!(name.map_or("", |(name, _)| name)));
    }
}

impl Method {
    /// Returns the function that normalizes these values; NaN values do not count.
    fn over(self, values: &[f64]) -> impl Fn(f64) -> f64 + use<> {
        let present = || values.iter().copied().filter(|value| !value.is_nan());
        let count = present().count() as f64;
        let sum: f64 = present().sum();
        let min = present().fold(f64::INFINITY, f64::min);
        let max = present().fold(f64::NEG_INFINITY, f64::max);
        let mean = sum / count;
        let deviation = (present().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
        let exponentials: f64 = present().map(f64::exp).sum();
        move |value| match self {
            Self::Rescale0To1 => (value - min) / (max - min),
            Self::Rescale0To100 => 100.0 * (value - min) / (max - min),
            Self::PercentOfSum => value / sum,
            Self::Mean => (value - mean) / (max - min),
            Self::ZScore => (value - mean) / deviation,
            Self::Softmax => value.exp() / exponentials,
        }
    }
}

impl Parent for Normalize {
    fn needs(&self) -> Needs {
        Needs::Buckets
    }

    fn apply(&self, place: usize, sub: &Aggregations, buckets: &mut Buckets, _: &mut Steps) -> Result<()> {
        let path = self.common.path.bind(sub)?;
        let mut values = Vec::with_capacity(buckets.buckets.len());
        for bucket in &buckets.buckets {
            values.push(GapPolicy::Skip.read(&path, bucket)?.unwrap_or(f64::NAN));
        }
        let normalized = self.method.over(&values);
        for (number, value) in values.into_iter().enumerate().filter(|(_, value)| !value.is_nan()) {
            put_answer(buckets, number, place, self.common.simple_value(normalized(value)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{along, check_refused, values_along};
    use super::*;

    const DAYS: &[&[f64]] = &[&[1.0], &[], &[3.0], &[4.0]];

    #[test]
    fn answers() {
        let with = |method: &str| -> Vec<f64> {
            let values = values_along(DAYS, json!({"normalize": {"buckets_path": "total", "method": method}}));
            assert_eq!(values[1], Value::Null);
            values.iter().filter_map(Value::as_f64).collect()
        };
        let close = |method: &str, expected: [f64; 3]| {
            let values = with(method);
            assert!(
                values
                    .iter()
                    .zip(expected)
                    .all(|(left, right)| (left - right).abs() < 1e-4),
                "{method}: {values:?}"
            );
        };
        close("rescale_0_1", [0.0, 2.0 / 3.0, 1.0]);
        close("rescale_0_100", [0.0, 200.0 / 3.0, 100.0]);
        close("percent_of_sum", [0.125, 0.375, 0.5]);
        close("mean", [-5.0 / 9.0, 1.0 / 9.0, 4.0 / 9.0]);
        close("z-score", [-1.336_306, 0.267_261, 1.069_045]);
        close("softmax", [0.035_119, 0.259_496, 0.705_384]);
        let percent = json!({"normalize": {"buckets_path": "total", "method": "percent_of_sum", "format": "00.00%"}});
        assert_eq!(
            along(DAYS, percent)[0],
            json!({"value": 0.125, "value_as_string": "12.50%"})
        );
    }

    #[test]
    fn refuses() {
        check_refused(json!({"normalize": {"buckets_path": "total"}}), "Required [method]");
        check_refused(
            json!({"normalize": {"buckets_path": "total", "method": "foo"}}),
            "invalid method [foo]",
        );
    }
}
