//! `match_phrase_prefix` query: terms of a text in sequence, the last of which is a prefix.

use firn_model::Result;
use serde_json::Value;

use super::text_options::TEXT;
use super::{Budget, Query, TextQuery};

pub(super) const NAME: &str = "match_phrase_prefix";

/// Parameters in addition to those of all full-text queries.
const OWN: &[&str] = &["slop", "max_expansions", "zero_terms_query"];

pub(super) fn parse(body: &Value, _: &mut Budget) -> Result<Query> {
    TextQuery::parse(NAME, &[TEXT, OWN], body).map(Query::MatchPhrasePrefix)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        check(
            json!({"match_phrase_prefix": {"a": "x y"}}),
            json!({"match_phrase_prefix": {"a": {"query": "x y"}}}),
        );
        check(
            json!({"match_phrase_prefix": {"a": {
                "query": "x y", "slop": 2, "max_expansions": 3, "zero_terms_query": "ALL", "analyzer": "simple",
                "boost": 2
            }}}),
            json!({"match_phrase_prefix": {"a": {
                "query": "x y", "analyzer": "simple", "max_expansions": 3, "slop": 2, "zero_terms_query": "ALL",
                "boost": 2.0
            }}}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"match_phrase_prefix": {"a": null}}),
            "No text specified for text query",
        );
        check_refused(
            json!({"match_phrase_prefix": {"a": {"query": "x", "max_expansions": 0}}}),
            "[match_phrase_prefix] max_expansions must be positive",
        );
        check_refused(
            json!({"match_phrase_prefix": {"a": {"query": "x", "fuzziness": 1}}}),
            "[match_phrase_prefix] query does not support [fuzziness]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"match_phrase_prefix": {"a.b": "x"}}), &["a.b"]);
    }
}
