//! `constant_score` query.

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::params::{boost, object, print, put_boost, unsupported};
use super::{Budget, Query};
use crate::json::token;

pub(super) const NAME: &str = "constant_score";

/// A filter with a fixed score.
#[derive(Debug, Clone, PartialEq)]
pub struct ConstantScore {
    /// Filter that must match.
    pub filter: Box<Query>,
    /// The score.
    pub boost: f32,
}

/// `{"filter": query}`.
pub(super) fn parse(body: &Value, budget: &mut Budget) -> Result<Query> {
    let mut filter = None;
    let mut score = 1.0;
    for (key, value) in object(NAME, body)? {
        match (key.as_str(), value) {
            ("filter", Value::Object(_)) => filter = Some(Box::new(budget.parse(value)?)),
            ("filter", _) => return Err(Error::parsing(format!("unexpected token [{}]", token(value)))),
            ("boost", _) => score = boost(NAME, value)?,
            _ => return Err(unsupported(NAME, key)),
        }
    }
    match filter {
        Some(filter) => Ok(Query::ConstantScore(ConstantScore { filter, boost: score })),
        None => Err(Error::parsing(format!("[{NAME}] requires a 'filter' element"))),
    }
}

impl ConstantScore {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("filter".into(), self.filter.print());
        put_boost(&mut body, self.boost);
        print(NAME, body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        self.filter.collect_fields(fields);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        check(
            json!({"constant_score": {"filter": {"term": {"a": 1}}, "boost": 1.2}}),
            json!({"constant_score": {"filter": {"term": {"a": {"value": 1}}}, "boost": 1.2}}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"constant_score": {}}),
            "[constant_score] requires a 'filter' element",
        );
        check_refused(
            json!({"constant_score": {"filter": []}}),
            "unexpected token [START_ARRAY]",
        );
        check_refused(
            json!({"constant_score": {"query": {}}}),
            "[constant_score] query does not support [query]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"constant_score": {"filter": {"term": {"a": 1}}}}), &["a"]);
    }
}
