//! Grok: patterns of named patterns, `%{SYNTAX:SEMANTIC:TYPE}`.
//!
//! Follows Elasticsearch's grok processor (reference page "Grok processor", `ecs_compatibility: v1`). The first pattern that
//! matches anywhere in the record gives the fields, in the order of its groups. If a name comes twice, the first group that
//! took part wins. Types are `int`, `long`, `float`, `double` and `boolean`; others are text.
//!
//! Patterns have Oniguruma's syntax and semantics, lookaround and atomic groups included (`pattern`).

pub mod bank;
mod expand;
mod pattern;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use self::pattern::{Match, Pattern, Scratch, StepsExceeded};
use super::ParseError;
use crate::event::{FieldSink, Value};

/// Patterns of one parser at most.
pub const PATTERNS_MAX: usize = 1000;

thread_local! {
    /// Memory of searches. A search takes it, so that a receiver of fields may search too.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Reason why patterns cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrokError {
    /// The pattern as written.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for GrokError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot compile grok pattern [{}]: {}", self.pattern, self.reason)
    }
}

impl std::error::Error for GrokError {}

/// Parser made of patterns, which are tried in order.
#[derive(Debug)]
pub struct Grok {
    patterns: Vec<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    pattern: Pattern,
    groups: Vec<Group>,
}

/// A named group of a pattern.
#[derive(Debug)]
struct Group {
    name: String,
    kind: Kind,
    /// Groups before this one with the same name.
    earlier: Vec<usize>,
}

/// Type that a capture is converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Int,
    Long,
    Float,
    Boolean,
}

impl Grok {
    /// Compiles `patterns`. `definitions` add to the [bank] and win over it.
    ///
    /// # Errors
    /// If there is no pattern, one is malformed or too large, refers to an unknown pattern or to itself, or uses a
    /// back-reference or another construct that is refused by name.
    pub fn new(patterns: &[&str], definitions: &BTreeMap<String, String>) -> Result<Self, GrokError> {
        if patterns.is_empty() || patterns.len() > PATTERNS_MAX {
            return Err(GrokError {
                pattern: String::new(),
                reason: format!("between 1 and {PATTERNS_MAX} patterns are required"),
            });
        }
        let compiled = patterns.iter().map(|pattern| {
            Compiled::new(pattern, definitions).map_err(|reason| GrokError {
                pattern: (*pattern).to_owned(),
                reason,
            })
        });
        Ok(Self {
            patterns: compiled.collect::<Result<_, _>>()?,
        })
    }

    /// Names of all fields that the patterns may push, in their order.
    pub fn field_names(&self) -> impl Iterator<Item = &str> {
        self.patterns
            .iter()
            .flat_map(|compiled| &compiled.groups)
            .map(|group| group.name.as_str())
    }

    /// Parses one record and pushes its fields. Returns the number of the pattern that matched, for `trace_match`.
    ///
    /// # Errors
    /// If no pattern matches, or a pattern takes too many steps: nothing has been pushed then. If a capture is not of its
    /// type: the fields before it have been pushed.
    pub fn parse<'a, S: FieldSink<'a> + ?Sized>(&'a self, record: &'a str, sink: &mut S) -> Result<usize, ParseError> {
        let mut scratch = SCRATCH.take();
        let result = self.parse_with(record, sink, &mut scratch);
        SCRATCH.set(scratch);
        result
    }

    fn parse_with<'a, S: FieldSink<'a> + ?Sized>(
        &'a self,
        record: &'a str,
        sink: &mut S,
        scratch: &mut Scratch,
    ) -> Result<usize, ParseError> {
        for (number, compiled) in self.patterns.iter().enumerate() {
            match compiled.pattern.search(record, scratch) {
                Ok(None) => {}
                Ok(Some(found)) => {
                    compiled.push(record, &found, sink)?;
                    return Ok(number);
                }
                Err(StepsExceeded) => return Err(error("a pattern that takes fewer steps on this record", 0)),
            }
        }
        Err(error("a match of one of the patterns", 0))
    }
}

fn error(expected: &'static str, offset: usize) -> ParseError {
    ParseError {
        format: "grok",
        expected,
        offset,
    }
}

impl Compiled {
    fn new(pattern: &str, definitions: &BTreeMap<String, String>) -> Result<Self, String> {
        let expanded = expand::expand(pattern, definitions)?;
        let pattern = Pattern::new(&expanded)?;
        let mut groups: Vec<Group> = Vec::new();
        for name in pattern.names() {
            let (name, kind) = match name.rsplit_once(':') {
                Some((name, kind)) => (name, Kind::from_name(kind)),
                None => (name.as_str(), Kind::Text),
            };
            let earlier = groups
                .iter()
                .enumerate()
                .filter(|(_, group)| group.name == name)
                .map(|(number, _)| number);
            groups.push(Group {
                name: name.to_owned(),
                kind,
                earlier: earlier.collect(),
            });
        }
        Ok(Self { pattern, groups })
    }

    fn push<'a, S: FieldSink<'a> + ?Sized>(
        &'a self,
        record: &'a str,
        found: &Match<'_>,
        sink: &mut S,
    ) -> Result<(), ParseError> {
        for (number, group) in self.groups.iter().enumerate() {
            let Some((start, end)) = found.group(number) else {
                continue;
            };
            if group.earlier.iter().any(|&earlier| found.group(earlier).is_some()) {
                continue;
            }
            let value = group
                .kind
                .value(&record[start..end])
                .map_err(|expected| error(expected, start))?;
            sink.field(&group.name, value);
        }
        Ok(())
    }
}

impl Kind {
    fn from_name(name: &str) -> Self {
        match name {
            "int" => Self::Int,
            "long" => Self::Long,
            "float" | "double" => Self::Float,
            "boolean" => Self::Boolean,
            _ => Self::Text,
        }
    }

    /// The value of a capture, or what was expected instead of it. Numbers in JSON's notation keep it.
    fn value(self, text: &str) -> Result<Value<'_>, &'static str> {
        match self {
            Self::Text => Ok(Value::text(text)),
            Self::Int => text
                .parse::<i32>()
                .map(|number| Value::Int(number.into()))
                .map_err(|_| "an int in a capture"),
            Self::Long => text.parse().map(Value::Int).map_err(|_| "a long in a capture"),
            Self::Float => float(text).ok_or("a number in a capture"),
            Self::Boolean => Ok(Value::Bool(text.eq_ignore_ascii_case("true"))),
        }
    }
}

/// A number in JSON's notation.
fn float(text: &str) -> Option<Value<'_>> {
    let number: f64 = text.trim().parse().ok().filter(|number: &f64| number.is_finite())?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_json = is_digits(whole) && is_digits(fraction) && (whole == "0" || !whole.starts_with('0'));
    Some(Value::Number(if is_json {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{number:?}"))
    }))
}
