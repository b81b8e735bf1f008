//! `bucket_script` pipeline: a number computed from other values of the same bucket.

use firn_model::Result;
use serde_json::{Map, Value, json};

use super::common::{pattern, put_answer, simple_value};
use super::gap::GapPolicy;
use super::scripted::Scripted;
use super::{Needs, Parent, Pipeline};
use crate::aggs::finished::Buckets;
use crate::aggs::parse::Request;
use crate::aggs::{Aggregations, DecimalFormat};
use crate::expression::{Scope, Steps};

pub(super) const NAME: &str = "bucket_script";

/// `bucket_script`.
#[derive(Debug, Clone, PartialEq)]
pub struct BucketScript {
    pub(crate) scripted: Scripted,
    /// Pattern of `value_as_string`.
    pub format: Option<DecimalFormat>,
}

pub(super) fn parse(request: &Request<'_>) -> Result<Pipeline> {
    let mut format = None;
    let scripted = Scripted::parse(request, |key, value| {
        if key == "format" {
            format = Some(pattern(request, value)?);
        }
        Ok(key == "format")
    })?;
    Ok(Pipeline::BucketScript(BucketScript { scripted, format }))
}

impl BucketScript {
    pub(super) fn print(&self, body: &mut Map<String, Value>) {
        self.scripted.print(body);
        if let Some(format) = &self.format {
            body.insert("format".into(), json!(format.pattern()));
        }
    }
}

impl Parent for BucketScript {
    fn needs(&self) -> Needs {
        Needs::Buckets
    }

    fn apply(&self, place: usize, sub: &Aggregations, buckets: &mut Buckets, steps: &mut Steps) -> Result<()> {
        let paths = self.scripted.bind(sub)?;
        let gap_policy = self.scripted.gap_policy;
        for number in 0..buckets.buckets.len() {
            let mut variables = Vec::with_capacity(paths.len());
            let mut has_gap = false;
            for (name, path) in &paths {
                let value = gap_policy.read(path, &buckets.buckets[number])?;
                has_gap |= value.is_none_or(f64::is_nan);
                variables.push((*name, value));
            }
            if has_gap && gap_policy != GapPolicy::InsertZeros {
                continue;
            }
            let scope = Scope {
                variables: &variables,
                values: &[],
            };
            if let Some(value) = self.scripted.script.number(&scope, steps)? {
                put_answer(buckets, number, place, simple_value(value, self.format.as_ref()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{along, check_refused, days_answer, values_along};
    use super::*;

    const DAYS: &[&[f64]] = &[&[1.0, 3.0], &[], &[10.0]];

    #[test]
    fn answers() {
        let script = json!({"bucket_script": {
            "buckets_path": {"sum": "total", "count": "_count"}, "script": "params.sum / params.count", "format": "0.0"
        }});
        assert_eq!(
            along(DAYS, script),
            [
                json!({"value": 2.0, "value_as_string": "2.0"}),
                Value::Null,
                json!({"value": 10.0, "value_as_string": "10.0"})
            ]
        );
        let with = |body: Value| values_along(DAYS, json!({"bucket_script": body}));
        assert_eq!(
            with(json!({"buckets_path": "total", "script": "params._value + 1"})),
            [json!(5.0), Value::Null, json!(11.0)]
        );
        assert_eq!(
            with(
                json!({"buckets_path": ["total", "most"], "script": {"lang": "expression", "source": "_value0 - _value1"}})
            ),
            [json!(1.0), Value::Null, json!(0.0)]
        );
        assert_eq!(
            with(json!({"buckets_path": "total", "script": "params._value + 1", "gap_policy": "insert_zeros"})),
            [json!(5.0), json!(1.0), json!(11.0)]
        );
        assert_eq!(
            with(json!({"buckets_path": "total", "script": "null"})),
            [Value::Null, Value::Null, Value::Null]
        );
        assert_eq!(
            with(json!({"buckets_path": "total", "script": "1.0 / 0"})),
            [Value::Null, Value::Null, Value::Null]
        );
    }

    #[test]
    fn runs_after_its_inputs() {
        let pipelines = json!({
            "last": {"bucket_script": {"buckets_path": {"f": "first"}, "script": "params.f * 2"}},
            "first": {"cumulative_sum": {"buckets_path": "total"}}
        });
        let answer = days_answer(DAYS, &pipelines, &json!({})).unwrap();
        assert_eq!(answer["days"]["buckets"][2]["last"]["value"], 28.0);
    }

    #[test]
    fn refuses() {
        check_refused(json!({"bucket_script": {"buckets_path": "total"}}), "Required [script]");
        check_refused(
            json!({"bucket_script": {"script": "1"}}),
            "Missing required field [buckets_path] for aggregation [p]",
        );
        check_refused(
            json!({"bucket_script": {"buckets_path": {"a": 1}, "script": "1"}}),
            "Unexpected token VALUE_NUMBER [buckets_path] in [p].",
        );
        check_refused(
            json!({"bucket_script": {"buckets_path": "total", "script": {"id": "mine"}}}),
            "the stored script [mine] is not implemented by firn",
        );
    }
}
