//! `derivative` pipeline: change of a value since the previous bucket.

use firn_model::dates::{CalendarUnit, parse_duration_ms};
use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::common::{Common, put_answer, put_value, unexpected};
use super::{Needs, Parent, Pipeline};
use crate::aggs::finished::Buckets;
use crate::aggs::parse::Request;
use crate::aggs::{Aggregations, date_histogram};
use crate::expression::Steps;

pub(super) const NAME: &str = "derivative";

/// `derivative`.
#[derive(Debug, Clone, PartialEq)]
pub struct Derivative {
    /// Path, gap policy and format.
    pub common: Common,
    /// As written, and in ms: `normalized_value` is the change per unit.
    pub unit: Option<(String, f64)>,
}

pub(super) fn parse(request: &Request<'_>) -> Result<Pipeline> {
    let mut unit = None;
    let common = Common::parse(request, |key, value| {
        if key != "unit" {
            return Ok(false);
        }
        let text = value.as_str().ok_or_else(|| unexpected(request, key, value))?;
        unit = Some((text.to_owned(), unit_ms(text)?));
        Ok(true)
    })?;
    Ok(Pipeline::Derivative(Derivative { common, unit }))
}

/// Returns the length of a unit in ms; a calendar unit has its mean length.
fn unit_ms(text: &str) -> Result<f64> {
    const DAY: f64 = 86_400_000.0;
    const YEAR: f64 = 365.2425 * DAY;
    if let Ok(unit) = date_histogram::calendar_interval(text) {
        return Ok(match unit {
            CalendarUnit::Second => 1000.0,
            CalendarUnit::Minute => 60_000.0,
            CalendarUnit::Hour => 3_600_000.0,
            CalendarUnit::Day => DAY,
            CalendarUnit::Week => 7.0 * DAY,
            CalendarUnit::Month => YEAR / 12.0,
            CalendarUnit::Quarter => YEAR / 4.0,
            CalendarUnit::Year => YEAR,
        });
    }
    match parse_duration_ms(text) {
        Ok(ms) if ms > 0 => Ok(ms as f64),
        _ => Err(Error::illegal_argument(format!(
            "failed to parse setting [DerivativePipelineAggregationBuilder.unit] with value [{text}] as a time value: unit \
             is missing or unrecognized"
        ))),
    }
}

impl Derivative {
    pub(super) fn print(&self, body: &mut Map<String, Value>) {
        self.common.print(body);
        if let Some((unit, _)) = &self.unit {
            body.insert("unit".into(), json!(unit));
        }
    }
}

impl Parent for Derivative {
    fn needs(&self) -> Needs {
        Needs::Sequence
    }

    fn apply(&self, place: usize, sub: &Aggregations, buckets: &mut Buckets, _: &mut Steps) -> Result<()> {
        let path = self.common.path.bind(sub)?;
        let mut last: Option<(f64, f64)> = None;
        for number in 0..buckets.buckets.len() {
            let bucket = &buckets.buckets[number];
            let key = bucket.key.as_f64().unwrap_or(0.0);
            let value = self.common.gap_policy.read(&path, bucket)?;
            if let (Some(value), Some((last_key, last_value))) = (value, last) {
                let change = value - last_value;
                let mut printed = self.common.simple_value(change);
                if let Some((_, unit_ms)) = &self.unit {
                    let per_unit = change / ((key - last_key) / unit_ms);
                    put_value(&mut printed, "normalized_value", per_unit, self.common.format.as_ref());
                }
                put_answer(buckets, number, place, printed);
            }
            last = value.map(|value| (key, value));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{along, check_refused, values_along};
    use super::*;

    #[test]
    fn answers() {
        let days: &[&[f64]] = &[&[1.0], &[5.0], &[2.0, 1.5]];
        assert_eq!(
            along(
                days,
                json!({"derivative": {"buckets_path": "total", "format": "0.00", "unit": "12h"}})
            ),
            [
                Value::Null,
                json!({"value": 4.0, "value_as_string": "4.00", "normalized_value": 2.0, "normalized_value_as_string": "2.00"}),
                json!({"value": -1.5, "value_as_string": "-1.50", "normalized_value": -0.75, "normalized_value_as_string": "-0.75"}),
            ]
        );
        assert_eq!(
            values_along(days, json!({"derivative": {"buckets_path": "_count"}})),
            [Value::Null, json!(0.0), json!(1.0)]
        );
    }

    #[test]
    fn gaps() {
        let days: &[&[f64]] = &[&[1.0], &[], &[4.0]];
        let with = |policy: &str| {
            values_along(
                days,
                json!({"derivative": {"buckets_path": "total", "gap_policy": policy}}),
            )
        };
        assert_eq!(with("skip"), [Value::Null, Value::Null, Value::Null]);
        assert_eq!(with("insert_zeros"), [Value::Null, json!(-1.0), json!(4.0)]);
        assert_eq!(with("keep_values"), [Value::Null, json!(-1.0), json!(4.0)]);
    }

    #[test]
    fn units() {
        for (text, ms) in [
            ("1d", 86_400_000.0),
            ("second", 1000.0),
            ("1M", 2_629_746_000.0),
            ("5m", 300_000.0),
        ] {
            assert_eq!(unit_ms(text).unwrap(), ms, "{text}");
        }
        for text in ["", "foo", "0s", "3x"] {
            assert!(unit_ms(text).is_err(), "{text}");
        }
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"derivative": {}}),
            "Missing required field [buckets_path] for aggregation [p]",
        );
        check_refused(
            json!({"derivative": {"buckets_path": "total", "foo": 1}}),
            "Unknown key for a VALUE_NUMBER in [p]: [foo].",
        );
        check_refused(
            json!({"derivative": {"buckets_path": "total", "gap_policy": "foo"}}),
            "Invalid gap policy: [foo], accepted values: [insert_zeros, skip, keep_values]",
        );
        check_refused(
            json!({"derivative": {"buckets_path": ["total", "most"]}}),
            "Validation Failed: 1: buckets_path must contain a single entry for aggregation [p];",
        );
        check_refused(
            json!({"derivative": {"buckets_path": 1}}),
            "Unexpected token VALUE_NUMBER [buckets_path] in [p].",
        );
    }
}
