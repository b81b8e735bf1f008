//! Periods: the spans of time for which a data stream has separate backing indices.

use std::ops::Range;

use crate::dates::{CalendarUnit, DateFormat, Interval, Rounding, Zone};

const DAY_MS: i64 = 86_400_000;
/// Names of indices contain periods with a year of four digits: 0001-01-01 to 9999-12-31.
const FIRST_MS: i64 = -62_135_596_800_000;
const LAST_MS: i64 = 253_402_300_799_999;

/// Time that one backing index of a data stream covers (`index.period`), always in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// Starts at midnight.
    Day,
    /// Starts on Monday.
    Week,
    /// Starts on every second Monday, counted from 1970-01-05.
    TwoWeeks,
    /// Starts on the first day of the month.
    Month,
}

impl Period {
    /// All periods, shortest first.
    pub const ALL: [Self; 4] = [Self::Day, Self::Week, Self::TwoWeeks, Self::Month];

    /// Reads `day`, `week`, `two_weeks` or `month`, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|period| period.name().eq_ignore_ascii_case(name))
    }

    /// Returns its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::TwoWeeks => "two_weeks",
            Self::Month => "month",
        }
    }

    /// Returns the period that contains an instant: half-open, ms since epoch UTC. `None`: outside the years 1 to 9999.
    pub fn range_of(self, ms: i64) -> Option<Range<i64>> {
        if !(FIRST_MS..=LAST_MS).contains(&ms) {
            return None;
        }
        let rounding = self.rounding();
        let start = rounding.round_down(ms);
        Some(start..rounding.next(start))
    }

    fn rounding(self) -> Rounding {
        let (interval, offset_ms) = match self {
            Self::Day => (Interval::Calendar(CalendarUnit::Day), 0),
            Self::Week => (Interval::Calendar(CalendarUnit::Week), 0),
            // The epoch is a Thursday; the first Monday after it comes four days later.
            Self::TwoWeeks => (Interval::Fixed(14 * DAY_MS), 4 * DAY_MS),
            Self::Month => (Interval::Calendar(CalendarUnit::Month), 0),
        };
        Rounding::new(interval, Zone::utc(), offset_ms)
    }
}

/// Prints an instant as settings show it: `2026-01-05T00:00:00.000Z`.
pub fn print_instant(ms: i64) -> String {
    DateFormat::default_millis().print_ms(ms, &Zone::utc())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(period: Period, instant: &str, start: &str, end: &str) {
        let ms = |text| DateFormat::default_millis().parse_ms(text).unwrap();
        let range = period.range_of(ms(instant)).unwrap();
        assert_eq!(
            (print_instant(range.start), print_instant(range.end)),
            (format!("{start}T00:00:00.000Z"), format!("{end}T00:00:00.000Z")),
            "{period:?} of {instant}"
        );
    }

    #[test]
    fn periods_begin_where_people_expect() {
        // A Wednesday.
        check(Period::Day, "2026-11-18T13:00:00Z", "2026-11-18", "2026-11-19");
        check(Period::Week, "2026-11-18T13:00:00Z", "2026-11-16", "2026-11-23");
        check(Period::Month, "2026-11-18T13:00:00Z", "2026-11-01", "2026-12-01");
        check(Period::Month, "2026-12-31T23:59:59.999Z", "2026-12-01", "2027-01-01");
        check(Period::TwoWeeks, "1970-01-05T00:00:00Z", "1970-01-05", "1970-01-19");
        check(Period::TwoWeeks, "1970-01-04T23:59:59.999Z", "1969-12-22", "1970-01-05");
        check(Period::Week, "2026-11-16T00:00:00Z", "2026-11-16", "2026-11-23");
        check(Period::Week, "2026-11-15T23:59:59.999Z", "2026-11-09", "2026-11-16");
    }

    #[test]
    fn names_come_back() {
        for period in Period::ALL {
            assert_eq!(Period::from_name(period.name()), Some(period));
        }
        assert_eq!(Period::from_name("Two_Weeks"), Some(Period::TwoWeeks));
        assert_eq!(Period::from_name("year"), None);
    }

    proptest! {
        /// Every instant is in exactly one period, and periods follow each other without a gap.
        #[test]
        fn periods_tile_time(ms in FIRST_MS..=LAST_MS, which in 0..4usize) {
            let period = Period::ALL[which];
            let range = period.range_of(ms).unwrap();
            prop_assert!(range.contains(&ms));
            prop_assert_eq!(period.range_of(range.start), Some(range.clone()));
            prop_assert_eq!(period.range_of(range.end - 1), Some(range.clone()));
            if let Some(next) = period.range_of(range.end) {
                prop_assert_eq!(next.start, range.end);
            }
        }
    }

    #[test]
    fn absurd_instants_have_no_period() {
        for ms in [i64::MIN, FIRST_MS - 1, LAST_MS + 1, i64::MAX] {
            assert_eq!(Period::Week.range_of(ms), None);
        }
    }
}
