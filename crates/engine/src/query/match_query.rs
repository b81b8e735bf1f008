//! `match`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::params::{
    boost, count, flag, not_yet, operator, print_field, put_boost, put_flag, scalar, single_field, unsupported,
    zero_terms,
};
use super::{Budget, Query, should_match};
use crate::{Error, Result};

pub(super) const NAME: &str = "match";

/// Full text: analyzed with the field's search analyzer, then its terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Match {
    /// Full path.
    pub field: String,
    /// The text, or a number or boolean for such fields.
    pub query: Value,
    /// All terms must match, not any.
    pub operator_and: bool,
    /// As written (`2`, `-1`, `75%`, `3<90%`).
    pub minimum_should_match: Option<String>,
    /// Values that do not fit the field match nothing instead of failing.
    pub lenient: bool,
    /// `zero_terms_query: all`: a text without terms matches everything.
    pub zero_terms_all: bool,
    /// Multiplies the score.
    pub boost: f32,
}

/// `{"field": "text"}` or `{"field": {"query": "text", …}}`.
pub(super) fn parse(body: &Value, _: &mut Budget) -> Result<Query> {
    let (field, value) = single_field(NAME, body)?;
    let mut query = Match {
        field: field.to_owned(),
        query: Value::Null,
        operator_and: false,
        minimum_should_match: None,
        lenient: false,
        zero_terms_all: false,
        boost: 1.0,
    };
    match value {
        Value::Object(params) => {
            for (key, value) in params {
                match key.as_str() {
                    "query" if value.is_null() => {}
                    "query" => query.query = scalar(NAME, key, value)?,
                    "operator" => query.operator_and = operator(NAME, key, value)?,
                    "minimum_should_match" => {
                        query.minimum_should_match = Some(should_match::parse(NAME, value)?);
                    }
                    "lenient" => query.lenient = flag(NAME, key, value)?,
                    "zero_terms_query" => query.zero_terms_all = zero_terms(NAME, value)?,
                    "boost" => query.boost = boost(NAME, value)?,
                    // These say how a fuzzy match is made, which `fuzziness` alone asks for.
                    "prefix_length" | "max_expansions" => drop(count(NAME, key, value)?),
                    // No firn analyzer makes synonyms.
                    "fuzzy_transpositions" | "auto_generate_synonyms_phrase_query" => drop(flag(NAME, key, value)?),
                    "analyzer" | "fuzziness" | "fuzzy_rewrite" => return Err(not_yet(NAME, key)),
                    _ => return Err(unsupported(NAME, key)),
                }
            }
        }
        Value::Null => {}
        value => query.query = scalar(NAME, "query", value)?,
    }
    if query.query.is_null() {
        return Err(Error::parsing("No text specified for text query"));
    }
    Ok(Query::Match(query))
}

impl Match {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("query".into(), self.query.clone());
        if self.operator_and {
            body.insert("operator".into(), "AND".into());
        }
        if let Some(spec) = &self.minimum_should_match {
            body.insert("minimum_should_match".into(), spec.as_str().into());
        }
        put_flag(&mut body, "lenient", self.lenient);
        if self.zero_terms_all {
            body.insert("zero_terms_query".into(), "ALL".into());
        }
        put_boost(&mut body, self.boost);
        print_field(NAME, &self.field, body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        fields.insert(self.field.clone());
    }
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
            json!({"match": {"a": {"query": "x", "fuzziness": "AUTO"}}}),
            "parameter [fuzziness] of query [match] is not implemented by firn",
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
