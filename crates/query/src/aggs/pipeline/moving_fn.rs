//! `moving_fn` pipeline: a script over a sliding window of bucket values.

use firn_model::Result;
use serde_json::{Map, Value, json};

use super::common::{Common, put_answer, required, unexpected, whole};
use super::{Needs, Parent, Pipeline};
use crate::aggs::Aggregations;
use crate::aggs::finished::Buckets;
use crate::aggs::parse::Request;
use crate::expression::{Scope, Script, Steps};
use crate::json::as_i64;

pub(super) const NAME: &str = "moving_fn";

/// `moving_fn`.
#[derive(Debug, Clone, PartialEq)]
pub struct MovingFn {
    /// Path, gap policy and format.
    pub common: Common,
    /// Values in a full window.
    pub window: usize,
    /// 0: the window ends before the bucket; 1: it includes the bucket.
    pub shift: i64,
    /// Script that computes a value from the window.
    pub script: Script,
}

pub(super) fn parse(request: &Request<'_>) -> Result<Pipeline> {
    let (mut window, mut shift, mut script) = (None, 0, None);
    let common = Common::parse(request, |key, value| {
        match key {
            "window" => {
                let refusal = |_| "[window] must be a positive, non-zero integer.".to_owned();
                window = Some(whole(request, key, value, 1, refusal)?);
            }
            "shift" => {
                let number = as_i64(value).filter(|number| i32::try_from(*number).is_ok());
                shift = number.ok_or_else(|| unexpected(request, key, value))?;
            }
            "script" => script = Some(Script::parse(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(Pipeline::MovingFn(MovingFn {
        common,
        window: window.ok_or_else(|| required("window"))?,
        shift,
        script: script.ok_or_else(|| required("script"))?,
    }))
}

impl MovingFn {
    pub(super) fn print(&self, body: &mut Map<String, Value>) {
        self.common.print(body);
        body.insert("window".into(), json!(self.window));
        body.insert("shift".into(), json!(self.shift));
        body.insert("script".into(), self.script.print());
    }
}

impl Parent for MovingFn {
    fn needs(&self) -> Needs {
        Needs::Sequence
    }

    fn apply(&self, place: usize, sub: &Aggregations, buckets: &mut Buckets, steps: &mut Steps) -> Result<()> {
        let path = self.common.path.bind(sub)?;
        // Buckets without a value are not in the window and get no answer.
        let (mut values, mut numbers) = (Vec::new(), Vec::new());
        for (number, bucket) in buckets.buckets.iter().enumerate() {
            if let Some(value) = self.common.gap_policy.read(&path, bucket)?
                && !value.is_nan()
            {
                values.push(value);
                numbers.push(number);
            }
        }
        for (index, number) in numbers.into_iter().enumerate() {
            let end = index as i64 + self.shift;
            let clamp = |index: i64| index.clamp(0, values.len() as i64) as usize;
            let window = clamp(end - self.window as i64)..clamp(end);
            let scope = Scope {
                values: &values[window],
                ..Scope::default()
            };
            let value = self.script.double(&scope, steps)?;
            put_answer(buckets, number, place, self.common.simple_value(value));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{check_refused, values_along};
    use super::*;

    const DAYS: &[&[f64]] = &[&[1.0], &[3.0], &[], &[5.0], &[7.0]];

    fn moved(more: Value) -> Vec<Value> {
        let mut body = json!({"buckets_path": "total", "window": 2, "script": "MovingFunctions.unweightedAvg(values)"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        values_along(DAYS, json!({"moving_fn": body}))
    }

    #[test]
    fn answers() {
        let none = Value::Null;
        assert_eq!(
            moved(json!({})),
            [none.clone(), json!(1.0), none.clone(), json!(2.0), json!(4.0)]
        );
        assert_eq!(
            moved(json!({"shift": 1})),
            [json!(1.0), json!(2.0), none.clone(), json!(4.0), json!(6.0)]
        );
        assert_eq!(
            moved(json!({"gap_policy": "insert_zeros"})),
            [none.clone(), json!(1.0), json!(2.0), json!(1.5), json!(2.5)]
        );
        assert_eq!(moved(json!({"script": "values.length"}))[0], json!(0.0));
        assert_eq!(
            moved(
                json!({"script": {"source": "values.length > 1 ? values[0] * params.k : Double.NaN", "params": {"k": 10}}})
            ),
            [none.clone(), none.clone(), none, json!(10.0), json!(30.0)]
        );
        assert_eq!(moved(json!({"shift": -100})).len(), 5);
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"moving_fn": {"buckets_path": "total", "script": "1"}}),
            "Required [window]",
        );
        check_refused(
            json!({"moving_fn": {"buckets_path": "total", "window": 2}}),
            "Required [script]",
        );
        check_refused(
            json!({"moving_fn": {"buckets_path": "total", "window": 0, "script": "1"}}),
            "[window] must be a positive, non-zero integer.",
        );
        check_refused(
            json!({"moving_fn": {"buckets_path": "total", "window": 2, "script": "1 +"}}),
            "compile error",
        );
    }
}
