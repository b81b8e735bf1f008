//! Counts of `terms` by segment ordinal, resolved to keys only for values that may be in the answer.
//!
//! A segment counts by the ordinal of a value in its dictionary. Resolving hundred thousands of keys to merge them with
//! other segments takes longer than counting, and nearly all are dropped. Instead each segment returns its most
//! frequent keys; a value that no segment returned has at most as many documents as the smallest returned counts of all
//! segments together. Once enough values are certainly above that bound, they are the exact answer (the threshold
//! algorithm of Fagin, Lotem and Naor); if not, each segment returns more.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;

use firn_model::Result;

use crate::aggs::KeyBytes;

/// Keys that a segment returns in the first round; each further round returns `MORE_NAMED` times as many.
const FIRST_NAMED: usize = 64;
const MORE_NAMED: usize = 16;

/// Counts of one segment.
pub trait ValueCounts: Debug + Send + Sync {
    /// Returns the number of counted values.
    fn value_count(&self) -> usize;

    /// Returns the number of documents in all buckets.
    fn total(&self) -> u64;

    /// Returns the `count` most frequent values with their counts, and the maximum count of all other values.
    fn most_frequent(&self, count: usize) -> Result<(Vec<(KeyBytes, u64)>, u64)>;

    /// Returns the counts of some values; 0 for values that the segment does not have.
    fn counts_of(&self, keys: &[&KeyBytes]) -> Result<Vec<u64>>;
}

/// Counts of several segments.
#[derive(Debug, Clone, Default)]
pub struct StoredCounts(pub Vec<Arc<dyn ValueCounts>>);

impl PartialEq for StoredCounts {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self
                .0
                .iter()
                .zip(&other.0)
                .all(|(own, theirs)| Arc::ptr_eq(own, theirs))
    }
}

/// First values by count (then by key), and a summary of the rest.
pub(super) struct First {
    pub(super) counts: Vec<(KeyBytes, u64)>,
    /// Documents in the buckets of all other values.
    pub(super) other_doc_count: u64,
    /// Whether there are other values.
    pub(super) is_cut: bool,
}

impl StoredCounts {
    /// Returns the `keep` values with the most documents, combined with the counts already known by key.
    pub(super) fn first(&self, known: &HashMap<KeyBytes, u64>, keep: usize) -> Result<First> {
        let total = self.0.iter().map(|counts| counts.total()).sum::<u64>() + known.values().sum::<u64>();
        let most = self.0.iter().map(|counts| counts.value_count()).max().unwrap_or(0);
        let mut named = FIRST_NAMED.max(keep.saturating_mul(2));
        loop {
            let mut bound = 0;
            let mut keys: HashSet<KeyBytes> = known.keys().cloned().collect();
            for counts in &self.0 {
                let (values, floor) = counts.most_frequent(named)?;
                keys.extend(values.into_iter().map(|(key, _)| key));
                bound += floor;
            }
            let keys: Vec<KeyBytes> = keys.into_iter().collect();
            let wanted: Vec<&KeyBytes> = keys.iter().collect();
            let mut sums: Vec<u64> = keys.iter().map(|key| known.get(key).copied().unwrap_or(0)).collect();
            for counts in &self.0 {
                for (sum, count) in sums.iter_mut().zip(counts.counts_of(&wanted)?) {
                    *sum += count;
                }
            }
            let mut ranked: Vec<(KeyBytes, u64)> = keys.into_iter().zip(sums).collect();
            ranked.sort_unstable_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
            let all_named = named >= most;
            // A value with the same count as the last one could sort before it by key.
            let certain = keep > 0 && ranked.get(keep - 1).is_some_and(|last| last.1 > bound);
            if all_named || certain || keep == 0 {
                let is_cut = ranked.len() > keep || !all_named;
                ranked.truncate(keep);
                let returned: u64 = ranked.iter().map(|(_, count)| count).sum();
                return Ok(First {
                    counts: ranked,
                    other_doc_count: total - returned,
                    is_cut,
                });
            }
            named = named.saturating_mul(MORE_NAMED);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug)]
    struct Counts(HashMap<KeyBytes, u64>);

    impl ValueCounts for Counts {
        fn value_count(&self) -> usize {
            self.0.len()
        }

        fn total(&self) -> u64 {
            self.0.values().sum()
        }

        fn most_frequent(&self, count: usize) -> Result<(Vec<(KeyBytes, u64)>, u64)> {
            let mut all: Vec<_> = self.0.iter().map(|(key, count)| (key.clone(), *count)).collect();
            all.sort_by_key(|(_, count)| Reverse(*count));
            let floor = all.get(count).map_or(0, |(_, count)| *count);
            all.truncate(count);
            Ok((all, floor))
        }

        fn counts_of(&self, keys: &[&KeyBytes]) -> Result<Vec<u64>> {
            Ok(keys.iter().map(|key| self.0.get(*key).copied().unwrap_or(0)).collect())
        }
    }

    proptest! {
        #[test]
        fn the_first_values_are_those_of_all_counts_together(
            segments in prop::collection::vec(prop::collection::vec((0_i64..600, 1_u64..40), 0..400), 1..5),
            known in prop::collection::vec((0_i64..600, 1_u64..40), 0..20),
            keep in 0_usize..40,
        ) {
            let known: HashMap<KeyBytes, u64> = known.into_iter().map(|(key, count)| (KeyBytes::I64(key), count)).collect();
            let maps: Vec<HashMap<KeyBytes, u64>> = segments
                .into_iter()
                .map(|counts| counts.into_iter().map(|(key, count)| (KeyBytes::I64(key), count)).collect())
                .collect();
            let mut all: HashMap<KeyBytes, u64> = known.clone();
            for map in &maps {
                for (key, count) in map {
                    *all.entry(key.clone()).or_default() += count;
                }
            }
            let total: u64 = all.values().sum();
            let distinct = all.len();
            let mut wanted: Vec<_> = all.into_iter().collect();
            wanted.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
            wanted.truncate(keep);
            let stored = StoredCounts(maps.into_iter().map(|map| Arc::new(Counts(map)) as Arc<dyn ValueCounts>).collect());
            let first = stored.first(&known, keep).unwrap();
            let returned: u64 = wanted.iter().map(|(_, count)| count).sum();
            prop_assert_eq!(&first.counts, &wanted);
            prop_assert_eq!(first.other_doc_count, total - returned);
            prop_assert_eq!(first.is_cut, distinct > keep);
        }
    }
}
