//! `terms` query.

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::params::{boost, object, print, put_boost, scalar, unsupported};
use super::{Budget, Query};

pub(super) const NAME: &str = "terms";

/// Maximum values in one query (`index.max_terms_count`).
pub const TERMS_MAX: usize = 65_536;

/// Any of several exact values; constant score.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// Full path.
    pub field: String,
    /// At most 65,536.
    pub values: Vec<Value>,
    /// The score.
    pub boost: f32,
}

/// `{"field": [value, …], "boost": 1}`.
pub(super) fn parse(body: &Value, _: &mut Budget) -> Result<Query> {
    let mut found: Option<(&String, &Vec<Value>)> = None;
    let mut score = 1.0;
    for (key, value) in object(NAME, body)? {
        match value {
            Value::Array(values) => {
                if found.replace((key, values)).is_some() {
                    return Err(Error::parsing(format!(
                        "[{NAME}] query does not support multiple fields"
                    )));
                }
            }
            Value::Object(_) => {
                return Err(Error::not_implemented(format!(
                    "terms lookup (field [{key}] of query [{NAME}])"
                )));
            }
            value if key == "boost" => score = boost(NAME, value)?,
            _ => return Err(unsupported(NAME, key)),
        }
    }
    let Some((field, values)) = found else {
        return Err(Error::parsing(format!(
            "[{NAME}] query requires a field name, followed by array of terms or a document lookup specification"
        )));
    };
    if field.is_empty() {
        return Err(Error::illegal_argument(format!("[{NAME}] field name is null or empty")));
    }
    if values.len() > TERMS_MAX {
        return Err(Error::illegal_argument(format!(
            "The number of terms [{}] used in the Terms Query request has exceeded the allowed maximum of [{TERMS_MAX}]. \
             This maximum can be set by changing the [index.max_terms_count] index level setting.",
            values.len()
        )));
    }
    if values.iter().any(Value::is_null) {
        return Err(Error::parsing("No value specified for terms query"));
    }
    let scalars = values.iter().map(|value| scalar(NAME, field, value));
    Ok(Query::Terms(Terms {
        field: field.clone(),
        values: scalars.collect::<Result<_>>()?,
        boost: score,
    }))
}

impl Terms {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert(self.field.clone(), self.values.clone().into());
        put_boost(&mut body, self.boost);
        print(NAME, body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        fields.insert(self.field.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        check(
            json!({"terms": {"a": ["x", 1, true]}}),
            json!({"terms": {"a": ["x", 1, true]}}),
        );
        check(json!({"terms": {"a": []}}), json!({"terms": {"a": []}}));
        check(
            json!({"terms": {"boost": 2, "a": [1]}}),
            json!({"terms": {"a": [1], "boost": 2.0}}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"terms": {}}),
            "[terms] query requires a field name, followed by array of terms or a document lookup specification",
        );
        check_refused(
            json!({"terms": {"a": [1], "b": [2]}}),
            "[terms] query does not support multiple fields",
        );
        check_refused(json!({"terms": {"a": "x"}}), "[terms] query does not support [a]");
        check_refused(json!({"terms": {"a": [null]}}), "No value specified for terms query");
        check_refused(
            json!({"terms": {"a": {"index": "i", "id": "1", "path": "p"}}}),
            "terms lookup (field [a] of query [terms]) is not implemented by firn",
        );
        let many: Vec<Value> = vec![Value::from(1); 65_537];
        check_refused(
            json!({"terms": {"a": many}}),
            "The number of terms [65537] used in the Terms Query request has exceeded the allowed maximum of [65536]. \
             This maximum can be set by changing the [index.max_terms_count] index level setting.",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"terms": {"a.b": ["x"]}}), &["a.b"]);
    }
}
