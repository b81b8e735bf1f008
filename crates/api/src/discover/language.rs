//! The query bar's languages, each translated to Query DSL.

use firn_engine::query::Query;
use firn_engine::{Error, Result};
use serde_json::{Map, Value, json};

use super::time::TimeRange;
use crate::error::ApiError;
use crate::fields::Fields;

/// A longer text was not typed.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// The condition of `{"language", "text" or "dsl"}`; `None`: it says nothing.
pub(super) fn translate(object: Map<String, Value>, time: Option<&TimeRange>) -> Result<Option<Value>, ApiError> {
    let mut fields = Fields::new("query", object);
    let language = fields.string("language")?.unwrap_or_else(|| "kql".to_owned());
    let text = fields.string("text")?.unwrap_or_default();
    let dsl = fields.take("dsl");
    fields.finish()?;
    if text.len() > TEXT_BYTES_MAX {
        let reason = format!(
            "[text] of [query] may have at most [{TEXT_BYTES_MAX}] bytes, found [{}]",
            text.len()
        );
        return Err(Error::illegal_argument(reason).into());
    }
    if language != "dsl" && dsl.is_some() {
        let reason = format!("[dsl] of [query] belongs to the language [dsl], not to [{language}]");
        return Err(Error::illegal_argument(reason).into());
    }
    let is_empty = text.trim().is_empty();
    let condition = match language.as_str() {
        "kql" | "lucene" if is_empty => None,
        "kql" | "lucene" => Some(lucene(&text, time)?),
        "dsl" if !is_empty => {
            return Err(
                Error::illegal_argument("[text] of [query] belongs to the languages [kql] and [lucene]").into(),
            );
        }
        "dsl" => {
            if let Some(dsl) = &dsl {
                Query::parse(dsl)?;
            }
            dsl
        }
        other => {
            let reason = format!("[language] of [query] must be one of [kql, lucene, dsl], found [{other}]");
            return Err(Error::illegal_argument(reason).into());
        }
    };
    Ok(condition)
}

/// Lucene's syntax, as Kibana asks for it.
fn lucene(text: &str, time: Option<&TimeRange>) -> Result<Value> {
    let mut body = json!({"query": text, "analyze_wildcard": true});
    if let Some(time) = time {
        body["time_zone"] = time.zone.name().into();
    }
    let query = json!({"query_string": body});
    Query::parse(&query)?;
    Ok(query)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: Value) -> Result<Option<Value>, String> {
        let Value::Object(query) = query else { unreachable!() };
        translate(query, None).map_err(|error| error.body(None, false)["error"]["reason"].to_string())
    }

    #[test]
    fn each_language_becomes_dsl() {
        let lucene = json!({"query_string": {"query": "a:1", "analyze_wildcard": true}});
        assert_eq!(check(json!({"language": "lucene", "text": "a:1"})), Ok(Some(lucene)));
        let dsl = json!({"term": {"a": 1}});
        assert_eq!(check(json!({"language": "dsl", "dsl": dsl})), Ok(Some(dsl)));
        for language in ["kql", "lucene", "dsl"] {
            assert_eq!(check(json!({"language": language})), Ok(None));
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for (query, expect) in [
            (json!({"language": "sql"}), "one of [kql, lucene, dsl]"),
            (
                json!({"language": "dsl", "dsl": {"nonsense": {}}}),
                "unknown query [nonsense]",
            ),
            (json!({"language": "dsl", "text": "a"}), "belongs to the languages"),
            (
                json!({"language": "lucene", "dsl": {}}),
                "belongs to the language [dsl]",
            ),
            (
                json!({"language": "lucene", "text": "x".repeat(70_000)}),
                "at most [65536] bytes",
            ),
        ] {
            let error = check(query).unwrap_err();
            assert!(error.contains(expect), "{error}");
        }
    }
}
