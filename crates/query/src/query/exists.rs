//! `exists` query.

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::params::{boost, object, print, put_boost, text, unsupported};
use super::{Budget, Query};

pub(super) const NAME: &str = "exists";

/// Matches documents with an indexed value for a field or for any field of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Exists {
    /// Full path, `*` allowed.
    pub field: String,
    /// The score.
    pub boost: f32,
}

/// `{"field": "path"}`.
pub(super) fn parse(body: &Value, _: &mut Budget) -> Result<Query> {
    let mut field = None;
    let mut score = 1.0;
    for (key, value) in object(NAME, body)? {
        match key.as_str() {
            "field" => field = Some(text(NAME, key, value)?),
            "boost" => score = boost(NAME, value)?,
            _ => return Err(unsupported(NAME, key)),
        }
    }
    match field {
        Some(field) if !field.is_empty() => Ok(Query::Exists(Exists { field, boost: score })),
        Some(_) => Err(Error::illegal_argument("field name is null or empty")),
        None => Err(Error::parsing(format!("[{NAME}] must be provided with a [field]"))),
    }
}

impl Exists {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("field".into(), self.field.as_str().into());
        put_boost(&mut body, self.boost);
        print(NAME, body)
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
        check(json!({"exists": {"field": "a.*"}}), json!({"exists": {"field": "a.*"}}));
        check(
            json!({"exists": {"field": "a", "boost": 0.1}}),
            json!({"exists": {"field": "a", "boost": 0.1}}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(json!({"exists": {}}), "[exists] must be provided with a [field]");
        check_refused(json!({"exists": {"field": ""}}), "field name is null or empty");
        check_refused(
            json!({"exists": {"fields": "a"}}),
            "[exists] query does not support [fields]",
        );
        check_refused(
            json!({"exists": {"field": ["a"]}}),
            "[exists] query does not support [START_ARRAY] for [field]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"exists": {"field": "a.*"}}), &["a.*"]);
    }
}
