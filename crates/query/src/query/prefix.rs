//! `prefix` query: terms that start with a text.

use firn_model::Result;
use serde_json::Value;

use super::{Budget, Query, TermPattern};

pub(super) const NAME: &str = "prefix";

pub(super) fn parse(body: &Value, _: &mut Budget) -> Result<Query> {
    TermPattern::parse(NAME, body, |_, _| Ok(false)).map(Query::Prefix)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        check(
            json!({"prefix": {"a": "abc"}}),
            json!({"prefix": {"a": {"value": "abc"}}}),
        );
        check(
            json!({"prefix": {"a": {"value": 12, "case_insensitive": true, "boost": 2, "rewrite": "constant_score"}}}),
            json!({"prefix": {"a": {"value": "12", "case_insensitive": true, "boost": 2.0}}}),
        );
        check(
            json!({"prefix": {"a": {"prefix": "x", "rewrite": "top_terms_3"}}}),
            json!({"prefix": {"a": {"value": "x", "rewrite": "top_terms_3"}}}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(json!({"prefix": {"a": {}}}), "value cannot be null");
        check_refused(
            json!({"prefix": {"a": ["x"]}}),
            "[prefix] query does not support [START_ARRAY] for [value]",
        );
        check_refused(
            json!({"prefix": {"a": {"value": "x", "foo": 1}}}),
            "[prefix] query does not support [foo]",
        );
        check_refused(
            json!({"prefix": {"a": {"value": "x", "rewrite": "fast"}}}),
            "Failed to parse rewrite_method [fast]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"prefix": {"a.b": "x"}}), &["a.b"]);
    }
}
