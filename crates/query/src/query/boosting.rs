//! `boosting` query: matches that also match a second query score lower.

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::params::{boost, number, object, print, put_boost, unsupported};
use super::{Budget, Query};
use crate::json::print_f32;

pub(super) const NAME: &str = "boosting";

/// Matches of `positive`; those that `negative` also matches score lower.
#[derive(Debug, Clone, PartialEq)]
pub struct Boosting {
    /// Must match.
    pub positive: Box<Query>,
    /// May match.
    pub negative: Box<Query>,
    /// Multiplies the score of documents that match both; not negative.
    pub negative_boost: f32,
    /// Multiplies the score.
    pub boost: f32,
}

/// `{"positive": query, "negative": query, "negative_boost": 0.5}`.
pub(super) fn parse(body: &Value, budget: &mut Budget) -> Result<Query> {
    let (mut positive, mut negative, mut negative_boost) = (None, None, None);
    let mut score = 1.0;
    for (key, value) in object(NAME, body)? {
        match key.as_str() {
            "positive" if value.is_object() => positive = Some(Box::new(budget.parse(value)?)),
            "negative" if value.is_object() => negative = Some(Box::new(budget.parse(value)?)),
            "negative_boost" => negative_boost = Some(number(NAME, key, value)?),
            "boost" => score = boost(NAME, value)?,
            _ => return Err(unsupported(NAME, key)),
        }
    }
    let missing = |part| Error::parsing(format!("[{NAME}] query requires '{part}' query to be set'"));
    let positive = positive.ok_or_else(|| missing("positive"))?;
    let negative = negative.ok_or_else(|| missing("negative"))?;
    match negative_boost {
        Some(negative_boost) if negative_boost >= 0.0 => Ok(Query::Boosting(Boosting {
            positive,
            negative,
            negative_boost,
            boost: score,
        })),
        _ => Err(Error::parsing(format!(
            "[{NAME}] query requires 'negative_boost' to be set to be a positive value'"
        ))),
    }
}

impl Boosting {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("positive".into(), self.positive.print());
        body.insert("negative".into(), self.negative.print());
        body.insert("negative_boost".into(), print_f32(self.negative_boost));
        put_boost(&mut body, self.boost);
        print(NAME, body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        self.positive.collect_fields(fields);
        self.negative.collect_fields(fields);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        check(
            json!({"boosting": {
                "negative_boost": 0.5, "negative": {"term": {"a": 1}}, "positive": {"match_all": {}}, "boost": 2
            }}),
            json!({"boosting": {
                "positive": {"match_all": {}}, "negative": {"term": {"a": {"value": 1}}}, "negative_boost": 0.5,
                "boost": 2.0
            }}),
        );
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"boosting": {"negative": {"match_all": {}}, "negative_boost": 1}}),
            "[boosting] query requires 'positive' query to be set'",
        );
        check_refused(
            json!({"boosting": {"positive": {"match_all": {}}, "negative_boost": 1}}),
            "[boosting] query requires 'negative' query to be set'",
        );
        for negative_boost in [json!({}), json!({"negative_boost": -1})] {
            let mut body = json!({"positive": {"match_all": {}}, "negative": {"match_all": {}}});
            body.as_object_mut()
                .unwrap()
                .extend(negative_boost.as_object().unwrap().clone());
            check_refused(
                json!({"boosting": body}),
                "[boosting] query requires 'negative_boost' to be set to be a positive value'",
            );
        }
        check_refused(
            json!({"boosting": {"positive": []}}),
            "[boosting] query does not support [positive]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"boosting": {"positive": {"term": {"b": 1}}, "negative": {"term": {"a": 1}}, "negative_boost": 1}}),
            &["a", "b"],
        );
    }
}
