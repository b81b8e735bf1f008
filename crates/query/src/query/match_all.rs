//! `match_all` and `match_none` queries.

use firn_model::Result;
use serde_json::{Map, Value};

use super::params::{boost, object, print, put_boost, unsupported};
use super::{Budget, Query};

pub(super) const NAME: &str = "match_all";
pub(super) const NAME_NONE: &str = "match_none";

/// Matches every document with score 1.
#[derive(Debug, Clone, PartialEq)]
pub struct MatchAll {
    /// Multiplies the score (default 1).
    pub boost: f32,
}

impl Default for MatchAll {
    fn default() -> Self {
        Self { boost: 1.0 }
    }
}

pub(super) fn parse(body: &Value, _: &mut Budget) -> Result<Query> {
    let mut query = MatchAll::default();
    for (key, value) in object(NAME, body)? {
        match key.as_str() {
            "boost" => query.boost = boost(NAME, value)?,
            _ => return Err(unsupported(NAME, key)),
        }
    }
    Ok(Query::MatchAll(query))
}

/// A boost of `match_none` has no effect and is dropped.
pub(super) fn parse_none(body: &Value, _: &mut Budget) -> Result<Query> {
    for (key, value) in object(NAME_NONE, body)? {
        match key.as_str() {
            "boost" => drop(boost(NAME_NONE, value)?),
            _ => return Err(unsupported(NAME_NONE, key)),
        }
    }
    Ok(Query::MatchNone)
}

impl MatchAll {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        put_boost(&mut body, self.boost);
        print(NAME, body)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        check(json!({"match_all": {}}), json!({"match_all": {}}));
        check(
            json!({"match_all": {"boost": "1.5"}}),
            json!({"match_all": {"boost": 1.5}}),
        );
        check(json!({"match_none": {}}), json!({"match_none": {}}));
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"match_all": []}),
            "[match_all] query malformed, no start_object after query name",
        );
        check_refused(
            json!({"match_all": {"foo": 1}}),
            "[match_all] query does not support [foo]",
        );
        check_refused(
            json!({"match_none": {"foo": 1}}),
            "[match_none] query does not support [foo]",
        );
        check_refused(
            json!({"match_all": {"boost": -1}}),
            "negative [boost] are not allowed in [match_all], use a value between 0 and 1 to deboost",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"match_all": {}}), &[]);
        check_fields(json!({"match_none": {}}), &[]);
    }
}
