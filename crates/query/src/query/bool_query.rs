//! `bool` query.

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::params::{boost, flag, not_yet, object, print, put_boost, unsupported};
use super::{Budget, Query, should_match};
use crate::json::token;

pub(super) const NAME: &str = "bool";

/// Boolean combination of queries.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bool {
    /// All must match; scored.
    pub must: Vec<Query>,
    /// All must match; not scored.
    pub filter: Vec<Query>,
    /// Scored; how many must match depends on `minimum_should_match` (default: one if there is
    /// neither `must` nor `filter`, else none).
    pub should: Vec<Query>,
    /// None may match.
    pub must_not: Vec<Query>,
    /// Value as written.
    pub minimum_should_match: Option<String>,
    /// Multiplies the score (1.0).
    pub boost: Boost,
}

/// A boost whose default is 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Boost(pub f32);

impl Default for Boost {
    fn default() -> Self {
        Self(1.0)
    }
}

/// Each kind of clause takes one query or a list.
pub(super) fn parse(body: &Value, budget: &mut Budget) -> Result<Query> {
    let mut query = Bool::default();
    for (key, value) in object(NAME, body)? {
        match key.as_str() {
            "must" => clauses(key, value, budget, &mut query.must)?,
            "filter" => clauses(key, value, budget, &mut query.filter)?,
            "should" => clauses(key, value, budget, &mut query.should)?,
            "must_not" => clauses(key, value, budget, &mut query.must_not)?,
            "minimum_should_match" if value.is_null() => {}
            "minimum_should_match" => query.minimum_should_match = Some(should_match::parse(NAME, value)?),
            "boost" => query.boost = Boost(boost(NAME, value)?),
            "adjust_pure_negative" if flag(NAME, key, value)? => {}
            "adjust_pure_negative" => return Err(not_yet(NAME, key)),
            _ => return Err(unsupported(NAME, key)),
        }
    }
    Ok(Query::Bool(query))
}

fn clauses(key: &str, value: &Value, budget: &mut Budget, clauses: &mut Vec<Query>) -> Result<()> {
    match value {
        Value::Object(_) => clauses.push(budget.parse(value)?),
        Value::Array(values) => {
            for value in values {
                clauses.push(budget.parse(value)?);
            }
        }
        Value::Null => {}
        _ => {
            return Err(Error::parsing(format!(
                "[{NAME}] query malformed, [{key}] doesn't support values of type: {}",
                token(value)
            )));
        }
    }
    Ok(())
}

impl Bool {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        for (key, clauses) in self.clauses() {
            if !clauses.is_empty() {
                body.insert(key.into(), clauses.iter().map(Query::print).collect());
            }
        }
        if let Some(spec) = &self.minimum_should_match {
            body.insert("minimum_should_match".into(), spec.as_str().into());
        }
        put_boost(&mut body, self.boost.0);
        print(NAME, body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        for query in self.clauses().into_iter().flat_map(|(_, clauses)| clauses) {
            query.collect_fields(fields);
        }
    }

    fn clauses(&self) -> [(&'static str, &Vec<Query>); 4] {
        [
            ("must", &self.must),
            ("filter", &self.filter),
            ("should", &self.should),
            ("must_not", &self.must_not),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        check(json!({"bool": {}}), json!({"bool": {}}));
        check(
            json!({"bool": {"must": {"exists": {"field": "a"}}, "should": [], "adjust_pure_negative": true}}),
            json!({"bool": {"must": [{"exists": {"field": "a"}}]}}),
        );
        check(
            json!({"bool": {
                "filter": [{"match_all": {}}], "should": [{"ids": {"values": []}}, {"bool": {}}],
                "must_not": {"match_none": {}}, "minimum_should_match": 1, "boost": 2
            }}),
            json!({"bool": {
                "filter": [{"match_all": {}}], "should": [{"ids": {"values": []}}, {"bool": {}}],
                "must_not": [{"match_none": {}}], "minimum_should_match": "1", "boost": 2.0
            }}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(json!({"bool": {"musst": []}}), "[bool] query does not support [musst]");
        check_refused(
            json!({"bool": {"must": "x"}}),
            "[bool] query malformed, [must] doesn't support values of type: VALUE_STRING",
        );
        check_refused(
            json!({"bool": {"must": ["x"]}}),
            "[_na] query malformed, must start with start_object",
        );
        check_refused(json!({"bool": {"must": {"foo": {}}}}), "unknown query [foo]");
        check_refused(
            json!({"bool": {}, "term": {}}),
            "[bool] malformed query, expected [END_OBJECT] but found [FIELD_NAME]",
        );
        check_refused(
            json!({"bool": {"adjust_pure_negative": false}}),
            "parameter [adjust_pure_negative] of query [bool] is not implemented by firn",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"bool": {
                "must": {"term": {"d": 1}}, "filter": {"term": {"c": 1}}, "should": {"term": {"b": 1}},
                "must_not": [{"term": {"a": 1}}, {"term": {"b": 1}}]
            }}),
            &["a", "b", "c", "d"],
        );
    }
}
