//! `multi_terms`: a bucket per combination of values.

use std::collections::HashMap;

use firn_engine::aggs::{KeyBytes, MultiTerms, Partial, TermsPartial, ValueFormat};
use firn_model::Result;
use tantivy::DocId;

use super::super::compile::Compiler;
use super::super::memory::Memory;
use super::buckets::Buckets;
use super::components::{Component, ComponentPlan};
use super::table::Mixer;
use super::{Collector, Level, Scope, paced};

/// `multi_terms`, resolved.
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
            buckets: Buckets::new(None, sub, scope.memory),
            memory: scope.memory.clone(),
            combinations: Combinations::default(),
        }))
    }
}

/// Marks a document without a value; values of components are shifted by one.
const MISSING: u128 = 0;

struct MultiTermsCollector {
    components: Vec<Component>,
    missing: Vec<Option<KeyBytes>>,
    formats: Vec<ValueFormat>,
    /// The number of each combination met.
    numbers: HashMap<Box<[u128]>, u32, Mixer>,
    buckets: Buckets,
    memory: Memory,
    combinations: Combinations,
}

impl Collector for MultiTermsCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        for component in &mut self.components {
            component.read(docs);
        }
        let known = self.numbers.len();
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
        let grown = self.numbers.len() - known;
        self.memory.take(grown * (48 + 16 * self.components.len()))?;
        self.buckets.flush()
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
            // A value for missing ones that some documents really have.
            own.doc_count += bucket.doc_count;
            own.sub.merge(bucket.sub)?;
        }
        Ok(partials.into_iter().map(Partial::Terms).collect())
    }
}

/// The keys of tuples whose values are shifted by one, with 0 for missing ones.
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

/// All combinations of some lists of values, in ascending order if the lists ascend.
#[derive(Default)]
pub(super) struct Combinations {
    values: Vec<u128>,
    /// Where each list begins and ends.
    lists: Vec<(usize, usize)>,
    /// Where in each list the current combination is.
    at: Vec<usize>,
    tuple: Vec<u128>,
    started: bool,
}

impl Combinations {
    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.lists.clear();
        self.at.clear();
        self.tuple.clear();
        self.started = false;
    }

    /// Adds a list. With an empty one there are no combinations.
    pub(super) fn add(&mut self, values: impl IntoIterator<Item = u128>) {
        let start = self.values.len();
        self.values.extend(values);
        self.lists.push((start, self.values.len()));
        self.at.push(start);
    }

    /// The next combination.
    pub(super) fn next(&mut self) -> Option<&[u128]> {
        if !self.started {
            self.started = true;
            if self.lists.iter().any(|(start, end)| start == end) {
                return None;
            }
            self.tuple.extend(self.at.iter().map(|&at| self.values[at]));
            return Some(&self.tuple);
        }
        // An odometer: the last list turns fastest.
        for place in (0..self.lists.len()).rev() {
            let (start, end) = self.lists[place];
            self.at[place] += 1;
            if self.at[place] < end {
                self.tuple[place] = self.values[self.at[place]];
                return Some(&self.tuple);
            }
            self.at[place] = start;
            *self.tuple.get_mut(place)? = self.values[start];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_all_there_in_order() {
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
}
