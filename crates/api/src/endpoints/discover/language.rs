//! Languages of the query bar, each translated to Query DSL.

use std::ops::Range;

use firn_engine::{Error, Result};
use firn_query::query::completion::Slot;
use firn_query::query::{Query, kql, query_string};
use serde_json::{Map, Value, json};

use super::time_range::TimeRange;
use crate::wire::error::ApiError;
use crate::wire::json_fields::Fields;

/// Maximum length of a text, more than users type.
pub(super) const TEXT_BYTES_MAX: usize = 64 << 10;

/// Operator after a field: as typed, as shown, its meaning, and whether it compares sizes.
type Operator = (&'static str, &'static str, &'static str, bool);

const KQL_OPERATORS: &[Operator] = &[
    (": ", ":", "equals", false),
    (": *", ": *", "exists", false),
    (" < ", "<", "less than", true),
    (" <= ", "<=", "at most", true),
    (" > ", ">", "greater than", true),
    (" >= ", ">=", "at least", true),
];
const LUCENE_OPERATORS: &[Operator] = &[
    (":", ":", "equals", false),
    (":*", ":*", "exists", false),
    (":<", ":<", "less than", true),
    (":<=", ":<=", "at most", true),
    (":>", ":>", "greater than", true),
    (":>=", ":>=", "at least", true),
];

/// Typed query language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    /// Kibana Query Language.
    Kql,
    /// Lucene query syntax.
    Lucene,
}

impl Language {
    /// Returns the language of this name in requests.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "kql" => Some(Self::Kql),
            "lucene" => Some(Self::Lucene),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kql => "kql",
            Self::Lucene => "lucene",
        }
    }

    /// Translates a text. The error of an invalid text has the position where the problem begins.
    pub(super) fn query(self, text: &str, time: Option<&TimeRange>) -> Result<Value> {
        let (query, mut body) = match self {
            Self::Kql => ("kql", json!({"query": text})),
            // With the options that Kibana uses.
            Self::Lucene => ("query_string", json!({"query": text, "analyze_wildcard": true})),
        };
        if let Some(time) = time {
            body["time_zone"] = time.zone.name().into();
        }
        let query = json!({ query: body });
        Query::parse(&query).map_err(|error| self.placed(error))?;
        Ok(query)
    }

    /// Returns the possible completions at a byte of a text.
    pub(super) fn complete(self, text: &str, cursor: usize) -> Vec<Slot> {
        match self {
            Self::Kql => kql::complete(text, cursor),
            Self::Lucene => query_string::complete(text, cursor),
        }
    }

    /// Returns the fields in a text, each with its position.
    pub(super) fn field_names(self, text: &str) -> Vec<(Range<usize>, String)> {
        match self {
            Self::Kql => kql::field_names(text),
            Self::Lucene => query_string::field_names(text),
        }
    }

    /// Returns the operators after a field.
    pub(super) fn operators(self) -> &'static [Operator] {
        match self {
            Self::Kql => KQL_OPERATORS,
            Self::Lucene => LUCENE_OPERATORS,
        }
    }

    /// Returns the conjunctions between two conditions.
    pub(super) fn conjunctions(self) -> &'static [&'static str] {
        match self {
            Self::Kql => &["and", "or"],
            Self::Lucene => &["AND", "OR"],
        }
    }

    /// Escapes the name of a field.
    pub(super) fn write_field(self, name: &str) -> String {
        match self {
            Self::Kql => kql::write_field(name),
            Self::Lucene => query_string::write_field(name),
        }
    }

    /// Escapes a text value.
    pub(super) fn write_value(self, value: &str) -> String {
        match self {
            Self::Kql => kql::write_value(value),
            Self::Lucene => query_string::write_value(value),
        }
    }

    /// Adds the language and the position, which may be in the cause of the error.
    fn placed(self, error: Error) -> Error {
        let mut details = Map::new();
        details.insert("language".to_owned(), self.name().into());
        let mut at = Some(&error);
        while let Some(cause) = at {
            if let Some(found) = cause.details() {
                details.extend(found.clone());
                break;
            }
            at = cause.cause();
        }
        error.with_details(details)
    }
}

/// Query as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) language: Language,
    pub(super) text: String,
}

impl Typed {
    /// Returns the query of `{"language", "text"}`; `None`: the text is empty.
    pub(super) fn of(query: &Map<String, Value>) -> Option<Self> {
        let name = query.get("language").and_then(Value::as_str).unwrap_or("kql");
        Some(Self {
            language: Language::of(name)?,
            text: query.get("text")?.as_str()?.to_owned(),
        })
    }
}

/// Translates `{"language", "text" or "dsl"}`; `None`: the condition is empty.
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
    if let Some(language) = Language::of(&language) {
        return match is_empty {
            true => Ok(None),
            false => Ok(Some(language.query(&text, time)?)),
        };
    }
    let condition = match language.as_str() {
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
        let kql = json!({"kql": {"query": "a > 1"}});
        assert_eq!(check(json!({"text": "a > 1"})), Ok(Some(kql)));
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
    #[test]
    fn a_mistake_has_its_place_in_utf16() {
        for (language, text, start, end) in [
            ("kql", "user: \"😀\" and and", 15, 18),
            ("kql", "a: (b or é", 10, 10),
            ("lucene", "a:😀 AND )", 9, 10),
            ("lucene", "\"😀", 0, 3),
        ] {
            let query = json!({"language": language, "text": text});
            let error = translate(query.as_object().unwrap().clone(), None).unwrap_err();
            let body = error.body(None, false);
            assert_eq!(body["status"], 400);
            assert_eq!(body["error"]["language"], language);
            assert_eq!(body["error"]["position"], json!({"start": start, "end": end}), "{body}");
            assert!(body["error"]["expected"].is_array(), "{body}");
        }
    }

    #[test]
    fn dates_without_a_zone_are_those_of_the_reader() {
        let object = json!({"zone": "Asia/Kolkata"});
        let time = TimeRange::read(object.as_object().unwrap().clone(), 0).unwrap();
        for (language, query) in [(Language::Kql, "kql"), (Language::Lucene, "query_string")] {
            let translated = language.query("a:1", Some(&time)).unwrap();
            assert_eq!(translated[query]["time_zone"], "Asia/Kolkata");
        }
    }
}
