//! Common part of `match`, `match_phrase`, `match_phrase_prefix` and `match_bool_prefix`: a field, a text, and the
//! search options.

use std::collections::BTreeSet;

use firn_model::Result;
use serde_json::{Map, Value};

use super::params::{boost, by_field, print_field, put_boost, query_text, required_text, unsupported};
use super::text_options::TextOptions;

/// Full-text search of one field.
#[derive(Debug, Clone, PartialEq)]
pub struct TextQuery {
    /// Full path.
    pub field: String,
    /// The text, or a number or boolean for such fields.
    pub query: Value,
    /// Search options.
    pub options: TextOptions,
    /// Multiplies the score.
    pub boost: f32,
}

impl TextQuery {
    /// Parses `{"field": "text"}` or `{"field": {"query": "text", …}}` with the parameters in `known`.
    pub(super) fn parse(query: &str, known: &[&[&str]], body: &Value) -> Result<Self> {
        let mut found = None;
        let mut options = TextOptions::default();
        let mut score = 1.0;
        let field = by_field(query, "query", body, |key, value| {
            match key {
                "query" => found = query_text(query, value)?,
                "boost" => score = boost(query, value)?,
                _ if options.read(query, known, key, value)? => {}
                _ => return Err(unsupported(query, key)),
            }
            Ok(())
        })?;
        Ok(Self {
            field,
            query: required_text(found)?,
            options,
            boost: score,
        })
    }

    pub(super) fn print(&self, query: &str) -> Value {
        let mut body = Map::new();
        body.insert("query".into(), self.query.clone());
        self.options.put(&mut body);
        put_boost(&mut body, self.boost);
        print_field(query, &self.field, body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        fields.insert(self.field.clone());
    }
}
