//! Common part of `prefix`, `wildcard` and `regexp`: a field, a pattern for its terms, and their scoring.

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::params::{boost, by_field, flag, print_field, put_boost, put_flag, text, unsupported};
use super::rewrite::Rewrite;

/// A pattern for the terms of a field.
#[derive(Debug, Clone, PartialEq)]
pub struct TermPattern {
    /// Full path.
    pub field: String,
    /// The pattern, in the syntax of the query.
    pub value: String,
    /// ASCII letters match case-insensitively.
    pub case_insensitive: bool,
    /// Scoring of the matched terms.
    pub rewrite: Rewrite,
    /// The score, or its factor.
    pub boost: f32,
}

impl TermPattern {
    /// Parses `{"field": "abc"}` or `{"field": {"value": "abc", …}}`; `value` may have the name of the query, as in old
    /// versions. `read` parses additional parameters of the query.
    pub(super) fn parse<'v>(
        query: &str,
        body: &'v Value,
        mut read: impl FnMut(&str, &'v Value) -> Result<bool>,
    ) -> Result<Self> {
        let mut found = None;
        let mut case_insensitive = false;
        let mut score = 1.0;
        let mut rewrite = Rewrite::Constant;
        let field = by_field(query, "value", body, |key, value| {
            match key {
                "value" => found = Some(text(query, key, value)?),
                _ if key == query && query != "regexp" => found = Some(text(query, key, value)?),
                "case_insensitive" => case_insensitive = flag(query, key, value)?,
                "boost" => score = boost(query, value)?,
                "rewrite" if value.is_null() => {}
                "rewrite" => rewrite = Rewrite::parse(query, key, value)?,
                _ if read(key, value)? => {}
                _ => return Err(unsupported(query, key)),
            }
            Ok(())
        })?;
        let Some(value) = found else {
            return Err(Error::illegal_argument("value cannot be null"));
        };
        Ok(Self {
            field,
            value,
            case_insensitive,
            rewrite,
            boost: score,
        })
    }

    pub(super) fn print(&self, query: &str) -> Value {
        self.print_with(query, |_| {})
    }

    /// Prints with additional parameters of the query.
    pub(super) fn print_with(&self, query: &str, put: impl FnOnce(&mut Map<String, Value>)) -> Value {
        let mut body = Map::new();
        body.insert("value".into(), self.value.as_str().into());
        put_flag(&mut body, "case_insensitive", self.case_insensitive);
        put(&mut body);
        self.rewrite.put(&mut body, "rewrite", Rewrite::Constant);
        put_boost(&mut body, self.boost);
        print_field(query, &self.field, body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        fields.insert(self.field.clone());
    }
}
