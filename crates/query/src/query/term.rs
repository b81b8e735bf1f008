//! `term` query.

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::params::{boost, by_field, flag, print_field, put_boost, put_flag, scalar, unsupported};
use super::{Budget, Query};

pub(super) const NAME: &str = "term";

/// Exact value of a field.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Full path.
    pub field: String,
    /// String, number or boolean.
    pub value: Value,
    /// Multiplies the score.
    pub boost: f32,
    /// ASCII letters match case-insensitively.
    pub case_insensitive: bool,
}

/// `{"field": value}` or `{"field": {"value": value, …}}`.
pub(super) fn parse(body: &Value, _: &mut Budget) -> Result<Query> {
    let mut found = None;
    let mut score = 1.0;
    let mut case_insensitive = false;
    let field = by_field(NAME, "value", body, |key, value| {
        match key {
            "value" | "term" => found = Some(scalar(NAME, key, value)?),
            "boost" => score = boost(NAME, value)?,
            "case_insensitive" => case_insensitive = flag(NAME, key, value)?,
            _ => return Err(unsupported(NAME, key)),
        }
        Ok(())
    })?;
    match found {
        Some(value) => Ok(Query::Term(Term {
            field,
            value,
            boost: score,
            case_insensitive,
        })),
        None => Err(Error::illegal_argument("value cannot be null")),
    }
}

impl Term {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("value".into(), self.value.clone());
        put_boost(&mut body, self.boost);
        put_flag(&mut body, "case_insensitive", self.case_insensitive);
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
        check(json!({"term": {"a.b": "x"}}), json!({"term": {"a.b": {"value": "x"}}}));
        check(json!({"term": {"a": 1.50}}), json!({"term": {"a": {"value": 1.5}}}));
        check(
            json!({"term": {"a": {"value": true, "boost": 2, "case_insensitive": "true"}}}),
            json!({"term": {"a": {"value": true, "boost": 2.0, "case_insensitive": true}}}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"term": {"a": 1, "b": 2}}),
            "[term] query doesn't support multiple fields, found [a] and [b]",
        );
        check_refused(
            json!({"term": {"a": {"value": 1, "foo": 2}}}),
            "[term] query does not support [foo]",
        );
        check_refused(
            json!({"term": {"a": ["x"]}}),
            "[term] query does not support array of values",
        );
        check_refused(json!({"term": {"a": null}}), "value cannot be null");
        check_refused(json!({"term": {"a": {"boost": 1}}}), "value cannot be null");
        check_refused(json!({"term": {}}), "[term] field name is null or empty");
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"term": {"a.b": "x"}}), &["a.b"]);
    }
}
