//! Building a group: expressions to nodes, tests to items of the index.

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

use super::group::Group;
use super::literals::required_literals;
use super::node::Node;
use super::search::{Check, FieldIndex, Hit, Verification, bits};
use crate::event::{FieldId, FieldNames};
use crate::expression::{Comparison, Expression, Field, FieldTest, Test};
use crate::glob::{Simple, lower_case};
use crate::index::group::{LeafTest, TestedField};

/// Limits of one compiled regular expression, in bytes.
const REGEX_BYTES_MAX: usize = 8 << 20;

/// Compiles a regular expression.
///
/// # Errors
/// The syntax, or the size, for readers.
pub(crate) fn compile_regex(expression: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(expression);
    builder.size_limit(REGEX_BYTES_MAX).dfa_size_limit(REGEX_BYTES_MAX);
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => format!("the regular expression [{expression}] is too large"),
        error => format!("the regular expression [{expression}] cannot be read: {error}"),
    })
}

/// A group while rules are added.
#[derive(Debug, Default)]
pub(crate) struct GroupBuilder {
    rules: Vec<(u32, Node)>,
    items: HashMap<(Field, Vec<String>), u32>,
    /// How often an item is expected, by its number.
    costs: Vec<f64>,
    literals: HashMap<Field, HashMap<String, Vec<Hit>>>,
    numbers: HashMap<Field, HashMap<u64, Vec<u32>>>,
    verifications: Vec<Verification>,
    tests: Vec<LeafTest>,
    tests_by_key: HashMap<String, u32>,
}

impl GroupBuilder {
    /// Adds a rule by its number.
    ///
    /// # Errors
    /// The condition cannot be evaluated; the reason for readers.
    pub(crate) fn add(&mut self, rule: u32, condition: &Expression, names: &mut FieldNames) -> Result<(), String> {
        let node = self.compile(condition, names)?;
        self.rules.push((rule, node));
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
        if let Some(known) = self.items.get(&key) {
            return Ok(*known);
        }
        let item = self.costs.len() as u32;
        let mut cost = 0.0;
        for test in tests {
            for (literal, check) in literals_of(test).unwrap_or_default() {
                let check = match check {
                    LiteralCheck::Simple(check) => check,
                    LiteralCheck::Verify => Check::Verify(self.verification(test)?),
                };
                cost += expected(&literal, check);
                let literals = self.literals.entry(field.clone()).or_default();
                let hits = literals.entry(literal).or_default();
                let hit = Hit { item, check };
                if !hits.contains(&hit) {
                    hits.push(hit);
                }
            }
            if let Test::Number(Comparison::Equal, number) = test {
                cost += 0.02;
                let numbers = self.numbers.entry(field.clone()).or_default();
                numbers.entry(bits(*number)).or_default().push(item);
            }
        }
        self.costs.push(cost);
        self.items.insert(key, item);
        Ok(item)
    }

    /// Several literals of one test share its verification: it is the newest one.
    fn verification(&mut self, test: &Test) -> Result<u32, String> {
        let verification = match test {
            Test::Text(pattern) => Verification::Pattern(pattern.clone()),
            Test::Regex(expression) => Verification::Regex(compile_regex(expression)?),
            _ => return Err("a test without a text has no literals".to_owned()),
        };
        self.verifications.push(verification);
        Ok(self.verifications.len() as u32 - 1)
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

    /// Builds the group.
    ///
    /// # Errors
    /// An automaton cannot be built, for readers.
    pub(crate) fn build(mut self, names: &FieldNames) -> Result<Group, String> {
        let mut gates: Vec<Vec<u32>> = vec![Vec::new(); self.costs.len()];
        let mut ungated = Vec::new();
        let mut rules = Vec::with_capacity(self.rules.len());
        for (place, (rule, mut node)) in (0u32..).zip(self.rules) {
            node.order(&self.costs);
            match node.gate(&self.costs) {
                None => ungated.push(place),
                Some((_, mut items)) => {
                    items.sort_unstable();
                    items.dedup();
                    for item in items {
                        gates[item as usize].push(place);
                    }
                }
            }
            rules.push((rule, node));
        }
        let mut fields = Vec::new();
        let mut any_text = None;
        let mut all: Vec<Field> = self.literals.keys().chain(self.numbers.keys()).cloned().collect();
        all.sort_unstable();
        all.dedup();
        for field in all {
            let literals = self.literals.remove(&field).unwrap_or_default();
            let numbers = self.numbers.remove(&field).unwrap_or_default();
            let index = FieldIndex::new(literals, numbers)?;
            match &field {
                Field::AnyText => any_text = Some(index),
                Field::Named(name) => fields.extend(names.find(name).map(|id| (id, index))),
            }
        }
        Ok(Group::new(
            rules,
            fields,
            any_text,
            &gates,
            ungated,
            self.verifications,
            self.tests,
        ))
    }
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

enum LiteralCheck {
    Simple(Check),
    Verify,
}

/// Literals by which a test is found, in lower case: a value that passes contains one. `None`: it has none.
fn literals_of(test: &Test) -> Option<Vec<(String, LiteralCheck)>> {
    match test {
        Test::Number(Comparison::Equal, _) => Some(Vec::new()),
        Test::Text(pattern) => {
            let literal = lower_case(pattern.longest_literal()?);
            let check = match pattern.simple() {
                Some(simple) if pattern.ignore_case => LiteralCheck::Simple(match simple {
                    Simple::Contains(_) => Check::Contains,
                    Simple::StartsWith(_) => Check::StartsWith,
                    Simple::EndsWith(_) => Check::EndsWith,
                    Simple::Equals(_) => Check::Equals,
                }),
                _ => LiteralCheck::Verify,
            };
            Some(vec![(literal, check)])
        }
        Test::Regex(expression) => {
            let literals = required_literals(expression)?;
            Some(
                literals
                    .into_iter()
                    .map(|literal| (literal, LiteralCheck::Verify))
                    .collect(),
            )
        }
        _ => None,
    }
}

/// How often a literal is expected in a value: long ones are rare. An estimate that only decides which part of a condition is looked
/// for first.
fn expected(literal: &str, check: Check) -> f64 {
    let length = literal.chars().count().min(40) as i32;
    let contained = 0.85f64.powi(length);
    match check {
        Check::Contains | Check::Verify(_) => contained,
        Check::StartsWith | Check::EndsWith => contained * 0.6,
        Check::Equals => contained * 0.3,
    }
}
