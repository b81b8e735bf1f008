//! `regexp` query: terms that match a regular expression of Lucene.

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::Value;

use super::params::{count, text, wrong_type};
use super::{Budget, Query, TermPattern};
use crate::json::as_i64;

pub(super) const NAME: &str = "regexp";

/// Default maximum of automaton states in Lucene. firn's expressions run in linear time and are bounded by their
/// compiled size, so the number is accepted without effect.
const STATES: u32 = 10_000;

/// Terms that match a regular expression completely.
#[derive(Debug, Clone, PartialEq)]
pub struct Regexp {
    /// Field, expression and scoring.
    pub pattern: TermPattern,
    /// Enabled operators.
    pub flags: RegexpFlags,
    /// `max_determinized_states`; accepted without effect.
    pub max_determinized_states: u32,
}

/// Lucene's optional operators, as its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegexpFlags(u32);

const FLAGS: &[(&str, u32)] = &[
    ("INTERSECTION", 1),
    ("COMPLEMENT", 2),
    ("EMPTY", 4),
    ("ANYSTRING", 8),
    ("AUTOMATON", 16),
    ("INTERVAL", 32),
];
/// `ALL` of Lucene, which includes unnamed bits.
const ALL: u32 = 0xff;

impl Default for RegexpFlags {
    fn default() -> Self {
        Self(ALL)
    }
}

impl RegexpFlags {
    /// Returns the enabled operators as bits.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// `&`.
    pub fn intersection(self) -> bool {
        self.0 & 1 > 0
    }

    /// `~`.
    pub fn complement(self) -> bool {
        self.0 & 2 > 0
    }

    /// `#`.
    pub fn empty(self) -> bool {
        self.0 & 4 > 0
    }

    /// `@`.
    pub fn any_string(self) -> bool {
        self.0 & 8 > 0
    }

    /// `<1-9>`.
    pub fn interval(self) -> bool {
        self.0 & 32 > 0
    }

    fn parse(text: &str) -> Result<Self> {
        let mut bits = 0;
        for name in text.split('|').filter(|name| !name.is_empty()) {
            bits |= match name.to_ascii_uppercase().as_str() {
                "ALL" => return Ok(Self(ALL)),
                "NONE" => return Ok(Self(0)),
                name => FLAGS
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, bit)| *bit)
                    .ok_or_else(|| Error::illegal_argument(format!("Unknown regexp flag [{name}]")))?,
            };
        }
        Ok(Self(bits))
    }

    fn print(self) -> String {
        let names: Vec<&str> = FLAGS
            .iter()
            .filter(|(_, bit)| self.0 & bit > 0)
            .map(|(name, _)| *name)
            .collect();
        match names.is_empty() {
            true => "NONE".to_owned(),
            false => names.join("|"),
        }
    }
}

pub(super) fn parse(body: &Value, _: &mut Budget) -> Result<Query> {
    let mut flags = RegexpFlags::default();
    let mut max_determinized_states = STATES;
    let pattern = TermPattern::parse(NAME, body, |key, value| {
        match key {
            "flags" if value.is_null() => {}
            "flags" => flags = RegexpFlags::parse(&text(NAME, key, value)?)?,
            "flags_value" => {
                let bits = as_i64(value).ok_or_else(|| wrong_type(NAME, key, value))?;
                flags = match bits as u32 & ALL {
                    ALL => RegexpFlags::default(),
                    bits => RegexpFlags(bits & 63),
                };
            }
            "max_determinized_states" => max_determinized_states = count(NAME, key, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(Query::Regexp(Regexp {
        pattern,
        flags,
        max_determinized_states,
    }))
}

impl Regexp {
    pub(super) fn print(&self) -> Value {
        self.pattern.print_with(NAME, |body| {
            if self.flags != RegexpFlags::default() {
                body.insert("flags".into(), self.flags.print().into());
            }
            if self.max_determinized_states != STATES {
                body.insert("max_determinized_states".into(), self.max_determinized_states.into());
            }
        })
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        self.pattern.fields(fields);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        check(
            json!({"regexp": {"a": "x.*"}}),
            json!({"regexp": {"a": {"value": "x.*"}}}),
        );
        check(
            json!({"regexp": {"a": {
                "value": "x.*", "flags": "interval|COMPLEMENT", "case_insensitive": true,
                "max_determinized_states": 5, "rewrite": "scoring_boolean", "boost": 2
            }}}),
            json!({"regexp": {"a": {
                "value": "x.*", "case_insensitive": true, "flags": "COMPLEMENT|INTERVAL",
                "max_determinized_states": 5, "rewrite": "scoring_boolean", "boost": 2.0
            }}}),
        );
        check(
            json!({"regexp": {"a": {"value": "x", "flags": "ALL", "max_determinized_states": 10000}}}),
            json!({"regexp": {"a": {"value": "x"}}}),
        );
        check(
            json!({"regexp": {"a": {"value": "x", "flags": ""}}}),
            json!({"regexp": {"a": {"value": "x", "flags": "NONE"}}}),
        );
        check(
            json!({"regexp": {"a": {"value": "x", "flags_value": 255}}}),
            json!({"regexp": {"a": {"value": "x"}}}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(json!({"regexp": {"a": {}}}), "value cannot be null");
        check_refused(
            json!({"regexp": {"a": {"value": "x", "flags": "SOME"}}}),
            "Unknown regexp flag [SOME]",
        );
        check_refused(
            json!({"regexp": {"a": {"value": "x", "flags_value": "y"}}}),
            "[regexp] query does not support [VALUE_STRING] for [flags_value]",
        );
        check_refused(
            json!({"regexp": {"a": {"regexp": "x"}}}),
            "[regexp] query does not support [regexp]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"regexp": {"a.b": "x"}}), &["a.b"]);
    }
}
