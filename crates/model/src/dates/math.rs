//! Date math: `now-1d/d`, `2026-01-01||+1M/d`. Follows Elasticsearch's `JavaDateMathParser`.

use super::civil::{DAY_MS, Date, add_months, date_of, days_from, weekday};
use super::format::DateFormat;
use super::zone::Zone;
use crate::{Error, ErrorKind, Result};

/// Range of date math, ms: some 290,000 years around the epoch, far inside the range of `i64`.
const MS_MAX: i64 = 1 << 53;

/// Nanoseconds in a millisecond.
const NANOS: i128 = 1_000_000;

/// Name of the current time in date math.
const NOW: &str = "now";

/// Whether a bound of a query depends on the current time: `now`, and `now` with date math (`now-1d/d`).
pub fn is_relative_to_now(text: &str) -> bool {
    let math = text.strip_prefix(NOW);
    math.is_some_and(|math| math.is_empty() || math.starts_with(['+', '-', '/']))
}

impl DateFormat {
    /// Parses a bound of a query: a date, optionally followed by `||` and date math, or `now` with date math. Dates
    /// without a zone are in `zone`, and math rounds in `zone`. With `round_up`, `/d` goes to the last ms of the day
    /// and missing parts of the time are filled with their last value (missing months and days with the first, as in
    /// Elasticsearch).
    ///
    /// An invalid text or a result out of range fails with [`ErrorKind::Parsing`].
    pub fn parse_math_ms(&self, text: &str, now_ms: i64, round_up: bool, zone: &Zone) -> Result<i64> {
        let nanos = self.parse_math_nanos(text, now_ms, round_up, zone)?;
        i64::try_from(nanos.div_euclid(NANOS)).map_err(|_| Error::new(ErrorKind::Parsing, self.failure(text).reason()))
    }

    /// Does the same to the nanosecond. Math moves by whole ms and preserves finer parts; rounding is to the ms.
    pub fn parse_math_nanos(&self, text: &str, now_ms: i64, round_up: bool, zone: &Zone) -> Result<i128> {
        if let Some(math) = text.strip_prefix(NOW) {
            return Ok(i128::from(evaluate(math, now_ms, round_up, zone)?) * NANOS);
        }
        let Some(at) = text.find("||") else {
            return self.bound_nanos(text, round_up, zone);
        };
        let start = self.bound_nanos(&text[..at], false, zone)?;
        let start_ms = i64::try_from(start.div_euclid(NANOS))
            .map_err(|_| Error::new(ErrorKind::Parsing, self.failure(text).reason()))?;
        let math = &text[at + 2..];
        let finer = if math.contains('/') { 0 } else { start.rem_euclid(NANOS) };
        Ok(i128::from(evaluate(math, start_ms, round_up, zone)?) * NANOS + finer)
    }

    fn bound_nanos(&self, text: &str, round_up: bool, zone: &Zone) -> Result<i128> {
        if text.is_empty() {
            return Err(Error::parsing("cannot parse empty datetime"));
        }
        self.instant(text, round_up, zone)
            .map(|instant| instant.to_nanos())
            .ok_or_else(|| Error::new(ErrorKind::Parsing, self.failure(text).reason()))
    }
}

/// Applies `+1d`, `-2h`, `/M`, … in order.
pub(crate) fn evaluate(math: &str, start_ms: i64, round_up: bool, zone: &Zone) -> Result<i64> {
    let mut ms = start_ms;
    let mut rest = math;
    while let Some(operator) = rest.bytes().next() {
        if !matches!(operator, b'+' | b'-' | b'/') {
            return Err(Error::parsing(format!("operator not supported for date math [{math}]")));
        }
        rest = &rest[1..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let truncated = || Error::parsing(format!("truncated date math [{math}]"));
        let count: i64 = match digits {
            0 => 1,
            1..=9 => rest[..digits].parse().map_err(|_| truncated())?,
            _ => return Err(Error::parsing(format!("a number of date math [{math}] is too large"))),
        };
        rest = &rest[digits..];
        let unit = rest.chars().next().ok_or_else(truncated)?;
        let after = &rest[unit.len_utf8()..];
        let unit = Unit::from_letter(unit)
            .ok_or_else(|| Error::parsing(format!("unit [{unit}] not supported for date math [{rest}]")))?;
        rest = after;
        if operator == b'/' {
            if digits > 0 && count != 1 {
                return Err(Error::parsing(format!(
                    "rounding `/` can only be used on single unit types [{math}]"
                )));
            }
            ms = unit.round(ms, zone);
            if round_up {
                ms = unit.add(ms, 1, zone) - 1;
            }
        } else {
            ms = unit.add(ms, if operator == b'+' { count } else { -count }, zone);
        }
        if !(-MS_MAX..=MS_MAX).contains(&ms) {
            return Err(Error::parsing(format!("date math [{math}] leads out of range")));
        }
    }
    Ok(ms)
}

#[derive(Clone, Copy)]
enum Unit {
    Years,
    Months,
    Weeks,
    Days,
    /// Hours, minutes and seconds, by their length in ms.
    Fixed(i64),
}

impl Unit {
    fn from_letter(letter: char) -> Option<Self> {
        Some(match letter {
            'y' => Unit::Years,
            'M' => Unit::Months,
            'w' => Unit::Weeks,
            'd' => Unit::Days,
            'h' | 'H' => Unit::Fixed(3_600_000),
            'm' => Unit::Fixed(60_000),
            's' => Unit::Fixed(1000),
            _ => return None,
        })
    }

    fn round(self, ms: i64, zone: &Zone) -> i64 {
        let offset_ms = zone.offset_ms_at(ms);
        let days = (ms + offset_ms).div_euclid(DAY_MS);
        let date = date_of(days);
        let first = match self {
            Unit::Fixed(length) => {
                return (ms + offset_ms).div_euclid(length) * length - offset_ms;
            }
            Unit::Days => days,
            Unit::Weeks => days - i64::from(weekday(days)),
            Unit::Months => days_from(Date { day: 1, ..date }),
            Unit::Years => days_from(Date {
                day: 1,
                month: 1,
                ..date
            }),
        };
        zone.to_utc(first * DAY_MS)
    }

    /// Hours and shorter units have a fixed length; days and longer units keep the local time.
    fn add(self, ms: i64, count: i64, zone: &Zone) -> i64 {
        let days = match self {
            Unit::Fixed(length) => return ms.saturating_add(count.saturating_mul(length)),
            Unit::Days => count,
            Unit::Weeks => count * 7,
            Unit::Months | Unit::Years => {
                let local_ms = ms + zone.offset_ms_at(ms);
                let months = if matches!(self, Unit::Years) { count * 12 } else { count };
                let date = add_months(date_of(local_ms.div_euclid(DAY_MS)), months);
                let new_ms = days_from(date)
                    .saturating_mul(DAY_MS)
                    .saturating_add(local_ms.rem_euclid(DAY_MS));
                return zone.to_utc(new_ms.clamp(-MS_MAX * 2, MS_MAX * 2));
            }
        };
        let local_ms = ms + zone.offset_ms_at(ms);
        let new_ms = local_ms.saturating_add(days.saturating_mul(DAY_MS));
        zone.to_utc(new_ms.clamp(-MS_MAX * 2, MS_MAX * 2))
    }
}
