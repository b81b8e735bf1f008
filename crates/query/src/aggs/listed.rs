//! Partial result of aggregations whose buckets the request lists: `range`, `date_range`, `ip_range`, `filters`.

use firn_model::Result;

use super::partial::Room;
use super::{Bucket, ValueFormat};

/// Partial result of aggregations whose buckets are known from the request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ListedPartial {
    /// In the order of the request; empty until a segment reported.
    pub buckets: Vec<Bucket>,
    /// Bounds of the ranges as a shard resolved them (`[from, to)`), in the order of the request; dates in ms. Empty if
    /// they equal those of the request.
    pub bounds: Vec<(f64, f64)>,
    /// Format of the bounds.
    pub format: ValueFormat,
}

impl ListedPartial {
    pub(super) fn fold(&mut self, other: Self, room: &mut Room) -> Result<()> {
        self.format.merge(&other.format);
        if self.bounds.is_empty() {
            self.bounds = other.bounds;
        }
        for (position, bucket) in other.buckets.into_iter().enumerate() {
            match self.buckets.get_mut(position) {
                Some(own) => own.fold(bucket, room)?,
                None => {
                    room.take_with(|| bucket.bucket_count())?;
                    self.buckets.push(bucket);
                }
            }
        }
        Ok(())
    }

    /// Returns `count` buckets, empty ones if no segment reported.
    pub(super) fn take_buckets(&mut self, count: usize) -> Vec<Bucket> {
        let mut buckets = std::mem::take(&mut self.buckets);
        buckets.resize_with(count, Bucket::default);
        buckets
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn merging_does_not_depend_on_split_or_order(counts in prop::collection::vec((0_usize..4, 0_u64..9), 0..30)) {
            let of = |counts: &[(usize, u64)]| {
                let mut partial = ListedPartial::default();
                if !counts.is_empty() {
                    partial.buckets.resize_with(4, Bucket::default);
                }
                counts.iter().for_each(|(position, count)| partial.buckets[*position].doc_count += count);
                partial
            };
            let half = counts.len() / 2;
            let mut forward = of(&counts[..half]);
            forward.fold(of(&counts[half..]), &mut Room::new(usize::MAX)).unwrap();
            let mut backward = of(&counts[half..]);
            backward.fold(of(&counts[..half]), &mut Room::new(usize::MAX)).unwrap();
            prop_assert_eq!(&forward, &backward);
            prop_assert_eq!(forward, of(&counts));
        }
    }
}
