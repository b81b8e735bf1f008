//! `match_bool_prefix` query: terms of a text, the last of which is a prefix.

use firn_model::Result;
use serde_json::Value;

use super::text_options::{FUZZY, TERMS, TEXT};
use super::{Budget, Query, TextQuery};

pub(super) const NAME: &str = "match_bool_prefix";

pub(super) fn parse(body: &Value, budget: &mut Budget) -> Result<Query> {
    let query = TextQuery::parse(NAME, &[TEXT, TERMS, FUZZY], body)?;
    budget.take_fuzzy(query.options.fuzzy_words(&query.query), 1)?;
    Ok(Query::MatchBoolPrefix(query))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        check(
            json!({"match_bool_prefix": {"a": "x y"}}),
            json!({"match_bool_prefix": {"a": {"query": "x y"}}}),
        );
        check(
            json!({"match_bool_prefix": {"a": {
                "query": "x y", "operator": "and", "minimum_should_match": "75%", "analyzer": "simple", "fuzziness": 1,
                "max_expansions": 3, "boost": 2
            }}}),
            json!({"match_bool_prefix": {"a": {
                "query": "x y", "analyzer": "simple", "operator": "AND", "minimum_should_match": "75%",
                "fuzziness": "1", "max_expansions": 3, "boost": 2.0
            }}}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"match_bool_prefix": {"a": {}}}),
            "No text specified for text query",
        );
        check_refused(
            json!({"match_bool_prefix": {"a": {"query": "x", "slop": 1}}}),
            "[match_bool_prefix] query does not support [slop]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"match_bool_prefix": {"a.b": "x"}}), &["a.b"]);
    }
}
