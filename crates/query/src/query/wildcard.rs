//! `wildcard` query: terms that match `*` (any run) and `?` (one character); `\` escapes.

use firn_model::Result;
use serde_json::Value;

use super::{Budget, Query, TermPattern};

pub(super) const NAME: &str = "wildcard";

pub(super) fn parse(body: &Value, _: &mut Budget) -> Result<Query> {
    TermPattern::parse(NAME, body, |_, _| Ok(false)).map(Query::Wildcard)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        check(
            json!({"wildcard": {"a": "a*c?"}}),
            json!({"wildcard": {"a": {"value": "a*c?"}}}),
        );
        check(
            json!({"wildcard": {"a": {"value": 12, "case_insensitive": true, "boost": 2, "rewrite": "constant_score"}}}),
            json!({"wildcard": {"a": {"value": "12", "case_insensitive": true, "boost": 2.0}}}),
        );
        check(
            json!({"wildcard": {"a": {"wildcard": "x", "rewrite": "top_terms_3"}}}),
            json!({"wildcard": {"a": {"value": "x", "rewrite": "top_terms_3"}}}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(json!({"wildcard": {"a": {}}}), "value cannot be null");
        check_refused(
            json!({"wildcard": {"a": ["x"]}}),
            "[wildcard] query does not support [START_ARRAY] for [value]",
        );
        check_refused(
            json!({"wildcard": {"a": {"value": "x", "foo": 1}}}),
            "[wildcard] query does not support [foo]",
        );
        check_refused(
            json!({"wildcard": {"a": {"value": "x", "rewrite": "fast"}}}),
            "Failed to parse rewrite_method [fast]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"wildcard": {"a.b": "x"}}), &["a.b"]);
    }
}
