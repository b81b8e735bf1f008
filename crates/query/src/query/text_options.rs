//! Common options of full-text queries: how a text becomes terms, and how many of them must match.

use firn_model::mapping::Analyzer;
use firn_model::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

use super::fuzziness::{Fuzziness, Fuzzy, FuzzyNames, MATCH_NAMES, STRING_NAMES};
use super::params::{count, flag, operator, put_flag, text, zero_terms};
use super::should_match;

/// Search options of a text. Every query reads only the parameters that it supports.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TextOptions {
    /// Replaces the field's search analyzer.
    pub analyzer: Option<Analyzer>,
    /// All terms must match, not any.
    pub operator_and: bool,
    /// As written (`2`, `-1`, `75%`, `3<90%`).
    pub minimum_should_match: Option<String>,
    /// `Some`: terms match similar terms too.
    pub fuzziness: Option<Fuzziness>,
    /// Expansion to similar terms; `max_expansions` also limits prefixes of phrases.
    pub fuzzy: Fuzzy,
    /// Moves allowed between the terms of a phrase.
    pub slop: u32,
    /// `zero_terms_query: all`: a text without terms matches everything.
    pub zero_terms_all: bool,
    /// Values that do not fit the field match nothing instead of causing an error.
    pub lenient: bool,
}

/// Parameters of all full-text queries.
pub(super) const TEXT: &[&str] = &["analyzer"];
/// Parameters of combined terms.
pub(super) const TERMS: &[&str] = &["operator", "minimum_should_match"];
/// Parameters of fuzzy terms.
pub(super) const FUZZY: &[&str] = &[
    "fuzziness",
    "prefix_length",
    "max_expansions",
    "fuzzy_transpositions",
    "fuzzy_rewrite",
];

impl TextOptions {
    /// Parses a parameter if it is one of `known`; returns false if it is not.
    pub(super) fn read(&mut self, query: &str, known: &[&[&str]], key: &str, value: &Value) -> Result<bool> {
        if !known.iter().any(|names| names.contains(&key)) {
            return Ok(false);
        }
        match key {
            "analyzer" | "minimum_should_match" if value.is_null() => {}
            "analyzer" => self.analyzer = Some(analyzer(query, key, value)?),
            "operator" => self.operator_and = operator(query, key, value)?,
            "minimum_should_match" => self.minimum_should_match = Some(should_match::parse(query, value)?),
            "fuzziness" if value.is_null() => {}
            "fuzziness" => self.fuzziness = Some(Fuzziness::parse(query, value)?),
            "slop" => self.slop = count(query, key, value)?,
            "zero_terms_query" => self.zero_terms_all = zero_terms(query, value)?,
            "lenient" => self.lenient = flag(query, key, value)?,
            // No firn analyzer produces synonyms.
            "auto_generate_synonyms_phrase_query" => drop(flag(query, key, value)?),
            _ => return MATCH_NAMES.read(&mut self.fuzzy, query, key, value),
        }
        Ok(true)
    }

    /// Inserts non-default values under the names of the match queries.
    pub(super) fn put(&self, body: &mut Map<String, Value>) {
        self.put_named(body, "operator", "slop", &MATCH_NAMES);
    }

    /// Returns the number of fuzzy words in a text, estimated without the analyzer.
    pub(super) fn fuzzy_words(&self, text: &Value) -> usize {
        match (self.fuzziness, text) {
            (None, _) => 0,
            (Some(_), Value::String(text)) => text
                .split(|letter: char| !letter.is_alphanumeric())
                .filter(|word| !word.is_empty())
                .count(),
            (Some(_), _) => 1,
        }
    }

    /// Inserts non-default values under the names of `query_string` and `simple_query_string`.
    pub(super) fn put_string(&self, body: &mut Map<String, Value>) {
        self.put_named(body, "default_operator", "phrase_slop", &STRING_NAMES);
    }

    fn put_named(&self, body: &mut Map<String, Value>, operator: &str, slop: &str, names: &FuzzyNames) {
        if let Some(analyzer) = self.analyzer {
            body.insert("analyzer".into(), analyzer.name().into());
        }
        if self.operator_and {
            body.insert(operator.into(), "AND".into());
        }
        if let Some(spec) = &self.minimum_should_match {
            body.insert("minimum_should_match".into(), spec.as_str().into());
        }
        if let Some(fuzziness) = self.fuzziness {
            body.insert("fuzziness".into(), fuzziness.print().into());
        }
        self.fuzzy.put(body, names);
        if self.slop > 0 {
            body.insert(slop.into(), self.slop.into());
        }
        put_flag(body, "lenient", self.lenient);
        if self.zero_terms_all {
            body.insert("zero_terms_query".into(), "ALL".into());
        }
    }
}

/// Parses an analyzer name.
pub(super) fn analyzer(query: &str, param: &str, value: &Value) -> Result<Analyzer> {
    let name = text(query, param, value)?;
    Analyzer::from_name(&name)
        .ok_or_else(|| Error::new(ErrorKind::QueryShard, format!("[{query}] {param} [{name}] not found")))
}
