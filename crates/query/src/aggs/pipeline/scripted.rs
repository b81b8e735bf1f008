//! Common part of `bucket_script` and `bucket_selector`: named paths and a script over them.

use firn_model::Result;
use serde_json::{Map, Value, json};

use super::common::{missing_field, required, unexpected};
use super::gap::GapPolicy;
use super::path::{Bound, BucketsPath};
use crate::aggs::Aggregations;
use crate::aggs::parse::Request;
use crate::expression::Script;

/// Variables and a script.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scripted {
    /// Path by variable name.
    pub(crate) variables: Vec<(String, BucketsPath)>,
    pub(crate) gap_policy: GapPolicy,
    pub(crate) script: Script,
}

impl Scripted {
    /// Parses both; passes further keys to `other`, which returns whether it knows them.
    pub(super) fn parse(request: &Request<'_>, mut other: impl FnMut(&str, &Value) -> Result<bool>) -> Result<Self> {
        let (mut variables, mut script, mut gap_policy) = (None, None, GapPolicy::default());
        for (key, value) in request.body {
            match key.as_str() {
                "buckets_path" => variables = Some(paths(request, value)?),
                "script" => script = Some(Script::parse(value)?),
                "gap_policy" => gap_policy = GapPolicy::parse(value)?,
                _ => {
                    if !other(key, value)? {
                        return Err(unexpected(request, key, value));
                    }
                }
            }
        }
        Ok(Self {
            variables: variables.ok_or_else(|| missing_field(request, "buckets_path"))?,
            gap_policy,
            script: script.ok_or_else(|| required("script"))?,
        })
    }

    pub(super) fn print(&self, body: &mut Map<String, Value>) {
        let variables = self.variables.iter();
        let paths: Map<String, Value> = variables
            .map(|(name, path)| (name.clone(), json!(path.text())))
            .collect();
        body.insert("buckets_path".into(), Value::Object(paths));
        body.insert("script".into(), self.script.print());
        body.insert("gap_policy".into(), json!(self.gap_policy.name()));
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &BucketsPath> {
        self.variables.iter().map(|(_, path)| path)
    }

    /// Returns the variables with their resolved paths.
    pub(super) fn bind(&self, sub: &Aggregations) -> Result<Vec<(&str, Bound)>> {
        let variables = self.variables.iter();
        variables
            .map(|(name, path)| Ok((name.as_str(), path.bind(sub)?)))
            .collect()
    }
}

/// Parses an object by variable name; a list names its variables `_value0` and so on, a single path `_value`.
fn paths(request: &Request<'_>, value: &Value) -> Result<Vec<(String, BucketsPath)>> {
    let path = |value: &Value| match value {
        Value::String(text) => BucketsPath::parse(text),
        other => Err(unexpected(request, "buckets_path", other)),
    };
    match value {
        Value::Object(named) => {
            let named = named.iter();
            named.map(|(name, value)| Ok((name.clone(), path(value)?))).collect()
        }
        Value::Array(values) => {
            let values = values.iter().enumerate();
            values
                .map(|(number, value)| Ok((format!("_value{number}"), path(value)?)))
                .collect()
        }
        one => Ok(vec![("_value".to_owned(), path(one)?)]),
    }
}
