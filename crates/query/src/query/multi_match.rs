//! `multi_match` query: a text in several fields.

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::params::{boost, number, object, print, put_boost, query_text, unsupported};
use super::text_options::{FUZZY, TERMS, TEXT, TextOptions};
use super::{Budget, Query, weighted_fields};
use crate::json::{as_text, print_f32};

pub(super) const NAME: &str = "multi_match";

/// Combination of the fields of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub enum MultiMatchType {
    /// The score of the best field counts.
    #[default]
    BestFields,
    /// The scores of all fields count.
    MostFields,
    /// The fields are one combined field: each term may be in any of them.
    CrossFields,
    /// `match_phrase` per field; the best score counts.
    Phrase,
    /// `match_phrase_prefix` per field; the best score counts.
    PhrasePrefix,
    /// `match_bool_prefix` per field; all scores count.
    BoolPrefix,
}

use MultiMatchType::{BestFields, BoolPrefix, CrossFields, MostFields, Phrase, PhrasePrefix};

const TYPES: &[(&str, MultiMatchType)] = &[
    ("best_fields", BestFields),
    ("boolean", BestFields),
    ("most_fields", MostFields),
    ("cross_fields", CrossFields),
    ("phrase", Phrase),
    ("phrase_prefix", PhrasePrefix),
    ("bool_prefix", BoolPrefix),
];

impl MultiMatchType {
    /// Returns the default factor for scores of fields other than the best.
    pub fn tie_breaker(self) -> f32 {
        match self {
            MostFields | BoolPrefix => 1.0,
            BestFields | CrossFields | Phrase | PhrasePrefix => 0.0,
        }
    }

    pub(super) fn parse(query: &str, value: &Value) -> Result<Self> {
        let text = as_text(value).unwrap_or_default();
        TYPES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(&text))
            .map(|(_, kind)| *kind)
            .ok_or_else(|| Error::parsing(format!("failed to parse [{query}] query type [{text}]. unknown type.")))
    }

    /// Inserts the type unless it is the default.
    pub(super) fn put(self, body: &mut Map<String, Value>) {
        if self != Self::default()
            && let Some((name, _)) = TYPES.iter().find(|(_, kind)| *kind == self)
        {
            body.insert("type".into(), (*name).into());
        }
    }
}

/// Full-text search of several fields.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiMatch {
    /// The text.
    pub query: Value,
    /// Names and patterns with their boosts. Empty: `index.query.default_field`.
    pub fields: Vec<(String, f32)>,
    /// Combination of the fields.
    pub kind: MultiMatchType,
    /// `None`: the default of the type.
    pub tie_breaker: Option<f32>,
    /// Search options of each field.
    pub options: TextOptions,
    /// Multiplies the score.
    pub boost: f32,
}

/// Parameters in addition to those of terms.
const OWN: &[&str] = &[
    "slop",
    "lenient",
    "zero_terms_query",
    "auto_generate_synonyms_phrase_query",
];

/// `{"query": "text", "fields": ["a", "b^2"]}`; a single field needs no list.
pub(super) fn parse(body: &Value, budget: &mut Budget) -> Result<Query> {
    let mut found = None;
    let mut query = MultiMatch {
        query: Value::Null,
        fields: Vec::new(),
        kind: MultiMatchType::default(),
        tie_breaker: None,
        options: TextOptions::default(),
        boost: 1.0,
    };
    for (key, value) in object(NAME, body)? {
        match key.as_str() {
            "query" => found = query_text(NAME, value)?,
            "fields" if value.is_string() => {
                query.fields = weighted_fields::parse(NAME, &Value::Array(vec![value.clone()]))?;
            }
            "fields" => query.fields = weighted_fields::parse(NAME, value)?,
            "type" => query.kind = MultiMatchType::parse(NAME, value)?,
            "tie_breaker" if value.is_null() => {}
            "tie_breaker" => query.tie_breaker = Some(number(NAME, key, value)?),
            "boost" => query.boost = boost(NAME, value)?,
            _ if query.options.read(NAME, &[TEXT, TERMS, FUZZY, OWN], key, value)? => {}
            _ => return Err(unsupported(NAME, key)),
        }
    }
    query.query = found.ok_or_else(|| Error::parsing(format!("No text specified for {NAME} query")))?;
    if query.options.fuzziness.is_some() && matches!(query.kind, CrossFields | Phrase | PhrasePrefix) {
        return Err(not_allowed("Fuzziness", query.kind));
    }
    if query.options.slop > 0 && query.kind == BoolPrefix {
        return Err(not_allowed("[slop]", query.kind));
    }
    budget.take_fuzzy(query.options.fuzzy_words(&query.query), query.fields.len())?;
    Ok(Query::MultiMatch(query))
}

fn not_allowed(what: &str, kind: MultiMatchType) -> Error {
    let name = TYPES
        .iter()
        .find(|(_, known)| *known == kind)
        .map_or("", |(name, _)| name);
    Error::parsing(format!("{what} not allowed for type [{name}]"))
}

impl MultiMatch {
    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("query".into(), self.query.clone());
        weighted_fields::put(&mut body, &self.fields);
        self.kind.put(&mut body);
        if let Some(tie_breaker) = self.tie_breaker {
            body.insert("tie_breaker".into(), print_f32(tie_breaker));
        }
        self.options.put(&mut body);
        put_boost(&mut body, self.boost);
        print(NAME, body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        if self.fields.is_empty() {
            fields.insert("*".to_owned());
        }
        fields.extend(self.fields.iter().map(|(field, _)| field.clone()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn parses() {
        check(
            json!({"multi_match": {"query": "x y", "fields": ["a", "b.*^2.5"]}}),
            json!({"multi_match": {"query": "x y", "fields": ["a", "b.*^2.5"]}}),
        );
        check(
            json!({"multi_match": {"query": 1, "fields": "a"}}),
            json!({"multi_match": {"query": 1, "fields": ["a"]}}),
        );
        check(
            json!({"multi_match": {
                "query": "x", "fields": ["a"], "type": "most_fields", "tie_breaker": 0.3, "operator": "and",
                "minimum_should_match": 2, "fuzziness": 1, "analyzer": "simple", "slop": 1, "lenient": true,
                "zero_terms_query": "all", "boost": 2
            }}),
            json!({"multi_match": {
                "query": "x", "fields": ["a"], "type": "most_fields", "tie_breaker": 0.3, "analyzer": "simple",
                "operator": "AND", "minimum_should_match": "2", "fuzziness": "1", "slop": 1, "lenient": true,
                "zero_terms_query": "ALL", "boost": 2.0
            }}),
        );
        for kind in ["best_fields", "cross_fields", "phrase", "phrase_prefix", "bool_prefix"] {
            let mut printed = json!({"multi_match": {"query": "x", "type": kind}});
            if kind == "best_fields" {
                printed = json!({"multi_match": {"query": "x"}});
            }
            check(
                json!({"multi_match": {"query": "x", "type": kind, "fields": ["*"]}}),
                printed,
            );
        }
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"multi_match": {"fields": ["a"]}}),
            "No text specified for multi_match query",
        );
        check_refused(
            json!({"multi_match": {"query": "x", "type": "all_fields"}}),
            "failed to parse [multi_match] query type [all_fields]. unknown type.",
        );
        check_refused(
            json!({"multi_match": {"query": "x", "type": "phrase", "fuzziness": 1}}),
            "Fuzziness not allowed for type [phrase]",
        );
        check_refused(
            json!({"multi_match": {"query": "x", "type": "bool_prefix", "slop": 1}}),
            "[slop] not allowed for type [bool_prefix]",
        );
        check_refused(
            json!({"multi_match": {"query": "x", "fields": {}}}),
            "[multi_match] query does not support [START_OBJECT] for [fields]",
        );
        check_refused(
            json!({"multi_match": {"query": "x", "cutoff_frequency": 1}}),
            "[multi_match] query does not support [cutoff_frequency]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"multi_match": {"query": "x", "fields": ["b^2", "a"]}}),
            &["a", "b"],
        );
        check_fields(json!({"multi_match": {"query": "x"}}), &["*"]);
    }
}
