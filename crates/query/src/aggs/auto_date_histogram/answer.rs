//! Partial result and answer of `auto_date_histogram`: merges, widens and prints buckets, empty ones included.

use std::collections::HashMap;

use firn_model::Result;
use firn_model::dates::DateFormat;

use super::{AutoDateHistogram, Ladder};
use crate::aggs::finish::Finisher;
use crate::aggs::finished::{Buckets, FinishedBucket, Keys};
use crate::aggs::partial::{Room, fold_buckets};
use crate::aggs::{Aggregations, Bucket, ValueFormat};

/// Partial result of `auto_date_histogram`. Its width is the finest one with few enough buckets, independent of the
/// merge order: widths nest, so the wider buckets of the whole are counted exactly from the narrower ones of its parts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AutoDateHistogramPartial {
    /// By bucket start, ms since epoch UTC.
    pub buckets: HashMap<i64, Bucket>,
    /// Index of the width in the ladder to which the starts are rounded.
    pub rung: usize,
    /// Format of the keys.
    pub format: ValueFormat,
    /// `None` until a segment was collected.
    pub ladder: Option<Ladder>,
}

impl AutoDateHistogramPartial {
    pub(in crate::aggs) fn fold(&mut self, mut other: Self, room: &mut Room) -> Result<()> {
        self.format.merge(&other.format);
        let Some(ladder) = self.ladder.take().or_else(|| other.ladder.take()) else {
            return Ok(());
        };
        let rung = self.rung.max(other.rung).max(ladder.finest());
        if rung > self.rung {
            self.widen(&ladder, rung)?;
        }
        let rounding = ladder.rounding(rung);
        let others = other.buckets.into_iter();
        let others = others.map(|(start, bucket)| (rounding.round_down(start), bucket));
        fold_buckets(&mut self.buckets, others, room)?;
        self.settle(&ladder)?;
        self.ladder = Some(ladder);
        Ok(())
    }

    /// Creates a partial result; widens the buckets if they are too many.
    pub fn new(buckets: HashMap<i64, Bucket>, rung: usize, format: ValueFormat, ladder: &Ladder) -> Result<Self> {
        let mut partial = Self {
            buckets,
            rung,
            format,
            ladder: Some(ladder.clone()),
        };
        partial.settle(ladder)?;
        Ok(partial)
    }

    /// Widens the buckets until they are few enough.
    fn settle(&mut self, ladder: &Ladder) -> Result<()> {
        while ladder.is_too_many(self.buckets.len(), self.rung) && ladder.has_next(self.rung) {
            self.widen(ladder, self.rung + 1)?;
        }
        Ok(())
    }

    fn widen(&mut self, ladder: &Ladder, rung: usize) -> Result<()> {
        self.rung = rung;
        let rounding = ladder.rounding(rung);
        let narrow = std::mem::take(&mut self.buckets).into_iter();
        let wide = narrow.map(|(start, bucket)| (rounding.round_down(start), bucket));
        fold_buckets(&mut self.buckets, wide, &mut Room::new(usize::MAX))
    }
}

pub(in crate::aggs) fn answer(
    finisher: &mut Finisher<'_>,
    auto: &AutoDateHistogram,
    sub: &Aggregations,
    mut partial: AutoDateHistogramPartial,
) -> Result<Buckets> {
    let format = match (&partial.format, &auto.format) {
        (ValueFormat::Date(format), _) => format.clone(),
        (_, Some(format)) => DateFormat::new(format)?.into(),
        (_, None) => DateFormat::default_millis().into(),
    };
    let zone = auto.zone()?;
    let ladder = auto.ladder()?;
    let ends = partial
        .buckets
        .keys()
        .copied()
        .fold(None, |ends: Option<(i64, i64)>, start| {
            Some(ends.map_or((start, start), |(first, last)| (first.min(start), last.max(start))))
        });
    if let Some((first, last)) = ends {
        let rung = ladder.fitting(first, last, partial.rung);
        partial.widen(&ladder, rung)?;
    }
    let rung = partial.rung.max(ladder.finest());
    let filled = filled(finisher, &ladder, rung, partial)?;
    let step = ladder.step(filled.len(), rung);
    let mut merged: Vec<(i64, Bucket)> = Vec::new();
    for (position, (start, bucket)) in filled.into_iter().enumerate() {
        match merged.last_mut() {
            Some((_, last)) if position % step as usize != 0 => last.fold(bucket, &mut Room::new(usize::MAX))?,
            _ => merged.push((start, bucket)),
        }
    }
    let mut buckets = Vec::with_capacity(merged.len());
    for (start, bucket) in merged {
        buckets.push(FinishedBucket {
            key: start.into(),
            key_as_string: Some(format.print_ms(start, &zone)),
            doc_count: bucket.doc_count,
            sub: finisher.level(sub, bucket.sub)?,
            ..FinishedBucket::default()
        });
    }
    Ok(Buckets {
        type_name: super::NAME,
        head: Vec::new(),
        tail: vec![("interval", ladder.name(step, rung).into())],
        keyed: false,
        keys: Keys::TextFirst,
        buckets,
    })
}

/// Returns the buckets in order, with the empty ones between them.
fn filled(
    finisher: &mut Finisher<'_>,
    ladder: &Ladder,
    rung: usize,
    partial: AutoDateHistogramPartial,
) -> Result<Vec<(i64, Bucket)>> {
    let rounding = ladder.rounding(rung);
    let mut found: Vec<(i64, Bucket)> = partial.buckets.into_iter().collect();
    found.sort_unstable_by_key(|(start, _)| *start);
    finisher.count(found.len())?;
    let mut filled: Vec<(i64, Bucket)> = Vec::with_capacity(found.len());
    for (start, bucket) in found {
        if let Some((last, _)) = filled.last() {
            let mut gap = rounding.next(*last);
            while gap < start {
                finisher.count(1)?;
                filled.push((gap, Bucket::default()));
                let next = rounding.next(gap);
                if next <= gap {
                    break;
                }
                gap = next;
            }
        }
        filled.push((start, bucket));
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::aggs::test_support::parsed;
    use crate::aggs::{AggregationKind, Partial, Partials};

    fn ladder(aggregations: &Aggregations) -> Ladder {
        match &aggregations.0["x"].kind {
            AggregationKind::AutoDateHistogram(auto) => auto.ladder().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn partial(ladder: &Ladder, instants: &[i64]) -> AutoDateHistogramPartial {
        let rounding = ladder.rounding(ladder.finest());
        let mut buckets: HashMap<i64, Bucket> = HashMap::new();
        for &ms in instants {
            buckets.entry(rounding.round_down(ms)).or_default().doc_count += 1;
        }
        AutoDateHistogramPartial::new(buckets, ladder.finest(), ValueFormat::Raw, ladder).unwrap()
    }

    fn answered(body: Value, instants: &[i64]) -> (String, Vec<(i64, u64)>) {
        let aggregations = parsed(json!({"x": {"auto_date_histogram": body}}));
        let partial = Partial::AutoDateHistogram(partial(&ladder(&aggregations), instants));
        let partials = Partials([("x".to_owned(), partial)].into_iter().collect());
        let answer = aggregations.finish(partials, 10_000).unwrap()["x"].clone();
        let buckets = answer["buckets"].as_array().unwrap().iter();
        let buckets = buckets
            .map(|bucket| (bucket["key"].as_i64().unwrap(), bucket["doc_count"].as_u64().unwrap()))
            .collect();
        (answer["interval"].as_str().unwrap().to_owned(), buckets)
    }

    const HOUR: i64 = 3_600_000;
    const DAY: i64 = 24 * HOUR;

    #[test]
    fn chooses_the_finest_width_that_fits() {
        let days: Vec<i64> = (0..6).map(|day| day * DAY + 10 * HOUR).collect();
        let (interval, buckets) = answered(json!({"field": "t"}), &days);
        assert_eq!((interval.as_str(), buckets.len()), ("1d", 6));
        assert_eq!(
            answered(json!({"field": "t", "buckets": 3}), &days),
            ("7d".to_owned(), vec![(0, 6)])
        );
        assert_eq!(
            answered(json!({"field": "t", "buckets": 3}), &[5000, 20_000]),
            ("10s".to_owned(), vec![(5000, 1), (15_000, 1)])
        );
        assert_eq!(
            answered(
                json!({"field": "t", "buckets": 3, "minimum_interval": "hour"}),
                &[5000, 20_000]
            ),
            ("1h".to_owned(), vec![(0, 2)])
        );
        assert_eq!(answered(json!({"field": "t"}), &[]), ("1s".to_owned(), vec![]));
        let (interval, buckets) = answered(json!({"field": "t", "buckets": 2}), &[0, 700 * 365 * DAY]);
        assert_eq!((interval.as_str(), buckets.len()), ("1y", 700));
    }

    #[test]
    fn the_ends_of_time_do_not_panic() {
        for ends in [[i64::MIN, i64::MAX], [i64::MIN, i64::MIN + 1], [i64::MAX - 1, i64::MAX]] {
            let aggregations = parsed(json!({"x": {"auto_date_histogram": {"field": "t"}}}));
            let partial = Partial::AutoDateHistogram(partial(&ladder(&aggregations), &ends));
            let partials = Partials([("x".to_owned(), partial)].into_iter().collect());
            let _ = aggregations.finish(partials, 1000);
        }
    }

    proptest! {
        #[test]
        fn merging_does_not_depend_on_split_or_order(
            hours in prop::collection::vec(0_i64..50_000, 0..60), first in 0_usize..60, second in 0_usize..60,
            zone in prop::sample::select(vec!["UTC", "Europe/Berlin"]),
        ) {
            let body = json!({"x": {"auto_date_histogram": {"field": "t", "buckets": 2, "time_zone": zone}}});
            let ladder = ladder(&parsed(body));
            let instants: Vec<i64> = hours.iter().map(|hour| hour * HOUR).collect();
            let (first, second) = (first.min(instants.len()), second.min(instants.len()));
            let (low, high) = (first.min(second), first.max(second));
            let parts = [&instants[..low], &instants[low..high], &instants[high..]].map(|part| partial(&ladder, part));
            let whole = partial(&ladder, &instants);
            for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
                let mut merged = AutoDateHistogramPartial::default();
                for part in order {
                    merged.fold(parts[part].clone(), &mut Room::new(usize::MAX)).unwrap();
                }
                prop_assert_eq!(&merged, &whole);
            }
        }
    }
}
