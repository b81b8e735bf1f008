//! `wildcard`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::params::{boost, flag, print_field, put_boost, put_flag, rewrite, single_field, text, unsupported};
use super::{Budget, Query};
use crate::{Error, Result};

pub(super) const NAME: &str = "wildcard";

/// Terms that match `*` (any run) and `?` (one character); `\` escapes.
#[derive(Debug, Clone, PartialEq)]
pub struct Wildcard {
    /// Full path.
    pub field: String,
    /// The pattern.
    pub value: String,
    /// ASCII letters match in either case.
    pub case_insensitive: bool,
    /// The score.
    pub boost: f32,
}

/// `{"field": "a*c?"}` or `{"field": {"value": "a*c?", …}}`.
pub(super) fn parse(body: &Value, _: &mut Budget) -> Result<Query> {
    let (field, value) = single_field(NAME, body)?;
    let mut found = None;
    let mut case_insensitive = false;
    let mut score = 1.0;
    match value {
        Value::Object(params) => {
            for (key, value) in params {
                match key.as_str() {
                    "value" | "wildcard" => found = Some(text(NAME, key, value)?),
                    "case_insensitive" => case_insensitive = flag(NAME, key, value)?,
                    "boost" => score = boost(NAME, value)?,
                    "rewrite" => rewrite(NAME, value)?,
                    _ => return Err(unsupported(NAME, key)),
                }
            }
        }
        Value::Null => {}
        value => found = Some(text(NAME, "value", value)?),
    }
    let Some(value) = found else {
        return Err(Error::illegal_argument("value cannot be null"));
    };
    Ok(Query::Wildcard(Wildcard {
        field: field.to_owned(),
        value,
        case_insensitive,
        boost: score,
    }))
}

impl Wildcard {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("value".into(), self.value.as_str().into());
        put_flag(&mut body, "case_insensitive", self.case_insensitive);
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
            json!({"wildcard": {"a": "a*c?"}}),
            json!({"wildcard": {"a": {"value": "a*c?"}}}),
        );
        check(
            json!({"wildcard": {"a": {"value": 12, "case_insensitive": true, "boost": 2, "rewrite": "constant_score"}}}),
            json!({"wildcard": {"a": {"value": "12", "case_insensitive": true, "boost": 2.0}}}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(json!({"wildcard": {"a": {}}}), "value cannot be null");
        check_refused(
            json!({"wildcard": {"a": ["x"]}}),
            "[wildcard] query does not support [START_ARRAY] for [value]",
        );
        check_refused(
            json!({"wildcard": {"a": {"value": "x", "foo": 1}}}),
            "[wildcard] query does not support [foo]",
        );
        check_refused(
            json!({"wildcard": {"a": {"value": "x", "rewrite": "scoring_boolean"}}}),
            "[rewrite: scoring_boolean] of query [wildcard] is not implemented by firn",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"wildcard": {"a.b": "x"}}), &["a.b"]);
    }
}
