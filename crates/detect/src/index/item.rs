//! Items: tests of one field of which one must pass.

use std::collections::HashSet;

use daachorse::DoubleArrayAhoCorasick;
use memchr::memmem::Finder;
use regex::Regex;

use super::search::bits;
use crate::event::{EventFields, FieldId, StoredValue, ValueKind};
use crate::expression::{Comparison, Test};
use crate::glob::{Pattern, Simple, lower_case};
use crate::index::compile_regex;
use crate::index::literals::required_literals;

/// Up to so many texts are looked for one after the other, more by an automaton.
const FINDERS_MAX: usize = 4;
/// Most texts that the dashes of a pattern are written out for.
const DASH_TEXTS_MAX: usize = 25;

/// Values that a test reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TestedField {
    Named(FieldId),
    AnyText,
}

/// Where in a value a literal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Check {
    Contains,
    StartsWith,
    EndsWith,
    Equals,
}

/// A text by which a test is found.
#[derive(Debug, Clone)]
pub(super) struct Literal {
    /// In lower case, not empty.
    pub(super) text: String,
    pub(super) check: Check,
    /// Whether a pattern or regular expression of the item has to match as well.
    pub(super) needs_match: bool,
}

/// Tests of one field of which one must pass.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) field: TestedField,
    contains: Contains,
    starts: Vec<String>,
    ends: Vec<String>,
    equals: HashSet<String, foldhash::fast::FixedState>,
    numbers: Vec<u64>,
    patterns: Vec<Pattern>,
    regexes: Vec<Regex>,
}

enum Contains {
    Finders(Vec<Finder<'static>>),
    Automaton(Box<DoubleArrayAhoCorasick<u32>>),
}

impl std::fmt::Debug for Contains {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Contains")
    }
}

impl Item {
    /// Builds an item.
    ///
    /// # Errors
    /// A regular expression or an automaton cannot be built, for readers.
    pub(super) fn new(field: TestedField, tests: &[Test]) -> Result<Self, String> {
        let mut item = Self {
            field,
            contains: Contains::Finders(Vec::new()),
            starts: Vec::new(),
            ends: Vec::new(),
            equals: HashSet::default(),
            numbers: Vec::new(),
            patterns: Vec::new(),
            regexes: Vec::new(),
        };
        let mut contains: Vec<String> = Vec::new();
        for test in tests {
            match test {
                Test::Number(Comparison::Equal, number) => item.numbers.push(bits(*number)),
                Test::Regex(expression) => item.regexes.push(compile_regex(expression)?),
                Test::Text(pattern) => match simple_literals(pattern) {
                    None => item.patterns.push(pattern.clone()),
                    Some(literals) => {
                        for Literal { text, check, .. } in literals {
                            match check {
                                Check::Contains => contains.push(text),
                                Check::StartsWith => item.starts.push(text),
                                Check::EndsWith => item.ends.push(text),
                                Check::Equals => drop(item.equals.insert(text)),
                            }
                        }
                    }
                },
                _ => return Err("a test without a literal is no part of an item".to_owned()),
            }
        }
        contains.sort_unstable();
        contains.dedup();
        item.contains = match contains.len() > FINDERS_MAX {
            true => {
                let automaton = DoubleArrayAhoCorasick::new(&contains).map_err(|error| error.to_string())?;
                Contains::Automaton(Box::new(automaton))
            }
            false => Contains::Finders(contains.iter().map(|text| Finder::new(text).into_owned()).collect()),
        };
        Ok(item)
    }

    /// Returns whether a value of the event passes.
    pub(super) fn passes(&self, fields: &EventFields) -> bool {
        self.any_value(fields, |value| self.passes_simply(value) || self.is_verified(value))
    }

    /// Returns whether a value of the event matches a pattern or regular expression of the item.
    pub(super) fn is_verified_in(&self, fields: &EventFields) -> bool {
        self.any_value(fields, |value| self.is_verified(value))
    }

    fn any_value(&self, fields: &EventFields, test: impl Fn(StoredValue<'_>) -> bool) -> bool {
        match self.field {
            TestedField::AnyText => fields.texts().any(test),
            TestedField::Named(field) => {
                let mut values = fields.values(field).filter(|value| value.kind != ValueKind::Null);
                values.any(test)
            }
        }
    }

    fn passes_simply(&self, value: StoredValue<'_>) -> bool {
        let text = value.lower;
        self.equals.contains(text)
            || self.ends.iter().any(|end| text.ends_with(end.as_str()))
            || self.starts.iter().any(|start| text.starts_with(start.as_str()))
            || match &self.contains {
                Contains::Finders(finders) => finders.iter().any(|finder| finder.find(text.as_bytes()).is_some()),
                Contains::Automaton(automaton) => automaton.find_iter(text).next().is_some(),
            }
            || (!self.numbers.is_empty()
                && value
                    .number()
                    .is_some_and(|number| self.numbers.contains(&bits(number))))
    }

    fn is_verified(&self, value: StoredValue<'_>) -> bool {
        let matches = |pattern: &Pattern| match pattern.ignore_case {
            true => pattern.matches(value.lower),
            false => pattern.matches(value.raw),
        };
        self.patterns.iter().any(matches) || self.regexes.iter().any(|regex| regex.is_match(value.raw))
    }
}

/// Returns the literals of which a text that matches contains one at its place, and no other text does; `None`: there are none.
fn simple_literals(pattern: &Pattern) -> Option<Vec<Literal>> {
    if !pattern.ignore_case {
        return None;
    }
    let written_out = pattern.without_dashes(DASH_TEXTS_MAX)?;
    written_out
        .iter()
        .map(|pattern| simple_literal(pattern, false))
        .collect()
}

/// Returns the literal of a pattern that has only one and no other limits; `None`: it has others, or is empty.
fn simple_literal(pattern: &Pattern, needs_match: bool) -> Option<Literal> {
    let (text, check) = match pattern.simple()? {
        Simple::Contains(text) => (text, Check::Contains),
        Simple::StartsWith(text) => (text, Check::StartsWith),
        Simple::EndsWith(text) => (text, Check::EndsWith),
        Simple::Equals(text) => (text, Check::Equals),
    };
    (!text.is_empty()).then(|| Literal {
        text: lower_case(text),
        check,
        needs_match,
    })
}

/// Literals by which a test is found: a value that passes has one at its place. `None`: it has none.
pub(super) fn literals_of(test: &Test) -> Option<Vec<Literal>> {
    let anywhere = |text: String| Literal {
        text,
        check: Check::Contains,
        needs_match: true,
    };
    match test {
        Test::Number(Comparison::Equal, _) => Some(Vec::new()),
        Test::Text(pattern) => match simple_literals(pattern) {
            Some(literals) => Some(literals),
            // Values are in lower case, the pattern may tell them apart.
            None => Some(vec![match simple_literal(pattern, true) {
                Some(literal) => literal,
                None => anywhere(lower_case(pattern.longest_literal()?)),
            }]),
        },
        Test::Regex(expression) => Some(required_literals(expression)?.into_iter().map(anywhere).collect()),
        _ => None,
    }
}
