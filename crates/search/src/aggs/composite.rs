//! `composite` aggregation: the first combinations of values after a key.
//!
//! A segment retains the first `size` keys of the page so far, so memory is bounded by the page size for any number
//! of keys. Most documents are skipped by comparing their key with the last retained one, often by its first
//! component alone. The keys of one document are generated in order, from the first one after the previous page up
//! to the last retained one: a document costs no more than a page, for any number of combinations.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_model::{Error, Result};
use firn_query::aggs::{Bucket, Composite, CompositeOrder, CompositePartial, KeyBytes, Partial, Partials, ValueFormat};
use tantivy::{DocId, Score};

use super::super::compile::Compiler;
use super::collector::{Collector, Level, Scope};
use super::components::{Component, ComponentPlan, Place};
use super::multi_terms::{Combinations, PAUSE_EVERY, resolve};
use super::score_table::ScoreBoard;
use crate::run::memory::Memory;

/// Fewest pending documents for the sub-aggregations before they are filtered; they are filtered whenever their
/// number has doubled.
const WAITING_MIN: usize = 1 << 14;

/// Documents passed on together.
const BLOCK: usize = 1024;

/// `composite`, compiled.
pub(super) struct CompositePlan {
    components: Vec<(ComponentPlan, Direction)>,
    after: Option<Vec<KeyBytes>>,
    size: usize,
    order: CompositeOrder,
}

/// Encoding of the values of a component as numbers that ascend in the order of the request.
#[derive(Debug, Clone, Copy)]
struct Direction {
    ascending: bool,
    nulls_first: bool,
}

/// Larger than every value of a component.
const VALUES_END: u128 = 1 << 66;

impl Direction {
    /// Encodes a value. Values are odd numbers, the gaps between values even ones.
    fn encode(self, value: u128) -> u128 {
        let step = if self.ascending { value } else { VALUES_END - value };
        (step << 1) + 3
    }

    fn null(self) -> u128 {
        if self.nulls_first { 1 } else { u128::MAX }
    }

    /// Encodes a position at a value or between values.
    fn encode_place(self, place: Place) -> u128 {
        match place {
            Place::At(value) => self.encode(value),
            Place::Before(value) if self.ascending => self.encode(value) - 1,
            Place::Before(value) => self.encode(value) + 1,
        }
    }

    /// Decodes to the value plus one, or 0 for null.
    fn decode(self, encoded: u128) -> u128 {
        if encoded == self.null() {
            return 0;
        }
        let step = (encoded - 3) >> 1;
        1 + if self.ascending { step } else { VALUES_END - step }
    }
}

impl CompositePlan {
    pub(super) fn compile(compiler: &Compiler, part: &Composite) -> Result<Self> {
        let mut components = Vec::with_capacity(part.sources.len());
        let mut after = Vec::new();
        for (position, source) in part.sources.iter().enumerate() {
            let plan = ComponentPlan::of_composite(compiler, source)?;
            if let Some(values) = &part.after {
                after.push(plan.read_after(&source.name, &values[position])?);
            }
            let direction = Direction {
                ascending: source.ascending,
                nulls_first: source.nulls_first(),
            };
            components.push((plan, direction));
        }
        Ok(Self {
            components,
            after: part.after.as_ref().map(|_| after),
            size: part.size,
            order: part.order(),
        })
    }

    pub(super) fn open(&self, scope: Scope, sub: Level, with_scores: bool) -> Result<Box<dyn Collector>> {
        let mut components = Vec::with_capacity(self.components.len());
        for (plan, direction) in &self.components {
            components.push((plan.open(scope)?, *direction));
        }
        let after = match &self.after {
            None => Vec::new(),
            Some(keys) => components
                .iter()
                .zip(keys)
                .map(|((component, direction), key)| match key {
                    KeyBytes::Null => Ok(direction.null()),
                    key => Ok(direction.encode_place(component.place(key)?)),
                })
                .collect::<Result<_>>()?,
        };
        Ok(Box::new(CompositeCollector {
            missing: self.components.iter().map(|(plan, _)| plan.missing.clone()).collect(),
            formats: self.components.iter().map(|(plan, _)| plan.format.clone()).collect(),
            components,
            after,
            size: self.size,
            order: self.order.clone(),
            page: Page::default(),
            combinations: Combinations::default(),
            encoded: Vec::new(),
            rounds: 0,
            waiting: Vec::new(),
            waiting_max: WAITING_MIN,
            taken: 0,
            sub,
            memory: scope.memory.clone(),
            scores: with_scores.then(|| Arc::clone(scope.scores)),
        }))
    }
}

struct CompositeCollector {
    components: Vec<(Component, Direction)>,
    missing: Vec<Option<KeyBytes>>,
    formats: Vec<ValueFormat>,
    /// Keys up to this one were on previous pages; empty: this is the first page.
    after: Vec<u128>,
    size: usize,
    order: CompositeOrder,
    page: Page,
    combinations: Combinations,
    /// The values of a component of one document.
    encoded: Vec<u128>,
    /// Number of combinations so far.
    rounds: usize,
    /// Documents with the numbers of their keys, for the sub-aggregations. Only the end of the segment shows which
    /// keys remain on the page.
    waiting: Vec<(DocId, u32, Score)>,
    waiting_max: usize,
    taken: usize,
    sub: Level,
    memory: Memory,
    /// Scores for the sub-aggregations, if they read scores.
    scores: Option<Arc<ScoreBoard>>,
}

/// The first keys so far.
#[derive(Default)]
struct Page {
    keys: BTreeMap<Box<[u128]>, u32>,
    /// By number of a key; an evicted key retains its number and its place here.
    counts: Vec<u64>,
    /// The key of the previous document, which the next one often shares.
    last: Option<(Box<[u128]>, u32)>,
}

impl Page {
    /// Returns the number of a key, if it is among the first `size`.
    fn number(&mut self, key: &[u128], size: usize) -> Option<u32> {
        if let Some((last, number)) = &self.last
            && **last == *key
        {
            return Some(*number);
        }
        if self.keys.len() >= size && self.keys.last_key_value().is_some_and(|(worst, _)| key > &**worst) {
            return None;
        }
        let number = match self.keys.get(key) {
            Some(number) => *number,
            None => {
                let number = self.counts.len() as u32;
                self.counts.push(0);
                self.keys.insert(key.into(), number);
                if self.keys.len() > size
                    && let Some((pushed_out, _)) = self.keys.pop_last()
                    && *pushed_out == *key
                {
                    return None;
                }
                number
            }
        };
        self.last = Some((key.into(), number));
        Some(number)
    }

    /// Returns the largest first component that may still be on the page.
    fn first_max(&self, size: usize) -> u128 {
        match self.keys.last_key_value() {
            Some((worst, _)) if self.keys.len() >= size => worst.first().copied().unwrap_or(u128::MAX),
            _ => u128::MAX,
        }
    }

    /// Renumbers keys without gaps; returns the new number of each old one.
    fn renumber(&mut self) -> Vec<Option<u32>> {
        let mut numbers = vec![None; self.counts.len()];
        let mut counts = Vec::with_capacity(self.keys.len());
        for number in self.keys.values_mut() {
            let new = counts.len() as u32;
            counts.push(self.counts[*number as usize]);
            numbers[*number as usize] = Some(new);
            *number = new;
        }
        self.counts = counts;
        self.last = None;
        numbers
    }
}

impl CompositeCollector {
    fn is_untidy(&self) -> bool {
        self.page.counts.len() > 2 * self.size + WAITING_MIN || self.waiting.len() > self.waiting_max
    }

    /// Removes pending documents whose keys were evicted.
    fn tidy(&mut self) -> Result<()> {
        if self.is_untidy() {
            let numbers = self.page.renumber();
            self.waiting
                .retain_mut(|(_, number, _)| match numbers[*number as usize] {
                    Some(new) => {
                        *number = new;
                        true
                    }
                    None => false,
                });
            self.waiting_max = WAITING_MIN.max(self.waiting.len() * 2);
        }
        self.pay()
    }

    /// Reserves memory of the search for the retained data.
    fn pay(&mut self) -> Result<()> {
        let bytes = self.waiting.capacity() * size_of::<(DocId, u32, Score)>()
            + self.page.counts.capacity() * 8
            + self.page.keys.len() * (64 + 16 * self.components.len());
        if bytes > self.taken {
            self.memory.take(bytes - self.taken)?;
            self.taken = bytes;
        }
        Ok(())
    }
}

impl Collector for CompositeCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        if buckets.iter().any(|bucket| *bucket != 0) {
            return Err(Error::internal("a composite has one parent bucket at most"));
        }
        for (component, _) in &mut self.components {
            component.read(docs);
        }
        let has_sub = !self.sub.is_empty();
        let board = self.scores.clone();
        let mut scores = board.as_deref().map(ScoreBoard::read);
        let first_after = self.after.first().copied().unwrap_or(0);
        for (position, &doc) in docs.iter().enumerate() {
            self.combinations.clear();
            let first_max = self.page.first_max(self.size);
            for (place, (component, direction)) in self.components.iter_mut().enumerate() {
                // Ascending, so that the combinations ascend.
                let values = component.values_at(position);
                self.encoded.clear();
                self.encoded.extend(values.iter().map(|value| direction.encode(*value)));
                if !direction.ascending {
                    self.encoded.reverse();
                }
                let encoded = self.encoded.iter().copied();
                match (values.is_empty(), &self.missing[place]) {
                    // A value whose first component cannot be on the page is not combined at all.
                    (false, _) if place == 0 => self
                        .combinations
                        .add(encoded.filter(|first| (first_after..=first_max).contains(first))),
                    (false, _) => self.combinations.add(encoded),
                    (true, Some(_)) => self.combinations.add([direction.null()]),
                    (true, None) => self.combinations.add([]),
                }
            }
            if !self.after.is_empty() {
                self.combinations.skip_past(&self.after);
            }
            loop {
                self.rounds += 1;
                if self.rounds.is_multiple_of(PAUSE_EVERY) {
                    self.memory.pause()?;
                    self.pay()?;
                }
                let Some(key) = self.combinations.next() else {
                    break;
                };
                // Later combinations are even larger.
                let Some(number) = self.page.number(key, self.size) else {
                    break;
                };
                self.page.counts[number as usize] += 1;
                if has_sub {
                    let score = scores.as_mut().map_or(0.0, |scores| scores.of(doc));
                    self.waiting.push((doc, number, score));
                }
            }
            if self.is_untidy() {
                self.tidy()?;
            }
        }
        self.tidy()
    }

    fn finish(mut self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        let numbers = self.page.renumber();
        let mut below: Vec<Partials> = Vec::new();
        let sub = std::mem::replace(&mut self.sub, Level::none());
        if !sub.is_empty() {
            below = self.collect_below(sub, &numbers)?;
        }
        let directions = self.components.iter().map(|(_, direction)| *direction);
        let tuples: Vec<Box<[u128]>> = self
            .page
            .keys
            .keys()
            .map(|key| {
                key.iter()
                    .zip(directions.clone())
                    .map(|(part, direction)| direction.decode(*part))
                    .collect()
            })
            .collect();
        let components: Vec<Component> = self.components.into_iter().map(|(component, _)| component).collect();
        let keys = resolve(&components, &self.missing, &tuples)?;
        let mut partial = CompositePartial {
            formats: self.formats,
            order: Some(self.order),
            ..CompositePartial::default()
        };
        // Keys are now numbered in their order.
        for (number, (key, doc_count)) in keys.into_iter().zip(self.page.counts).enumerate() {
            let sub = below.get_mut(number).map(std::mem::take).unwrap_or_default();
            partial.buckets.insert(key, Bucket { doc_count, sub });
        }
        let mut partials = vec![partial];
        partials.resize_with(bucket_count, CompositePartial::default);
        Ok(partials.into_iter().map(Partial::Composite).collect())
    }
}

impl CompositeCollector {
    fn collect_below(&mut self, mut sub: Level, numbers: &[Option<u32>]) -> Result<Vec<Partials>> {
        let mut docs = Vec::with_capacity(BLOCK);
        let mut buckets = Vec::with_capacity(BLOCK);
        let mut scores = Vec::with_capacity(BLOCK);
        for block in std::mem::take(&mut self.waiting).chunks(BLOCK) {
            docs.clear();
            buckets.clear();
            scores.clear();
            for (doc, number, score) in block {
                if let Some(new) = numbers[*number as usize] {
                    docs.push(*doc);
                    buckets.push(new);
                    scores.push(*score);
                }
            }
            if let Some(board) = &self.scores {
                board.put(&docs, &scores, 0.0);
            }
            if !sub.collect_in_time(&docs, &buckets)? {
                break;
            }
        }
        self.memory.give(std::mem::take(&mut self.taken));
        sub.finish(self.page.counts.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_values_ascend_in_the_order_of_the_request() {
        for (ascending, nulls_first) in [(true, true), (true, false), (false, true), (false, false)] {
            let direction = Direction { ascending, nulls_first };
            let values = [0, 1, 2, u128::from(u64::MAX), (1 << 64) + 5];
            for pair in values.windows(2) {
                let (low, high) = (direction.encode(pair[0]), direction.encode(pair[1]));
                assert_eq!(low < high, ascending);
                let between = direction.encode_place(Place::Before(pair[1]));
                assert!(between != high && (between < high) == ascending);
                assert!(between != low && (low < between) == ascending);
            }
            for value in values {
                let encoded = direction.encode(value);
                assert_eq!(direction.decode(encoded), value + 1);
                assert_eq!(direction.null() < encoded, nulls_first);
            }
            assert_eq!(direction.decode(direction.null()), 0);
        }
    }
}
