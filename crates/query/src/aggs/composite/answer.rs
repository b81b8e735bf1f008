//! Partial result and answer of `composite`: the first buckets of the page, merged and printed.

use std::collections::HashMap;

use firn_model::Result;
use serde_json::{Map, Value};

use super::{Composite, CompositeOrder, SourceKind};
use crate::aggs::finish::Finisher;
use crate::aggs::finished::{Buckets, FinishedBucket, Keys};
use crate::aggs::histogram;
use crate::aggs::partial::{Room, fold_buckets};
use crate::aggs::{Aggregations, Bucket, Key, KeyBytes, ValueFormat};

/// Partial result of `composite`: the first `size` keys of the page, with all their documents. A key among the first of
/// the whole is among the first of every part that has it, so parts may drop later keys.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CompositePartial {
    /// By tuple of source values.
    pub buckets: HashMap<KeyBytes, Bucket>,
    /// Format of the values, by source.
    pub formats: Vec<ValueFormat>,
    /// Order of the keys; `None` until a segment was collected.
    pub order: Option<CompositeOrder>,
}

impl CompositePartial {
    pub(in crate::aggs) fn fold(&mut self, other: Self, room: &mut Room) -> Result<()> {
        if self.formats.is_empty() {
            self.formats = other.formats;
        } else {
            for (own, theirs) in self.formats.iter_mut().zip(&other.formats) {
                own.merge(theirs);
            }
        }
        self.order = self.order.take().or(other.order);
        fold_buckets(&mut self.buckets, other.buckets, room)?;
        self.cut();
        Ok(())
    }

    /// Removes keys past the page.
    fn cut(&mut self) {
        let Some(order) = &self.order else {
            return;
        };
        if self.buckets.len() <= order.size {
            return;
        }
        let mut all: Vec<(KeyBytes, Bucket)> = self.buckets.drain().collect();
        all.select_nth_unstable_by(order.size, |(left, _), (right, _)| order.compare(left, right));
        all.truncate(order.size);
        self.buckets.extend(all);
    }
}

pub(in crate::aggs) fn answer(
    finisher: &mut Finisher<'_>,
    composite: &Composite,
    sub: &Aggregations,
    mut partial: CompositePartial,
) -> Result<Buckets> {
    finisher.check_size(composite.size)?;
    let order = composite.order();
    partial.cut();
    finisher.count(partial.buckets.len())?;
    let mut page: Vec<(KeyBytes, Bucket)> = partial.buckets.into_iter().collect();
    page.sort_unstable_by(|(left, _), (right, _)| order.compare(left, right));
    let zones = composite
        .sources
        .iter()
        .map(super::CompositeSource::zone)
        .collect::<Result<Vec<_>>>()?;
    partial.formats.resize_with(zones.len(), ValueFormat::default);
    let print = |key: KeyBytes| -> Result<Value> {
        let Key::Tuple(parts) = Key::from(key) else {
            return Ok(Value::Null);
        };
        let mut printed = Map::new();
        for (((source, part), format), zone) in composite.sources.iter().zip(parts).zip(&partial.formats).zip(&zones) {
            if let (SourceKind::Histogram { interval }, Key::F64(key)) = (&source.kind, &part) {
                histogram::check_key(*interval, *key)?;
            }
            let value = match (part, format) {
                (Key::I64(ms), ValueFormat::Date(format)) => format.print_ms(ms, zone).into(),
                (Key::I64(flag), ValueFormat::Boolean) => (flag != 0).into(),
                (part, _) => part.into_json(),
            };
            printed.insert(source.name.clone(), value);
        }
        Ok(Value::Object(printed))
    };
    let mut buckets = Vec::with_capacity(page.len());
    for (key, bucket) in page {
        buckets.push(FinishedBucket {
            key: print(key)?,
            doc_count: bucket.doc_count,
            sub: finisher.level(sub, bucket.sub)?,
            ..FinishedBucket::default()
        });
    }
    let after_key = buckets.last().map(|last| ("after_key", last.key.clone()));
    Ok(Buckets {
        type_name: super::NAME,
        head: after_key.into_iter().collect(),
        tail: Vec::new(),
        keyed: false,
        keys: Keys::KeyFirst,
        buckets,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::aggs::test_support::parsed;
    use crate::aggs::{AggregationKind, Partial, Partials};

    fn composite() -> (Aggregations, CompositeOrder) {
        let aggregations = parsed(json!({"x": {"composite": {"size": 4, "sources": [
            {"a": {"terms": {"field": "a", "order": "desc", "missing_bucket": true}}},
            {"b": {"terms": {"field": "b", "missing_bucket": true, "missing_order": "last"}}}
        ]}}}));
        let order = match &aggregations.0["x"].kind {
            AggregationKind::Composite(composite) => composite.order(),
            other => panic!("{other:?}"),
        };
        (aggregations, order)
    }

    fn partial(order: &CompositeOrder, pairs: &[(Option<i64>, Option<i64>)]) -> CompositePartial {
        let mut partial = CompositePartial {
            formats: vec![ValueFormat::Raw, ValueFormat::Boolean],
            order: Some(order.clone()),
            ..CompositePartial::default()
        };
        let part = |value: Option<i64>| value.map_or(KeyBytes::Null, KeyBytes::I64);
        for (a, b) in pairs {
            let key = KeyBytes::Tuple(Box::new([part(*a), part(*b)]));
            partial.buckets.entry(key).or_default().doc_count += 1;
        }
        partial.cut();
        partial
    }

    #[test]
    fn answers_a_page_in_order() {
        let (aggregations, order) = composite();
        let pairs = [
            (None, Some(1)),
            (Some(2), None),
            (Some(2), Some(0)),
            (Some(3), Some(1)),
            (Some(2), Some(0)),
            (Some(1), Some(1)),
        ];
        let of = |pairs: &[(Option<i64>, Option<i64>)]| {
            let partial = Partial::Composite(partial(&order, pairs));
            let partials = Partials([("x".to_owned(), partial)].into_iter().collect());
            aggregations.finish(partials, 10).unwrap()["x"].clone()
        };
        assert_eq!(
            of(&pairs),
            json!({"after_key": {"a": 1, "b": true}, "buckets": [
                {"key": {"a": 3, "b": true}, "doc_count": 1},
                {"key": {"a": 2, "b": false}, "doc_count": 2},
                {"key": {"a": 2, "b": null}, "doc_count": 1},
                {"key": {"a": 1, "b": true}, "doc_count": 1}
            ]})
        );
        assert_eq!(of(&[]), json!({"buckets": []}));
    }

    proptest! {
        #[test]
        fn merging_does_not_depend_on_split_or_order(
            pairs in prop::collection::vec((prop::option::of(0_i64..4), prop::option::of(0_i64..2)), 0..30),
            cut in 0_usize..30,
        ) {
            let (_, order) = composite();
            let cut = cut.min(pairs.len());
            let (left, right) = (partial(&order, &pairs[..cut]), partial(&order, &pairs[cut..]));
            let mut forward = CompositePartial::default();
            forward.fold(left.clone(), &mut Room::new(usize::MAX)).unwrap();
            forward.fold(right.clone(), &mut Room::new(usize::MAX)).unwrap();
            let mut backward = right;
            backward.fold(left, &mut Room::new(usize::MAX)).unwrap();
            prop_assert_eq!(&forward, &backward);
            prop_assert_eq!(forward, partial(&order, &pairs));
        }
    }
}
