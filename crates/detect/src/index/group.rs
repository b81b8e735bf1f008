//! Rules that are evaluated on the same events.

use jiff::civil;
use jiff::tz::TimeZone;
use regex::Regex;

use super::node::{Leaves, Node};
use super::search::{FieldIndex, Found, Verification};
use crate::event::{EventFields, FieldId, StoredValue, ValueKind};
use crate::expression::{Test, TextOperator, TimePart};

const NO_INDEX: u16 = u16::MAX;

/// Rules of the same log sources, and the index over their conditions.
#[derive(Debug)]
pub(crate) struct Group {
    /// Number of the rule in its set, and its condition.
    rules: Vec<(u32, Node)>,
    indexes: Vec<FieldIndex>,
    /// Place in `indexes` by the number of the field; those behind the end have none.
    by_field: Vec<u16>,
    any_text: Option<FieldIndex>,
    /// Rules that are tested when an item was found: from its place to the next one.
    gate_starts: Box<[u32]>,
    gated: Box<[u32]>,
    /// Rules that are tested on each event.
    ungated: Vec<u32>,
    verifications: Vec<Verification>,
    tests: Vec<LeafTest>,
}

/// Values that a test reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TestedField {
    Named(FieldId),
    AnyText,
}

/// A test that no literal stands for.
#[derive(Debug)]
pub(super) struct LeafTest {
    pub(super) field: TestedField,
    pub(super) test: Test,
    pub(super) regex: Option<Regex>,
    pub(super) other: Option<FieldId>,
}

/// What is known of one event, by the numbers of a group.
#[derive(Debug)]
pub(crate) struct GroupState {
    /// Event, from 2 on, in steps of 2.
    event: u32,
    /// Event in which an item was found last.
    found: Vec<u32>,
    /// Event in which a test was done last, plus 1 if it passed.
    tested: Vec<u32>,
    /// Event in which a rule became a candidate last.
    candidate: Vec<u32>,
    candidates: Vec<u32>,
    /// Number of the value that is searched.
    value: u32,
    /// Value that was verified last.
    verified: Vec<u32>,
}

impl Group {
    pub(super) fn new(
        rules: Vec<(u32, Node)>,
        fields: Vec<(FieldId, FieldIndex)>,
        any_text: Option<FieldIndex>,
        gates: &[Vec<u32>],
        ungated: Vec<u32>,
        verifications: Vec<Verification>,
        tests: Vec<LeafTest>,
    ) -> Self {
        let length = fields.iter().map(|(field, _)| field.place() + 1).max().unwrap_or(0);
        let mut by_field = vec![NO_INDEX; length];
        let mut indexes = Vec::with_capacity(fields.len());
        for (field, index) in fields {
            by_field[field.place()] = indexes.len() as u16;
            indexes.push(index);
        }
        let mut gate_starts = vec![0];
        for gate in gates {
            gate_starts.push(gate_starts.last().unwrap_or(&0) + gate.len() as u32);
        }
        Self {
            rules,
            indexes,
            by_field,
            any_text,
            gate_starts: gate_starts.into(),
            gated: gates.concat().into(),
            ungated,
            verifications,
            tests,
        }
    }

    /// Number of rules.
    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether a rule looks at the texts of all fields.
    pub(crate) fn reads_all_texts(&self) -> bool {
        self.any_text.is_some() || self.tests.iter().any(|test| test.field == TestedField::AnyText)
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
            found: vec![0; self.gate_starts.len() - 1],
            tested: vec![0; self.tests.len()],
            candidate: vec![0; self.rules.len()],
            candidates: Vec::new(),
            value: 0,
            verified: vec![0; self.verifications.len()],
        }
    }

    /// Calls `matched` with the number of each rule that the event matches.
    pub(crate) fn evaluate(&self, fields: &EventFields, state: &mut GroupState, matched: &mut impl FnMut(u32)) {
        state.begin();
        let mut candidates = std::mem::take(&mut state.candidates);
        candidates.clear();
        candidates.extend_from_slice(&self.ungated);
        let mut search = Search {
            group: self,
            state,
            candidates: &mut candidates,
        };
        for field in fields.present() {
            let index = match self.by_field.get(field.place()) {
                None | Some(&NO_INDEX) => continue,
                Some(index) => &self.indexes[usize::from(*index)],
            };
            for value in fields.values(*field) {
                search.begin_value();
                index.search(value, &self.verifications, &mut search);
            }
        }
        if let Some(index) = &self.any_text {
            for value in fields.texts() {
                search.begin_value();
                index.search(value, &self.verifications, &mut search);
            }
        }
        for candidate in &candidates {
            let (rule, node) = &self.rules[*candidate as usize];
            let mut answers = Answers {
                group: self,
                state,
                fields,
            };
            if node.holds(&mut answers) {
                matched(*rule);
            }
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
            self.tested.fill(0);
            self.candidate.fill(0);
        }
        self.event += 2;
    }
}

/// Search of the values of one event.
struct Search<'a> {
    group: &'a Group,
    state: &'a mut GroupState,
    candidates: &'a mut Vec<u32>,
}

impl Search<'_> {
    fn begin_value(&mut self) {
        if self.state.value == u32::MAX {
            self.state.value = 0;
            self.state.verified.fill(0);
        }
        self.state.value += 1;
    }
}

impl Found for Search<'_> {
    #[inline]
    fn is_found(&self, item: u32) -> bool {
        self.state.found[item as usize] == self.state.event
    }

    #[inline]
    fn found(&mut self, item: u32) {
        let (state, item) = (&mut *self.state, item as usize);
        state.found[item] = state.event;
        let range = self.group.gate_starts[item] as usize..self.group.gate_starts[item + 1] as usize;
        for rule in &self.group.gated[range] {
            let last = &mut state.candidate[*rule as usize];
            if *last != state.event {
                *last = state.event;
                self.candidates.push(*rule);
            }
        }
    }

    #[inline]
    fn is_new(&mut self, verification: u32) -> bool {
        let last = &mut self.state.verified[verification as usize];
        std::mem::replace(last, self.state.value) != self.state.value
    }
}

/// Answers of the leaves for one event.
struct Answers<'a> {
    group: &'a Group,
    state: &'a mut GroupState,
    fields: &'a EventFields,
}

impl Leaves for Answers<'_> {
    #[inline]
    fn is_found(&self, item: u32) -> bool {
        self.state.found[item as usize] == self.state.event
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

impl LeafTest {
    fn passes(&self, fields: &EventFields) -> bool {
        let is_present = |value: &StoredValue<'_>| value.kind != ValueKind::Null;
        match self.field {
            TestedField::AnyText => fields.texts().any(|value| self.passes_value(value, fields)),
            TestedField::Named(field) => {
                let mut values = fields.values(field).filter(is_present);
                match &self.test {
                    Test::Exists => values.next().is_some(),
                    Test::Null => values.next().is_none(),
                    _ => values.any(|value| self.passes_value(value, fields)),
                }
            }
        }
    }

    fn passes_value(&self, value: StoredValue<'_>, fields: &EventFields) -> bool {
        match &self.test {
            Test::Text(pattern) if pattern.ignore_case => pattern.matches(value.lower),
            Test::Text(pattern) => pattern.matches(value.raw),
            Test::Regex(_) => self.regex.as_ref().is_some_and(|regex| regex.is_match(value.raw)),
            Test::Number(comparison, number) => value.number().is_some_and(|value| comparison.holds(value, *number)),
            Test::Network(network) => value
                .raw
                .parse()
                .is_ok_and(|address| network.contains::<&std::net::IpAddr>(&address)),
            Test::Exists => true,
            Test::Null => false,
            Test::Boolean(expected) => match value.lower {
                "true" | "yes" | "1" => *expected,
                "false" | "no" | "0" => !*expected,
                _ => false,
            },
            Test::OtherField {
                operator, ignore_case, ..
            } => self.other.is_some_and(|other| {
                fields.values(other).any(|other| match ignore_case {
                    true => relates(*operator, value.lower, other.lower),
                    false => relates(*operator, value.raw, other.raw),
                })
            }),
            Test::TimePart(part, expected) => time_part(value, *part) == Some(*expected),
        }
    }
}

fn relates(operator: TextOperator, left: &str, right: &str) -> bool {
    match operator {
        TextOperator::Equals => left == right,
        TextOperator::Contains => left.contains(right),
        TextOperator::StartsWith => left.starts_with(right),
        TextOperator::EndsWith => left.ends_with(right),
    }
}

/// Numbers from here on are milliseconds since the epoch, those below seconds.
const MILLISECONDS_FROM: f64 = 1e12;

/// Part of a date in UTC: RFC 3339, a date and time without a zone, or a number since the epoch.
fn time_part(value: StoredValue<'_>, part: TimePart) -> Option<i64> {
    let zoned = |timestamp: jiff::Timestamp| timestamp.to_zoned(TimeZone::UTC).datetime();
    let date: civil::DateTime = match value.kind {
        ValueKind::Number => {
            let number = value.number()?;
            let ms = if number > MILLISECONDS_FROM {
                number
            } else {
                number * 1000.0
            };
            zoned(jiff::Timestamp::from_millisecond(ms as i64).ok()?)
        }
        ValueKind::Text => match value.raw.parse::<jiff::Timestamp>() {
            Ok(timestamp) => zoned(timestamp),
            Err(_) => value.raw.parse().ok()?,
        },
        ValueKind::Null | ValueKind::Boolean => return None,
    };
    Some(match part {
        TimePart::Minute => date.minute().into(),
        TimePart::Hour => date.hour().into(),
        TimePart::Day => date.day().into(),
        TimePart::Week => date.date().iso_week_date().week().into(),
        TimePart::Month => date.month().into(),
        TimePart::Year => date.year().into(),
    })
}
