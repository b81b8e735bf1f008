//! What the queries on analyzed text share: how a text becomes terms, and how many of them must
//! match.

use firn_model::mapping::Analyzer;
use serde_json::{Map, Value};

use super::fuzziness::{Fuzziness, Fuzzy, FuzzyNames, MATCH_NAMES, STRING_NAMES};
use super::params::{count, flag, operator, put_flag, text, zero_terms};
use super::should_match;
use crate::{Error, ErrorKind, Result};

/// How a text is looked for. Every query reads only the parameters that it has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TextOptions {
    /// Instead of the field's search analyzer.
    pub analyzer: Option<Analyzer>,
    /// All terms must match, not any.
    pub operator_and: bool,
    /// As written (`2`, `-1`, `75%`, `3<90%`).
    pub minimum_should_match: Option<String>,
    /// `Some`: terms stand for those near them.
    pub fuzziness: Option<Fuzziness>,
    /// Which terms near them, and how many; `max_expansions` also bounds prefixes of phrases.
    pub fuzzy: Fuzzy,
    /// Moves allowed between the terms of a phrase.
    pub slop: u32,
    /// `zero_terms_query: all`: a text without terms matches everything.
    pub zero_terms_all: bool,
    /// Values that do not fit the field match nothing instead of failing.
    pub lenient: bool,
}

/// Parameters of all full-text queries.
pub(super) const TEXT: &[&str] = &["analyzer"];
/// Those of terms that combine.
pub(super) const TERMS: &[&str] = &["operator", "minimum_should_match"];
/// Those of terms taken for others.
pub(super) const FUZZY: &[&str] = &[
    "fuzziness",
    "prefix_length",
    "max_expansions",
    "fuzzy_transpositions",
    "fuzzy_rewrite",
];

impl TextOptions {
    /// Reads a parameter, if it is one of `known`; false if it is not.
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
            // No firn analyzer makes synonyms.
            "auto_generate_synonyms_phrase_query" => drop(flag(query, key, value)?),
            _ => return MATCH_NAMES.read(&mut self.fuzzy, query, key, value),
        }
        Ok(true)
    }

    /// Inserts what is not the default, as the match queries call it.
    pub(super) fn put(&self, body: &mut Map<String, Value>) {
        self.put_named(body, "operator", "slop", &MATCH_NAMES);
    }

    /// Inserts what is not the default, as `query_string` and `simple_query_string` call it.
    /// Words of a text that are looked for with edits, as far as is known before it is analyzed.
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

/// An analyzer by name.
pub(super) fn analyzer(query: &str, param: &str, value: &Value) -> Result<Analyzer> {
    let name = text(query, param, value)?;
    Analyzer::from_name(&name)
        .ok_or_else(|| Error::new(ErrorKind::QueryShard, format!("[{query}] {param} [{name}] not found")))
}
