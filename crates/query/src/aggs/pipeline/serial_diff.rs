//! `serial_diff` pipeline: change of a value since an earlier bucket.

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::common::{Common, put_answer, unexpected};
use super::{Needs, Parent, Pipeline};
use crate::aggs::Aggregations;
use crate::aggs::finished::Buckets;
use crate::aggs::parse::Request;
use crate::expression::Steps;
use crate::json::as_i64;

pub(super) const NAME: &str = "serial_diff";

/// Maximum `lag`: an int in Elasticsearch.
const LAG_MAX: i64 = i32::MAX as i64;

/// `serial_diff`.
#[derive(Debug, Clone, PartialEq)]
pub struct SerialDiff {
    /// Path, gap policy and format.
    pub common: Common,
    /// Distance to the earlier bucket (default 1).
    pub lag: usize,
}

pub(super) fn parse(request: &Request<'_>) -> Result<Pipeline> {
    let mut lag = 1;
    let common = Common::parse(request, |key, value| {
        if key != "lag" {
            return Ok(false);
        }
        lag = match as_i64(value).ok_or_else(|| unexpected(request, key, value))? {
            lag @ 1..=LAG_MAX => lag as usize,
            // Elasticsearch's sentence, unchanged.
            lag => {
                return Err(Error::parsing(format!(
                    "Lag must be a positive, non-zero integer.  Value supplied was{lag} in [{}]: [{key}].",
                    request.name
                )));
            }
        };
        Ok(true)
    })?;
    Ok(Pipeline::SerialDiff(SerialDiff { common, lag }))
}

impl SerialDiff {
    pub(super) fn print(&self, body: &mut Map<String, Value>) {
        self.common.print(body);
        body.insert("lag".into(), json!(self.lag));
    }
}

impl Parent for SerialDiff {
    fn needs(&self) -> Needs {
        Needs::Sequence
    }

    fn apply(&self, place: usize, sub: &Aggregations, buckets: &mut Buckets, _: &mut Steps) -> Result<()> {
        let path = self.common.path.bind(sub)?;
        let mut values = Vec::with_capacity(buckets.buckets.len());
        for bucket in &buckets.buckets {
            values.push(self.common.gap_policy.read(&path, bucket)?.unwrap_or(f64::NAN));
        }
        for number in self.lag..values.len() {
            let (before, value) = (values[number - self.lag], values[number]);
            if !before.is_nan() && !value.is_nan() {
                put_answer(buckets, number, place, self.common.simple_value(value - before));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{check_refused, values_along};
    use super::*;

    #[test]
    fn answers() {
        let days: &[&[f64]] = &[&[1.0], &[4.0], &[9.0], &[], &[25.0]];
        let diffs = |body: Value| values_along(days, json!({"serial_diff": body}));
        let none = Value::Null;
        assert_eq!(
            diffs(json!({"buckets_path": "total", "lag": 2})),
            [none.clone(), none.clone(), json!(8.0), none.clone(), json!(16.0)]
        );
        assert_eq!(
            diffs(json!({"buckets_path": "total", "gap_policy": "insert_zeros"})),
            [none, json!(3.0), json!(5.0), json!(-9.0), json!(25.0)]
        );
        assert!(
            diffs(json!({"buckets_path": "total", "lag": 100}))
                .iter()
                .all(Value::is_null)
        );
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"serial_diff": {"buckets_path": "total", "lag": 0}}),
            "Lag must be a positive, non-zero integer.  Value supplied was0 in [p]: [lag].",
        );
    }
}
