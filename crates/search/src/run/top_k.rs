//! Top-k hits of a segment: a bounded heap, or a bounded set with one hit per group.

use std::collections::{BTreeSet, BinaryHeap, HashMap};

use tantivy::DocId;

/// A hit with its encoded sort keys; ordered by the keys, then by document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) first: u128,
    pub(crate) rest: Vec<u128>,
    pub(crate) doc: DocId,
    pub(crate) score_bits: u32,
    /// The group under `collapse`; `None` without a value, or if hits are not collapsed.
    pub(crate) group: Option<u64>,
}

/// The first `keep` hits, or the first hits of the first `keep` groups.
pub(crate) struct TopK {
    keep: usize,
    hits: Hits,
}

enum Hits {
    /// Max-heap: the last of the hits is on top.
    All(BinaryHeap<Entry>),
    /// An evicted group may return with an earlier hit. That stays correct: when the group was evicted, all
    /// retained groups had earlier hits, and those only improve.
    Groups {
        ordered: BTreeSet<Entry>,
        by_group: HashMap<Option<u64>, Entry>,
    },
}

impl TopK {
    pub(crate) fn new(collapsed: bool, keep: usize, capacity: usize) -> Self {
        let hits = if collapsed {
            Hits::Groups {
                ordered: BTreeSet::new(),
                by_group: HashMap::new(),
            }
        } else {
            Hits::All(BinaryHeap::with_capacity(capacity))
        };
        Self { keep, hits }
    }

    fn len(&self) -> usize {
        match &self.hits {
            Hits::All(heap) => heap.len(),
            Hits::Groups { ordered, .. } => ordered.len(),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.keep
    }

    /// Returns an upper bound of the first key: a hit past it cannot enter the top-k.
    pub(crate) fn bound(&self) -> u128 {
        if !self.is_full() {
            return u128::MAX;
        }
        let last = match &self.hits {
            Hits::All(heap) => heap.peek(),
            Hits::Groups { ordered, .. } => ordered.last(),
        };
        last.map_or(u128::MAX, |entry| entry.first)
    }

    /// Adds a hit if it belongs to the top-k.
    pub(crate) fn push(&mut self, entry: Entry) {
        let full = self.is_full();
        match &mut self.hits {
            Hits::All(heap) if !full => heap.push(entry),
            Hits::All(heap) => {
                if let Some(mut last) = heap.peek_mut()
                    && entry < *last
                {
                    *last = entry;
                }
            }
            Hits::Groups { ordered, by_group } => {
                if let Some(own) = by_group.get(&entry.group) {
                    if entry >= *own {
                        return;
                    }
                    ordered.remove(own);
                } else if full {
                    if ordered.last().is_none_or(|last| entry >= *last) {
                        return;
                    }
                    if let Some(last) = ordered.pop_last() {
                        by_group.remove(&last.group);
                    }
                }
                by_group.insert(entry.group, entry.clone());
                ordered.insert(entry);
            }
        }
    }

    /// Returns all hits, in order.
    pub(crate) fn into_sorted(self) -> Vec<Entry> {
        match self.hits {
            Hits::All(heap) => heap.into_sorted_vec(),
            Hits::Groups { ordered, .. } => ordered.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(first: u8, doc: DocId, group: Option<u64>) -> Entry {
        Entry {
            first: first.into(),
            rest: Vec::new(),
            doc,
            score_bits: 0,
            group,
        }
    }

    proptest! {
        /// The result equals sorting all hits and retaining the first of each group.
        #[test]
        fn keeps_the_first(
            keys in prop::collection::vec((0u8..10, prop::option::of(0u64..6)), 0..40),
            keep in 1usize..8,
            collapsed: bool,
        ) {
            let mut all: Vec<Entry> = keys.iter().enumerate().map(|(doc, &(first, group))| entry(first, doc as u32, group)).collect();
            let mut top_k = TopK::new(collapsed, keep, 0);
            for entry in &all {
                if entry.first <= top_k.bound() {
                    top_k.push(entry.clone());
                }
            }
            all.sort();
            let mut seen = std::collections::HashSet::new();
            all.retain(|entry| !collapsed || seen.insert(entry.group));
            all.truncate(keep);
            prop_assert_eq!(top_k.into_sorted(), all);
        }
    }
}
