//! `query_string`: Lucene's query syntax in a parameter.

mod lexer;
mod syntax;

use std::collections::BTreeSet;

use firn_model::dates::Zone;
use serde_json::{Map, Value};

use super::params::{
    boost, count, flag, not_yet, object, operator, print, put_boost, put_flag, rewrite, text, unsupported,
};
use super::{Budget, Query};
use crate::json::{print_f32, token};
use crate::{Error, Result};

pub use syntax::{DEPTH_MAX, Node, parse};

pub(super) const NAME: &str = "query_string";

/// Names and patterns in `fields`; each bare word is looked for in all of them.
const FIELDS_MAX: usize = 1024;

/// Lucene's query syntax. `parsed` is made from `query` at parse time, once; fields inside it are
/// as written, and `default_fields` says where bare words look.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryString {
    /// As written.
    pub query: String,
    /// `default_field`/`fields` (with `^boost` split off). Empty: all text and keyword fields
    /// (`index.query.default_field: *`).
    pub default_fields: Vec<(String, f32)>,
    /// `default_operator: AND`.
    pub operator_and: bool,
    /// Values that do not fit a field match nothing instead of failing.
    pub lenient: bool,
    /// `analyze_wildcard`, accepted.
    pub analyze_wildcard: bool,
    /// As written.
    pub time_zone: Option<String>,
    /// Multiplies the score.
    pub boost: f32,
    /// The syntax tree.
    pub parsed: Node,
}

impl QueryString {
    /// What the URL parameter `q` means: this text with all defaults.
    pub fn new(query: &str) -> Result<Self> {
        let body = Value::Object([("query".to_owned(), Value::from(query))].into_iter().collect());
        read(&body)
    }

    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("query".into(), self.query.as_str().into());
        if !self.default_fields.is_empty() {
            let with_boost = |(field, boost): &(String, f32)| match *boost {
                1.0 => Value::from(field.as_str()),
                boost => Value::from(format!("{field}^{}", print_f32(boost))),
            };
            body.insert("fields".into(), self.default_fields.iter().map(with_boost).collect());
        }
        if self.operator_and {
            body.insert("default_operator".into(), "AND".into());
        }
        put_flag(&mut body, "lenient", self.lenient);
        put_flag(&mut body, "analyze_wildcard", self.analyze_wildcard);
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
}

pub(super) fn parse_query(body: &Value, budget: &mut Budget) -> Result<Query> {
    let query = read(body)?;
    budget.take_clauses(query.parsed.clause_count())?;
    Ok(Query::QueryString(query))
}

fn read(body: &Value) -> Result<QueryString> {
    let mut found = None;
    let mut default_field = None;
    let mut query = QueryString {
        query: String::new(),
        default_fields: Vec::new(),
        operator_and: false,
        lenient: false,
        analyze_wildcard: false,
        time_zone: None,
        boost: 1.0,
        parsed: Node::All,
    };
    for (key, value) in object(NAME, body)? {
        match key.as_str() {
            "query" => found = Some(text(NAME, key, value)?),
            "default_field" if value.is_null() => {}
            "default_field" => default_field = Some(text(NAME, key, value)?),
            "fields" => query.default_fields = fields(value)?,
            "default_operator" => query.operator_and = operator(NAME, key, value)?,
            "lenient" if value.is_null() => {}
            "lenient" => query.lenient = flag(NAME, key, value)?,
            "analyze_wildcard" => query.analyze_wildcard = flag(NAME, key, value)?,
            "time_zone" => {
                let zone = text(NAME, key, value)?;
                Zone::parse(&zone)?;
                query.time_zone = Some(zone);
            }
            "boost" => query.boost = boost(NAME, value)?,
            "rewrite" => rewrite(NAME, value)?,
            "allow_leading_wildcard" | "enable_position_increments" | "fuzzy_transpositions"
                if flag(NAME, key, value)? => {}
            "escape" if !flag(NAME, key, value)? => {}
            // No firn analyzer makes synonyms.
            "auto_generate_synonyms_phrase_query" => drop(flag(NAME, key, value)?),
            "phrase_slop" | "fuzzy_prefix_length" if count(NAME, key, value)? == 0 => {}
            "fuzzy_max_expansions" if count(NAME, key, value)? == 50 => {}
            "max_determinized_states" if count(NAME, key, value)? == 10_000 => {}
            "fuzziness" if text(NAME, key, value)?.eq_ignore_ascii_case("auto") => {}
            "type" if text(NAME, key, value)? == "best_fields" => {}
            "allow_leading_wildcard"
            | "analyzer"
            | "enable_position_increments"
            | "escape"
            | "fuzziness"
            | "fuzzy_max_expansions"
            | "fuzzy_prefix_length"
            | "fuzzy_rewrite"
            | "fuzzy_transpositions"
            | "max_determinized_states"
            | "minimum_should_match"
            | "phrase_slop"
            | "quote_analyzer"
            | "quote_field_suffix"
            | "tie_breaker"
            | "type" => return Err(not_yet(NAME, key)),
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
    // A bare `*` asks one default field whether it has a value.
    let only_field = match query.default_fields.as_slice() {
        [(field, _)] if !field.contains('*') => Some(field.as_str()),
        _ => None,
    };
    query.parsed = syntax::parse_in(&query.query, query.operator_and, only_field)?;
    Ok(query)
}

/// `["title", "body^2", "meta.*"]`. `*` alone is all fields, which the empty list says.
fn fields(value: &Value) -> Result<Vec<(String, f32)>> {
    let Value::Array(values) = value else {
        return Err(Error::parsing(format!(
            "[{NAME}] query does not support [{}] for [fields]",
            token(value)
        )));
    };
    if values.len() > FIELDS_MAX {
        return Err(Error::illegal_argument(format!(
            "field expansion for [fields] matches too many fields, limit: {FIELDS_MAX}, got: {}",
            values.len()
        )));
    }
    let mut fields = Vec::with_capacity(values.len());
    for value in values {
        let written = text(NAME, "fields", value)?;
        let (field, weight) = match written.rsplit_once('^') {
            Some((field, weight)) => (field.to_owned(), boost(NAME, &Value::from(weight))?),
            None => (written, 1.0),
        };
        if field.is_empty() {
            return Err(Error::illegal_argument("field name is null or empty"));
        }
        fields.push((field, weight));
    }
    if let [(field, 1.0)] = fields.as_slice()
        && field == "*"
    {
        fields.clear();
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::query::test_support::{check, check_fields, check_refused};

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
                "escape": false, "phrase_slop": 0, "type": "best_fields", "fuzziness": "AUTO",
                "fuzzy_max_expansions": 50, "fuzzy_prefix_length": 0, "fuzzy_transpositions": true,
                "auto_generate_synonyms_phrase_query": true, "max_determinized_states": 10000,
                "enable_position_increments": true, "rewrite": "constant_score"
            }}),
            json!({"query_string": {
                "query": "x", "fields": ["a", "b.*^2.5"], "default_operator": "AND", "lenient": true,
                "analyze_wildcard": true, "time_zone": "+01:00", "boost": 2.0
            }}),
        );
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
            json!({"query_string": {"query": "x", "analyzer": "simple"}}),
            "parameter [analyzer] of query [query_string] is not implemented by firn",
        );
        check_refused(
            json!({"query_string": {"query": "x", "allow_leading_wildcard": false}}),
            "parameter [allow_leading_wildcard] of query [query_string] is not implemented by firn",
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
