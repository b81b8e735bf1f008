//! `histogram` aggregation: a bucket per numeric interval.

mod answer;

use firn_model::{Error, Result};
use serde_json::{Value, json};

use super::order;
use super::parse::{self, Request, unknown_field};
use super::{AggregationKind, TermsOrder};
use crate::json::token;

pub use answer::HistogramPartial;
pub(super) use answer::answer;

pub(super) const NAME: &str = "histogram";

/// `histogram`.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Full path.
    pub field: String,
    /// Bucket width; above 0.
    pub interval: f64,
    /// Shift of the bucket starts.
    pub offset: f64,
    /// Default 0: empty buckets between the first and the last are returned.
    pub min_doc_count: u64,
    /// With `min_doc_count: 0`, empty buckets are returned up to these bounds.
    pub extended_bounds: DoubleBounds,
    /// No buckets exist outside these bounds.
    pub hard_bounds: DoubleBounds,
    /// Return buckets as an object by key.
    pub keyed: bool,
    /// Format of `key_as_string`.
    pub format: Option<String>,
    /// Value of documents without the field.
    pub missing: Option<Value>,
    /// Order of buckets; default key ascending. (key, ascending)
    pub order: Vec<(TermsOrder, bool)>,
}

/// Optional bounds, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[allow(missing_docs)]
pub struct DoubleBounds {
    pub min: Option<f64>,
    pub max: Option<f64>,
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut field = None;
    let mut histogram = Histogram {
        field: String::new(),
        interval: 0.0,
        offset: 0.0,
        min_doc_count: 0,
        extended_bounds: DoubleBounds::default(),
        hard_bounds: DoubleBounds::default(),
        keyed: false,
        format: None,
        missing: None,
        order: Vec::new(),
    };
    for (key, value) in request.body {
        match key.as_str() {
            "field" => field = Some(parse::text(NAME, key, value)?),
            "interval" => {
                histogram.interval = parse::double(NAME, key, value)?;
                if histogram.interval <= 0.0 {
                    return Err(Error::illegal_argument(format!(
                        "[interval] must be >0 for histogram aggregation [{}]",
                        request.name
                    )));
                }
            }
            "offset" => histogram.offset = parse::double(NAME, key, value)?,
            "min_doc_count" => histogram.min_doc_count = parse::number(request, NAME, key, value, 0)?,
            "extended_bounds" => histogram.extended_bounds = DoubleBounds::parse(key, value)?,
            "hard_bounds" => histogram.hard_bounds = DoubleBounds::parse(key, value)?,
            "keyed" => histogram.keyed = parse::flag(NAME, key, value)?,
            "format" => histogram.format = Some(parse::text(NAME, key, value)?),
            "missing" => histogram.missing = Some(parse::scalar(NAME, key, value)?),
            "order" => histogram.order = order::parse(value)?,
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    histogram.field = parse::required_field(field)?;
    if histogram.interval <= 0.0 {
        return Err(Error::illegal_argument("interval must be positive, got: 0.0"));
    }
    check_nesting(&histogram.extended_bounds, &histogram.hard_bounds)?;
    order::check(&histogram.order, request.sub)?;
    Ok(AggregationKind::Histogram(histogram))
}

fn check_nesting(extended: &DoubleBounds, hard: &DoubleBounds) -> Result<()> {
    let below = matches!((hard.min, extended.min), (Some(hard), Some(extended)) if extended < hard);
    let above = matches!((hard.max, extended.max), (Some(hard), Some(extended)) if extended > hard);
    if below || above {
        let text = |bounds: &DoubleBounds| {
            let side = |bound: Option<f64>| bound.map(super::key::double_text).unwrap_or_default();
            format!("{}--{}", side(bounds.min), side(bounds.max))
        };
        return Err(Error::illegal_argument(format!(
            "Extended bounds have to be inside hard bounds, hard bounds: [{}], extended bounds: [{}]",
            text(hard),
            text(extended)
        )));
    }
    Ok(())
}

/// Fails if a computed key is not finite.
pub(in crate::aggs) fn check_key(interval: f64, key: f64) -> Result<()> {
    match key.is_finite() {
        true => Ok(()),
        false => Err(Error::illegal_argument(format!(
            "[interval] [{}] of a histogram is too small for the field's values: the key of a bucket is not finite",
            super::key::double_text(interval)
        ))),
    }
}

impl DoubleBounds {
    fn parse(key: &str, value: &Value) -> Result<Self> {
        let mut bounds = Self::default();
        let body = match value {
            Value::Object(body) => body,
            Value::Null => return Ok(bounds),
            other => {
                return Err(Error::parsing(format!(
                    "[{NAME}] {key} doesn't support values of type: {}",
                    token(other)
                )));
            }
        };
        for (side, value) in body {
            let target = match side.as_str() {
                "min" => &mut bounds.min,
                "max" => &mut bounds.max,
                _ => return Err(Error::parsing(format!("[double_bounds] unknown field [{side}]"))),
            };
            if !value.is_null() {
                *target = Some(parse::double("double_bounds", side, value)?);
            }
        }
        if let (Some(min), Some(max)) = (bounds.min, bounds.max)
            && max < min
        {
            return Err(Error::illegal_argument(format!(
                "max bound [{}] must be greater than or equal to min bound [{}]",
                super::key::double_text(max),
                super::key::double_text(min)
            )));
        }
        Ok(bounds)
    }

    fn print(&self) -> Option<Value> {
        (*self != Self::default()).then(|| json!({"min": self.min, "max": self.max}))
    }

    /// Whether a value is within the bounds.
    pub fn contains(&self, value: f64) -> bool {
        self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max)
    }
}

impl Histogram {
    /// Returns the number of the bucket that holds a value: an integer; the key is the number times the interval plus
    /// the offset.
    pub fn number(&self, value: f64) -> f64 {
        ((value - self.offset) / self.interval).floor()
    }

    /// Returns the key of a bucket number.
    pub fn key(&self, number: f64) -> f64 {
        number * self.interval + self.offset
    }

    /// Fails if a bucket's number or key is not finite: the interval is too small for such large values.
    pub(super) fn check_number(&self, number: f64) -> Result<()> {
        check_key(self.interval, number).and(check_key(self.interval, self.key(number)))
    }

    /// Whether the hard bounds allow a bucket. As in Elasticsearch, the offset does not count here.
    pub fn is_within_hard_bounds(&self, number: f64) -> bool {
        self.hard_bounds.contains(number * self.interval)
    }

    pub(super) fn print(&self) -> Value {
        let mut body = parse::body_of(&self.field);
        body.insert("interval".into(), json!(self.interval));
        if self.offset != 0.0 {
            body.insert("offset".into(), json!(self.offset));
        }
        body.insert("min_doc_count".into(), json!(self.min_doc_count));
        parse::put(&mut body, "extended_bounds", self.extended_bounds.print());
        parse::put(&mut body, "hard_bounds", self.hard_bounds.print());
        parse::put_flag(&mut body, "keyed", self.keyed);
        parse::put(&mut body, "format", self.format.as_ref());
        parse::put(&mut body, "missing", self.missing.as_ref());
        order::put(&mut body, &self.order);
        Value::Object(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"histogram": {"field": "n", "interval": 5}}}));
        check_round_trip(json!({"x": {"histogram": {
            "field": "n", "interval": "0.5", "offset": -1, "min_doc_count": 2, "extended_bounds": {"min": 0, "max": 9},
            "hard_bounds": {"max": 20.5}, "keyed": true, "missing": 7, "order": {"_count": "desc"}
        }, "aggs": {"y": {"max": {"field": "m"}}}}}));
    }

    #[test]
    fn refuses() {
        let check = |body: Value, error: &str| check_refused(json!({"x": {"histogram": body}}), error);
        check(json!({"field": "n"}), "interval must be positive, got: 0.0");
        check(
            json!({"field": "n", "interval": -1}),
            "[interval] must be >0 for histogram aggregation [x]",
        );
        check(
            json!({"interval": 1}),
            "Required one of fields [field, script], but none were specified. ",
        );
        check(
            json!({"field": "n", "interval": 1, "min_doc_count": -1}),
            "[minDocCount] must be greater than or equal to 0. Found [-1] in [x]",
        );
        check(
            json!({"field": "n", "interval": "wide"}),
            "[histogram] interval doesn't support values of type: VALUE_STRING",
        );
        check(
            json!({"field": "n", "interval": 1, "hard_bounds": {"min": 5, "max": 1}}),
            "max bound [1.0] must be greater than or equal to min bound [5.0]",
        );
        check(
            json!({"field": "n", "interval": 1, "hard_bounds": {"low": 5}}),
            "[double_bounds] unknown field [low]",
        );
        check(
            json!({"field": "n", "interval": 1, "extended_bounds": {"min": 5, "max": 10}, "hard_bounds": {"min": 6, "max": 8}}),
            "Extended bounds have to be inside hard bounds, hard bounds: [6.0--8.0], extended bounds: [5.0--10.0]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"histogram": {"field": "a.b", "interval": 1}}}), &["a.b"]);
    }
}
