//! Common part of `range`, `date_range` and `ip_range`.

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::finish::Finisher;
use super::finished::{Buckets, FinishedBucket, Keys};
use super::parse::{self, Request, unknown_field};
use super::{Aggregations, Bucket};
use crate::json::token;

/// Maximum ranges in one aggregation. Every value is compared with each, so this limits the work.
const RANGES_MAX: usize = 1024;

/// Request of `range`, `date_range` or `ip_range`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ranges {
    /// Full path.
    pub field: String,
    /// As listed in the request.
    pub ranges: Vec<RangeSpec>,
    /// Return buckets as an object by key.
    pub keyed: bool,
    /// Value of documents without the field.
    pub missing: Option<Value>,
    /// Format of the bounds; for dates also of those in the request.
    pub format: Option<String>,
    /// Time zone of dates without one; only for `date_range`.
    pub time_zone: Option<String>,
}

/// One range: `from` is included, `to` is not. Null is open.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RangeSpec {
    /// Bucket name; `None`: made from the bounds.
    pub key: Option<String>,
    /// As written.
    pub from: Value,
    /// As written.
    pub to: Value,
    /// `10.0.0.0/25` instead of bounds; only for `ip_range`.
    pub mask: Option<String>,
}

impl Ranges {
    /// Parses the body of the aggregation `kind`; `extra` are its additional parameters.
    pub(super) fn parse(request: &Request<'_>, kind: &str, extra: &[&str]) -> Result<Self> {
        let mut field = None;
        let mut ranges = Self::default();
        for (key, value) in request.body {
            match key.as_str() {
                "field" => field = Some(parse::text(kind, key, value)?),
                "keyed" => ranges.keyed = parse::flag(kind, key, value)?,
                "missing" => ranges.missing = Some(parse::scalar(kind, key, value)?),
                "ranges" => ranges.ranges = list(kind, value)?,
                "format" if extra.contains(&"format") => ranges.format = Some(parse::text(kind, key, value)?),
                "time_zone" if extra.contains(&"time_zone") => {
                    ranges.time_zone = Some(parse::text(kind, key, value)?);
                }
                _ => return Err(unknown_field(kind, key)),
            }
        }
        ranges.field = parse::required_field(field)?;
        if ranges.ranges.is_empty() {
            return Err(Error::illegal_argument(format!(
                "No [ranges] specified for the [{}] aggregation",
                request.name
            )));
        }
        Ok(ranges)
    }

    pub(super) fn print(&self) -> Value {
        let mut body = parse::body_of(&self.field);
        body.insert("ranges".into(), self.ranges.iter().map(RangeSpec::print).collect());
        parse::put_flag(&mut body, "keyed", self.keyed);
        parse::put(&mut body, "missing", self.missing.as_ref());
        parse::put(&mut body, "format", self.format.as_ref());
        parse::put(&mut body, "time_zone", self.time_zone.as_ref());
        Value::Object(body)
    }
}

fn list(kind: &str, value: &Value) -> Result<Vec<RangeSpec>> {
    let Value::Array(items) = value else {
        return Err(Error::parsing(format!(
            "[{kind}] ranges doesn't support values of type: {}",
            token(value)
        )));
    };
    if items.len() > RANGES_MAX {
        return Err(Error::illegal_argument(format!(
            "[{kind}] lists [{}] ranges, more than the allowed maximum of [{RANGES_MAX}]",
            items.len()
        )));
    }
    items.iter().map(|item| RangeSpec::parse(kind, item)).collect()
}

impl RangeSpec {
    fn parse(kind: &str, value: &Value) -> Result<Self> {
        let Value::Object(body) = value else {
            return Err(Error::parsing(format!(
                "[{kind}] expected [START_OBJECT] under [ranges], but got a [{}]",
                token(value)
            )));
        };
        let mut spec = Self::default();
        let bound = |key: &str, value: &Value| match value {
            Value::Null => Ok(Value::Null),
            value => parse::scalar(kind, key, value),
        };
        for (key, value) in body {
            match key.as_str() {
                "key" => spec.key = Some(parse::text(kind, key, value)?),
                "from" => spec.from = bound(key, value)?,
                "to" => spec.to = bound(key, value)?,
                "mask" if kind == super::ip_range::NAME => spec.mask = Some(parse::text(kind, key, value)?),
                _ => return Err(unknown_field(kind, key)),
            }
        }
        Ok(spec)
    }

    fn print(&self) -> Value {
        let mut body = Map::new();
        parse::put(&mut body, "key", self.key.as_ref());
        for (name, bound) in [("from", &self.from), ("to", &self.to)] {
            if !bound.is_null() {
                body.insert(name.into(), bound.clone());
            }
        }
        parse::put(&mut body, "mask", self.mask.as_ref());
        Value::Object(body)
    }
}

/// A range of the answer with its bucket.
pub(super) struct Row {
    pub(super) key: String,
    /// `from`, `from_as_string`, `to` and `to_as_string`, if they exist.
    pub(super) bounds: Vec<(&'static str, Value)>,
    pub(super) bucket: Bucket,
}

/// Returns the answer for sorted rows.
pub(super) fn answer_rows(
    finisher: &mut Finisher<'_>,
    type_name: &'static str,
    ranges: &Ranges,
    sub: &Aggregations,
    rows: Vec<Row>,
) -> Result<Buckets> {
    finisher.count(rows.len())?;
    let mut buckets = Vec::with_capacity(rows.len());
    for row in rows {
        buckets.push(FinishedBucket {
            key: row.key.into(),
            before: row.bounds,
            doc_count: row.bucket.doc_count,
            sub: finisher.level(sub, row.bucket.sub)?,
            ..FinishedBucket::default()
        });
    }
    Ok(Buckets {
        type_name,
        head: Vec::new(),
        tail: Vec::new(),
        keyed: ranges.keyed,
        keys: if ranges.keyed { Keys::Hidden } else { Keys::KeyFirst },
        buckets,
    })
}
