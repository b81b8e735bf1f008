//! Rules that are evaluated on the same events.

use std::sync::Arc;

use super::gates::Gates;
use super::item::{Item, TestedField};
use super::leaf::LeafTest;
use super::node::{Leaves, Node};
use super::search::{FieldIndex, Found};
use crate::event::{EventFields, FieldId};

const NO_INDEX: u16 = u16::MAX;
/// Events after which gates are chosen by how often they were found, the first time and at most.
const CHOSEN_FIRST: u32 = 1_024;
const CHOSEN_EVERY: u32 = 1 << 16;
/// How often an item that was never found is expected to have been found.
const UNSEEN: f64 = 0.5;

/// Rules of the same log sources, and the index over their conditions.
#[derive(Debug)]
pub(crate) struct Group {
    /// Conditions of the rules, by their places in the group.
    rules: Vec<Node>,
    indexes: Vec<FieldIndex>,
    /// Place in `indexes` by the number of the field; those behind the end have none.
    by_field: Vec<u16>,
    any_text: Option<FieldIndex>,
    /// Gates by the literals alone, until it is known how often they are found.
    gates: Arc<Gates>,
    items: Vec<Item>,
    /// Whether the literals of an item are in the indexes.
    is_indexed: Vec<bool>,
    tests: Vec<LeafTest>,
}

/// What is known of one event, by the numbers of a group.
#[derive(Debug)]
pub(crate) struct GroupState {
    /// Event, from 2 on, in steps of 2.
    event: u32,
    /// Event in which a literal of an item was found last, plus 1 if that is enough for the item to pass.
    found: Vec<u32>,
    /// Event in which an item was evaluated last, plus 1 if it passed.
    evaluated: Vec<u32>,
    /// Event in which a test was done last, plus 1 if it passed.
    tested: Vec<u32>,
    /// Event in which a rule became a candidate last.
    candidate: Vec<u32>,
    candidates: Vec<u32>,
    gates: Arc<Gates>,
    counts: FoundCounts,
}

/// How often items were found: the gates are chosen by it.
#[derive(Debug)]
struct FoundCounts {
    /// By the numbers of the items.
    by_item: Vec<u32>,
    /// Events.
    events: u32,
    /// Number of events at which the gates are chosen again.
    next: u32,
}

impl Group {
    pub(super) fn new(
        rules: Vec<Node>,
        (items, is_indexed): (Vec<Item>, Vec<bool>),
        tests: Vec<LeafTest>,
        fields: Vec<(FieldId, FieldIndex)>,
        any_text: Option<FieldIndex>,
        gates: Gates,
    ) -> Self {
        let length = fields.iter().map(|(field, _)| field.place() + 1).max().unwrap_or(0);
        let mut by_field = vec![NO_INDEX; length];
        let mut indexes = Vec::with_capacity(fields.len());
        for (field, index) in fields {
            by_field[field.place()] = indexes.len() as u16;
            indexes.push(index);
        }
        Self {
            rules,
            indexes,
            by_field,
            any_text,
            gates: Arc::new(gates),
            items,
            is_indexed,
            tests,
        }
    }

    /// Returns whether a rule looks at the texts of all fields.
    pub(crate) fn reads_all_texts(&self) -> bool {
        let mut fields = self
            .items
            .iter()
            .map(|item| item.field)
            .chain(self.tests.iter().map(|test| test.field));
        fields.any(|field| field == TestedField::AnyText)
    }

    /// Bytes on the heap of the indexes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.indexes
            .iter()
            .chain(&self.any_text)
            .map(FieldIndex::heap_bytes)
            .sum()
    }

    pub(crate) fn state(&self) -> GroupState {
        GroupState {
            event: 0,
            found: vec![0; self.items.len()],
            evaluated: vec![0; self.items.len()],
            tested: vec![0; self.tests.len()],
            candidate: vec![0; self.rules.len()],
            candidates: Vec::new(),
            gates: Arc::clone(&self.gates),
            counts: FoundCounts {
                by_item: vec![0; self.items.len()],
                events: 0,
                next: CHOSEN_FIRST,
            },
        }
    }

    /// Finds the rules that the event may match.
    pub(crate) fn find_candidates(&self, fields: &EventFields, state: &mut GroupState) {
        state.begin();
        if state.counts.events == state.counts.next {
            self.choose_gates(state);
        }
        state.counts.events += 1;
        let gates = Arc::clone(&state.gates);
        let mut candidates = std::mem::take(&mut state.candidates);
        candidates.clear();
        candidates.extend_from_slice(gates.ungated());
        let mut search = Search {
            gates: &gates,
            state,
            candidates: &mut candidates,
        };
        for field in fields.present() {
            let index = match self.by_field.get(field.place()) {
                None | Some(&NO_INDEX) => continue,
                Some(index) => &self.indexes[usize::from(*index)],
            };
            for value in fields.values(*field) {
                index.search(value, &mut search);
            }
        }
        if let Some(index) = &self.any_text {
            for value in fields.texts() {
                index.search(value, &mut search);
            }
        }
        state.candidates = candidates;
    }

    /// Chooses the gates that were found in the fewest events. Which rules an event matches does not depend on it.
    fn choose_gates(&self, state: &mut GroupState) {
        let counts = &mut state.counts;
        let events = f64::from(counts.events);
        let found = counts.by_item.iter().zip(&self.is_indexed);
        let expected = found.map(|(count, is_indexed)| match is_indexed {
            true => (f64::from(*count) + UNSEEN) / events,
            // It is not looked for.
            false => f64::INFINITY,
        });
        state.gates = Arc::new(Gates::new(&self.rules, &expected.collect::<Vec<f64>>()));
        // Older events count less than newer ones.
        counts.by_item.iter_mut().for_each(|count| *count /= 2);
        counts.events /= 2;
        counts.next = (counts.next * 4).min(CHOSEN_EVERY);
    }

    /// Calls `evaluated` with the number of each rule [that was found](Self::find_candidates), and whether the event matches it.
    /// `numbers` are those of the rules by their places; rules without one, and those for whose numbers `skipped` is `true`, are left
    /// out.
    pub(crate) fn evaluate(
        &self,
        fields: &EventFields,
        state: &mut GroupState,
        (numbers, skipped): (&[Option<u32>], &[bool]),
        evaluated: &mut impl FnMut(u32, bool),
    ) {
        let candidates = std::mem::take(&mut state.candidates);
        for candidate in &candidates {
            let Some(rule) = numbers[*candidate as usize] else {
                continue;
            };
            if skipped.get(rule as usize).is_some_and(|skipped| *skipped) {
                continue;
            }
            let mut answers = Answers {
                group: self,
                state,
                fields,
            };
            evaluated(rule, self.rules[*candidate as usize].holds(&mut answers));
        }
        state.candidates = candidates;
    }
}

impl GroupState {
    fn begin(&mut self) {
        // Numbers that come round again would be taken for those of this event.
        if self.event >= u32::MAX - 3 {
            self.event = 0;
            self.found.fill(0);
            self.evaluated.fill(0);
            self.tested.fill(0);
            self.candidate.fill(0);
        }
        self.event += 2;
    }
}

/// Search of the values of one event.
struct Search<'a> {
    gates: &'a Gates,
    state: &'a mut GroupState,
    candidates: &'a mut Vec<u32>,
}

impl Search<'_> {
    /// Makes the rules of an item candidates.
    fn open(&mut self, item: u32) {
        self.state.counts.by_item[item as usize] += 1;
        for rule in self.gates.of_item(item) {
            let last = &mut self.state.candidate[*rule as usize];
            if *last != self.state.event {
                *last = self.state.event;
                self.candidates.push(*rule);
            }
        }
    }
}

impl Found for Search<'_> {
    #[inline]
    fn is_found(&self, item: u32) -> bool {
        self.state.found[item as usize] > self.state.event
    }

    #[inline]
    fn found(&mut self, item: u32) {
        let last = std::mem::replace(&mut self.state.found[item as usize], self.state.event + 1);
        if last < self.state.event {
            self.open(item);
        }
    }

    #[inline]
    fn possible(&mut self, item: u32) {
        let last = &mut self.state.found[item as usize];
        if *last < self.state.event {
            *last = self.state.event;
            self.open(item);
        }
    }
}

/// Answers of the leaves for one event.
struct Answers<'a> {
    group: &'a Group,
    state: &'a mut GroupState,
    fields: &'a EventFields,
}

impl Answers<'_> {
    fn passes_item(&mut self, item: u32, test: impl Fn(&Item, &EventFields) -> bool) -> bool {
        let (place, event) = (item as usize, self.state.event);
        let known = self.state.evaluated[place];
        if known >= event {
            return known > event;
        }
        let passes = test(&self.group.items[place], self.fields);
        self.state.evaluated[place] = event + u32::from(passes);
        passes
    }
}

impl Leaves for Answers<'_> {
    #[inline]
    fn is_found(&mut self, item: u32) -> bool {
        self.passes_item(item, Item::passes)
    }

    #[inline]
    fn is_found_by_index(&mut self, item: u32) -> bool {
        let (found, event) = (self.state.found[item as usize], self.state.event);
        match found == event {
            // Only these need more than their literal.
            true => self.passes_item(item, Item::is_verified_in),
            false => found > event,
        }
    }

    fn passes(&mut self, test: u32) -> bool {
        let place = test as usize;
        let known = self.state.tested[place];
        if known >= self.state.event {
            return known > self.state.event;
        }
        let passes = self.group.tests[place].passes(self.fields);
        self.state.tested[place] = self.state.event + u32::from(passes);
        passes
    }
}
