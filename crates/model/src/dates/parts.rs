//! Parsed parts of a date, and their conversion to an instant.

use super::civil::{DAY_MS, Date, days_from, days_in_month};
use super::zone::Zone;

/// Parts of a parsed date; missing parts are `None`.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    pub(super) year: Option<i64>,
    pub(super) month: Option<u32>,
    pub(super) day: Option<u32>,
    pub(super) day_of_year: Option<u32>,
    pub(super) hour: Option<u32>,
    /// 1 to 12, with `half_day`.
    pub(super) clock_hour: Option<u32>,
    /// 0 is before noon.
    pub(super) half_day: Option<u32>,
    pub(super) minute: Option<u32>,
    pub(super) second: Option<u32>,
    pub(super) nano: Option<u32>,
    /// Monday is 0; must agree with the date.
    pub(super) weekday: Option<u32>,
    pub(super) zone: Option<ParsedZone>,
    /// Complete instant, from an epoch format.
    pub(super) epoch: Option<Instant>,
    /// With `epoch`: maximum ns of a missing fraction.
    pub(super) epoch_missing_ns: u32,
}

/// Seconds since the epoch, and ns after them. Two 64-bit numbers are faster than one 128-bit number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instant {
    pub(super) seconds: i64,
    /// Below 1,000,000,000.
    pub(super) nano: u32,
}

impl Instant {
    /// Converts to ms; `None`: overflow.
    pub(super) fn to_ms(self) -> Option<i64> {
        self.seconds
            .checked_mul(1000)?
            .checked_add(i64::from(self.nano / 1_000_000))
    }

    pub(super) fn to_nanos(self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nano)
    }
}

/// Zone in the text.
#[derive(Debug, Clone)]
pub(super) enum ParsedZone {
    OffsetSeconds(i32),
    Named(Box<Zone>),
}

const NANOS_MAX: u32 = 999_999_999;

impl Parts {
    /// Returns the instant; `None`: the date does not exist (30 February). Missing parts get their first value. With
    /// `round_up` the missing parts of the time get their last value, while month and day get the first, as
    /// Elasticsearch does for `gt` and `lte`.
    pub(super) fn to_instant(&self, round_up: bool, zone: &Zone) -> Option<Instant> {
        if let Some(instant) = self.epoch {
            let missing = if round_up { self.epoch_missing_ns } else { 0 };
            return Some(Instant {
                nano: instant.nano + missing,
                ..instant
            });
        }
        let fill = |value: Option<u32>, last: u32| value.unwrap_or(if round_up { last } else { 0 });
        let year = self.year.unwrap_or(1970);
        let days = match self.day_of_year {
            Some(day_of_year) => {
                let length = if super::civil::is_leap(year) { 366 } else { 365 };
                if day_of_year == 0 || day_of_year > length {
                    return None;
                }
                let first = Date { year, month: 1, day: 1 };
                days_from(first) + i64::from(day_of_year) - 1
            }
            None => {
                let (month, day) = (self.month.unwrap_or(1), self.day.unwrap_or(1));
                if month == 0 || month > 12 || day == 0 || day > days_in_month(year, month) {
                    return None;
                }
                days_from(Date { year, month, day })
            }
        };
        if self
            .weekday
            .is_some_and(|weekday| weekday != super::civil::weekday(days))
        {
            return None;
        }
        let hour = match (self.hour, self.clock_hour) {
            (None, Some(hour)) if hour <= 12 => hour % 12 + 12 * self.half_day.unwrap_or(0),
            (None, Some(_)) => return None,
            (hour, _) => fill(hour, 23),
        };
        let (minute, second) = (fill(self.minute, 59), fill(self.second, 59));
        let nano = fill(self.nano, NANOS_MAX);
        if hour > 23 || minute > 59 || second > 59 || nano > NANOS_MAX {
            return None;
        }
        let seconds = i64::from(hour * 3600 + minute * 60 + second);
        let local_s = days * (DAY_MS / 1000) + seconds;
        let utc_s = match &self.zone {
            Some(ParsedZone::OffsetSeconds(offset)) => local_s - i64::from(*offset),
            Some(ParsedZone::Named(zone)) => zone.to_utc(local_s * 1000).div_euclid(1000),
            None => match zone.fixed_offset_ms() {
                Some(offset_ms) => local_s - offset_ms / 1000,
                None => zone.to_utc(local_s * 1000).div_euclid(1000),
            },
        };
        Some(Instant { seconds: utc_s, nano })
    }
}
