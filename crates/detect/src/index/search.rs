//! Literals of one field, found in one pass over a value.

use std::collections::HashMap;

use daachorse::DoubleArrayAhoCorasick;
use foldhash::fast::FixedState;

use super::anchored::{Anchor, AnchoredLiterals};
use super::item::Check;
use crate::event::{StoredValue, ValueKind};

/// Literal of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Hit {
    pub(super) item: u32,
    pub(super) check: Check,
    /// Whether a pattern or regular expression of the item has to match as well.
    pub(super) needs_match: bool,
}

/// Literals and numbers of one field.
pub(super) struct FieldIndex {
    /// Literals anywhere in a value.
    automaton: Option<DoubleArrayAhoCorasick<u32>>,
    starts_with: Option<AnchoredLiterals>,
    ends_with: Option<AnchoredLiterals>,
    /// Hits of a literal: from its place to the next one.
    starts: Box<[u32]>,
    hits: Box<[Hit]>,
    /// Items by the bits of a number.
    numbers: HashMap<u64, Vec<u32>, FixedState>,
}

impl std::fmt::Debug for FieldIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let anchored = [&self.starts_with, &self.ends_with].into_iter().flatten();
        f.debug_struct("FieldIndex")
            .field("anywhere", &(self.starts.len().saturating_sub(1)))
            .field("anchored", &anchored.map(AnchoredLiterals::len).sum::<usize>())
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

    #[inline]
    fn hit(&mut self, hit: Hit) {
        match hit.needs_match {
            _ if self.is_found(hit.item) => {}
            true => self.possible(hit.item),
            false => self.found(hit.item),
        }
    }
}

impl FieldIndex {
    /// Builds the index. Literals are in lower case and not empty.
    pub(super) fn new(literals: HashMap<String, Vec<Hit>>, numbers: HashMap<u64, Vec<u32>>) -> Result<Self, String> {
        let mut anywhere: Vec<(String, Vec<Hit>)> = Vec::new();
        let (mut at_start, mut at_end) = (HashMap::new(), HashMap::new());
        for (literal, hits) in literals {
            let (start, others): (Vec<Hit>, Vec<Hit>) =
                hits.into_iter().partition(|hit| hit.check == Check::StartsWith);
            let (end, others): (Vec<Hit>, Vec<Hit>) = others
                .into_iter()
                .partition(|hit| matches!(hit.check, Check::EndsWith | Check::Equals));
            for (map, hits) in [(&mut at_start, start), (&mut at_end, end)] {
                if !hits.is_empty() {
                    map.insert(literal.clone(), hits);
                }
            }
            if !others.is_empty() {
                anywhere.push((literal, others));
            }
        }
        anywhere.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let (mut starts, mut hits) = (vec![0], Vec::new());
        for (_, of_literal) in &anywhere {
            hits.extend_from_slice(of_literal);
            starts.push(hits.len() as u32);
        }
        let automaton = match anywhere.is_empty() {
            true => None,
            false => {
                let numbered = anywhere
                    .iter()
                    .zip(0u32..)
                    .map(|((literal, _), number)| (literal, number));
                Some(DoubleArrayAhoCorasick::with_values(numbered).map_err(|error| error.to_string())?)
            }
        };
        let anchored = |anchor: Anchor, literals: HashMap<String, Vec<Hit>>| {
            (!literals.is_empty()).then(|| AnchoredLiterals::new(anchor, literals))
        };
        Ok(Self {
            automaton,
            starts_with: anchored(Anchor::Start, at_start),
            ends_with: anchored(Anchor::End, at_end),
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
        for anchored in [&self.starts_with, &self.ends_with].into_iter().flatten() {
            anchored.search(value.lower, |hits, is_whole| {
                for hit in hits {
                    if hit.check != Check::Equals || is_whole {
                        found.hit(*hit);
                    }
                }
            });
        }
        let Some(automaton) = &self.automaton else {
            return;
        };
        for literal in automaton.find_overlapping_iter(value.lower) {
            let number = literal.value() as usize;
            for hit in &self.hits[self.starts[number] as usize..self.starts[number + 1] as usize] {
                found.hit(*hit);
            }
        }
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let automaton = self.automaton.as_ref().map_or(0, DoubleArrayAhoCorasick::heap_bytes);
        let anchored = [&self.starts_with, &self.ends_with].into_iter().flatten();
        let anchored: usize = anchored.map(AnchoredLiterals::heap_bytes).sum();
        automaton + anchored + size_of_val(&*self.hits) + size_of_val(&*self.starts)
    }
}

/// Bits of a number by which equal numbers are found.
pub(super) fn bits(number: f64) -> u64 {
    // Both zeros are equal.
    (number + 0.0).to_bits()
}
