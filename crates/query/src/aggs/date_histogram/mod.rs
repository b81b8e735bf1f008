//! `date_histogram` aggregation: a bucket per time interval.

mod answer;

use firn_model::dates::{CalendarUnit, DateFormat, Rounding, Zone, parse_duration_ms};
use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::order;
use super::parse::{self, Request, unknown_field};
use super::{AggregationKind, TermsOrder};
use crate::json::token;

pub use answer::DateHistogramPartial;
pub(super) use answer::answer;

pub(super) const NAME: &str = "date_histogram";

/// `date_histogram`.
#[derive(Debug, Clone, PartialEq)]
pub struct DateHistogram {
    /// Full path of a date field.
    pub field: String,
    /// Bucket width.
    pub interval: Interval,
    /// As written; `None`: UTC.
    pub time_zone: Option<String>,
    /// Shift of the bucket starts, ms.
    pub offset_ms: i64,
    /// Default 0: empty buckets between the first and the last are returned.
    pub min_doc_count: u64,
    /// `extended_bounds`, as written (dates or ms); a missing side is null.
    pub extended_bounds: Option<(Value, Value)>,
    /// `hard_bounds`, as written; a missing side is null.
    pub hard_bounds: Option<(Value, Value)>,
    /// Return buckets as an object by key.
    pub keyed: bool,
    /// Date format of `key_as_string`; `None`: the field's.
    pub format: Option<String>,
    /// Value of documents without the field.
    pub missing: Option<Value>,
    /// Order of buckets; default key ascending. (key, ascending)
    pub order: Vec<(TermsOrder, bool)>,
}

/// Bucket width of a date histogram.
pub use firn_model::dates::Interval;

/// Instants and widths end at 100 million days from the epoch, as in ECMAScript: beyond any event, and small enough
/// that sums of several do not overflow an i64.
const INSTANT_MAX_MS: i64 = 8_640_000_000_000_000;

fn is_instant(ms: i64) -> bool {
    (-INSTANT_MAX_MS..=INSTANT_MAX_MS).contains(&ms)
}

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut field = None;
    let mut interval: Option<(&str, Interval)> = None;
    let mut histogram = DateHistogram {
        field: String::new(),
        interval: Interval::Fixed(1),
        time_zone: None,
        offset_ms: 0,
        min_doc_count: 0,
        extended_bounds: None,
        hard_bounds: None,
        keyed: false,
        format: None,
        missing: None,
        order: Vec::new(),
    };
    for (key, value) in request.body {
        match key.as_str() {
            "field" => field = Some(parse::text(NAME, key, value)?),
            "fixed_interval" | "calendar_interval" => {
                let text = parse::text(NAME, key, value)?;
                let parsed = if key == "fixed_interval" {
                    fixed_interval(&text)?
                } else {
                    Interval::Calendar(calendar_interval(&text)?)
                };
                if let Some((first, _)) = interval.replace((key, parsed)) {
                    return Err(Error::illegal_argument(format!(
                        "Cannot use [{key}] with [{first}] configuration option."
                    )));
                }
            }
            "interval" => {
                return Err(Error::parsing(format!(
                    "[{NAME}] unknown field [interval]: use [fixed_interval] or [calendar_interval]"
                )));
            }
            "time_zone" => {
                let text = parse::text(NAME, key, value)?;
                Zone::parse(&text)?;
                histogram.time_zone = Some(text);
            }
            "offset" => histogram.offset_ms = offset(value)?,
            "min_doc_count" => histogram.min_doc_count = parse::number(request, NAME, key, value, 0)?,
            "extended_bounds" => histogram.extended_bounds = bounds(key, value)?,
            "hard_bounds" => histogram.hard_bounds = bounds(key, value)?,
            "keyed" => histogram.keyed = parse::flag(NAME, key, value)?,
            "format" => {
                let text = parse::text(NAME, key, value)?;
                DateFormat::new(&text)?;
                histogram.format = Some(text);
            }
            "missing" => histogram.missing = Some(parse::scalar(NAME, key, value)?),
            "order" => histogram.order = order::parse(value)?,
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    histogram.field = parse::required_field(field)?;
    histogram.interval = match interval {
        Some((_, interval)) => interval,
        None => {
            return Err(Error::illegal_argument(
                "Invalid interval specified, must be non-null and non-empty",
            ));
        }
    };
    order::check(&histogram.order, request.sub)?;
    Ok(AggregationKind::DateHistogram(histogram))
}

pub(super) fn fixed_interval(text: &str) -> Result<Interval> {
    let wrong = || {
        Error::illegal_argument(format!(
            "failed to parse setting [{NAME}.fixedInterval] with value [{text}] as a time value"
        ))
    };
    // `M` means months, which have no fixed length, never minutes.
    if text.trim_end().ends_with('M') {
        return Err(wrong());
    }
    let ms = parse_duration_ms(text).map_err(|cause| wrong().caused_by(cause))?;
    match i64::try_from(ms) {
        Ok(ms) if (1..=INSTANT_MAX_MS).contains(&ms) => Ok(Interval::Fixed(ms)),
        Ok(1..) | Err(_) => Err(wrong()),
        Ok(_) => Err(Error::illegal_argument("Zero or negative time interval not supported")),
    }
}

/// Names of calendar units; the first is printed.
const CALENDAR_UNITS: &[(CalendarUnit, [&str; 2])] = &[
    (CalendarUnit::Second, ["1s", "second"]),
    (CalendarUnit::Minute, ["1m", "minute"]),
    (CalendarUnit::Hour, ["1h", "hour"]),
    (CalendarUnit::Day, ["1d", "day"]),
    (CalendarUnit::Week, ["1w", "week"]),
    (CalendarUnit::Month, ["1M", "month"]),
    (CalendarUnit::Quarter, ["1q", "quarter"]),
    (CalendarUnit::Year, ["1y", "year"]),
];

pub(super) fn calendar_interval(text: &str) -> Result<CalendarUnit> {
    let found = CALENDAR_UNITS.iter().find(|(_, names)| names.contains(&text));
    match found {
        Some((unit, _)) => Ok(*unit),
        None => Err(Error::illegal_argument(format!(
            "The supplied interval [{text}] could not be parsed as a calendar interval."
        ))),
    }
}

/// Parses `+6h`, `-1d`, or ms.
pub(super) fn offset(value: &Value) -> Result<i64> {
    let wrong = || {
        Error::parsing(format!(
            "[{NAME}] failed to parse field [offset]: {value} is not a time value"
        ))
    };
    let ms = match value {
        Value::Number(number) => number.as_i64().ok_or_else(wrong)?,
        Value::String(text) => {
            let (sign, text) = match text.strip_prefix('-') {
                Some(rest) => (-1, rest),
                None => (1, text.strip_prefix('+').unwrap_or(text)),
            };
            let ms = parse_duration_ms(text).map_err(|cause| wrong().caused_by(cause))?;
            sign * i64::try_from(ms).map_err(|_| wrong())?
        }
        _ => return Err(wrong()),
    };
    if is_instant(ms) { Ok(ms) } else { Err(wrong()) }
}

fn bounds(key: &str, value: &Value) -> Result<Option<(Value, Value)>> {
    let Value::Object(body) = value else {
        return match value {
            Value::Null => Ok(None),
            _ => Err(Error::parsing(format!(
                "[{NAME}] {key} doesn't support values of type: {}",
                token(value)
            ))),
        };
    };
    let (mut min, mut max) = (Value::Null, Value::Null);
    for (side, value) in body {
        let target = match side.as_str() {
            "min" => &mut min,
            "max" => &mut max,
            _ => return Err(Error::parsing(format!("[bounds] unknown field [{side}]"))),
        };
        match value {
            Value::String(_) | Value::Number(_) | Value::Null => *target = value.clone(),
            _ => {
                return Err(Error::parsing(format!(
                    "[bounds] {side} doesn't support values of type: {}",
                    token(value)
                )));
            }
        }
    }
    Ok(Some((min, max)))
}

/// Inserts `fixed_interval` or `calendar_interval`.
pub(super) fn print_interval(interval: Interval, body: &mut Map<String, Value>) {
    match interval {
        Interval::Fixed(ms) => body.insert("fixed_interval".into(), json!(format!("{ms}ms"))),
        Interval::Calendar(unit) => body.insert("calendar_interval".into(), json!(unit.name())),
    };
}

/// Inclusive lower and exclusive or inclusive upper bound, each optional, ms since epoch UTC.
type BoundsMs = (Option<i64>, Option<i64>);

impl DateHistogram {
    /// Returns the time zone.
    pub fn zone(&self) -> Result<Zone> {
        self.time_zone.as_deref().map_or_else(|| Ok(Zone::utc()), Zone::parse)
    }

    /// Returns the rounding of instants to bucket starts.
    pub fn rounding(&self) -> Result<Rounding> {
        Ok(Rounding::new(self.interval, self.zone()?, self.offset_ms))
    }

    /// Returns `hard_bounds` in ms: no bucket starts before the first or at or after the second.
    /// [`crate::aggs::Aggregations::finish`] drops such buckets too; with the bounds the engine does not create them.
    pub fn hard_bounds_ms(&self, format: &DateFormat, now_ms: Option<i64>) -> Result<BoundsMs> {
        self.resolve(self.hard_bounds.as_ref(), format, now_ms)
    }

    fn resolve(&self, bounds: Option<&(Value, Value)>, format: &DateFormat, now_ms: Option<i64>) -> Result<BoundsMs> {
        let Some((min, max)) = bounds else {
            return Ok((None, None));
        };
        let zone = self.zone()?;
        let side = |value: &Value| match value {
            Value::Null => Ok(None),
            Value::Number(number) => match number.as_i64() {
                Some(ms) => Ok(Some(ms)),
                None => Err(Error::illegal_argument(format!("bound [{number}] is not a date"))),
            },
            Value::String(text) => {
                if now_ms.is_none() && text.starts_with("now") {
                    return Err(Error::not_implemented(format!("bound [{text}] relative to now")));
                }
                format.parse_math_ms(text, now_ms.unwrap_or(0), false, &zone).map(Some)
            }
            other => Err(Error::illegal_argument(format!("bound [{other}] is not a date"))),
        };
        let (min, max) = (side(min)?, side(max)?);
        match min.into_iter().chain(max).find(|ms| !is_instant(*ms)) {
            Some(ms) => Err(Error::illegal_argument(format!("bound [{ms}] is out of range"))),
            None => Ok((min, max)),
        }
    }

    pub(super) fn print(&self) -> Value {
        let mut body = parse::body_of(&self.field);
        print_interval(self.interval, &mut body);
        let bounds = |bounds: &(Value, Value)| json!({"min": bounds.0, "max": bounds.1});
        parse::put(&mut body, "time_zone", self.time_zone.as_ref());
        if self.offset_ms != 0 {
            body.insert("offset".into(), json!(self.offset_ms));
        }
        body.insert("min_doc_count".into(), json!(self.min_doc_count));
        parse::put(&mut body, "extended_bounds", self.extended_bounds.as_ref().map(bounds));
        parse::put(&mut body, "hard_bounds", self.hard_bounds.as_ref().map(bounds));
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
        check_round_trip(json!({"x": {"date_histogram": {"field": "t", "fixed_interval": "30s"}}}));
        for names in CALENDAR_UNITS.iter().map(|(_, names)| names) {
            for name in names {
                check_round_trip(json!({"x": {"date_histogram": {"field": "t", "calendar_interval": name}}}));
            }
        }
        check_round_trip(json!({"x": {"date_histogram": {
            "field": "t", "fixed_interval": "1d", "time_zone": "+01:00", "offset": "-6h", "min_doc_count": 1,
            "extended_bounds": {"min": "2020-01-01", "max": 5}, "hard_bounds": {"min": 0}, "keyed": true,
            "format": "yyyy-MM-dd", "missing": "2000-01-01", "order": {"_count": "desc"}
        }}}));
    }

    #[test]
    fn refuses() {
        let check = |body: Value, error: &str| check_refused(json!({"x": {"date_histogram": body}}), error);
        check(
            json!({"field": "t"}),
            "Invalid interval specified, must be non-null and non-empty",
        );
        check(
            json!({"fixed_interval": "1d"}),
            "Required one of fields [field, script], but none were specified. ",
        );
        check(
            json!({"field": "t", "interval": "1d"}),
            "[date_histogram] unknown field [interval]: use [fixed_interval] or [calendar_interval]",
        );
        check(
            json!({"field": "t", "calendar_interval": "2d"}),
            "The supplied interval [2d] could not be parsed as a calendar interval.",
        );
        check(
            json!({"field": "t", "fixed_interval": "1M"}),
            "failed to parse setting [date_histogram.fixedInterval] with value [1M] as a time value",
        );
        check(
            json!({"field": "t", "fixed_interval": "0s"}),
            "Zero or negative time interval not supported",
        );
        check(
            json!({"field": "t", "fixed_interval": "1d", "calendar_interval": "1d"}),
            "Cannot use [calendar_interval] with [fixed_interval] configuration option.",
        );
        check(
            json!({"field": "t", "fixed_interval": "1d", "extended_bounds": {"low": 1}}),
            "[bounds] unknown field [low]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"x": {"date_histogram": {"field": "t", "fixed_interval": "1d"}}}),
            &["t"],
        );
    }
}
