//! `query_string` query: Lucene's query syntax in a parameter.

mod completion;
mod field_names;
mod lexer;
mod syntax;

use std::collections::BTreeSet;

use firn_model::dates::Zone;
use firn_model::mapping::Analyzer;
use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::fuzziness::STRING_NAMES;
use super::multi_match::MultiMatchType;
use super::params::{
    boost, count, flag, not_yet, number, object, operator, print, put_boost, put_flag, text, unsupported,
};
use super::rewrite::Rewrite;
use super::text_options::{TEXT, TextOptions, analyzer};
use super::{Budget, Query, weighted_fields};
use crate::json::print_f32;

pub use completion::{complete, write_field, write_value};
pub use field_names::field_names;
pub(super) use syntax::Syntax;
#[cfg(test)]
pub(super) use syntax::tests::show;
pub use syntax::{DEPTH_MAX, Node, parse};

pub(super) const NAME: &str = "query_string";

/// Query in Lucene's syntax. The parser makes `parsed` from `query` once; its fields are as written, and
/// `default_fields` lists the fields of bare words.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryString {
    /// As written.
    pub query: String,
    /// `default_field`/`fields` (with `^boost` split off). Empty: all text and keyword fields
    /// (`index.query.default_field: *`).
    pub default_fields: Vec<(String, f32)>,
    /// Search options of words; `slop` applies to phrases without one.
    pub options: TextOptions,
    /// Combination of the fields of a word.
    pub kind: MultiMatchType,
    /// `None`: the default of the type.
    pub tie_breaker: Option<f32>,
    /// Analyzer of quoted text.
    pub quote_analyzer: Option<Analyzer>,
    /// Phrases search the field with this suffix instead, if it exists.
    pub quote_field_suffix: Option<String>,
    /// `analyze_wildcard`; accepted without effect.
    pub analyze_wildcard: bool,
    /// Patterns may begin with `*` and `?`.
    pub allow_leading_wildcard: bool,
    /// Only white space is special.
    pub escape: bool,
    /// Scoring of the terms of patterns.
    pub rewrite: Rewrite,
    /// As written.
    pub time_zone: Option<String>,
    /// Multiplies the score.
    pub boost: f32,
    /// The syntax tree.
    pub parsed: Node,
}

impl QueryString {
    /// Parses the URL parameter `q`: this text with all defaults.
    pub fn new(query: &str) -> Result<Self> {
        let body = Value::Object([("query".to_owned(), Value::from(query))].into_iter().collect());
        read(&body)
    }

    /// Parses a text for these fields. `lenient`: skips fields that cannot hold the value.
    pub(super) fn in_fields(text: &str, fields: Vec<String>, lenient: bool, zone: Option<&str>) -> Result<Self> {
        let mut query = Self {
            query: text.to_owned(),
            default_fields: fields.into_iter().map(|field| (field, 1.0)).collect(),
            time_zone: zone.map(str::to_owned),
            ..Self::empty()
        };
        query.options.lenient = lenient;
        query.parsed = query.parse()?;
        Ok(query)
    }

    /// Returns a query with all defaults, not yet parsed.
    fn empty() -> Self {
        Self {
            query: String::new(),
            default_fields: Vec::new(),
            options: TextOptions::default(),
            kind: MultiMatchType::default(),
            tie_breaker: None,
            quote_analyzer: None,
            quote_field_suffix: None,
            analyze_wildcard: false,
            allow_leading_wildcard: true,
            escape: false,
            rewrite: Rewrite::Constant,
            time_zone: None,
            boost: 1.0,
            parsed: Node::All,
        }
    }

    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("query".into(), self.query.as_str().into());
        weighted_fields::put(&mut body, &self.default_fields);
        self.options.put_string(&mut body);
        self.kind.put(&mut body);
        if let Some(tie_breaker) = self.tie_breaker {
            body.insert("tie_breaker".into(), print_f32(tie_breaker));
        }
        if let Some(analyzer) = self.quote_analyzer {
            body.insert("quote_analyzer".into(), analyzer.name().into());
        }
        if let Some(suffix) = &self.quote_field_suffix {
            body.insert("quote_field_suffix".into(), suffix.as_str().into());
        }
        put_flag(&mut body, "analyze_wildcard", self.analyze_wildcard);
        if !self.allow_leading_wildcard {
            body.insert("allow_leading_wildcard".into(), false.into());
        }
        put_flag(&mut body, "escape", self.escape);
        self.rewrite.put(&mut body, "rewrite", Rewrite::Constant);
        if let Some(zone) = &self.time_zone {
            body.insert("time_zone".into(), zone.as_str().into());
        }
        put_boost(&mut body, self.boost);
        print(NAME, body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        if self.parsed.collect_fields(fields) {
            if self.default_fields.is_empty() {
                fields.insert("*".to_owned());
            }
            fields.extend(self.default_fields.iter().map(|(field, _)| field.clone()));
        }
    }

    fn parse(&self) -> Result<Node> {
        // With one default field, a bare `*` matches documents that have a value in it.
        let only_field = match self.default_fields.as_slice() {
            [(field, _)] if !field.contains('*') => Some(field.as_str()),
            _ => None,
        };
        let syntax = Syntax {
            operator_and: self.options.operator_and,
            default_field: only_field,
            fuzziness: self.options.fuzziness.unwrap_or_default(),
            phrase_slop: self.options.slop,
            allow_leading_wildcard: self.allow_leading_wildcard,
        };
        match self.escape {
            true => syntax.parse(&escape(&self.query)),
            false => syntax.parse(&self.query),
        }
    }
}

/// Puts a `\` before every special character.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if "\\+-!():^[]\"{}~*?|&/".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

pub(super) fn parse_query(body: &Value, budget: &mut Budget) -> Result<Query> {
    let query = read(body)?;
    budget.take_clauses(query.parsed.clause_count())?;
    budget.take_fuzzy(query.parsed.fuzzy_count(), query.default_fields.len())?;
    Ok(Query::QueryString(query))
}

/// Parameters in addition to those of all full-text queries.
const OWN: &[&str] = &[
    "fuzziness",
    "lenient",
    "minimum_should_match",
    "auto_generate_synonyms_phrase_query",
];

fn read(body: &Value) -> Result<QueryString> {
    let mut found = None;
    let mut default_field = None;
    let mut query = QueryString::empty();
    for (key, value) in object(NAME, body)? {
        match key.as_str() {
            "query" => found = Some(text(NAME, key, value)?),
            "default_field" | "lenient" | "tie_breaker" | "quote_analyzer" | "quote_field_suffix" | "rewrite"
                if value.is_null() => {}
            "default_field" => default_field = Some(text(NAME, key, value)?),
            "fields" => query.default_fields = weighted_fields::parse(NAME, value)?,
            "default_operator" => query.options.operator_and = operator(NAME, key, value)?,
            "phrase_slop" => query.options.slop = count(NAME, key, value)?,
            "type" => query.kind = MultiMatchType::parse(NAME, value)?,
            "tie_breaker" => query.tie_breaker = Some(number(NAME, key, value)?),
            "quote_analyzer" => query.quote_analyzer = Some(analyzer(NAME, key, value)?),
            "quote_field_suffix" => query.quote_field_suffix = Some(text(NAME, key, value)?),
            "analyze_wildcard" => query.analyze_wildcard = flag(NAME, key, value)?,
            "allow_leading_wildcard" => query.allow_leading_wildcard = flag(NAME, key, value)?,
            "escape" => query.escape = flag(NAME, key, value)?,
            "rewrite" => query.rewrite = Rewrite::parse(NAME, key, value)?,
            "time_zone" => {
                let zone = text(NAME, key, value)?;
                Zone::parse(&zone)?;
                query.time_zone = Some(zone);
            }
            "boost" => query.boost = boost(NAME, value)?,
            "enable_position_increments" if flag(NAME, key, value)? => {}
            "enable_position_increments" => return Err(not_yet(NAME, key)),
            // firn's regular expressions run in linear time; see `regexp`.
            "max_determinized_states" => drop(count(NAME, key, value)?),
            _ if query.options.read(NAME, &[TEXT, OWN], key, value)? => {}
            _ if STRING_NAMES.read(&mut query.options.fuzzy, NAME, key, value)? => {}
            _ => return Err(unsupported(NAME, key)),
        }
    }
    query.query = found.ok_or_else(|| Error::parsing(format!("[{NAME}] must be provided with a [query]")))?;
    if let Some(field) = default_field {
        if !query.default_fields.is_empty() {
            return Err(Error::parsing(format!(
                "[{NAME}] cannot use [fields] parameter in conjunction with [default_field]"
            )));
        }
        if field != "*" {
            query.default_fields.push((field, 1.0));
        }
    }
    query.parsed = query.parse()?;
    Ok(query)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Node, QueryString};
    use crate::query::test_support::{check, check_fields, check_refused};

    #[test]
    fn escapes() {
        let mut query = QueryString::empty();
        query.query = "a* (b:c".to_owned();
        query.escape = true;
        assert_eq!(query.parse().unwrap(), Node::Word("a* (b:c".to_owned()));
    }

    #[test]
    fn parses() {
        check(
            json!({"query_string": {"query": "a:b AND c"}}),
            json!({"query_string": {"query": "a:b AND c"}}),
        );
        check(
            json!({"query_string": {
                "query": "x", "fields": ["a", "b.*^2.5"], "default_operator": "and", "lenient": true,
                "analyze_wildcard": true, "time_zone": "+01:00", "boost": 2, "allow_leading_wildcard": true,
                "escape": false, "phrase_slop": 0, "type": "best_fields",
                "fuzzy_max_expansions": 50, "fuzzy_prefix_length": 0, "fuzzy_transpositions": true,
                "auto_generate_synonyms_phrase_query": true, "max_determinized_states": 10000,
                "enable_position_increments": true, "rewrite": "constant_score"
            }}),
            json!({"query_string": {
                "query": "x", "fields": ["a", "b.*^2.5"], "default_operator": "AND", "lenient": true,
                "analyze_wildcard": true, "time_zone": "+01:00", "boost": 2.0
            }}),
        );
        let all = json!({"query_string": {
            "query": "x", "analyzer": "simple", "minimum_should_match": "2", "fuzziness": "1", "fuzzy_prefix_length": 1,
            "fuzzy_max_expansions": 5, "fuzzy_transpositions": false, "fuzzy_rewrite": "constant_score",
            "phrase_slop": 2, "type": "most_fields", "tie_breaker": 0.5, "quote_analyzer": "whitespace",
            "quote_field_suffix": ".exact", "allow_leading_wildcard": false, "escape": true, "rewrite": "top_terms_5"
        }});
        check(all.clone(), all);
        check(
            json!({"query_string": {"query": "x", "default_field": "a"}}),
            json!({"query_string": {"query": "x", "fields": ["a"]}}),
        );
        for all in [
            json!({"default_field": "*"}),
            json!({"fields": ["*"]}),
            json!({"fields": []}),
        ] {
            let mut body = json!({"query": "x"});
            body.as_object_mut().unwrap().extend(all.as_object().unwrap().clone());
            check(json!({"query_string": body}), json!({"query_string": {"query": "x"}}));
        }
    }

    #[test]
    fn refuses() {
        check_refused(
            json!({"query_string": {}}),
            "[query_string] must be provided with a [query]",
        );
        check_refused(
            json!({"query_string": {"query": "x", "foo": 1}}),
            "[query_string] query does not support [foo]",
        );
        check_refused(
            json!({"query_string": {"query": "x", "enable_position_increments": false}}),
            "parameter [enable_position_increments] of query [query_string] is not implemented by firn",
        );
        check_refused(
            json!({"query_string": {"query": "?x", "allow_leading_wildcard": false}}),
            "Failed to parse query [?x]",
        );
        check_refused(
            json!({"query_string": {"query": "x", "fields": ["a"], "default_field": "b"}}),
            "[query_string] cannot use [fields] parameter in conjunction with [default_field]",
        );
        check_refused(
            json!({"query_string": {"query": "a AND"}}),
            "Failed to parse query [a AND]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"query_string": {"query": "x"}}), &["*"]);
        check_fields(json!({"query_string": {"query": "*"}}), &[]);
        check_fields(json!({"query_string": {"query": "a:x AND _exists_:b"}}), &["a", "b"]);
        check_fields(
            json!({"query_string": {"query": "a:(x y) z", "fields": ["c^2", "d"]}}),
            &["a", "c", "d"],
        );
        check_fields(json!({"query_string": {"query": "*", "default_field": "a"}}), &["a"]);
    }
}
