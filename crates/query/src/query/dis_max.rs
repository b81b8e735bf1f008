//! `dis_max` query: any of several queries; the best score counts.

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::params::{boost, number, object, print, put_boost, unsupported};
use super::{Budget, Query};
use crate::json::{print_f32, token};

pub(super) const NAME: &str = "dis_max";

/// Disjunction of queries, scored by the best match.
#[derive(Debug, Clone, PartialEq)]
pub struct DisMax {
    /// At least one must match.
    pub queries: Vec<Query>,
    /// Factor for the scores of the other matches, which are added.
    pub tie_breaker: f32,
    /// Multiplies the score.
    pub boost: f32,
}

/// `{"queries": [query, …]}`; a single query needs no list.
pub(super) fn parse(body: &Value, budget: &mut Budget) -> Result<Query> {
    let mut queries = None;
    let mut tie_breaker = 0.0;
    let mut score = 1.0;
    for (key, value) in object(NAME, body)? {
        match (key.as_str(), value) {
            ("queries", Value::Object(_)) => queries = Some(vec![budget.parse(value)?]),
            ("queries", Value::Array(values)) => {
                let parsed: Result<_> = values.iter().map(|value| budget.parse(value)).collect();
                queries = Some(parsed?);
            }
            ("queries", _) => return Err(Error::parsing(format!("unexpected token [{}]", token(value)))),
            ("tie_breaker", _) => tie_breaker = number(NAME, key, value)?,
            ("boost", _) => score = boost(NAME, value)?,
            _ => return Err(unsupported(NAME, key)),
        }
    }
    match queries {
        Some(queries) if !queries.is_empty() => Ok(Query::DisMax(DisMax {
            queries,
            tie_breaker,
            boost: score,
        })),
        _ => Err(Error::parsing(format!(
            "[{NAME}] requires 'queries' field with at least one clause"
        ))),
    }
}

impl DisMax {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        if self.tie_breaker != 0.0 {
            body.insert("tie_breaker".into(), print_f32(self.tie_breaker));
        }
        body.insert("queries".into(), self.queries.iter().map(Query::print).collect());
        put_boost(&mut body, self.boost);
        print(NAME, body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        for query in &self.queries {
            query.collect_fields(fields);
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
            json!({"dis_max": {"queries": [{"match_all": {}}, {"term": {"a": 1}}], "tie_breaker": 0.5, "boost": 2}}),
            json!({"dis_max": {
                "tie_breaker": 0.5, "queries": [{"match_all": {}}, {"term": {"a": {"value": 1}}}], "boost": 2.0
            }}),
        );
        check(
            json!({"dis_max": {"queries": {"match_all": {}}}}),
            json!({"dis_max": {"queries": [{"match_all": {}}]}}),
        );
    }

    #[test]
    fn refuses() {
        for none in [json!({}), json!({"queries": []})] {
            check_refused(
                json!({"dis_max": none}),
                "[dis_max] requires 'queries' field with at least one clause",
            );
        }
        check_refused(json!({"dis_max": {"queries": "x"}}), "unexpected token [VALUE_STRING]");
        check_refused(
            json!({"dis_max": {"query": {}}}),
            "[dis_max] query does not support [query]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"dis_max": {"queries": [{"term": {"b": 1}}, {"term": {"a": 1}}]}}),
            &["a", "b"],
        );
    }
}
