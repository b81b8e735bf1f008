//! Terms enumeration (`_terms_enum`): the values of a field with a prefix, for autocompletion.
//!
//! <https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-terms-enum>. The values come from term
//! dictionaries, so values of recently deleted documents may be among them.

use std::time::Duration;

use firn_model::dates::parse_duration_ms;
use firn_model::{Error, Result};
use firn_query::json::{as_bool, as_i64, as_text, token};
use firn_query::query::Query;
use firn_query::search::{IndexTarget, SearchShards};
use serde_json::Value;

/// Maximum terms in one answer, as in Elasticsearch.
const SIZE_MAX: i64 = 10_000;
/// Maximum characters of the prefix; longer keyword values are not indexed.
const STRING_CHARS_MAX: usize = 32_766;
/// Autocompletion has no use for a later answer.
const TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// Request of `_terms_enum`.
#[derive(Debug, Clone, PartialEq)]
pub struct TermsEnumRequest {
    /// Target indices.
    pub target: IndexTarget,
    /// Field to enumerate.
    pub field: String,
    /// Prefix of the values.
    pub string: String,
    /// ASCII letters match in both cases.
    pub case_insensitive: bool,
    /// Maximum number of values.
    pub size: usize,
    /// Only values after this one.
    pub search_after: Option<String>,
    /// After this time the answer holds the values found so far.
    pub timeout: Duration,
    /// If set, shards that cannot hold a match are left out.
    pub index_filter: Option<Query>,
}

/// Answer of `_terms_enum`.
#[derive(Debug, Clone, Default)]
pub struct TermsEnumResponse {
    /// Queried shards.
    pub shards: SearchShards,
    /// Sorted and distinct.
    pub terms: Vec<String>,
    /// Nothing is missing because of the timeout or a failure.
    pub complete: bool,
}

impl TermsEnumRequest {
    /// Parses the body.
    pub fn parse(target: IndexTarget, body: &Value) -> Result<Self> {
        let Value::Object(body) = body else {
            return Err(Error::parsing(format!(
                "Expected [START_OBJECT] but found [{}]",
                token(body)
            )));
        };
        let mut request = Self {
            target,
            field: String::new(),
            string: String::new(),
            case_insensitive: false,
            size: 10,
            search_after: None,
            timeout: Duration::from_secs(1),
            index_filter: None,
        };
        for (key, value) in body {
            let wrong = || {
                Error::parsing(format!(
                    "[terms_enum_request] {key} doesn't support values of type: {}",
                    token(value)
                ))
            };
            let text = || as_text(value).ok_or_else(wrong);
            match key.as_str() {
                "field" => request.field = text()?,
                "string" => request.string = text()?,
                "search_after" => request.search_after = Some(text()?),
                "case_insensitive" => request.case_insensitive = as_bool(value).ok_or_else(wrong)?,
                "size" => request.size = size(as_i64(value).ok_or_else(wrong)?)?,
                "timeout" => request.timeout = Duration::from_millis(parse_duration_ms(&text()?)?),
                "index_filter" => request.index_filter = Some(Query::parse(value)?),
                _ => return Err(Error::parsing(format!("[terms_enum_request] unknown field [{key}]"))),
            }
        }
        request.check()?;
        Ok(request)
    }

    fn check(&self) -> Result<()> {
        let mut problems = Vec::new();
        if self.field.is_empty() {
            problems.push("field cannot be null".to_owned());
        }
        if self.timeout > TIMEOUT_MAX {
            problems.push("Timeout cannot be > 1 minute".to_owned());
        }
        if self.string.chars().count() > STRING_CHARS_MAX {
            problems.push(format!(
                "prefix string larger than {STRING_CHARS_MAX} characters, which is the maximum allowed term length for \
                 keyword fields."
            ));
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Error::validation(&problems)),
        }
    }
}

fn size(number: i64) -> Result<usize> {
    match usize::try_from(number) {
        Ok(size) if (1..=SIZE_MAX).contains(&number) => Ok(size),
        _ => Err(Error::illegal_argument(format!(
            "[size] must be between [1] and [{SIZE_MAX}] but was [{number}]"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(body: Value) -> Result<TermsEnumRequest> {
        TermsEnumRequest::parse(IndexTarget::default(), &body)
    }

    #[test]
    fn reads() {
        let request = parse(json!({
            "field": "a", "string": "x", "size": 3, "timeout": "2s", "case_insensitive": true, "search_after": "xa",
            "index_filter": {"term": {"b": 1}}
        }))
        .unwrap();
        assert_eq!(
            (request.field.as_str(), request.string.as_str(), request.size),
            ("a", "x", 3)
        );
        assert_eq!(request.timeout, Duration::from_secs(2));
        assert!(request.case_insensitive && request.index_filter.is_some());
        assert_eq!(request.search_after.as_deref(), Some("xa"));
        let defaults = parse(json!({"field": "a"})).unwrap();
        assert_eq!(
            (defaults.string.as_str(), defaults.size, defaults.timeout.as_millis()),
            ("", 10, 1000)
        );
    }

    #[test]
    fn refuses() {
        let check = |body: Value, reason: &str| assert_eq!(parse(body).unwrap_err().reason(), reason);
        check(json!({}), "Validation Failed: 1: field cannot be null;");
        check(
            json!({"field": "a", "timeout": "61s"}),
            "Validation Failed: 1: Timeout cannot be > 1 minute;",
        );
        check(
            json!({"field": "a", "size": 10_001}),
            "[size] must be between [1] and [10000] but was [10001]",
        );
        check(
            json!({"field": "a", "size": 0}),
            "[size] must be between [1] and [10000] but was [0]",
        );
        check(json!({"field": "a", "b": 0}), "[terms_enum_request] unknown field [b]");
        check(
            json!({"field": []}),
            "[terms_enum_request] field doesn't support values of type: START_ARRAY",
        );
        assert!(parse(json!({"field": "a", "string": "x".repeat(40_000)})).is_err());
    }
}
