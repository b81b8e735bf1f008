//! Dates: formats, date math, time zones, and rounding down to an interval.
//!
//! All instants are ms since the epoch in UTC (`i64`) unless a name says `nanos`.

use crate::Result;

/// A parsed `format` (`strict_date_optional_time||epoch_millis`, `yyyy-MM-dd HH:mm:ss`, …).
#[derive(Debug, Clone, PartialEq)]
pub struct DateFormat {
    pattern: String,
}

impl DateFormat {
    /// Parses a format; alternatives are separated by `||`.
    pub fn new(pattern: &str) -> Result<Self> {
        Ok(Self {
            pattern: pattern.to_owned(),
        })
    }
    /// `strict_date_optional_time||epoch_millis`.
    pub fn default_millis() -> Self {
        todo!()
    }
    /// The second of Elasticsearch's formats for dynamic dates.
    pub(crate) fn slashes() -> Self {
        todo!()
    }
    /// Whether a string parses.
    pub fn matches(&self, text: &str) -> bool {
        self.parse_nanos(text).is_ok()
    }
    /// As written.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }
    /// A string value of a document, as nanoseconds since the epoch. The hot path of indexing:
    /// ISO 8601 without allocation.
    pub fn parse_nanos(&self, _text: &str) -> Result<i128> {
        todo!()
    }
    /// A string value of a document, ms.
    pub fn parse_ms(&self, _text: &str) -> Result<i64> {
        todo!()
    }
    /// A bound of a query: a date, maybe followed by `||` and date math, or `now` with date math.
    /// Missing parts are filled towards the end of their unit if `round_up`.
    pub fn parse_math_ms(&self, _text: &str, _now_ms: i64, _round_up: bool, _zone: &Zone) -> Result<i64> {
        todo!()
    }
    /// Prints with the first alternative.
    pub fn print_ms(&self, _ms: i64, _zone: &Zone) -> String {
        todo!()
    }
    /// Prints nanoseconds (`date_nanos`).
    pub fn print_nanos(&self, _nanos: i64, _zone: &Zone) -> String {
        todo!()
    }
}

/// A time zone: UTC, an offset, or a name from the tz database.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone(jiff::tz::TimeZone);

impl Zone {
    /// UTC.
    pub fn utc() -> Self {
        Self(jiff::tz::TimeZone::UTC)
    }
    /// `Z`, `UTC`, `+01:00`, `Europe/Berlin`.
    pub fn parse(_text: &str) -> Result<Self> {
        todo!()
    }
}

/// A calendar unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CalendarUnit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

/// The width of a date histogram's bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interval {
    /// `fixed_interval`, ms, at least 1.
    Fixed(i64),
    /// `calendar_interval`.
    Calendar(CalendarUnit),
}

/// Rounds instants down to the start of their bucket.
#[derive(Debug, Clone)]
pub struct Rounding {
    _interval: Interval,
}

impl Rounding {
    /// Buckets of `interval` in `zone`, their starts moved by `offset_ms`.
    pub fn new(_interval: Interval, _zone: Zone, _offset_ms: i64) -> Self {
        todo!()
    }
    /// The start of the bucket that holds `ms`. Fast for fixed intervals and for zones without a
    /// transition in sight; callers keep (start, next) and only call again outside of it.
    pub fn round_down(&self, _ms: i64) -> i64 {
        todo!()
    }
    /// The start of the bucket after the one that starts at `start_ms`.
    pub fn next(&self, _start_ms: i64) -> i64 {
        todo!()
    }
}

/// `30s`, `1.5h`, `100ms`, `2d`, `500micros`, `10nanos`, `-1` is an error: a time value of Elasticsearch, in ms
/// (fractions of an ms are rounded up to 1).
pub fn parse_duration_ms(_text: &str) -> Result<u64> {
    todo!()
}
