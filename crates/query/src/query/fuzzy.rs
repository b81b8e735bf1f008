//! `fuzzy` query: terms within an edit distance of a word.

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::fuzziness::{FUZZY_NAMES, Fuzziness, Fuzzy};
use super::params::{boost, by_field, print_field, put_boost, text, unsupported};
use super::{Budget, Query};

pub(super) const NAME: &str = "fuzzy";

/// Terms within an edit distance of a word, which is not analyzed.
#[derive(Debug, Clone, PartialEq)]
pub struct FuzzyTerm {
    /// Full path.
    pub field: String,
    /// The word.
    pub value: String,
    /// Maximum edit distance.
    pub fuzziness: Fuzziness,
    /// Expansion and scoring of the terms.
    pub fuzzy: Fuzzy,
    /// Multiplies the score.
    pub boost: f32,
}

/// `{"field": "word"}` or `{"field": {"value": "word", …}}`.
pub(super) fn parse(body: &Value, budget: &mut Budget) -> Result<Query> {
    let mut found = None;
    let mut fuzziness = Fuzziness::default();
    let mut fuzzy = Fuzzy::default();
    let mut score = 1.0;
    let field = by_field(NAME, "value", body, |key, value| {
        match key {
            "value" | "term" => found = Some(text(NAME, key, value)?),
            "fuzziness" => fuzziness = Fuzziness::parse(NAME, value)?,
            "boost" => score = boost(NAME, value)?,
            _ if FUZZY_NAMES.read(&mut fuzzy, NAME, key, value)? => {}
            _ => return Err(unsupported(NAME, key)),
        }
        Ok(())
    })?;
    let Some(value) = found else {
        return Err(Error::illegal_argument("query value cannot be null"));
    };
    budget.take_fuzzy(1, 1)?;
    Ok(Query::Fuzzy(FuzzyTerm {
        field,
        value,
        fuzziness,
        fuzzy,
        boost: score,
    }))
}

impl FuzzyTerm {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("value".into(), self.value.as_str().into());
        if self.fuzziness != Fuzziness::default() {
            body.insert("fuzziness".into(), self.fuzziness.print().into());
        }
        self.fuzzy.put(&mut body, &FUZZY_NAMES);
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
            json!({"fuzzy": {"a": "word"}}),
            json!({"fuzzy": {"a": {"value": "word"}}}),
        );
        check(
            json!({"fuzzy": {"a": {
                "term": 12, "fuzziness": "auto:4,8", "prefix_length": 1, "max_expansions": 5, "transpositions": false,
                "rewrite": "constant_score", "boost": 2
            }}}),
            json!({"fuzzy": {"a": {
                "value": "12", "fuzziness": "AUTO:4,8", "prefix_length": 1, "max_expansions": 5,
                "transpositions": false, "rewrite": "constant_score", "boost": 2.0
            }}}),
        );
        check(
            json!({"fuzzy": {"a": {"value": "x", "max_expansions": 1000000}}}),
            json!({"fuzzy": {"a": {"value": "x", "max_expansions": 1024}}}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(json!({"fuzzy": {"a": {}}}), "query value cannot be null");
        check_refused(
            json!({"fuzzy": {"a": {"value": "x", "fuzziness": 3}}}),
            "Valid edit distances are [0, 1, 2] but was [3]",
        );
        check_refused(
            json!({"fuzzy": {"a": {"value": "x", "max_expansions": 0}}}),
            "[fuzzy] max_expansions must be positive",
        );
        check_refused(
            json!({"fuzzy": {"a": {"value": "x", "foo": 1}}}),
            "[fuzzy] query does not support [foo]",
        );
        check_refused(json!({"fuzzy": {}}), "[fuzzy] field name is null or empty");
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"fuzzy": {"a.b": "x"}}), &["a.b"]);
    }
}
