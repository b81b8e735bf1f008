//! Spans of time that an index covers.

use anyhow::Context;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// How much time one index covers; days, weeks and months of UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Period {
    Day,
    /// From Monday on.
    Week,
    /// From every other Monday on, counted from 1970-01-05.
    TwoWeeks,
    Month,
}

/// One span: from its first instant to before its last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    /// `2026.01.05`, its first day.
    pub(super) name: String,
}

impl Period {
    /// All spans that have an instant from `start_ms` on and before `end_ms`, in order.
    pub(super) fn spans(self, start_ms: i64, end_ms: i64) -> anyhow::Result<Vec<Span>> {
        let mut spans = Vec::new();
        let mut date = self.first_day(day_of(start_ms)?)?;
        loop {
            let next = date.checked_add(match self {
                Self::Day => 1.day(),
                Self::Week => 7.days(),
                Self::TwoWeeks => 14.days(),
                Self::Month => 1.month(),
            })?;
            let span = Span {
                start_ms: instant_of(date)?,
                end_ms: instant_of(next)?,
                name: date.strftime("%Y.%m.%d").to_string(),
            };
            if span.start_ms >= end_ms {
                return Ok(spans);
            }
            spans.push(span);
            date = next;
        }
    }

    fn first_day(self, date: Date) -> anyhow::Result<Date> {
        let monday = date.checked_sub(i64::from(date.weekday().to_monday_zero_offset()).days())?;
        Ok(match self {
            Self::Day => date,
            Self::Week => monday,
            Self::TwoWeeks => {
                let days = (instant_of(monday)? - instant_of(jiff::civil::date(1970, 1, 5))?) / DAY_MS;
                monday.checked_sub(days.rem_euclid(14).days())?
            }
            Self::Month => date.first_of_month(),
        })
    }
}

/// A day in ms.
pub(super) const DAY_MS: i64 = 24 * 60 * 60 * 1000;

fn day_of(ms: i64) -> anyhow::Result<Date> {
    let instant = Timestamp::from_millisecond(ms).context("a time out of range")?;
    Ok(instant.to_zoned(TimeZone::UTC).date())
}

fn instant_of(date: Date) -> anyhow::Result<i64> {
    Ok(date.to_zoned(TimeZone::UTC)?.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_cover_the_time_without_gaps() {
        // Three weeks from Monday 2026-01-05 on.
        let (start, end) = (1_767_571_200_000, 1_767_571_200_000 + 21 * DAY_MS);
        let check = |period: Period, names: &[&str]| {
            let spans = period.spans(start, end).unwrap();
            let found: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
            assert_eq!(found, names, "{period:?}");
            assert!(spans[0].start_ms <= start && spans.last().unwrap().end_ms >= end);
            assert!(spans.windows(2).all(|pair| pair[0].end_ms == pair[1].start_ms));
        };
        check(Period::Week, &["2026.01.05", "2026.01.12", "2026.01.19"]);
        check(Period::TwoWeeks, &["2026.01.05", "2026.01.19"]);
        check(Period::Month, &["2026.01.01"]);
        assert_eq!(Period::Day.spans(start, end).unwrap().len(), 21);
        assert_eq!(Period::Day.spans(start, start + 1).unwrap().len(), 1);
        let wednesday = start + 2 * DAY_MS;
        assert_eq!(
            Period::Week.spans(wednesday, wednesday + 1).unwrap()[0].name,
            "2026.01.05"
        );
    }
}
