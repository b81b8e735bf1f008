//! When a maintenance window is: once, or again each day, week or month at the same local time.

use firn_model::dates::Zone;
use jiff::Span;
use jiff::civil::Date;

const DAY_MS: i64 = 86_400_000;
/// Most days between two occurrences: a month that lacks the day is left out.
const GAP_DAYS_MAX: i64 = 70;

/// How often a window repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Every {
    /// On each day, or on each of the given weekdays.
    Day,
    /// On a day of the month. Months without this day are left out.
    Month,
}

/// Occurrences of a window: half-open intervals of the same length. Their local time is the same through changes of the clocks; a
/// local time that the clocks skip moves forward with them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recurrence {
    zone: Zone,
    start_ms: i64,
    duration_ms: i64,
    /// `None`: there is one occurrence.
    every: Option<Every>,
    /// Monday first; all: no day is left out.
    weekdays: [bool; 7],
    /// An occurrence starts at this time at the latest.
    until_ms: i64,
    /// Local day of the start, in days since 1970-01-01.
    first_day: i64,
    last_day: i64,
    day_of_month: i8,
}

/// State of a window at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowState {
    /// End of the occurrence that is going on, ms since the epoch; of several, the last.
    pub(crate) active_until_ms: Option<i64>,
    /// Start of the first occurrence that is still to come, ms since the epoch.
    pub(crate) next_start_ms: Option<i64>,
}

impl Recurrence {
    /// Creates a window that occurs once. Times are ms since the epoch, from 1970 to the year 9000.
    pub(crate) fn once(start_ms: i64, duration_ms: i64, zone: Zone) -> Self {
        let local_ms = start_ms + zone.offset_ms_at(start_ms);
        let first_day = local_ms.div_euclid(DAY_MS);
        Self {
            start_ms,
            duration_ms,
            every: None,
            weekdays: [true; 7],
            until_ms: i64::MAX,
            first_day,
            last_day: i64::MAX,
            day_of_month: day_of_month(first_day),
            zone,
        }
    }

    /// Makes it repeat on weekdays, Monday first, at the latest at `until_ms`, and at most `count` times.
    pub(crate) fn repeat(
        mut self,
        every: Every,
        weekdays: Option<[bool; 7]>,
        until_ms: Option<i64>,
        count: Option<u32>,
    ) -> Self {
        self.every = Some(every);
        self.weekdays = weekdays.unwrap_or(self.weekdays);
        self.until_ms = until_ms.unwrap_or(i64::MAX);
        if let Some(count) = count {
            let mut day = self.first_day;
            let mut occurrences = 0;
            let mut last_found = day;
            while occurrences < count && day - last_found <= GAP_DAYS_MAX {
                if self.start_on(day).is_some() {
                    occurrences += 1;
                    last_found = day;
                }
                day += 1;
            }
            self.last_day = last_found;
        }
        self
    }

    /// Returns the weekday of the start, 0 for Monday.
    pub(crate) fn first_weekday(&self) -> usize {
        weekday(self.first_day)
    }

    /// Returns the start of the occurrence on a local day, if there is one.
    fn start_on(&self, day: i64) -> Option<i64> {
        if day < self.first_day || day > self.last_day {
            return None;
        }
        let occurs = match self.every {
            None => day == self.first_day,
            Some(Every::Day) => self.weekdays[weekday(day)],
            Some(Every::Month) => day_of_month(day) == self.day_of_month,
        };
        if !occurs {
            return None;
        }
        let start_ms = match day == self.first_day {
            // A local time that occurs twice is the one that was given.
            true => self.start_ms,
            false => {
                let time_ms = (self.start_ms + self.zone.offset_ms_at(self.start_ms)).rem_euclid(DAY_MS);
                self.zone.to_utc(day * DAY_MS + time_ms)
            }
        };
        (start_ms <= self.until_ms).then_some(start_ms)
    }

    fn local_day(&self, ms: i64) -> i64 {
        (ms + self.zone.offset_ms_at(ms)).div_euclid(DAY_MS)
    }

    /// Returns the end of the occurrence at a time, ms since the epoch; of several, the last.
    pub(crate) fn active_until(&self, now_ms: i64) -> Option<i64> {
        if now_ms < self.start_ms {
            return None;
        }
        let end_of = |start_ms: i64| {
            let end_ms = start_ms + self.duration_ms;
            (start_ms <= now_ms && now_ms < end_ms).then_some(end_ms)
        };
        if self.every.is_none() {
            return end_of(self.start_ms);
        }
        // A day more on both sides: clocks change.
        let days = self.local_day(now_ms - self.duration_ms) - 1..=self.local_day(now_ms) + 1;
        days.filter_map(|day| end_of(self.start_on(day)?)).max()
    }

    /// Returns the state at a time, ms since the epoch.
    pub(crate) fn state(&self, now_ms: i64) -> WindowState {
        let from = self.first_day.max(self.local_day(now_ms) - 1);
        let mut starts = (from..=from + GAP_DAYS_MAX).filter_map(|day| self.start_on(day));
        WindowState {
            active_until_ms: self.active_until(now_ms),
            next_start_ms: starts.find(|start_ms| *start_ms > now_ms),
        }
    }
}

/// Returns the weekday of a day since 1970-01-01, a Thursday; 0 is Monday.
fn weekday(day: i64) -> usize {
    (day + 3).rem_euclid(7) as usize
}

/// Returns the day of the month, 1 to 31, of a day since 1970-01-01; 0: it is after the year 9999.
fn day_of_month(day: i64) -> i8 {
    let epoch = Date::constant(1970, 1, 1);
    let date = Span::new().try_days(day).and_then(|span| epoch.checked_add(span));
    date.map_or(0, |date| date.day())
}

#[cfg(test)]
mod tests {
    use firn_model::dates::DateFormat;

    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    fn ms(text: &str) -> i64 {
        DateFormat::default_millis().parse_ms(text).unwrap()
    }

    fn text(ms: i64) -> String {
        DateFormat::default_millis().print_ms(ms, &Zone::utc())[..16].to_owned()
    }

    fn once(start: &str, hours: i64, zone: &str) -> Recurrence {
        Recurrence::once(ms(start), hours * HOUR_MS, Zone::parse(zone).unwrap())
    }

    /// Returns the starts of the first occurrences.
    fn starts(recurrence: &Recurrence, count: usize) -> Vec<String> {
        let mut now_ms = 0;
        let mut starts = Vec::new();
        while starts.len() < count
            && let Some(start_ms) = recurrence.state(now_ms).next_start_ms
        {
            assert_eq!(recurrence.active_until(start_ms - 1), None);
            assert_eq!(
                recurrence.active_until(start_ms),
                Some(start_ms + recurrence.duration_ms)
            );
            assert_eq!(recurrence.active_until(start_ms + recurrence.duration_ms), None);
            starts.push(text(start_ms));
            now_ms = start_ms;
        }
        starts
    }

    #[test]
    fn a_window_that_does_not_repeat_occurs_once() {
        let window = once("2026-01-01T10:00:00Z", 24 * 100, "UTC");
        assert_eq!(starts(&window, 3), ["2026-01-01T10:00"]);
        assert!(window.active_until(ms("2026-04-01T00:00:00Z")).is_some());
    }

    #[test]
    fn a_window_keeps_its_local_time_when_the_clocks_change() {
        // Clocks go forward on 2026-03-29 at 02:00.
        let window = once("2026-03-28T01:30:00Z", 2, "Europe/Berlin").repeat(Every::Day, None, None, None);
        assert_eq!(
            starts(&window, 3),
            ["2026-03-28T01:30", "2026-03-29T01:30", "2026-03-30T00:30"]
        );
        // And back on 2026-10-25 at 03:00: of the two times the earlier.
        let window = once("2026-10-24T00:30:00Z", 2, "Europe/Berlin").repeat(Every::Day, None, None, None);
        assert_eq!(
            starts(&window, 3),
            ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"]
        );
    }

    #[test]
    fn a_window_occurs_on_its_weekdays_and_days_of_the_month() {
        // 2026-01-01 is a Thursday; 23:00 in New York is Friday in UTC.
        let mut weekdays = [false; 7];
        weekdays[0] = true;
        weekdays[3] = true;
        let start = "2026-01-02T04:00:00Z";
        let weekly = once(start, 6, "America/New_York").repeat(Every::Day, Some(weekdays), None, None);
        assert_eq!(weekly.first_weekday(), 3);
        assert_eq!(
            starts(&weekly, 3),
            ["2026-01-02T04:00", "2026-01-06T04:00", "2026-01-09T04:00"]
        );
        let monthly = once("2026-01-31T12:00:00Z", 1, "+02:00").repeat(Every::Month, None, None, None);
        assert_eq!(
            starts(&monthly, 3),
            ["2026-01-31T12:00", "2026-03-31T12:00", "2026-05-31T12:00"]
        );
    }

    #[test]
    fn a_window_ends_after_its_count_or_its_last_day() {
        let window = || once("2026-01-31T12:00:00Z", 1, "UTC");
        let twice = window().repeat(Every::Month, None, None, Some(2));
        assert_eq!(starts(&twice, 9), ["2026-01-31T12:00", "2026-03-31T12:00"]);
        let until = window().repeat(Every::Day, None, Some(ms("2026-02-01T12:00:00Z")), None);
        assert_eq!(starts(&until, 9), ["2026-01-31T12:00", "2026-02-01T12:00"]);
        let both = window().repeat(Every::Day, None, Some(ms("2026-02-01T11:59:59Z")), Some(5));
        assert_eq!(starts(&both, 9), ["2026-01-31T12:00"]);
    }

    #[test]
    fn occurrences_may_overlap() {
        let mut weekdays = [false; 7];
        weekdays[0] = true;
        weekdays[1] = true;
        // From Monday for three days, and from Tuesday for three days.
        let window = once("2026-01-05T00:00:00Z", 72, "UTC").repeat(Every::Day, Some(weekdays), None, None);
        let until = window.active_until(ms("2026-01-07T12:00:00Z")).unwrap();
        assert_eq!(text(until), "2026-01-09T00:00");
        assert_eq!(window.active_until(ms("2026-01-09T00:00:00Z")), None);
    }
}
