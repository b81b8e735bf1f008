//! `match` query: terms of a text, analyzed with the field's search analyzer.

use firn_model::Result;
use serde_json::Value;

use super::text_options::{FUZZY, TERMS, TEXT};
use super::{Budget, Query, TextQuery};

pub(super) const NAME: &str = "match";

/// Parameters in addition to those of combined terms.
const OWN: &[&str] = &["lenient", "zero_terms_query", "auto_generate_synonyms_phrase_query"];

pub(super) fn parse(body: &Value, budget: &mut Budget) -> Result<Query> {
    let query = TextQuery::parse(NAME, &[TEXT, TERMS, FUZZY, OWN], body)?;
    budget.take_fuzzy(query.options.fuzzy_words(&query.query), 1)?;
    Ok(Query::Match(query))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        check(
            json!({"match": {"a": "x y"}}),
            json!({"match": {"a": {"query": "x y"}}}),
        );
        check(json!({"match": {"a": 5}}), json!({"match": {"a": {"query": 5}}}));
        check(
            json!({"match": {"a": {
                "query": "x y", "operator": "and", "minimum_should_match": -1, "lenient": true,
                "zero_terms_query": "all", "boost": 2, "max_expansions": 50, "prefix_length": 0,
                "fuzzy_transpositions": true, "auto_generate_synonyms_phrase_query": true
            }}}),
            json!({"match": {"a": {
                "query": "x y", "operator": "AND", "minimum_should_match": "-1", "lenient": true,
                "zero_terms_query": "ALL", "boost": 2.0
            }}}),
        );
        check(
            json!({"match": {"a": {
                "query": "x", "analyzer": "whitespace", "fuzziness": "auto", "prefix_length": 2, "max_expansions": 7,
                "fuzzy_transpositions": false, "fuzzy_rewrite": "constant_score"
            }}}),
            json!({"match": {"a": {
                "query": "x", "analyzer": "whitespace", "fuzziness": "AUTO", "prefix_length": 2, "max_expansions": 7,
                "fuzzy_transpositions": false, "fuzzy_rewrite": "constant_score"
            }}}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(json!({"match": {"a": {}}}), "No text specified for text query");
        check_refused(json!({"match": {"a": null}}), "No text specified for text query");
        check_refused(
            json!({"match": {"a": {"query": "x", "type": "phrase"}}}),
            "[match] query does not support [type]",
        );
        check_refused(
            json!({"match": {"a": {"query": "x", "slop": 1}}}),
            "[match] query does not support [slop]",
        );
        check_refused(
            json!({"match": {"a": {"query": "x", "analyzer": "klingon"}}}),
            "[match] analyzer [klingon] not found",
        );
        check_refused(
            json!({"match": {"a": "x", "b": "y"}}),
            "[match] query doesn't support multiple fields, found [a] and [b]",
        );
        check_refused(
            json!({"match": {"a": {"query": "x", "operator": "xor"}}}),
            "[match] query requires operator to be either 'and' or 'or', not \"xor\"",
        );
        check_refused(
            json!({"match": {"a": {"query": "x", "minimum_should_match": "half"}}}),
            "[match] failed to parse [minimum_should_match] from \"half\"",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"match": {"a.b": "x"}}), &["a.b"]);
    }
}
