//! Time zones.

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

use super::civil::{DAY_MS, date_of};
use super::iso::Cursor;
use crate::{Error, Result};

/// Time zone: UTC, an offset, or a name from the tz database (which is compiled in).
#[derive(Debug, Clone, PartialEq)]
pub struct Zone {
    zone: TimeZone,
    /// Offset of zones with only one offset, seconds east of Greenwich.
    fixed_offset_s: Option<i64>,
    name: String,
}

/// Instants of a local time.
pub(super) enum Local {
    One(i64),
    /// Clocks go back: the local time occurs twice.
    Two(i64, i64),
    /// Clocks skip the local time: the instant at which they go forward.
    Gap(i64),
}

impl Zone {
    /// Returns UTC.
    pub fn utc() -> Self {
        Self {
            zone: TimeZone::UTC,
            fixed_offset_s: Some(0),
            name: "Z".to_owned(),
        }
    }

    /// Parses `Z`, `UTC`, `+01:00`, `Europe/Berlin`, and other texts that Java's `ZoneId.of` accepts; an unknown zone
    /// fails with [`crate::ErrorKind::IllegalArgument`].
    pub fn parse(text: &str) -> Result<Self> {
        if matches!(text, "Z" | "z" | "UTC" | "UT" | "GMT" | "Etc/UTC") {
            return Ok(Self {
                name: text.to_owned(),
                ..Self::utc()
            });
        }
        let offset = ["UTC", "GMT", "UT", ""]
            .iter()
            .find_map(|prefix| text.strip_prefix(prefix).filter(|rest| rest.starts_with(['+', '-'])));
        if let Some(offset) = offset {
            let mut cursor = Cursor::new(offset);
            return match cursor.offset() {
                Some(seconds) if cursor.is_at_end() => Ok(Self::fixed(seconds)),
                _ => Err(Error::illegal_argument(format!(
                    "Invalid ID for offset-based ZoneId: {text}"
                ))),
            };
        }
        // Java's names are case-sensitive; jiff's tz database is not.
        let found = TimeZone::get(text).ok();
        match found.filter(|zone| zone.iana_name() == Some(text)) {
            Some(zone) => Ok(Self {
                fixed_offset_s: zone.to_fixed_offset().ok().map(|offset| i64::from(offset.seconds())),
                zone,
                name: text.to_owned(),
            }),
            None => Err(Error::illegal_argument(format!("Unknown time-zone ID: {text}"))),
        }
    }

    /// Creates a zone with an offset in seconds east of Greenwich, within 18 hours.
    pub(super) fn fixed(seconds: i32) -> Self {
        let offset = Offset::from_seconds(seconds).unwrap_or(Offset::UTC);
        let mut name = String::new();
        super::print::push_offset(&mut name, i64::from(seconds), true, "Z");
        Self {
            zone: TimeZone::fixed(offset),
            fixed_offset_s: Some(i64::from(seconds)),
            name,
        }
    }

    /// Returns the name as written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the difference of local time and UTC at an instant, ms.
    pub fn offset_ms_at(&self, ms: i64) -> i64 {
        match self.fixed_offset_s {
            Some(seconds) => seconds * 1000,
            None => {
                let clamped = ms.clamp(Timestamp::MIN.as_millisecond(), Timestamp::MAX.as_millisecond());
                let timestamp = Timestamp::from_millisecond(clamped).unwrap_or(Timestamp::UNIX_EPOCH);
                i64::from(self.zone.to_offset(timestamp).seconds()) * 1000
            }
        }
    }

    /// Returns the offset of a zone that has only one, ms.
    pub(super) fn fixed_offset_ms(&self) -> Option<i64> {
        self.fixed_offset_s.map(|seconds| seconds * 1000)
    }

    /// Returns the instants of a local time, given as if it were UTC.
    pub(super) fn at_local(&self, local_ms: i64) -> Local {
        if let Some(seconds) = self.fixed_offset_s {
            return Local::One(local_ms.saturating_sub(seconds * 1000));
        }
        let date = date_of(local_ms.div_euclid(DAY_MS));
        let time_ms = local_ms.rem_euclid(DAY_MS);
        let date_time = i16::try_from(date.year).ok().and_then(|year| {
            jiff::civil::DateTime::new(
                year,
                date.month as i8,
                date.day as i8,
                (time_ms / 3_600_000) as i8,
                (time_ms / 60_000 % 60) as i8,
                (time_ms / 1000 % 60) as i8,
                (time_ms % 1000) as i32 * 1_000_000,
            )
            .ok()
        });
        let Some(date_time) = date_time else {
            return Local::One(local_ms.saturating_sub(self.offset_ms_at(local_ms)));
        };
        let ms = |offset: Offset| local_ms.saturating_sub(i64::from(offset.seconds()) * 1000);
        match self.zone.to_ambiguous_timestamp(date_time).offset() {
            AmbiguousOffset::Unambiguous { offset } => Local::One(ms(offset)),
            AmbiguousOffset::Fold { before, after } => Local::Two(ms(before), ms(after)),
            AmbiguousOffset::Gap { before, after } => Local::Gap(self.transition(ms(after), ms(before))),
        }
    }

    /// Finds the instant in (`low`, `high`] at which the offset becomes that of `high`.
    fn transition(&self, low: i64, high: i64) -> i64 {
        let (mut low, mut high) = (low.min(high), low.max(high));
        let target = self.offset_ms_at(high);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.offset_ms_at(middle) == target {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }

    /// Returns the instant of a local time, given in ms as if it were UTC, as Java's `ZonedDateTime.of` does: the earlier of two; in a
    /// gap, the local time is moved forward by the length of the gap.
    pub fn to_utc(&self, local_ms: i64) -> i64 {
        match self.at_local(local_ms) {
            Local::One(ms) | Local::Two(ms, _) => ms,
            Local::Gap(at) => local_ms - self.offset_ms_at(at - 1),
        }
    }
}
