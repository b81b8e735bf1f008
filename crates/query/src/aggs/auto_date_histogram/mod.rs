//! `auto_date_histogram` aggregation: time buckets, as wide as a maximum number of buckets requires.

mod answer;
mod ladder;

use firn_model::dates::{CalendarUnit, DateFormat, Zone};
use firn_model::{Error, Result};
use serde_json::{Value, json};

use super::AggregationKind;
use super::parse::{self, Request, unknown_field};

pub use answer::AutoDateHistogramPartial;
pub(super) use answer::answer;
pub use ladder::Ladder;

pub(super) const NAME: &str = "auto_date_histogram";

/// Default number of buckets.
const BUCKETS: u32 = 10;

/// Elasticsearch's limit: `search.max_buckets` divided by the most steps of a rung.
const BUCKETS_MAX: u32 = 65_536 / 30;

/// `auto_date_histogram`.
#[derive(Debug, Clone, PartialEq)]
pub struct AutoDateHistogram {
    /// Full path of a date field.
    pub field: String,
    /// Maximum buckets of the answer (default 10).
    pub buckets: u32,
    /// Minimum bucket width.
    pub minimum_interval: Option<CalendarUnit>,
    /// As written; `None`: UTC.
    pub time_zone: Option<String>,
    /// Date format of `key_as_string`; `None`: the field's.
    pub format: Option<String>,
    /// Value of documents without the field.
    pub missing: Option<Value>,
}

/// Accepted values of `minimum_interval`.
const MINIMUMS: &[(&str, CalendarUnit)] = &[
    ("second", CalendarUnit::Second),
    ("minute", CalendarUnit::Minute),
    ("hour", CalendarUnit::Hour),
    ("day", CalendarUnit::Day),
    ("month", CalendarUnit::Month),
    ("year", CalendarUnit::Year),
];

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut field = None;
    let mut auto = AutoDateHistogram {
        field: String::new(),
        buckets: BUCKETS,
        minimum_interval: None,
        time_zone: None,
        format: None,
        missing: None,
    };
    for (key, value) in request.body {
        match key.as_str() {
            "field" => field = Some(parse::text(NAME, key, value)?),
            "buckets" => auto.buckets = buckets(request, value)?,
            "minimum_interval" => {
                let text = parse::text(NAME, key, value)?;
                let found = MINIMUMS.iter().find(|(name, _)| *name == text);
                auto.minimum_interval = Some(found.map(|(_, unit)| *unit).ok_or_else(|| {
                    let names: Vec<&str> = MINIMUMS.iter().map(|(name, _)| *name).collect();
                    Error::illegal_argument(format!("minimum_interval must be one of [{}]", names.join(", ")))
                })?);
            }
            "time_zone" => {
                let text = parse::text(NAME, key, value)?;
                Zone::parse(&text)?;
                auto.time_zone = Some(text);
            }
            "format" => {
                let text = parse::text(NAME, key, value)?;
                DateFormat::new(&text)?;
                auto.format = Some(text);
            }
            "missing" => auto.missing = Some(parse::scalar(NAME, key, value)?),
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    auto.field = parse::required_field(field)?;
    Ok(AggregationKind::AutoDateHistogram(auto))
}

fn buckets(request: &Request<'_>, value: &Value) -> Result<u32> {
    let count = crate::json::as_i64(value).unwrap_or(0);
    if count < 1 {
        return Err(Error::illegal_argument(format!(
            "buckets must be greater than 0 for [{}]",
            request.name
        )));
    }
    match u32::try_from(count) {
        Ok(count) if count <= BUCKETS_MAX => Ok(count),
        _ => Err(Error::illegal_argument(format!(
            "buckets must be less than {BUCKETS_MAX}"
        ))),
    }
}

impl AutoDateHistogram {
    /// Returns the time zone.
    pub fn zone(&self) -> Result<Zone> {
        self.time_zone.as_deref().map_or_else(|| Ok(Zone::utc()), Zone::parse)
    }

    /// Returns the widths that the request allows.
    pub fn ladder(&self) -> Result<Ladder> {
        Ok(Ladder::new(self.zone()?, self.buckets, self.minimum_interval))
    }

    pub(super) fn print(&self) -> Value {
        let mut body = parse::body_of(&self.field);
        body.insert("buckets".into(), json!(self.buckets));
        let minimum = self.minimum_interval.and_then(|unit| {
            let named = MINIMUMS.iter().find(|(_, other)| *other == unit);
            named.map(|(name, _)| *name)
        });
        parse::put(&mut body, "minimum_interval", minimum);
        parse::put(&mut body, "time_zone", self.time_zone.as_ref());
        parse::put(&mut body, "format", self.format.as_ref());
        parse::put(&mut body, "missing", self.missing.as_ref());
        Value::Object(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"auto_date_histogram": {"field": "t"}}}));
        check_round_trip(json!({"x": {"auto_date_histogram": {
            "field": "t", "buckets": 5, "minimum_interval": "day", "time_zone": "Europe/Berlin", "format": "yyyy",
            "missing": "2020"
        }, "aggs": {"y": {"max": {"field": "b"}}}}}));
    }

    #[test]
    fn refuses() {
        let check = |body: Value, error: &str| check_refused(json!({"x": {"auto_date_histogram": body}}), error);
        check(
            json!({"field": "t", "buckets": 0}),
            "buckets must be greater than 0 for [x]",
        );
        check(json!({"field": "t", "buckets": 3000}), "buckets must be less than 2184");
        check(
            json!({"field": "t", "minimum_interval": "week"}),
            "minimum_interval must be one of [second, minute, hour, day, month, year]",
        );
        check(
            json!({"field": "t", "interval": "1d"}),
            "[auto_date_histogram] unknown field [interval]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"auto_date_histogram": {"field": "t"}}}), &["t"]);
    }
}
