//! Schedules: Elasticsearch's cron expressions (in UTC), or an interval.
//!
//! No crate reads exactly this dialect of Quartz: `croner` refuses ranges that wrap around (`FRI-MON`) and takes years
//! up to 5000, `cron` needs a second date library, `cronexpr` has no seconds.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::dates::parse_duration_ms;
use crate::{Error, Result};

/// Maximum days of the search for the next time: the rarest one is a leap day on a given weekday.
const DAYS_MAX: u32 = 366 * 41;

/// Schedule of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// As the user typed it.
    text: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Interval in ms.
    Every(u64),
    Cron(Box<Cron>),
}

/// Allowed values of each field.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cron {
    seconds: Vec<i64>,
    minutes: Vec<i64>,
    hours: Vec<i64>,
    days: Vec<i64>,
    months: Vec<i64>,
    /// 1 is Sunday.
    weekdays: Vec<i64>,
    years: Vec<i64>,
}

impl Schedule {
    /// Reads `0 30 1 * * ?` (seconds, minutes, hours, day of the month, month, day of the week, optional year) or
    /// `30m`.
    pub fn parse(text: &str) -> Result<Self> {
        let kind = match parse_duration_ms(text) {
            Ok(0) => {
                return Err(Error::illegal_argument(format!(
                    "invalid schedule [{text}]: the interval must not be zero"
                )));
            }
            Ok(ms) => Kind::Every(ms),
            Err(_) => Kind::Cron(Box::new(Cron::parse(text)?)),
        };
        let text = text.to_owned();
        Ok(Self { text, kind })
    }

    /// Returns the schedule as typed.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the time between its next two times, ms; `None`: there are not two.
    pub fn next_interval_ms(&self, now_ms: i64) -> Option<i64> {
        let first = self.next_after(now_ms, now_ms)?;
        Some(self.next_after(first, now_ms)? - first)
    }

    /// Returns the first time after `ms` (both ms since epoch UTC); intervals count from `origin_ms`. `None`: never.
    pub fn next_after(&self, ms: i64, origin_ms: i64) -> Option<i64> {
        match &self.kind {
            Kind::Every(interval_ms) => {
                let interval_ms = i64::try_from(*interval_ms).ok()?;
                let done = ms.saturating_sub(origin_ms).max(0) / interval_ms;
                origin_ms.checked_add((done + 1).checked_mul(interval_ms)?)
            }
            Kind::Cron(cron) => cron.next_after(ms),
        }
    }
}

impl Cron {
    fn parse(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let bad = |why: String| Error::illegal_argument(format!("invalid schedule [{text}]: {why}"));
        if !(6..=7).contains(&parts.len()) {
            return Err(bad(
                "expected 6 or 7 parts of a cron expression, or an interval".to_owned()
            ));
        }
        let part = |place: usize, bounds: (i64, i64), names: &[&str]| {
            values(parts.get(place).copied().unwrap_or("*"), bounds, names).map_err(bad)
        };
        if parts[3] != "?" && parts[5] != "?" {
            let why = "support for specifying both a day-of-week AND a day-of-month parameter is not implemented.";
            return Err(bad(why.to_owned()));
        }
        Ok(Self {
            seconds: part(0, (0, 59), &[])?,
            minutes: part(1, (0, 59), &[])?,
            hours: part(2, (0, 23), &[])?,
            days: part(3, (1, 31), &[])?,
            months: part(4, (1, 12), MONTHS)?,
            weekdays: part(5, (1, 7), WEEKDAYS)?,
            years: part(6, (1970, 2199), &[])?,
        })
    }

    fn next_after(&self, ms: i64) -> Option<i64> {
        let start = Timestamp::from_millisecond(ms.div_euclid(1000).checked_add(1)?.checked_mul(1000)?).ok()?;
        let start = start.to_zoned(TimeZone::UTC).datetime();
        let mut date = start.date();
        let time = start.time();
        let mut earliest = (
            i64::from(time.hour()),
            i64::from(time.minute()),
            i64::from(time.second()),
        );
        for _ in 0..DAYS_MAX {
            if self.has_day(date)
                && let Some((hour, minute, second)) = self.first_at_or_after(earliest)
            {
                let at = date.at(hour as i8, minute as i8, second as i8, 0);
                return Some(at.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond());
            }
            date = date.checked_add(1.day()).ok()?;
            earliest = (0, 0, 0);
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        self.years.contains(&i64::from(date.year()))
            && self.months.contains(&i64::from(date.month()))
            && self.days.contains(&i64::from(date.day()))
            && self
                .weekdays
                .contains(&i64::from(date.weekday().to_sunday_one_offset()))
    }

    fn first_at_or_after(&self, (hour, minute, second): (i64, i64, i64)) -> Option<(i64, i64, i64)> {
        for &next_hour in self.hours.iter().filter(|next| **next >= hour) {
            let minute = if next_hour == hour { minute } else { 0 };
            for &next_minute in self.minutes.iter().filter(|next| **next >= minute) {
                let is_same = next_hour == hour && next_minute == minute;
                let second = if is_same { second } else { 0 };
                if let Some(next) = self.seconds.iter().find(|next| **next >= second) {
                    return Some((next_hour, next_minute, *next));
                }
            }
        }
        None
    }
}

const MONTHS: &[&str] = &[
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// Returns the values of one field, sorted: `*`, `?`, `5`, `1-5`, `*/15`, `MON`, and lists of those.
fn values(text: &str, (min, max): (i64, i64), names: &[&str]) -> std::result::Result<Vec<i64>, String> {
    let number = |text: &str| -> std::result::Result<i64, String> {
        let upper = text.to_ascii_uppercase();
        if let Some(place) = names.iter().position(|name| *name == upper) {
            return Ok(min + place as i64);
        }
        if upper.contains(['L', 'W', '#']) {
            return Err(format!("[{text}] of cron expressions is not implemented by firn"));
        }
        let number = text.parse().map_err(|_| format!("[{text}] is not a number"))?;
        if (min..=max).contains(&number) {
            Ok(number)
        } else {
            Err(format!("[{text}] is not between {min} and {max}"))
        }
    };
    let mut all = Vec::new();
    for item in text.split(',') {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (
                range,
                Some(step.parse::<i64>().map_err(|_| format!("[{step}] is not a number"))?),
            ),
            None => (item, None),
        };
        if step.is_some_and(|step| step < 1) {
            return Err(format!("the step of [{item}] must be positive"));
        }
        let (first, last) = match (range, range.split_once('-')) {
            ("*" | "?", _) => (min, max),
            (_, Some((first, last))) => (number(first)?, number(last)?),
            // `5/10` continues to the maximum.
            (_, None) => (number(range)?, step.map_or(number(range)?, |_| max)),
        };
        if first <= last {
            all.extend((first..=last).step_by(step.unwrap_or(1) as usize));
        } else {
            // `FRI-MON` wraps around.
            all.extend((first..=max).chain(min..=last).step_by(step.unwrap_or(1) as usize));
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dates::DateFormat;
    use crate::period::print_instant;

    fn check(schedule: &str, after: &str, next: &str) {
        let after_ms = DateFormat::default_millis().parse_ms(after).unwrap();
        let schedule = Schedule::parse(schedule).unwrap();
        let found = schedule
            .next_after(after_ms, after_ms)
            .map_or_else(|| "never".to_owned(), print_instant);
        assert_eq!(found, next, "{schedule:?} after {after}");
    }

    #[test]
    fn finds_the_next_moment() {
        check("0 30 1 * * ?", "2026-01-01T01:29:59.999Z", "2026-01-01T01:30:00.000Z");
        check("0 30 1 * * ?", "2026-01-01T01:30:00.000Z", "2026-01-02T01:30:00.000Z");
        check("0 0/15 * * * ?", "2026-01-01T00:16:00Z", "2026-01-01T00:30:00.000Z");
        check("* * * * * ?", "2026-12-31T23:59:59.500Z", "2027-01-01T00:00:00.000Z");
        check("0 0 9 ? * MON-FRI", "2026-01-02T10:00:00Z", "2026-01-05T09:00:00.000Z");
        check("0 0 9 ? * FRI-MON", "2026-01-06T10:00:00Z", "2026-01-09T09:00:00.000Z");
        check("0 0 0 29 2 ?", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00.000Z");
        check(
            "5,10 0 0 1 jan,jul ?",
            "2026-01-01T00:00:05Z",
            "2026-01-01T00:00:10.000Z",
        );
        check("0 0 0 31 2 ?", "2026-01-01T00:00:00Z", "never");
        check("0 0 0 1 1 ? 2025", "2026-01-01T00:00:00Z", "never");
        check("30m", "2026-01-01T00:00:00Z", "2026-01-01T00:30:00.000Z");
    }

    #[test]
    fn knows_how_often_it_comes() {
        for (schedule, interval_ms) in [
            ("0 0/15 * * * ?", Some(900_000)),
            ("* * * * * ?", Some(1000)),
            ("7m", Some(420_000)),
            ("0 0 0 1 1 ? 1971", None),
        ] {
            assert_eq!(
                Schedule::parse(schedule).unwrap().next_interval_ms(0),
                interval_ms,
                "{schedule}"
            );
        }
    }

    #[test]
    fn refuses_what_is_no_schedule() {
        for (text, reason) in [
            ("", "expected 6 or 7 parts"),
            ("1 2 3", "expected 6 or 7 parts"),
            ("60 * * * * ?", "is not between 0 and 59"),
            ("0 0 0 1 1 MON", "both a day-of-week AND a day-of-month"),
            ("0 0 0 L * ?", "[L] of cron expressions is not implemented"),
            ("0 0 0 ? * 2#1", "[2#1] of cron expressions is not implemented"),
            ("0 */0 0 ? * *", "must be positive"),
            ("x * * * * ?", "[x] is not a number"),
            ("0s", "must not be zero"),
        ] {
            let error = Schedule::parse(text).unwrap_err();
            assert!(error.reason().contains(reason), "{text}: {error}");
        }
    }
}
