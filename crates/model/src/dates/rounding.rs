//! Rounding of instants to the buckets of a date histogram.

use super::civil::{DAY_MS, Date, add_months, date_of, days_from, weekday};
use super::zone::{Local, Zone};

/// Calendar unit.
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

impl CalendarUnit {
    /// Reads `1d`, `day` and the like, as in `calendar_interval`; `None`: not a single unit.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "second" | "1s" => Self::Second,
            "minute" | "1m" => Self::Minute,
            "hour" | "1h" => Self::Hour,
            "day" | "1d" => Self::Day,
            "week" | "1w" => Self::Week,
            "month" | "1M" => Self::Month,
            "quarter" | "1q" => Self::Quarter,
            "year" | "1y" => Self::Year,
            _ => return None,
        })
    }

    /// Returns its `calendar_interval`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Second => "1s",
            Self::Minute => "1m",
            Self::Hour => "1h",
            Self::Day => "1d",
            Self::Week => "1w",
            Self::Month => "1M",
            Self::Quarter => "1q",
            Self::Year => "1y",
        }
    }

    /// Returns the length of units shorter than a day, ms.
    fn short_ms(self) -> Option<i64> {
        match self {
            Self::Second => Some(1000),
            Self::Minute => Some(60_000),
            Self::Hour => Some(3_600_000),
            _ => None,
        }
    }

    fn months(self) -> i64 {
        match self {
            Self::Quarter => 3,
            Self::Year => 12,
            _ => 1,
        }
    }

    /// Returns the first day of the unit that contains a day.
    fn first_day(self, days: i64) -> i64 {
        if matches!(self, Self::Second | Self::Minute | Self::Hour | Self::Day) {
            return days;
        }
        if self == Self::Week {
            return days - i64::from(weekday(days));
        }
        let date = date_of(days);
        let months = self.months() as u32;
        days_from(Date {
            month: (date.month - 1) / months * months + 1,
            day: 1,
            ..date
        })
    }

    /// Returns the first day of the next unit, given the first of one.
    fn next_first_day(self, first: i64) -> i64 {
        match self {
            Self::Second | Self::Minute | Self::Hour | Self::Day => first + 1,
            Self::Week => first + 7,
            Self::Month | Self::Quarter | Self::Year => days_from(add_months(date_of(first), self.months())),
        }
    }
}

/// Width of a date histogram's buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interval {
    /// `fixed_interval`, ms, at least 1.
    Fixed(i64),
    /// `calendar_interval`.
    Calendar(CalendarUnit),
}

/// Rounds instants down to the start of their bucket. Follows Elasticsearch's `Rounding`: buckets follow local time, so
/// a day has 23 to 25 hours at a change of clocks.
#[derive(Debug, Clone)]
pub struct Rounding {
    interval: Interval,
    zone: Zone,
    offset_ms: i64,
}

impl Rounding {
    /// Creates a rounding to buckets of `interval` in `zone`, whose starts are moved by `offset_ms`. A fixed interval
    /// below 1 ms counts as 1.
    pub fn new(interval: Interval, zone: Zone, offset_ms: i64) -> Self {
        let interval = match interval {
            Interval::Fixed(length) => Interval::Fixed(length.max(1)),
            calendar => calendar,
        };
        Self {
            interval,
            zone,
            offset_ms,
        }
    }

    /// Returns the interval.
    pub fn interval(&self) -> Interval {
        self.interval
    }

    /// Returns the time zone of the buckets.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Returns the start of the bucket that contains `ms`. Fast for fixed intervals and for zones with one offset. For
    /// other zones it searches the zone's transitions, so callers cache (start, next) and call it only for instants
    /// outside that range.
    pub fn round_down(&self, ms: i64) -> i64 {
        let ms = ms.saturating_sub(self.offset_ms);
        self.round(ms).saturating_add(self.offset_ms)
    }

    /// Returns the start of the bucket after the one that starts at `start_ms`.
    pub fn next(&self, start_ms: i64) -> i64 {
        let start = start_ms.saturating_sub(self.offset_ms);
        self.next_start(start).saturating_add(self.offset_ms)
    }

    /// Returns the length of fixed buckets or of those shorter than a day, ms.
    fn fixed_ms(&self) -> Option<i64> {
        match self.interval {
            Interval::Fixed(length) => Some(length),
            Interval::Calendar(unit) => unit.short_ms(),
        }
    }

    fn round(&self, ms: i64) -> i64 {
        let Some(length) = self.fixed_ms() else {
            return self.round_days(ms);
        };
        if let Some(offset) = self.zone.fixed_offset_ms() {
            return floor(ms.saturating_add(offset), length).saturating_sub(offset);
        }
        let local = floor(ms.saturating_add(self.zone.offset_ms_at(ms)), length);
        match self.zone.at_local(local) {
            Local::One(start) => start,
            // The later one, unless it is after the instant.
            Local::Two(first, second) => {
                if second <= ms {
                    second
                } else {
                    first
                }
            }
            Local::Gap(at) => at,
        }
    }

    fn round_days(&self, ms: i64) -> i64 {
        let Interval::Calendar(unit) = self.interval else {
            return ms;
        };
        let days = (ms.saturating_add(self.zone.offset_ms_at(ms))).div_euclid(DAY_MS);
        self.start_of_day(unit.first_day(days))
    }

    /// Returns the first instant of a local day.
    fn start_of_day(&self, days: i64) -> i64 {
        match self.zone.at_local(days.saturating_mul(DAY_MS)) {
            Local::One(ms) | Local::Two(ms, _) | Local::Gap(ms) => ms,
        }
    }

    fn next_start(&self, start: i64) -> i64 {
        let length = match (self.interval, self.fixed_ms()) {
            (_, Some(length)) => length,
            (Interval::Calendar(unit), None) => {
                let local = start.saturating_add(self.zone.offset_ms_at(start));
                let first = unit.first_day(local.div_euclid(DAY_MS));
                return self.start_of_day(unit.next_first_day(first));
            }
            (Interval::Fixed(length), None) => length,
        };
        if self.zone.fixed_offset_ms().is_some() {
            return start.saturating_add(length);
        }
        // If clocks go back, a bucket may be longer than the interval: advance until the next one begins. If clocks go
        // forward, the first step may skip a bucket: go back to it.
        const STEP_MS: i64 = 900_000;
        const STEPS_MAX: usize = 120;
        let mut probe = start.saturating_add(length);
        let mut found = self.round(probe);
        for _ in 0..STEPS_MAX {
            if found > start {
                break;
            }
            probe = probe.saturating_add(STEP_MS);
            found = self.round(probe);
        }
        if found <= start {
            return start.saturating_add(length);
        }
        for _ in 0..STEPS_MAX {
            let before = self.round(found - 1);
            if before <= start {
                break;
            }
            found = before;
        }
        found
    }
}

fn floor(ms: i64, length: i64) -> i64 {
    ms.saturating_sub(ms.rem_euclid(length))
}
