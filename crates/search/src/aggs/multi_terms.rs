//! `multi_terms` aggregation: a bucket per combination of values.

use std::collections::HashMap;

use firn_model::{Error, ErrorKind, Result};
use firn_query::aggs::{KeyBytes, MultiTerms, Partial, TermsPartial, ValueFormat};
use tantivy::DocId;

use super::super::compile::Compiler;
use super::buckets::Buckets;
use super::collector::{Collector, Level, Scope, paced};
use super::components::{Component, ComponentPlan};
use super::table::Mixer;
use crate::run::memory::Memory;

/// `multi_terms`, compiled.
pub(super) struct MultiTermsPlan(Vec<ComponentPlan>);

impl MultiTermsPlan {
    pub(super) fn compile(compiler: &Compiler, part: &MultiTerms) -> Result<Self> {
        let sources = part.sources.iter();
        Ok(Self(
            sources
                .map(|source| ComponentPlan::of_terms(compiler, source))
                .collect::<Result<_>>()?,
        ))
    }

    pub(super) fn open(&self, scope: Scope, sub: Level) -> Result<Box<dyn Collector>> {
        let plans = self.0.iter();
        Ok(Box::new(MultiTermsCollector {
            missing: plans.clone().map(|plan| plan.missing.clone()).collect(),
            formats: plans.clone().map(|plan| plan.format.clone()).collect(),
            components: plans.map(|plan| plan.open(scope)).collect::<Result<_>>()?,
            numbers: HashMap::default(),
            paid: 0,
            buckets: Buckets::new(None, sub, scope.memory),
            memory: scope.memory.clone(),
            combinations: Combinations::default(),
        }))
    }
}

/// Most combinations of one document, each of which is a bucket: as many as an answer may have.
const COMBINATIONS_MAX: usize = 1 << 16;
/// Combinations that are counted together, apart from those of one document.
const PENDING_MAX: usize = 1 << 14;
/// Combinations between two checks for cancellation.
pub(super) const PAUSE_EVERY: usize = 1 << 12;

/// Marks a document without a value; values of components are shifted by one.
const MISSING: u128 = 0;

struct MultiTermsCollector {
    components: Vec<Component>,
    missing: Vec<Option<KeyBytes>>,
    formats: Vec<ValueFormat>,
    /// The number of each combination so far.
    numbers: HashMap<Box<[u128]>, u32, Mixer>,
    /// How many of them are counted as memory.
    paid: usize,
    buckets: Buckets,
    memory: Memory,
    combinations: Combinations,
}

impl MultiTermsCollector {
    /// Counts the pending combinations, so that no more are pending than a block may have.
    fn flush(&mut self) -> Result<()> {
        self.memory.pause()?;
        let grown = self.numbers.len() - self.paid;
        self.memory.take(grown * (48 + 16 * self.components.len()))?;
        self.paid = self.numbers.len();
        self.buckets.flush()
    }
}

impl Collector for MultiTermsCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        for component in &mut self.components {
            component.read(docs);
        }
        let mut pending = 0;
        for (position, (&doc, &parent)) in docs.iter().zip(buckets).enumerate() {
            self.combinations.clear();
            for (component, missing) in self.components.iter_mut().zip(&self.missing) {
                let values = component.values_at(position);
                match (values.is_empty(), missing) {
                    (false, _) => self.combinations.add(values.iter().map(|value| value + 1)),
                    (true, Some(_)) => self.combinations.add([MISSING]),
                    (true, None) => self.combinations.add([]),
                }
            }
            let count = self.combinations.count();
            if count > COMBINATIONS_MAX {
                return Err(Error::new(
                    ErrorKind::TooManyBuckets,
                    format!(
                        "Trying to create too many buckets. The values of a document may have at most \
                         [{COMBINATIONS_MAX}] combinations in [multi_terms]; one document has more."
                    ),
                ));
            }
            if pending + count > PENDING_MAX {
                self.flush()?;
                pending = 0;
            }
            pending += count;
            while let Some(tuple) = self.combinations.next() {
                let number = match self.numbers.get(tuple) {
                    Some(number) => *number,
                    None => {
                        let number = self.numbers.len() as u32;
                        self.numbers.insert(tuple.into(), number);
                        number
                    }
                };
                self.buckets.push(doc, parent, number.into());
            }
        }
        self.flush()
    }

    fn finish(self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        let mut tuples: Vec<Box<[u128]>> = vec![Box::default(); self.numbers.len()];
        for (tuple, number) in self.numbers {
            tuples[number as usize] = tuple;
        }
        let keys = resolve(&self.components, &self.missing, &tuples)?;
        let empty = TermsPartial {
            formats: self.formats,
            ..TermsPartial::default()
        };
        let mut partials = vec![empty; bucket_count];
        for (entry, bucket) in paced(self.buckets.finish()?.into_iter()) {
            let Some(partial) = partials.get_mut(entry.parent as usize) else {
                continue;
            };
            let own = partial.buckets.entry(keys[entry.key as usize].clone()).or_default();
            // Some documents really have the value for missing ones.
            own.doc_count += bucket.doc_count;
            own.sub.merge(bucket.sub)?;
        }
        Ok(partials.into_iter().map(Partial::Terms).collect())
    }
}

/// Returns the keys of tuples whose values are shifted by one, with 0 for missing ones.
pub(super) fn resolve(
    components: &[Component],
    missing: &[Option<KeyBytes>],
    tuples: &[Box<[u128]>],
) -> Result<Vec<KeyBytes>> {
    let mut parts: Vec<Vec<KeyBytes>> = vec![Vec::with_capacity(components.len()); tuples.len()];
    for (place, (component, missing)) in components.iter().zip(missing).enumerate() {
        let mut values: Vec<u128> = tuples.iter().filter_map(|tuple| tuple[place].checked_sub(1)).collect();
        values.sort_unstable();
        values.dedup();
        let keys = component.keys(&values)?;
        for (parts, tuple) in parts.iter_mut().zip(tuples) {
            let key = tuple[place]
                .checked_sub(1)
                .and_then(|value| values.binary_search(&value).ok());
            parts.push(match key {
                Some(found) => keys[found].clone(),
                None => missing.clone().unwrap_or(KeyBytes::Null),
            });
        }
    }
    let tuple = |parts: Vec<KeyBytes>| KeyBytes::Tuple(parts.into_boxed_slice());
    Ok(parts.into_iter().map(tuple).collect())
}

/// All combinations of some lists of values; they ascend if the lists ascend.
#[derive(Default)]
pub(super) struct Combinations {
    values: Vec<u128>,
    /// Start and end of each list.
    lists: Vec<(usize, usize)>,
    /// Position of the current combination in each list.
    at: Vec<usize>,
    tuple: Vec<u128>,
    started: bool,
    /// The current combination was not returned yet.
    is_next: bool,
    is_over: bool,
}

impl Combinations {
    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.lists.clear();
        self.at.clear();
        self.tuple.clear();
        (self.started, self.is_next, self.is_over) = (false, false, false);
    }

    /// Adds a list. If a list is empty, there are no combinations.
    pub(super) fn add(&mut self, values: impl IntoIterator<Item = u128>) {
        let start = self.values.len();
        self.values.extend(values);
        self.lists.push((start, self.values.len()));
        self.at.push(start);
    }

    /// Returns the number of combinations, saturating.
    fn count(&self) -> usize {
        let lengths = self.lists.iter().map(|(start, end)| end - start);
        match lengths.clone().any(|length| length == 0) {
            true => 0,
            false => lengths.fold(1, usize::saturating_mul),
        }
    }

    /// Skips all combinations up to this one; the lists must ascend. Call it before the first
    /// [`Combinations::next`].
    pub(super) fn skip_past(&mut self, last: &[u128]) {
        if self.lists.iter().any(|(start, end)| start == end) {
            return;
        }
        // The place where the first combination that is not smaller differs; `None`: it is equal.
        let mut above = None;
        for (place, (&(start, end), part)) in self.lists.iter().zip(last).enumerate() {
            let found = start + self.values[start..end].partition_point(|value| value < part);
            self.at[place] = found;
            if found == end || self.values[found] > *part {
                above = Some(place);
                break;
            }
        }
        if let Some(place) = above {
            for rest in place + 1..self.lists.len() {
                self.at[rest] = self.lists[rest].0;
            }
            if self.at[place] < self.lists[place].1 {
                return self.stand();
            }
            // All values of this list are smaller: the previous list advances.
            self.at[place] = self.lists[place].1 - 1;
            for rest in place + 1..self.lists.len() {
                self.at[rest] = self.lists[rest].1 - 1;
            }
        }
        self.stand();
        self.is_next = self.turn();
        self.is_over = !self.is_next;
    }

    /// Makes the combination at the current positions the next one.
    fn stand(&mut self) {
        self.tuple.clear();
        self.tuple.extend(self.at.iter().map(|&at| self.values[at]));
        self.started = true;
        self.is_next = true;
    }

    /// Returns the next combination.
    pub(super) fn next(&mut self) -> Option<&[u128]> {
        if !self.started {
            if self.lists.iter().any(|(start, end)| start == end) {
                return None;
            }
            self.stand();
        }
        if self.is_over || !std::mem::take(&mut self.is_next) && !self.turn() {
            return None;
        }
        Some(&self.tuple)
    }

    /// Advances like an odometer, the last list fastest. Returns false after the last combination.
    fn turn(&mut self) -> bool {
        for place in (0..self.lists.len()).rev() {
            let (start, end) = self.lists[place];
            self.at[place] += 1;
            if self.at[place] < end {
                self.tuple[place] = self.values[self.at[place]];
                return true;
            }
            self.at[place] = start;
            self.tuple[place] = self.values[start];
        }
        self.is_over = true;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_combinations_come_in_order() {
        let mut combinations = Combinations::default();
        let mut check = |lists: &[&[u128]], expected: &[[u128; 2]]| {
            combinations.clear();
            for list in lists {
                combinations.add(list.iter().copied());
            }
            let mut found = Vec::new();
            while let Some(tuple) = combinations.next() {
                found.push([tuple[0], tuple[1]]);
            }
            assert_eq!(found, expected);
        };
        check(&[&[1, 2], &[5, 6]], &[[1, 5], [1, 6], [2, 5], [2, 6]]);
        check(&[&[1], &[5]], &[[1, 5]]);
        check(&[&[1, 2], &[]], &[]);
    }

    #[test]
    fn combinations_go_on_after_any_tuple() {
        let lists: [&[u128]; 3] = [&[2, 4], &[1, 3, 5], &[2, 6]];
        let of = |after: Option<&[u128]>| {
            let mut combinations = Combinations::default();
            lists.iter().for_each(|list| combinations.add(list.iter().copied()));
            assert_eq!(combinations.count(), 12);
            if let Some(after) = after {
                combinations.skip_past(after);
            }
            let mut found = Vec::new();
            while let Some(tuple) = combinations.next() {
                found.push(tuple.to_vec());
            }
            assert!(combinations.next().is_none());
            found
        };
        let all = of(None);
        for number in 0..8 * 8 * 8 {
            let after = [number / 64, number / 8 % 8, number % 8];
            let mut rest = all.clone();
            rest.retain(|tuple| tuple.as_slice() > after.as_slice());
            assert_eq!(of(Some(&after)), rest, "{after:?}");
        }
    }

    #[test]
    fn too_many_combinations_to_count_are_still_many() {
        let mut combinations = Combinations::default();
        for _ in 0..32 {
            combinations.add(0..5);
        }
        assert_eq!(combinations.count(), usize::MAX);
        // The last one is found without iterating over the others.
        combinations.skip_past(&[[4; 31].as_slice(), &[3]].concat());
        assert_eq!(combinations.next(), Some([4; 32].as_slice()));
        assert_eq!(combinations.next(), None);
    }
}
