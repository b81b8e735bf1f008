//! `ids` query.

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::params::{boost, object, print, put_boost, text, unsupported};
use super::{Budget, Query, TERMS_MAX};

pub(super) const NAME: &str = "ids";

/// Matches documents by id.
#[derive(Debug, Clone, PartialEq)]
pub struct Ids {
    /// The ids, at most 65,536.
    pub values: Vec<String>,
    /// The score.
    pub boost: f32,
}

/// `{"values": ["1", "2"]}`; a single id needs no list, and without `values` nothing matches.
pub(super) fn parse(body: &Value, _: &mut Budget) -> Result<Query> {
    let mut ids = None;
    let mut score = 1.0;
    for (key, value) in object(NAME, body)? {
        match key.as_str() {
            "values" => ids = Some(value),
            "boost" => score = boost(NAME, value)?,
            _ => return Err(unsupported(NAME, key)),
        }
    }
    let values = match ids {
        None => Vec::new(),
        Some(Value::Array(values)) if values.len() > TERMS_MAX => {
            return Err(Error::illegal_argument(format!(
                "[{NAME}] lists [{}] ids, more than the allowed maximum of [{TERMS_MAX}]",
                values.len()
            )));
        }
        Some(Value::Array(values)) => values
            .iter()
            .map(|id| text(NAME, "values", id))
            .collect::<Result<_>>()?,
        Some(one) => vec![text(NAME, "values", one)?],
    };
    Ok(Query::Ids(Ids { values, boost: score }))
}

impl Ids {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("values".into(), self.values.clone().into());
        put_boost(&mut body, self.boost);
        print(NAME, body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        fields.insert("_id".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        check(
            json!({"ids": {"values": ["a", 1]}}),
            json!({"ids": {"values": ["a", "1"]}}),
        );
        check(
            json!({"ids": {"values": "a", "boost": 2}}),
            json!({"ids": {"values": ["a"], "boost": 2.0}}),
        );
        check(json!({"ids": {}}), json!({"ids": {"values": []}}));
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"ids": {"values": [], "type": "_doc"}}),
            "[ids] query does not support [type]",
        );
        check_refused(
            json!({"ids": {"values": [null]}}),
            "[ids] query does not support [VALUE_NULL] for [values]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"ids": {"values": []}}), &["_id"]);
    }
}
