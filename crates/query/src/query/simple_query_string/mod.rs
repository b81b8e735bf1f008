//! `simple_query_string` query: a query syntax without errors, for text that users type.

mod syntax;

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::fuzziness::STRING_NAMES;
use super::params::{boost, flag, object, operator, print, put_boost, put_flag, text, unsupported};
use super::query_string::Node;
use super::text_options::{TEXT, TextOptions};
use super::{Budget, Query, weighted_fields};
use crate::json::as_i64;

pub(super) const NAME: &str = "simple_query_string";

/// Text in the simple syntax. The parser makes `parsed` from `query` once.
#[derive(Debug, Clone, PartialEq)]
pub struct SimpleQueryString {
    /// As written.
    pub query: String,
    /// Names and patterns with their boosts. Empty: `index.query.default_field`.
    pub fields: Vec<(String, f32)>,
    /// Search options of words.
    pub options: TextOptions,
    /// Enabled operators.
    pub flags: Flags,
    /// `analyze_wildcard`; accepted without effect.
    pub analyze_wildcard: bool,
    /// Phrases search the field with this suffix instead, if it exists.
    pub quote_field_suffix: Option<String>,
    /// Multiplies the score.
    pub boost: f32,
    /// The syntax tree.
    pub parsed: Node,
}

/// Operators of the syntax, as Elasticsearch's bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(u32);

const FLAGS: &[(&str, u32)] = &[
    ("AND", 1),
    ("NOT", 2),
    ("OR", 4),
    ("PREFIX", 8),
    ("PHRASE", 16),
    ("PRECEDENCE", 32),
    ("ESCAPE", 64),
    ("WHITESPACE", 128),
    ("FUZZY", 256),
    ("NEAR", 512),
];
const ALL: u32 = 1023;

impl Default for Flags {
    fn default() -> Self {
        Self(ALL)
    }
}

impl Flags {
    fn parse(text: &str) -> Result<Self> {
        let mut bits = 0;
        for name in text.split('|').filter(|name| !name.is_empty()) {
            bits |= match name.to_ascii_uppercase().as_str() {
                "ALL" => return Ok(Self(ALL)),
                "NONE" => return Ok(Self(0)),
                "SLOP" => 512,
                name => FLAGS
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, bit)| *bit)
                    .ok_or_else(|| Error::illegal_argument(format!("Unknown simple_query_string flag [{name}]")))?,
            };
        }
        // An empty list of names enables all.
        Ok(Self(if text.is_empty() { ALL } else { bits }))
    }

    fn read(value: &Value) -> Result<Self> {
        match as_i64(value) {
            Some(bits) if bits < 0 => Ok(Self::default()),
            Some(bits) => Ok(Self(bits as u32 & ALL)),
            None => Self::parse(&text(NAME, "flags", value)?),
        }
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

    /// Returns the enabled operators as bits.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    fn and(self) -> bool {
        self.0 & 1 > 0
    }

    fn not(self) -> bool {
        self.0 & 2 > 0
    }

    fn or(self) -> bool {
        self.0 & 4 > 0
    }

    fn prefix(self) -> bool {
        self.0 & 8 > 0
    }

    fn phrase(self) -> bool {
        self.0 & 16 > 0
    }

    fn precedence(self) -> bool {
        self.0 & 32 > 0
    }

    fn escape(self) -> bool {
        self.0 & 64 > 0
    }

    fn whitespace(self) -> bool {
        self.0 & 128 > 0
    }

    fn fuzzy(self) -> bool {
        self.0 & 256 > 0
    }

    fn near(self) -> bool {
        self.0 & 512 > 0
    }
}

/// Parameters in addition to those of all full-text queries.
const OWN: &[&str] = &["lenient", "minimum_should_match", "auto_generate_synonyms_phrase_query"];

pub(super) fn parse(body: &Value, budget: &mut Budget) -> Result<Query> {
    let mut found = None;
    let mut query = SimpleQueryString {
        query: String::new(),
        fields: Vec::new(),
        options: TextOptions::default(),
        flags: Flags::default(),
        analyze_wildcard: false,
        quote_field_suffix: None,
        boost: 1.0,
        parsed: Node::All,
    };
    for (key, value) in object(NAME, body)? {
        match key.as_str() {
            "query" => found = Some(text(NAME, key, value)?),
            "fields" => query.fields = weighted_fields::parse(NAME, value)?,
            "default_operator" => query.options.operator_and = operator(NAME, key, value)?,
            "flags" => query.flags = Flags::read(value)?,
            "analyze_wildcard" => query.analyze_wildcard = flag(NAME, key, value)?,
            "quote_field_suffix" => query.quote_field_suffix = Some(text(NAME, key, value)?),
            "boost" => query.boost = boost(NAME, value)?,
            // As in Elasticsearch, this query has no rewrite of fuzzy words.
            "fuzzy_rewrite" => return Err(unsupported(NAME, key)),
            _ if query.options.read(NAME, &[TEXT, OWN], key, value)? => {}
            _ if STRING_NAMES.read(&mut query.options.fuzzy, NAME, key, value)? => {}
            _ => return Err(unsupported(NAME, key)),
        }
    }
    query.query = found.ok_or_else(|| Error::parsing(format!("[{NAME}] query text missing")))?;
    query.parsed = syntax::parse(&query.query, query.options.operator_and, query.flags)?;
    budget.take_clauses(query.parsed.clause_count())?;
    budget.take_fuzzy(query.parsed.fuzzy_count(), query.fields.len())?;
    Ok(Query::SimpleQueryString(query))
}

impl SimpleQueryString {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("query".into(), self.query.as_str().into());
        weighted_fields::put(&mut body, &self.fields);
        self.options.put_string(&mut body);
        if self.flags != Flags::default() {
            body.insert("flags".into(), self.flags.print().into());
        }
        put_flag(&mut body, "analyze_wildcard", self.analyze_wildcard);
        if let Some(suffix) = &self.quote_field_suffix {
            body.insert("quote_field_suffix".into(), suffix.as_str().into());
        }
        put_boost(&mut body, self.boost);
        print(NAME, body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        if self.parsed.collect_fields(fields) {
            if self.fields.is_empty() {
                fields.insert("*".to_owned());
            }
            fields.extend(self.fields.iter().map(|(field, _)| field.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        check(
            json!({"simple_query_string": {"query": "a + b"}}),
            json!({"simple_query_string": {"query": "a + b"}}),
        );
        check(
            json!({"simple_query_string": {
                "query": "x", "fields": ["a", "b^2"], "default_operator": "and", "analyzer": "simple",
                "flags": "OR|and|SLOP", "lenient": true, "analyze_wildcard": true, "minimum_should_match": "2",
                "quote_field_suffix": ".exact", "auto_generate_synonyms_phrase_query": true,
                "fuzzy_prefix_length": 1, "fuzzy_max_expansions": 3, "fuzzy_transpositions": false, "boost": 2
            }}),
            json!({"simple_query_string": {
                "query": "x", "fields": ["a", "b^2.0"], "analyzer": "simple", "default_operator": "AND",
                "minimum_should_match": "2", "fuzzy_prefix_length": 1, "fuzzy_max_expansions": 3,
                "fuzzy_transpositions": false, "lenient": true, "flags": "AND|OR|NEAR", "analyze_wildcard": true,
                "quote_field_suffix": ".exact", "boost": 2.0
            }}),
        );
        for (written, printed) in [(json!(5), json!("AND|OR")), (json!(0), json!("NONE"))] {
            check(
                json!({"simple_query_string": {"query": "x", "flags": written}}),
                json!({"simple_query_string": {"query": "x", "flags": printed}}),
            );
        }
        check(
            json!({"simple_query_string": {"query": "x", "flags": -1}}),
            json!({"simple_query_string": {"query": "x"}}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"simple_query_string": {}}),
            "[simple_query_string] query text missing",
        );
        check_refused(
            json!({"simple_query_string": {"query": "x", "flags": "XOR"}}),
            "Unknown simple_query_string flag [XOR]",
        );
        check_refused(
            json!({"simple_query_string": {"query": "x", "default_field": "a"}}),
            "[simple_query_string] query does not support [default_field]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"simple_query_string": {"query": "x"}}), &["*"]);
        check_fields(
            json!({"simple_query_string": {"query": "x", "fields": ["b", "a"]}}),
            &["a", "b"],
        );
    }
}
