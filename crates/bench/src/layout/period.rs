//! Time spans of the indices of a layout.

use anyhow::Context;
use firn_model::period::Period;
use jiff::Timestamp;

/// A day in ms.
pub(crate) const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// One span, which ends before `end_ms`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) end_ms: i64,
    /// `2026.01.05`, its first day.
    pub(super) name: String,
}

/// Returns all spans of a period with an instant from `start_ms` on and before `end_ms`, in order.
pub(super) fn spans(period: Period, start_ms: i64, end_ms: i64) -> anyhow::Result<Vec<Span>> {
    let mut spans = Vec::new();
    let mut next_ms = start_ms;
    while next_ms < end_ms {
        let range = period.range_of(next_ms).context("a time out of range")?;
        spans.push(Span {
            end_ms: range.end,
            name: Timestamp::from_millisecond(range.start)?
                .strftime("%Y.%m.%d")
                .to_string(),
        });
        next_ms = range.end;
    }
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_named_by_their_first_day() {
        // Three weeks from Monday 2026-01-05 on.
        let (start, end) = (1_767_571_200_000, 1_767_571_200_000 + 21 * DAY_MS);
        let check = |period: Period, names: &[&str]| {
            let spans = spans(period, start, end).unwrap();
            let found: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
            assert_eq!(found, names, "{period:?}");
            assert!(spans.last().unwrap().end_ms >= end);
        };
        check(Period::Week, &["2026.01.05", "2026.01.12", "2026.01.19"]);
        check(Period::TwoWeeks, &["2026.01.05", "2026.01.19"]);
        check(Period::Month, &["2026.01.01"]);
        assert_eq!(spans(Period::Day, start, end).unwrap().len(), 21);
        assert_eq!(spans(Period::Day, start, start + 1).unwrap().len(), 1);
        assert_eq!(spans(Period::Day, start, start).unwrap().len(), 0);
    }
}
