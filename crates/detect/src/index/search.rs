//! Literals of one field, found in one pass over a value.

use std::collections::HashMap;

use daachorse::DoubleArrayAhoCorasick;
use foldhash::fast::FixedState;

use super::item::Check;
use crate::event::{StoredValue, ValueKind};

/// Literal of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Hit {
    pub(super) item: u32,
    pub(super) check: Check,
}

/// Literals and numbers of one field.
#[derive(Default)]
pub(super) struct FieldIndex {
    automaton: Option<DoubleArrayAhoCorasick<u32>>,
    /// Hits of a literal: from its place to the next one.
    starts: Box<[u32]>,
    hits: Box<[Hit]>,
    /// Items by the bits of a number.
    numbers: HashMap<u64, Vec<u32>, FixedState>,
}

impl std::fmt::Debug for FieldIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FieldIndex")
            .field("literals", &(self.starts.len().saturating_sub(1)))
            .field("numbers", &self.numbers.len())
            .finish_non_exhaustive()
    }
}

/// What a search calls.
pub(super) trait Found {
    /// Whether the item is known to pass.
    fn is_found(&self, item: u32) -> bool;
    /// The item passes.
    fn found(&mut self, item: u32);
    /// The item passes if a pattern or regular expression of it matches.
    fn possible(&mut self, item: u32);
}

impl FieldIndex {
    /// Builds the index. Literals are in lower case and not empty.
    pub(super) fn new(literals: HashMap<String, Vec<Hit>>, numbers: HashMap<u64, Vec<u32>>) -> Result<Self, String> {
        let mut literals: Vec<_> = literals.into_iter().collect();
        literals.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let (mut starts, mut hits) = (vec![0], Vec::new());
        for (_, of_literal) in &literals {
            hits.extend_from_slice(of_literal);
            starts.push(hits.len() as u32);
        }
        let automaton = match literals.is_empty() {
            true => None,
            false => {
                let numbered = literals
                    .iter()
                    .zip(0u32..)
                    .map(|((literal, _), number)| (literal, number));
                Some(DoubleArrayAhoCorasick::with_values(numbered).map_err(|error| error.to_string())?)
            }
        };
        Ok(Self {
            automaton,
            starts: starts.into(),
            hits: hits.into(),
            numbers: numbers.into_iter().collect(),
        })
    }

    /// Finds the items of a value.
    pub(super) fn search(&self, value: StoredValue<'_>, found: &mut impl Found) {
        if value.kind == ValueKind::Null {
            return;
        }
        if !self.numbers.is_empty()
            && let Some(number) = value.number()
        {
            for item in self.numbers.get(&bits(number)).into_iter().flatten() {
                if !found.is_found(*item) {
                    found.found(*item);
                }
            }
        }
        let Some(automaton) = &self.automaton else {
            return;
        };
        for literal in automaton.find_overlapping_iter(value.lower) {
            let number = literal.value() as usize;
            for hit in &self.hits[self.starts[number] as usize..self.starts[number + 1] as usize] {
                if found.is_found(hit.item) {
                    continue;
                }
                let holds = match hit.check {
                    Check::Contains => true,
                    Check::StartsWith => literal.start() == 0,
                    Check::EndsWith => literal.end() == value.lower.len(),
                    Check::Equals => literal.start() == 0 && literal.end() == value.lower.len(),
                    Check::Verify => {
                        found.possible(hit.item);
                        false
                    }
                };
                if holds {
                    found.found(hit.item);
                }
            }
        }
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let automaton = self.automaton.as_ref().map_or(0, DoubleArrayAhoCorasick::heap_bytes);
        automaton + size_of_val(&*self.hits) + size_of_val(&*self.starts)
    }
}

/// Bits of a number by which equal numbers are found.
pub(super) fn bits(number: f64) -> u64 {
    // Both zeros are equal.
    (number + 0.0).to_bits()
}
