//! `match_phrase`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::params::{boost, count, not_yet, print_field, put_boost, scalar, single_field, unsupported, zero_terms};
use super::{Budget, Query};
use crate::{Error, Result};

pub(super) const NAME: &str = "match_phrase";

/// Full text: the terms one after another.
#[derive(Debug, Clone, PartialEq)]
pub struct MatchPhrase {
    /// Full path.
    pub field: String,
    /// The text.
    pub query: Value,
    /// Moves allowed between terms.
    pub slop: u32,
    /// `zero_terms_query: all`.
    pub zero_terms_all: bool,
    /// Multiplies the score.
    pub boost: f32,
}

/// `{"field": "text"}` or `{"field": {"query": "text", …}}`.
pub(super) fn parse(body: &Value, _: &mut Budget) -> Result<Query> {
    let (field, value) = single_field(NAME, body)?;
    let mut query = MatchPhrase {
        field: field.to_owned(),
        query: Value::Null,
        slop: 0,
        zero_terms_all: false,
        boost: 1.0,
    };
    match value {
        Value::Object(params) => {
            for (key, value) in params {
                match key.as_str() {
                    "query" if value.is_null() => {}
                    "query" => query.query = scalar(NAME, key, value)?,
                    "slop" => query.slop = count(NAME, key, value)?,
                    "zero_terms_query" => query.zero_terms_all = zero_terms(NAME, value)?,
                    "boost" => query.boost = boost(NAME, value)?,
                    "analyzer" => return Err(not_yet(NAME, key)),
                    _ => return Err(unsupported(NAME, key)),
                }
            }
        }
        Value::Null => {}
        value => query.query = scalar(NAME, "query", value)?,
    }
    if query.query.is_null() {
        return Err(Error::parsing("No text specified for text query"));
    }
    Ok(Query::MatchPhrase(query))
}

impl MatchPhrase {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("query".into(), self.query.clone());
        if self.slop > 0 {
            body.insert("slop".into(), self.slop.into());
        }
        if self.zero_terms_all {
            body.insert("zero_terms_query".into(), "ALL".into());
        }
        put_boost(&mut body, self.boost);
        print_field(NAME, &self.field, body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        fields.insert(self.field.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        check(
            json!({"match_phrase": {"a": "x y"}}),
            json!({"match_phrase": {"a": {"query": "x y"}}}),
        );
        check(
            json!({"match_phrase": {"a": {"query": "x y", "slop": 2, "zero_terms_query": "ALL", "boost": 2}}}),
            json!({"match_phrase": {"a": {"query": "x y", "slop": 2, "zero_terms_query": "ALL", "boost": 2.0}}}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(json!({"match_phrase": {"a": {}}}), "No text specified for text query");
        check_refused(
            json!({"match_phrase": {"a": {"query": "x", "slop": -1}}}),
            "[match_phrase] slop cannot be [-1]",
        );
        check_refused(
            json!({"match_phrase": {"a": {"query": "x", "operator": "and"}}}),
            "[match_phrase] query does not support [operator]",
        );
        check_refused(
            json!({"match_phrase": {"a": {"query": "x", "analyzer": "simple"}}}),
            "parameter [analyzer] of query [match_phrase] is not implemented by firn",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"match_phrase": {"a.b": "x"}}), &["a.b"]);
    }
}
