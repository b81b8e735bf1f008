//! What pipelines read and print alike.

use serde_json::{Map, Value, json};

use super::gap::GapPolicy;
use super::path::BucketsPath;
use crate::aggs::DecimalFormat;
use crate::aggs::finished::{Buckets, Finished};
use crate::aggs::key::float;
use crate::aggs::parse::Request;
use crate::json::{as_i64, token};
use crate::{Error, Result};

/// One path, a gap policy and a format.
#[derive(Debug, Clone, PartialEq)]
pub struct Common {
    /// `buckets_path`.
    pub path: BucketsPath,
    /// `gap_policy`.
    pub gap_policy: GapPolicy,
    /// Pattern of `value_as_string`.
    pub format: Option<DecimalFormat>,
}

impl Common {
    /// Reads what all have; the rest goes to `other`, which says whether it knows the key.
    pub(super) fn parse(request: &Request<'_>, mut other: impl FnMut(&str, &Value) -> Result<bool>) -> Result<Self> {
        let mut path = None;
        let (mut gap_policy, mut format) = (GapPolicy::default(), None);
        for (key, value) in request.body {
            match key.as_str() {
                "buckets_path" => path = Some(one_path(request, value)?),
                "gap_policy" => gap_policy = GapPolicy::parse(value)?,
                "format" => format = Some(pattern(request, value)?),
                _ => {
                    if !other(key, value)? {
                        return Err(unknown_key(request, key, value));
                    }
                }
            }
        }
        let path = path.ok_or_else(|| missing_field(request, "buckets_path"))?;
        Ok(Self {
            path: BucketsPath::parse(&path)?,
            gap_policy,
            format,
        })
    }

    pub(super) fn print(&self, body: &mut Map<String, Value>) {
        body.insert("buckets_path".into(), json!(self.path.text()));
        body.insert("gap_policy".into(), json!(self.gap_policy.name()));
        if let Some(format) = &self.format {
            body.insert("format".into(), json!(format.pattern()));
        }
    }

    /// `{"value": …}`.
    pub(super) fn simple_value(&self, value: f64) -> Map<String, Value> {
        simple_value(value, self.format.as_ref())
    }
}

/// `{"value": …, "value_as_string": …}`; null for what is no number.
pub(super) fn simple_value(value: f64, format: Option<&DecimalFormat>) -> Map<String, Value> {
    let mut printed = Map::new();
    put_value(&mut printed, "value", value, format);
    printed
}

/// Puts a number as `name`, and as text if there is a format; null for what is no number.
pub(super) fn put_value(printed: &mut Map<String, Value>, name: &str, value: f64, format: Option<&DecimalFormat>) {
    let value = Some(value).filter(|value| value.is_finite());
    printed.insert(name.to_owned(), value.map_or(Value::Null, float));
    if let (Some(value), Some(format)) = (value, format) {
        printed.insert(format!("{name}_as_string"), format.print(value).into());
    }
}

/// Puts an answer into the bucket at `number`.
pub(super) fn put_answer(buckets: &mut Buckets, number: usize, place: usize, printed: Map<String, Value>) {
    let answer = buckets
        .buckets
        .get_mut(number)
        .and_then(|bucket| bucket.sub.0.get_mut(place));
    if let Some(answer) = answer {
        *answer = Finished::Metric(printed);
    }
}

fn one_path(request: &Request<'_>, value: &Value) -> Result<String> {
    match value {
        Value::String(path) => Ok(path.clone()),
        Value::Array(paths) => match paths.as_slice() {
            [Value::String(path)] => Ok(path.clone()),
            _ => Err(validation(format!(
                "buckets_path must contain a single entry for aggregation [{}]",
                request.name
            ))),
        },
        other => Err(unexpected(request, "buckets_path", other)),
    }
}

pub(super) fn pattern(request: &Request<'_>, value: &Value) -> Result<DecimalFormat> {
    match value {
        Value::String(pattern) => DecimalFormat::new(pattern),
        other => Err(unexpected(request, "format", other)),
    }
}

/// A whole number that is at least `least`.
pub(super) fn whole(
    request: &Request<'_>,
    key: &str,
    value: &Value,
    least: i64,
    refusal: impl Fn(i64) -> String,
) -> Result<usize> {
    let number = as_i64(value).ok_or_else(|| unexpected(request, key, value))?;
    if number < least || number > i64::from(i32::MAX) {
        return Err(Error::illegal_argument(refusal(number)));
    }
    Ok(number as usize)
}

/// A required field that is not there.
pub(super) fn missing_field(request: &Request<'_>, key: &str) -> Error {
    Error::parsing(format!(
        "Missing required field [{key}] for aggregation [{}]",
        request.name
    ))
}

/// A required field that is not there, where a declarative parser of Elasticsearch misses it.
pub(super) fn required(key: &str) -> Error {
    Error::illegal_argument(format!("Required [{key}]"))
}

/// A value of the wrong type.
pub(super) fn unexpected(request: &Request<'_>, key: &str, value: &Value) -> Error {
    Error::parsing(format!(
        "Unexpected token {} [{key}] in [{}].",
        token(value),
        request.name
    ))
}

fn unknown_key(request: &Request<'_>, key: &str, value: &Value) -> Error {
    Error::parsing(format!(
        "Unknown key for a {} in [{}]: [{key}].",
        token(value),
        request.name
    ))
}

/// One problem in Elasticsearch's numbered sentence.
pub(super) fn validation(problem: impl std::fmt::Display) -> Error {
    Error::new(
        crate::ErrorKind::RequestValidation,
        format!("Validation Failed: 1: {problem};"),
    )
}
