//! `match_phrase` query: terms of a text in sequence.

use firn_model::Result;
use serde_json::Value;

use super::text_options::TEXT;
use super::{Budget, Query, TextQuery};

pub(super) const NAME: &str = "match_phrase";

/// Parameters in addition to those of all full-text queries.
const OWN: &[&str] = &["slop", "zero_terms_query"];

pub(super) fn parse(body: &Value, _: &mut Budget) -> Result<Query> {
    TextQuery::parse(NAME, &[TEXT, OWN], body).map(Query::MatchPhrase)
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
            json!({"match_phrase": {"a": {
                "query": "x y", "slop": 2, "zero_terms_query": "ALL", "analyzer": "simple", "boost": 2
            }}}),
            json!({"match_phrase": {"a": {
                "query": "x y", "analyzer": "simple", "slop": 2, "zero_terms_query": "ALL", "boost": 2.0
            }}}),
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
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"match_phrase": {"a.b": "x"}}), &["a.b"]);
    }
}
