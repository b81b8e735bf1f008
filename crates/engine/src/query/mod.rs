//! The query language: Elasticsearch's query DSL as typed values.
//!
//! One file per query with its parse, print and tests; [`Query::parse`] finds it by name. An
//! unknown query or parameter is an error that names it. `Query::parse(&q.print()) == q`.
//! Parsing is bounded: depth 100 (a const), 1024 × 16 clauses in all.

mod bool_query;
mod constant_score;
mod exists;
mod ids;
mod match_all;
mod match_phrase;
mod match_query;
mod params;
mod prefix;
pub mod query_string;
mod range;
mod should_match;
mod term;
mod terms;
mod wildcard;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{Error, Result};

pub use bool_query::{Bool, Boost};
pub use constant_score::ConstantScore;
pub use exists::Exists;
pub use ids::Ids;
pub use match_all::MatchAll;
pub use match_phrase::MatchPhrase;
pub use match_query::Match;
pub use prefix::Prefix;
pub use query_string::QueryString;
pub use range::Range;
pub use should_match::minimum_should_match;
pub use term::Term;
pub use terms::{TERMS_MAX, Terms};
pub use wildcard::Wildcard;

/// A query. Fields are full paths as the user wrote them; the engine resolves them per index.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Query {
    MatchAll(MatchAll),
    MatchNone,
    Term(Term),
    Terms(Terms),
    Range(Range),
    Exists(Exists),
    Ids(Ids),
    Match(Match),
    Bool(Bool),
    QueryString(QueryString),
    Prefix(Prefix),
    Wildcard(Wildcard),
    MatchPhrase(MatchPhrase),
    ConstantScore(ConstantScore),
}

/// How deep queries nest, `query_string` parentheses apart. Elasticsearch allows 30
/// (`indices.query.bool.max_nested_depth`), counting `bool` alone.
pub const DEPTH_MAX: usize = 100;

/// Queries in one request, all levels together. Elasticsearch takes from 1024 up, by heap; this
/// is room for generated filters of some thousand parts, and some megabytes of memory.
pub const CLAUSES_MAX: usize = 1024 * 16;

type Parse = fn(&Value, &mut Budget) -> Result<Query>;

/// One line per query.
const QUERIES: &[(&str, Parse)] = &[
    (match_all::NAME, match_all::parse),
    (match_all::NAME_NONE, match_all::parse_none),
    (term::NAME, term::parse),
    (terms::NAME, terms::parse),
    (range::NAME, range::parse),
    (exists::NAME, exists::parse),
    (ids::NAME, ids::parse),
    (match_query::NAME, match_query::parse),
    (match_phrase::NAME, match_phrase::parse),
    (bool_query::NAME, bool_query::parse),
    (query_string::NAME, query_string::parse_query),
    (prefix::NAME, prefix::parse),
    (wildcard::NAME, wildcard::parse),
    (constant_score::NAME, constant_score::parse),
];

/// Queries that Elasticsearch has and firn does not.
const NOT_YET: &[&str] = &[
    "boosting",
    "combined_fields",
    "dis_max",
    "distance_feature",
    "field_masking_span",
    "function_score",
    "fuzzy",
    "geo_bounding_box",
    "geo_distance",
    "geo_grid",
    "geo_polygon",
    "geo_shape",
    "has_child",
    "has_parent",
    "intervals",
    "knn",
    "match_bool_prefix",
    "match_phrase_prefix",
    "more_like_this",
    "multi_match",
    "nested",
    "parent_id",
    "percolate",
    "pinned",
    "rank_feature",
    "regexp",
    "rule",
    "rule_query",
    "script",
    "script_score",
    "semantic",
    "shape",
    "simple_query_string",
    "span_containing",
    "span_field_masking",
    "span_first",
    "span_gap",
    "span_multi",
    "span_near",
    "span_not",
    "span_or",
    "span_term",
    "span_within",
    "sparse_vector",
    "terms_set",
    "text_expansion",
    "weighted_tokens",
    "wrapper",
];

/// Queries by name, answered and refused.
pub(crate) fn inventory() -> crate::inventory::Inventory {
    crate::inventory::Inventory {
        answered: QUERIES.iter().map(|(name, _)| *name).collect(),
        refused: NOT_YET,
    }
}

/// What is left of a request's bounds while it is parsed.
#[derive(Debug, Default)]
struct Budget {
    depth: usize,
    clauses: usize,
}

impl Budget {
    /// Reads a query, one level deeper.
    fn parse(&mut self, value: &Value) -> Result<Query> {
        let Value::Object(object) = value else {
            return Err(Error::parsing("[_na] query malformed, must start with start_object"));
        };
        let mut entries = object.iter();
        let Some((name, body)) = entries.next() else {
            return Err(Error::illegal_argument("query malformed, empty clause found"));
        };
        let Some((_, parse)) = QUERIES.iter().find(|(known, _)| known == name) else {
            return Err(if NOT_YET.contains(&name.as_str()) {
                Error::not_implemented(format!("query [{name}]"))
            } else {
                Error::parsing(format!("unknown query [{name}]"))
            });
        };
        if entries.next().is_some() {
            return Err(Error::parsing(format!(
                "[{name}] malformed query, expected [END_OBJECT] but found [FIELD_NAME]"
            )));
        }
        self.take_clauses(1)?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::illegal_argument(format!(
                "The nested depth of the query exceeds the maximum nested depth of [{DEPTH_MAX}]"
            )));
        }
        let query = parse(body, self)?;
        self.depth -= 1;
        Ok(query)
    }

    fn take_clauses(&mut self, count: usize) -> Result<()> {
        self.clauses += count;
        if self.clauses > CLAUSES_MAX {
            return Err(Error::illegal_argument(format!(
                "Query contains too many clauses; maxClauseCount is set to {CLAUSES_MAX}"
            )));
        }
        Ok(())
    }
}

impl Query {
    /// Reads `{"term": {…}}`. Fails with [`crate::ErrorKind::Parsing`] or
    /// [`crate::ErrorKind::IllegalArgument`] in Elasticsearch's words, and with
    /// [`crate::ErrorKind::NotImplemented`] for what Elasticsearch has and firn lacks.
    pub fn parse(value: &Value) -> Result<Self> {
        Budget::default().parse(value)
    }

    /// The JSON that parses to this.
    pub fn print(&self) -> Value {
        match self {
            Self::MatchAll(query) => query.print(),
            Self::MatchNone => params::print(match_all::NAME_NONE, serde_json::Map::new()),
            Self::Term(query) => query.print(),
            Self::Terms(query) => query.print(),
            Self::Range(query) => query.print(),
            Self::Exists(query) => query.print(),
            Self::Ids(query) => query.print(),
            Self::Match(query) => query.print(),
            Self::Bool(query) => query.print(),
            Self::QueryString(query) => query.print(),
            Self::Prefix(query) => query.print(),
            Self::Wildcard(query) => query.print(),
            Self::MatchPhrase(query) => query.print(),
            Self::ConstantScore(query) => query.print(),
        }
    }

    /// Every field path it reads, patterns as written, sorted; `*` for all.
    pub fn fields(&self) -> Vec<String> {
        let mut fields = BTreeSet::new();
        self.collect_fields(&mut fields);
        fields.into_iter().collect()
    }

    fn collect_fields(&self, fields: &mut BTreeSet<String>) {
        match self {
            Self::MatchAll(_) | Self::MatchNone => {}
            Self::Term(query) => query.fields(fields),
            Self::Terms(query) => query.fields(fields),
            Self::Range(query) => query.fields(fields),
            Self::Exists(query) => query.fields(fields),
            Self::Ids(query) => query.fields(fields),
            Self::Match(query) => query.fields(fields),
            Self::Bool(query) => query.fields(fields),
            Self::QueryString(query) => query.fields(fields),
            Self::Prefix(query) => query.fields(fields),
            Self::Wildcard(query) => query.fields(fields),
            Self::MatchPhrase(query) => query.fields(fields),
            Self::ConstantScore(query) => query.fields(fields),
        }
    }
}

#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tests;
