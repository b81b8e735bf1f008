//! Choice of the histogram interval.

use firn_engine::{Error, Result};
use firn_model::dates::{CalendarUnit, Interval, Rounding, Zone, parse_duration_ms};

use super::time_range::TimeRange;

/// Minimum width of a bar with its gap.
const BAR_PX: u64 = 8;
/// Maximum number of buckets; more have no pixels.
pub(super) const BUCKETS_MAX: usize = 2048;

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Round intervals, narrowest first, with their approximate length.
const STEPS: &[(Interval, i64, &str)] = &[
    (Interval::Fixed(1), 1, "1ms"),
    (Interval::Fixed(5), 5, "5ms"),
    (Interval::Fixed(10), 10, "10ms"),
    (Interval::Fixed(50), 50, "50ms"),
    (Interval::Fixed(100), 100, "100ms"),
    (Interval::Fixed(500), 500, "500ms"),
    (Interval::Fixed(SECOND), SECOND, "1s"),
    (Interval::Fixed(5 * SECOND), 5 * SECOND, "5s"),
    (Interval::Fixed(10 * SECOND), 10 * SECOND, "10s"),
    (Interval::Fixed(30 * SECOND), 30 * SECOND, "30s"),
    (Interval::Fixed(MINUTE), MINUTE, "1m"),
    (Interval::Fixed(2 * MINUTE), 2 * MINUTE, "2m"),
    (Interval::Fixed(5 * MINUTE), 5 * MINUTE, "5m"),
    (Interval::Fixed(10 * MINUTE), 10 * MINUTE, "10m"),
    (Interval::Fixed(15 * MINUTE), 15 * MINUTE, "15m"),
    (Interval::Fixed(30 * MINUTE), 30 * MINUTE, "30m"),
    (Interval::Fixed(HOUR), HOUR, "1h"),
    (Interval::Fixed(2 * HOUR), 2 * HOUR, "2h"),
    (Interval::Fixed(3 * HOUR), 3 * HOUR, "3h"),
    (Interval::Fixed(6 * HOUR), 6 * HOUR, "6h"),
    (Interval::Fixed(12 * HOUR), 12 * HOUR, "12h"),
    (Interval::Calendar(CalendarUnit::Day), DAY, "1d"),
    (Interval::Calendar(CalendarUnit::Week), 7 * DAY, "1w"),
    (Interval::Calendar(CalendarUnit::Month), 30 * DAY, "1M"),
    (Interval::Calendar(CalendarUnit::Quarter), 91 * DAY, "1q"),
    (Interval::Calendar(CalendarUnit::Year), 365 * DAY, "1y"),
];

/// Buckets of a histogram.
#[derive(Debug, Clone)]
pub(super) struct Buckets {
    pub(super) rounding: Rounding,
    /// Interval as in aggregations.
    pub(super) name: String,
    /// Length of a bucket; approximate for calendar units.
    pub(super) interval_ms: i64,
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
}

impl Buckets {
    /// Creates buckets with the requested interval, or with one that fits the pixels, over a time range with both ends.
    pub(super) fn new(
        requested: Option<&str>,
        width_px: u64,
        from_ms: i64,
        to_ms: i64,
        range: &TimeRange,
    ) -> Result<Self> {
        let (interval, interval_ms, name) = match requested {
            Some(text) => parse(text)?,
            None => choose(to_ms.saturating_sub(from_ms).saturating_add(1), width_px),
        };
        let buckets = Self {
            rounding: Rounding::new(interval, range.zone.clone(), 0),
            name,
            interval_ms,
            from_ms,
            to_ms,
        };
        // Estimated first, because iterating over a year in ms would take long.
        let about = to_ms.saturating_sub(from_ms) / interval_ms;
        if about > 2 * BUCKETS_MAX as i64 || buckets.starts().count() > BUCKETS_MAX {
            return Err(Error::illegal_argument(format!(
                "[interval] [{}] divides the time range into more than [{BUCKETS_MAX}] buckets: choose a longer one or [auto]",
                buckets.name
            )));
        }
        Ok(buckets)
    }

    pub(super) fn is_calendar(&self) -> bool {
        matches!(self.rounding.interval(), Interval::Calendar(_))
    }

    pub(super) fn zone(&self) -> &Zone {
        self.rounding.zone()
    }

    /// Returns the starts of the buckets; the first one is at or before the start of the range.
    pub(super) fn starts(&self) -> impl Iterator<Item = i64> + '_ {
        let first = self.rounding.round_down(self.from_ms);
        std::iter::successors(Some(first), |start| Some(self.rounding.next(*start)))
            .take_while(|start| *start <= self.to_ms)
            .take(BUCKETS_MAX + 1)
    }
}

fn choose(range_ms: i64, width_px: u64) -> (Interval, i64, String) {
    let bars = i64::try_from((width_px / BAR_PX).clamp(1, BUCKETS_MAX as u64 / 2)).unwrap_or(1);
    let fits = |step: &&(Interval, i64, &str)| range_ms / step.1 <= bars;
    let (interval, interval_ms, name) = STEPS.iter().find(fits).unwrap_or(&STEPS[STEPS.len() - 1]);
    (*interval, *interval_ms, (*name).to_owned())
}

/// Parses an interval. One unit of a day or longer is a calendar interval; everything else is fixed.
fn parse(text: &str) -> Result<(Interval, i64, String)> {
    if let Some((interval, ms, name)) = STEPS.iter().find(|(_, _, name)| *name == text) {
        return Ok((*interval, *ms, (*name).to_owned()));
    }
    let wrong = || {
        Error::illegal_argument(format!(
            "[interval] must be [auto], a fixed interval as [15m], or one of [1d, 1w, 1M, 1q, 1y], found [{text}]"
        ))
    };
    // `M` means months, which have no fixed length, and never minutes.
    if text.ends_with('M') {
        return Err(wrong());
    }
    let ms = parse_duration_ms(text).map_err(|cause| wrong().caused_by(cause))?;
    match i64::try_from(ms) {
        Ok(ms @ 1..) => Ok((Interval::Fixed(ms), ms, text.to_owned())),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn range(zone: &str) -> TimeRange {
        let object = json!({"zone": zone});
        TimeRange::read(object.as_object().unwrap().clone(), 0).unwrap()
    }

    fn buckets(requested: Option<&str>, width_px: u64, from_ms: i64, to_ms: i64, zone: &str) -> Result<Buckets> {
        Buckets::new(requested, width_px, from_ms, to_ms, &range(zone))
    }

    #[test]
    fn bars_fit_the_pixels() {
        for (days, width_px, expect) in [
            (1, 1200, "10m"),
            (7, 1200, "2h"),
            (14, 1200, "3h"),
            (28, 1200, "6h"),
            (28, 600, "12h"),
            (365, 1200, "1w"),
            (36_500, 1200, "1y"),
            (1, 1, "1d"),
        ] {
            let buckets = buckets(None, width_px, 0, days * DAY - 1, "UTC").unwrap();
            assert_eq!(buckets.name, expect, "{days} days, {width_px} px");
            assert!(buckets.starts().count() as u64 <= (width_px / BAR_PX).max(1) + 1);
        }
        assert_eq!(buckets(None, 1200, 5, 5, "UTC").unwrap().name, "1ms");
        assert_eq!(buckets(None, 1200, 0, 149, "UTC").unwrap().starts().count(), 150);
    }

    #[test]
    fn a_width_is_never_more_than_doubled_but_for_weeks_and_more() {
        for pair in STEPS.windows(2) {
            let factor = pair[1].1 as f64 / pair[0].1 as f64;
            assert!(factor > 1.0 && factor <= 7.0, "{} to {}", pair[0].2, pair[1].2);
        }
    }

    #[test]
    fn days_begin_where_people_are() {
        // 2026-03-28 to 30 in Zurich; clocks go forward on the 29th.
        let from_ms = 1_774_652_400_000;
        let starts: Vec<i64> = buckets(Some("1d"), 1200, from_ms, from_ms + 3 * DAY - HOUR - 1, "Europe/Zurich")
            .unwrap()
            .starts()
            .collect();
        assert_eq!(starts, [from_ms, from_ms + DAY, from_ms + 2 * DAY - HOUR]);
        // Three-hour buckets from local midnight, in a zone with a half-hour offset and one with three quarters.
        for (zone, offset_ms) in [("Asia/Kolkata", 330 * MINUTE), ("Asia/Kathmandu", 345 * MINUTE)] {
            let starts: Vec<i64> = buckets(Some("3h"), 1200, from_ms, from_ms + DAY, zone)
                .unwrap()
                .starts()
                .collect();
            assert!(
                starts.iter().all(|start| (start + offset_ms) % (3 * HOUR) == 0),
                "{zone}"
            );
        }
        // The hour that occurs twice, on 2026-10-25, is two buckets.
        let from_ms = 1_792_879_200_000;
        let hours = buckets(Some("1h"), 1200, from_ms, from_ms + 25 * HOUR - 1, "Europe/Zurich").unwrap();
        assert_eq!(hours.starts().count(), 25);
    }

    #[test]
    fn the_first_bucket_begins_before_the_range() {
        let buckets = buckets(Some("1h"), 1200, HOUR + 1, 2 * HOUR, "UTC").unwrap();
        assert_eq!(buckets.starts().collect::<Vec<_>>(), [HOUR, 2 * HOUR]);
    }

    #[test]
    fn too_many_buckets_and_nonsense_are_refused() {
        for (interval, expect) in [
            ("1s", "more than [2048] buckets"),
            ("1ms", "more than [2048] buckets"),
            ("2M", "must be [auto]"),
            ("0s", "must be [auto]"),
            ("often", "must be [auto]"),
        ] {
            let error = buckets(Some(interval), 1200, 0, 30 * DAY, "UTC").unwrap_err();
            assert!(error.reason().contains(expect), "{error}");
        }
        assert_eq!(
            buckets(Some("45m"), 1200, 0, DAY, "UTC").unwrap().interval_ms,
            45 * MINUTE
        );
    }
}
