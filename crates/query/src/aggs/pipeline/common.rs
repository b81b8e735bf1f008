//! Parsing and printing that pipelines share.

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::gap::GapPolicy;
use super::path::BucketsPath;
use crate::aggs::DecimalFormat;
use crate::aggs::finished::{Buckets, Finished};
use crate::aggs::key::float;
use crate::aggs::parse::Request;
use crate::json::{as_i64, token};

/// Common options: one path, a gap policy and a format.
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
    /// Parses the common options; passes further keys to `other`, which returns whether it knows them.
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

    /// Returns `{"value": …}`.
    pub(super) fn simple_value(&self, value: f64) -> Map<String, Value> {
        simple_value(value, self.format.as_ref())
    }
}

/// Returns `{"value": …, "value_as_string": …}`; null if the value is not finite.
pub(super) fn simple_value(value: f64, format: Option<&DecimalFormat>) -> Map<String, Value> {
    let mut printed = Map::new();
    put_value(&mut printed, "value", value, format);
    printed
}

/// Inserts a number as `name`, and as text if there is a format; null if it is not finite.
pub(super) fn put_value(printed: &mut Map<String, Value>, name: &str, value: f64, format: Option<&DecimalFormat>) {
    let value = Some(value).filter(|value| value.is_finite());
    printed.insert(name.to_owned(), value.map_or(Value::Null, float));
    if let (Some(value), Some(format)) = (value, format) {
        printed.insert(format!("{name}_as_string"), format.print(value).into());
    }
}

/// Inserts an answer into the bucket at `number`.
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

/// Parses an integer that is at least `least`.
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

/// Returns the error for a missing required field.
pub(super) fn missing_field(request: &Request<'_>, key: &str) -> Error {
    Error::parsing(format!(
        "Missing required field [{key}] for aggregation [{}]",
        request.name
    ))
}

/// Returns the error for a missing required field, as Elasticsearch's declarative parsers print it.
pub(super) fn required(key: &str) -> Error {
    Error::illegal_argument(format!("Required [{key}]"))
}

/// Returns the error for a value of the wrong type.
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

/// Returns Elasticsearch's validation error with one numbered problem.
pub(super) fn validation(problem: impl std::fmt::Display) -> Error {
    Error::new(
        firn_model::ErrorKind::RequestValidation,
        format!("Validation Failed: 1: {problem};"),
    )
}
