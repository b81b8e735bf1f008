//! Building a group: expressions to nodes, tests to items of the index.

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

use super::gates::Gates;
use super::group::Group;
use super::item::{Check, Item, Literal, TestedField, literals_of};
use super::leaf::LeafTest;
use super::node::Node;
use super::search::{FieldIndex, Hit, bits};
use crate::event::{FieldId, FieldNames};
use crate::expression::{Comparison, Expression, Field, FieldTest, Test};

/// Limits of one compiled regular expression, in bytes.
const REGEX_BYTES_MAX: usize = 8 << 20;
/// Most characters of an expression in an error.
const SHOWN_MAX: usize = 100;

/// Compiles a regular expression.
///
/// # Errors
/// The syntax, or the size, for readers.
pub(crate) fn compile_regex(expression: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(expression);
    builder.size_limit(REGEX_BYTES_MAX).dfa_size_limit(REGEX_BYTES_MAX);
    builder.build().map_err(|error| {
        let shown: String = expression.chars().take(SHOWN_MAX).collect();
        let shown = match shown.len() < expression.len() {
            true => format!("{shown}…"),
            false => shown,
        };
        match error {
            regex::Error::CompiledTooBig(_) => format!("the regular expression [{shown}] is too large"),
            error => {
                let text = error.to_string();
                // The lines before repeat the expression.
                let cause = text.rsplit_once("error: ").map_or(text.as_str(), |(_, cause)| cause);
                format!("the regular expression [{shown}] cannot be read: {}", cause.trim())
            }
        }
    })
}

/// A group while rules are added.
#[derive(Debug, Default)]
pub(crate) struct GroupBuilder {
    rules: Vec<Node>,
    items: Vec<ItemTests>,
    items_by_key: HashMap<(Field, Vec<String>), u32>,
    tests: Vec<LeafTest>,
    tests_by_key: HashMap<String, u32>,
}

/// An item before it is built.
#[derive(Debug)]
struct ItemTests {
    field: Field,
    tests: Vec<Test>,
    /// How often it is expected.
    cost: f64,
}

impl GroupBuilder {
    /// Adds a rule. Its place in the group is the number of those before it.
    ///
    /// # Errors
    /// The condition cannot be evaluated; the reason for readers.
    pub(crate) fn add(&mut self, condition: &Expression, names: &mut FieldNames) -> Result<(), String> {
        let node = self.compile(condition, names)?;
        self.rules.push(node);
        Ok(())
    }

    fn compile(&mut self, expression: &Expression, names: &mut FieldNames) -> Result<Node, String> {
        match expression {
            Expression::Test(test) => self.any_of(vec![test], names),
            Expression::Not(inner) => Ok(Node::Not(Box::new(self.compile(inner, names)?))),
            Expression::AtLeast(wanted, inner) => {
                let nodes: Result<Vec<_>, _> = inner.iter().map(|inner| self.compile(inner, names)).collect();
                Ok(Node::AtLeast(*wanted, nodes?.into()))
            }
            Expression::And(inner) => {
                let mut nodes = Vec::with_capacity(inner.len());
                for inner in inner {
                    match self.compile(inner, names)? {
                        Node::And(more) => nodes.extend(more),
                        node => nodes.push(node),
                    }
                }
                Ok(single(nodes).unwrap_or_else(|nodes| Node::And(nodes.into())))
            }
            Expression::Or(_) => {
                let (mut tests, mut others) = (Vec::new(), Vec::new());
                flatten(expression, &mut tests, &mut others);
                let mut nodes = Vec::with_capacity(others.len() + 1);
                if !tests.is_empty() {
                    match self.any_of(tests, names)? {
                        Node::Or(more) => nodes.extend(more),
                        node => nodes.push(node),
                    }
                }
                for other in others {
                    nodes.push(self.compile(other, names)?);
                }
                Ok(single(nodes).unwrap_or_else(|nodes| Node::Or(nodes.into())))
            }
        }
    }

    /// Compiles tests of which one must pass: those of one field that have literals become one item.
    fn any_of(&mut self, tests: Vec<&FieldTest>, names: &mut FieldNames) -> Result<Node, String> {
        let mut indexed: Vec<(&Field, Vec<&Test>)> = Vec::new();
        let mut nodes = Vec::new();
        for FieldTest { field, test } in tests {
            if literals_of(test).is_some() {
                match indexed.iter_mut().find(|(known, _)| *known == field) {
                    Some((_, tests)) => tests.push(test),
                    None => indexed.push((field, vec![test])),
                }
            } else {
                nodes.push(Node::Tested(self.test(field, test, names)?));
            }
        }
        for (field, tests) in indexed {
            nodes.push(Node::Found(self.item(field, tests, names)?));
        }
        Ok(single(nodes).unwrap_or_else(|nodes| Node::Or(nodes.into())))
    }

    fn item(&mut self, field: &Field, tests: Vec<&Test>, names: &mut FieldNames) -> Result<u32, String> {
        intern(field, names)?;
        let mut keys: Vec<String> = tests.iter().map(|test| format!("{test:?}")).collect();
        keys.sort_unstable();
        keys.dedup();
        let key = (field.clone(), keys);
        if let Some(known) = self.items_by_key.get(&key) {
            return Ok(*known);
        }
        let mut cost = 0.0;
        for test in &tests {
            if let Test::Regex(expression) = test {
                compile_regex(expression)?;
            }
            cost += match test {
                Test::Number(..) => NUMBER_EXPECTED,
                test => {
                    let literals = literals_of(test).unwrap_or_default();
                    literals
                        .iter()
                        .map(|literal| expected(&literal.text, literal.check))
                        .sum()
                }
            };
        }
        self.items.push(ItemTests {
            field: field.clone(),
            tests: tests.into_iter().cloned().collect(),
            cost,
        });
        let item = self.items.len() as u32 - 1;
        self.items_by_key.insert(key, item);
        Ok(item)
    }

    fn test(&mut self, field: &Field, test: &Test, names: &mut FieldNames) -> Result<u32, String> {
        let key = format!("{field:?} {test:?}");
        if let Some(known) = self.tests_by_key.get(&key) {
            return Ok(*known);
        }
        let tested = match intern(field, names)? {
            Some(id) => TestedField::Named(id),
            None => TestedField::AnyText,
        };
        let regex = match test {
            Test::Regex(expression) => Some(compile_regex(expression)?),
            _ => None,
        };
        let other = match test {
            Test::OtherField { name, .. } => intern(&Field::Named(name.clone()), names)?,
            _ => None,
        };
        self.tests.push(LeafTest {
            field: tested,
            test: test.clone(),
            regex,
            other,
        });
        let number = self.tests.len() as u32 - 1;
        self.tests_by_key.insert(key, number);
        Ok(number)
    }

    /// Builds the group. In the indexes of the fields are the items that decide which rules are tested, and those that are found
    /// without a pass over the value: these stay small, and a literal that is common is not looked for.
    ///
    /// # Errors
    /// An automaton cannot be built, for readers.
    pub(crate) fn build(self, names: &FieldNames) -> Result<Group, String> {
        let costs: Vec<f64> = self.items.iter().map(|item| item.cost).collect();
        let mut rules = self.rules;
        for node in &mut rules {
            node.order(&costs);
        }
        let gates = Gates::new(&rules, &costs);
        let mut literals: HashMap<&Field, HashMap<String, Vec<Hit>>> = HashMap::new();
        let mut numbers: HashMap<&Field, HashMap<u64, Vec<u32>>> = HashMap::new();
        let mut items = Vec::with_capacity(self.items.len());
        let mut is_indexed = Vec::with_capacity(self.items.len());
        for (number, tests) in (0u32..).zip(&self.items) {
            let field = match &tests.field {
                Field::AnyText => TestedField::AnyText,
                Field::Named(name) => TestedField::Named(names.find(name).ok_or("a field has no number")?),
            };
            items.push(Item::new(field, &tests.tests)?);
            is_indexed.push(!gates.of_item(number).is_empty() || tests.tests.iter().all(is_found_by_hash));
            if !is_indexed[number as usize] {
                continue;
            }
            for test in &tests.tests {
                for Literal {
                    text,
                    check,
                    needs_match,
                } in literals_of(test).unwrap_or_default()
                {
                    let hits = literals.entry(&tests.field).or_default().entry(text).or_default();
                    let hit = Hit {
                        item: number,
                        check,
                        needs_match,
                    };
                    if !hits.contains(&hit) {
                        hits.push(hit);
                    }
                }
                if let Test::Number(Comparison::Equal, value) = test {
                    let of_field = numbers.entry(&tests.field).or_default();
                    of_field.entry(bits(*value)).or_default().push(number);
                }
            }
        }
        let mut fields = Vec::new();
        let mut any_text = None;
        let mut all: Vec<&Field> = literals.keys().chain(numbers.keys()).copied().collect();
        all.sort_unstable();
        all.dedup();
        for field in all {
            let literals = literals.remove(field).unwrap_or_default();
            let numbers = numbers.remove(field).unwrap_or_default();
            let index = FieldIndex::new(literals, numbers)?;
            match field {
                Field::AnyText => any_text = Some(index),
                Field::Named(name) => fields.extend(names.find(name).map(|id| (id, index))),
            }
        }
        for node in &mut rules {
            node.mark_indexed(&is_indexed);
        }
        Ok(Group::new(
            rules,
            (items, is_indexed),
            self.tests,
            fields,
            any_text,
            gates,
        ))
    }
}

/// Whether a test is for whole values, which are found by their hash.
fn is_found_by_hash(test: &Test) -> bool {
    let literals = literals_of(test);
    literals.is_some_and(|literals| literals.iter().all(|literal| literal.check == Check::Equals))
}

fn intern(field: &Field, names: &mut FieldNames) -> Result<Option<FieldId>, String> {
    match field {
        Field::AnyText => Ok(None),
        Field::Named(name) => match names.intern(name) {
            Some(id) => Ok(Some(id)),
            None => Err("the rules read too many fields".to_owned()),
        },
    }
}

fn single(mut nodes: Vec<Node>) -> Result<Node, Vec<Node>> {
    match nodes.len() {
        1 => nodes.pop().ok_or(nodes),
        _ => Err(nodes),
    }
}

fn flatten<'e>(expression: &'e Expression, tests: &mut Vec<&'e FieldTest>, others: &mut Vec<&'e Expression>) {
    match expression {
        Expression::Or(inner) => inner.iter().for_each(|inner| flatten(inner, tests, others)),
        Expression::Test(test) => tests.push(test),
        other => others.push(other),
    }
}

/// How often a number is expected.
const NUMBER_EXPECTED: f64 = 0.02;

/// How often a literal is expected in a value: long ones are rare. An estimate that only decides which part of a condition is looked
/// for first.
fn expected(literal: &str, check: Check) -> f64 {
    let length = literal.chars().count().min(40) as i32;
    let contained = 0.85f64.powi(length);
    match check {
        Check::Contains => contained,
        Check::StartsWith | Check::EndsWith => contained * 0.6,
        Check::Equals => contained * 0.3,
    }
}
