//! `bucket_selector` pipeline: removes the buckets for which a script returns false.

use firn_model::Result;

use super::scripted::Scripted;
use super::{Needs, Parent, Pipeline};
use crate::aggs::Aggregations;
use crate::aggs::finished::Buckets;
use crate::aggs::parse::Request;
use crate::expression::{Scope, Steps};

pub(super) const NAME: &str = "bucket_selector";

/// `bucket_selector`.
#[derive(Debug, Clone, PartialEq)]
pub struct BucketSelector(pub(crate) Scripted);

pub(super) fn parse(request: &Request<'_>) -> Result<Pipeline> {
    let scripted = Scripted::parse(request, |_, _| Ok(false))?;
    Ok(Pipeline::BucketSelector(BucketSelector(scripted)))
}

impl Parent for BucketSelector {
    fn needs(&self) -> Needs {
        Needs::Buckets
    }

    fn apply(&self, _: usize, sub: &Aggregations, buckets: &mut Buckets, steps: &mut Steps) -> Result<()> {
        let paths = self.0.bind(sub)?;
        let mut selected = Vec::new();
        for bucket in std::mem::take(&mut buckets.buckets) {
            let mut variables = Vec::with_capacity(paths.len());
            for (name, path) in &paths {
                variables.push((*name, self.0.gap_policy.read(path, &bucket)?));
            }
            let scope = Scope {
                variables: &variables,
                values: &[],
            };
            if self.0.script.boolean(&scope, steps)? {
                selected.push(bucket);
            }
        }
        buckets.buckets = selected;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::test_support::{check_refused, days_answer, days_left};

    const DAYS: &[&[f64]] = &[&[1.0, 3.0], &[], &[10.0]];

    #[test]
    fn answers() {
        let left = |body: Value| days_left(DAYS, json!({"bucket_selector": body}));
        assert_eq!(
            left(json!({"buckets_path": {"t": "total"}, "script": "params.t > 4"})),
            [3]
        );
        assert_eq!(
            left(json!({"buckets_path": {"t": "total"}, "script": "params.t <= 4"})),
            [1]
        );
        assert_eq!(
            left(json!({"buckets_path": {"t": "total"}, "script": "params.t <= 4", "gap_policy": "insert_zeros"})),
            [1, 2]
        );
        assert_eq!(
            left(json!({"buckets_path": "_count", "script": {"lang": "expression", "source": "_value"}})),
            [1, 3]
        );
        assert_eq!(
            left(json!({
                "buckets_path": {"t": "total"}, "script": {"source": "params.t > params.least", "params": {"least": 4}}
            })),
            [3]
        );
    }

    #[test]
    fn prints_no_value() {
        let selector = json!({"p": {"bucket_selector": {"buckets_path": "_count", "script": "params._value > 0"}}});
        let answer = days_answer(DAYS, &selector, &json!({})).unwrap();
        assert!(answer["days"]["buckets"][0].get("p").is_none());
    }

    #[test]
    fn fails_if_the_script_fails() {
        let selector = json!({"p": {"bucket_selector": {"buckets_path": {"a": "total"}, "script": "params.b > 1"}}});
        let error = days_answer(DAYS, &selector, &json!({})).unwrap_err();
        assert_eq!(error.reason(), "runtime error");
        let selector = json!({"p": {"bucket_selector": {"buckets_path": {"a": "total"}, "script": "params.a"}}});
        let error = days_answer(DAYS, &selector, &json!({})).unwrap_err();
        assert_eq!(
            error.cause().unwrap().reason(),
            "Cannot cast from [double] to [boolean]."
        );
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"bucket_selector": {"buckets_path": "total", "script": "true", "format": "0"}}),
            "Unexpected token VALUE_STRING [format] in [p].",
        );
    }
}
