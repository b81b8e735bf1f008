//! Translation of a KQL tree into other queries.
//!
//! The meaning of `field: value` depends on the field: a keyword equals the value, a text contains the words, a date
//! lies within the value's precision, in the time zone of the request. So the translation runs once per index, with its
//! mapping, as Kibana uses its data view (`functions/is.ts`, `range.ts`, `exists.ts` of `@kbn/es-query`).

use std::borrow::Cow;

use firn_model::mapping::{FieldType, Mapping, Resolved};
use firn_model::names::matches_pattern;
use firn_model::{Error, Result};

use super::Kql;
use super::lexer::{Comparison, Pattern};
use super::syntax::{Node, Value};
use crate::query::query_string::{QueryString, escape};
use crate::query::{
    Bool, Exists, MatchAll, MultiMatch, MultiMatchType, Query, Range, Rewrite, Term, TermPattern, TextOptions,
    TextQuery,
};

/// Maximum fields that one name pattern expands to (`indices.query.bool.max_clause_count`).
const FIELDS_MAX: usize = 1024;

/// Interpretation of a value, by the type of the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The whole string.
    Keyword,
    /// A number, address or boolean.
    Exact,
    Text,
    Date,
    /// The mapping is not known.
    Unknown,
}

impl Kql {
    /// Translates the tree with a mapping; `None`: the mapping is not known. Fails if a pattern matches too many
    /// fields.
    pub(super) fn lowered(&self, mapping: Option<&Mapping>) -> Result<Query> {
        let lowering = Lowering { kql: self, mapping };
        let mut query = lowering.node(&self.parsed)?;
        if self.boost != 1.0 {
            query = Query::Bool(Bool {
                must: vec![query],
                boost: crate::query::Boost(self.boost),
                ..Bool::default()
            });
        }
        Ok(query)
    }
}

impl Query {
    /// Returns the query with its KQL parts translated for an index with this mapping. Fails if a pattern matches too
    /// many fields.
    pub fn without_kql(&self, mapping: &Mapping) -> Result<Cow<'_, Query>> {
        if !self.holds_kql() {
            return Ok(Cow::Borrowed(self));
        }
        let mut query = self.clone();
        query.replace_kql(mapping)?;
        Ok(Cow::Owned(query))
    }

    fn holds_kql(&self) -> bool {
        match self {
            Self::Kql(_) => true,
            Self::Named(part) => part.query.holds_kql(),
            Self::ConstantScore(part) => part.filter.holds_kql(),
            Self::Boosting(part) => part.positive.holds_kql() || part.negative.holds_kql(),
            Self::DisMax(part) => part.queries.iter().any(Self::holds_kql),
            Self::Bool(part) => {
                let clauses = [&part.must, &part.filter, &part.should, &part.must_not];
                clauses.into_iter().flatten().any(Self::holds_kql)
            }
            _ => false,
        }
    }

    fn replace_kql(&mut self, mapping: &Mapping) -> Result<()> {
        match self {
            Self::Kql(part) => *self = part.lower(mapping)?,
            Self::Named(part) => part.query.replace_kql(mapping)?,
            Self::ConstantScore(part) => part.filter.replace_kql(mapping)?,
            Self::Boosting(part) => {
                part.positive.replace_kql(mapping)?;
                part.negative.replace_kql(mapping)?;
            }
            Self::DisMax(part) => part
                .queries
                .iter_mut()
                .try_for_each(|query| query.replace_kql(mapping))?,
            Self::Bool(part) => {
                let clauses = [&mut part.must, &mut part.filter, &mut part.should, &mut part.must_not];
                clauses
                    .into_iter()
                    .flatten()
                    .try_for_each(|query| query.replace_kql(mapping))?;
            }
            _ => {}
        }
        Ok(())
    }
}

struct Lowering<'a> {
    kql: &'a Kql,
    mapping: Option<&'a Mapping>,
}

impl Lowering<'_> {
    fn node(&self, node: &Node) -> Result<Query> {
        let all = |parts: &[Node]| parts.iter().map(|part| self.node(part)).collect::<Result<Vec<_>>>();
        match node {
            Node::All => Ok(everything()),
            Node::And(parts) => Ok(Query::Bool(Bool {
                must: all(parts)?,
                ..Bool::default()
            })),
            Node::Or(parts) => Ok(any(all(parts)?)),
            Node::Not(node) => Ok(Query::Bool(Bool {
                must_not: vec![self.node(node)?],
                ..Bool::default()
            })),
            Node::Is { field: None, value } => self.anywhere(value),
            Node::Is {
                field: Some(field),
                value,
            } => self.is(field, value),
            Node::Range {
                field,
                comparison,
                value,
            } => match field.as_text() {
                Some(name) => Ok(self.range(name, self.kind(name), *comparison, value)),
                None => self.range_of_pattern(&field.0.join("*"), *comparison, value),
            },
        }
    }

    /// Translates a value without a field: it is searched in the default fields.
    fn anywhere(&self, value: &Value) -> Result<Query> {
        match value {
            Value::Words(pattern) if pattern.is_any() => Ok(everything()),
            value => self.lenient(self.kql.default_field.clone().into_iter().collect(), value),
        }
    }

    fn is(&self, field: &Pattern, value: &Value) -> Result<Query> {
        let is_any = matches!(value, Value::Words(pattern) if pattern.is_any());
        match field.as_text() {
            _ if is_any && field.is_any() => Ok(everything()),
            _ if is_any => Ok(Query::Exists(Exists {
                field: field.0.join("*"),
                boost: 1.0,
            })),
            Some(name) => self.in_field(name, self.kind(name), value),
            None if field.is_any() => self.lenient(Vec::new(), value),
            None => self.in_pattern(&field.0.join("*"), value),
        }
    }

    fn kind(&self, name: &str) -> Kind {
        let Some(mapping) = self.mapping else {
            return Kind::Unknown;
        };
        match mapping.resolve(name) {
            Some(Resolved::Field(_, field)) => match field.field_type {
                FieldType::Text | FieldType::MatchOnlyText => Kind::Text,
                FieldType::Date | FieldType::DateNanos => Kind::Date,
                FieldType::Keyword | FieldType::Wildcard | FieldType::ConstantKeyword | FieldType::Flattened => {
                    Kind::Keyword
                }
                _ => Kind::Exact,
            },
            // An unmapped field is indexed as a keyword, if at all.
            Some(Resolved::Flattened(..) | Resolved::Object(_)) | None => Kind::Keyword,
        }
    }

    fn in_field(&self, name: &str, kind: Kind, value: &Value) -> Result<Query> {
        let text = match value {
            Value::Phrase(text) => text.as_str(),
            Value::Words(pattern) => match pattern.as_text() {
                Some(text) => text,
                None if kind == Kind::Keyword => return Ok(self.wildcard(name, pattern)),
                None => {
                    return Ok(Query::QueryString(self.query_string(
                        vec![name.to_owned()],
                        pattern,
                        false,
                    )?));
                }
            },
        };
        Ok(match kind {
            Kind::Date => Query::Range(Range {
                upper: Some((text.into(), true)),
                ..self.bound(name, kind, Comparison::GreaterOrEqual, text)
            }),
            Kind::Text | Kind::Unknown if !self.kql.case_insensitive || kind == Kind::Text => {
                let part = TextQuery {
                    field: name.to_owned(),
                    query: text.into(),
                    options: TextOptions::default(),
                    boost: 1.0,
                };
                match value {
                    Value::Phrase(_) => Query::MatchPhrase(part),
                    Value::Words(_) => Query::Match(part),
                }
            }
            Kind::Keyword | Kind::Exact | Kind::Text | Kind::Unknown => Query::Term(Term {
                field: name.to_owned(),
                value: text.into(),
                boost: 1.0,
                case_insensitive: self.kql.case_insensitive && kind != Kind::Exact,
            }),
        })
    }

    fn wildcard(&self, name: &str, pattern: &Pattern) -> Query {
        let mut value = String::new();
        for (number, part) in pattern.0.iter().enumerate() {
            if number > 0 {
                value.push('*');
            }
            for character in part.chars() {
                if matches!(character, '*' | '?' | '\\') {
                    value.push('\\');
                }
                value.push(character);
            }
        }
        Query::Wildcard(TermPattern {
            field: name.to_owned(),
            value,
            case_insensitive: self.kql.case_insensitive,
            rewrite: Rewrite::Constant,
            boost: 1.0,
        })
    }

    /// Translates a value for each field that a pattern matches: keywords one by one, all other fields together.
    fn in_pattern(&self, names: &str, value: &Value) -> Result<Query> {
        let Some(mapping) = self.mapping else {
            return self.lenient(vec![names.to_owned()], value);
        };
        let (mut parts, mut others) = (Vec::new(), Vec::new());
        for (path, field) in mapping.leaves() {
            if !matches_pattern(names, &path) || matches!(field.field_type, FieldType::Alias | FieldType::Binary) {
                continue;
            }
            match self.kind(&path) {
                Kind::Keyword => parts.push(self.in_field(&path, Kind::Keyword, value)?),
                _ => others.push(path),
            }
        }
        if parts.len() + others.len() > FIELDS_MAX {
            return Err(Error::illegal_argument(format!(
                "field expansion for [{names}] matches too many fields, limit: {FIELDS_MAX}, got: {}",
                parts.len() + others.len()
            )));
        }
        if !others.is_empty() {
            parts.push(self.lenient(others, value)?);
        }
        Ok(any(parts))
    }

    /// Translates a value for fields of which some may not accept it.
    fn lenient(&self, fields: Vec<String>, value: &Value) -> Result<Query> {
        let (text, kind) = match value {
            Value::Phrase(text) => (text.as_str(), MultiMatchType::Phrase),
            Value::Words(pattern) => match pattern.as_text() {
                Some(text) => (text, MultiMatchType::BestFields),
                None => return Ok(Query::QueryString(self.query_string(fields, pattern, true)?)),
            },
        };
        Ok(Query::MultiMatch(MultiMatch {
            query: text.into(),
            fields: fields.into_iter().map(|field| (field, 1.0)).collect(),
            kind,
            tie_breaker: None,
            options: TextOptions {
                lenient: true,
                ..TextOptions::default()
            },
            boost: 1.0,
        }))
    }

    /// Translates words with stars to Lucene's syntax, word by word.
    fn query_string(&self, fields: Vec<String>, pattern: &Pattern, lenient: bool) -> Result<QueryString> {
        let parts: Vec<String> = pattern.0.iter().map(|part| escape(part)).collect();
        let words: Vec<String> = parts.join("*").split(' ').map(not_an_operator).collect();
        QueryString::in_fields(&words.join(" "), fields, lenient, self.kql.time_zone.as_deref())
    }

    fn range(&self, name: &str, kind: Kind, comparison: Comparison, value: &str) -> Query {
        Query::Range(self.bound(name, kind, comparison, value))
    }

    fn bound(&self, name: &str, kind: Kind, comparison: Comparison, value: &str) -> Range {
        let bound = |inclusive| Some((value.into(), inclusive));
        let (lower, upper) = match comparison {
            Comparison::Greater => (bound(false), None),
            Comparison::GreaterOrEqual => (bound(true), None),
            Comparison::Less => (None, bound(false)),
            Comparison::LessOrEqual => (None, bound(true)),
        };
        Range {
            field: name.to_owned(),
            lower,
            upper,
            format: None,
            // Fields that are not dates refuse a time zone.
            time_zone: self
                .kql
                .time_zone
                .clone()
                .filter(|_| matches!(kind, Kind::Date | Kind::Unknown)),
            boost: 1.0,
        }
    }

    fn range_of_pattern(&self, names: &str, comparison: Comparison, value: &str) -> Result<Query> {
        let value = quoted(value);
        let text = match comparison {
            Comparison::Greater => format!("{{{value} TO *}}"),
            Comparison::GreaterOrEqual => format!("[{value} TO *]"),
            Comparison::Less => format!("{{* TO {value}}}"),
            Comparison::LessOrEqual => format!("[* TO {value}]"),
        };
        let zone = self.kql.time_zone.as_deref();
        QueryString::in_fields(&text, vec![names.to_owned()], true, zone).map(Query::QueryString)
    }
}

fn everything() -> Query {
    Query::MatchAll(MatchAll::default())
}

/// Returns the disjunction of the parts; without parts it matches nothing.
fn any(mut parts: Vec<Query>) -> Query {
    match parts.pop() {
        None => Query::MatchNone,
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            Query::Bool(Bool {
                should: parts,
                minimum_should_match: Some("1".to_owned()),
                ..Bool::default()
            })
        }
    }
}

/// In Lucene's syntax these words in capital letters are operators.
fn not_an_operator(word: &str) -> String {
    match word {
        "AND" | "OR" | "NOT" => format!("\\{word}"),
        word => word.to_owned(),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
