//! Query language: Elasticsearch's query DSL as typed values.
//!
//! One file per query holds its parser, printer and tests; [`Query::parse`] selects it by name. An unknown query or
//! parameter is an error that names it. `Query::parse(&q.print()) == q`. Parsing is bounded: depth 100 (a const), 1024
//! × 16 clauses in total.

mod bool_query;
mod boosting;
pub mod completion;
mod constant_score;
mod dis_max;
mod exists;
mod fuzziness;
mod fuzzy;
mod ids;
pub mod kql;
mod match_all;
mod match_bool_prefix;
mod match_phrase;
mod match_phrase_prefix;
mod match_query;
mod multi_match;
mod named;
mod params;
mod prefix;
pub mod query_string;
mod range;
mod regexp;
mod required;
mod rewrite;
mod should_match;
mod simple_query_string;
pub mod syntax_error;
mod term;
mod term_pattern;
mod terms;
mod text_options;
mod text_query;
mod weighted_fields;
mod wildcard;
mod wrapper;

use std::collections::BTreeSet;

use firn_model::{Error, Result};
use serde_json::Value;

pub use bool_query::{Bool, Boost};
pub use boosting::Boosting;
pub use constant_score::ConstantScore;
pub use dis_max::DisMax;
pub use exists::Exists;
pub use fuzziness::{Fuzziness, Fuzzy};
pub use fuzzy::FuzzyTerm;
pub use ids::Ids;
pub use kql::Kql;
pub use match_all::MatchAll;
pub use multi_match::{MultiMatch, MultiMatchType};
pub use named::Named;
pub use query_string::QueryString;
pub use range::Range;
pub use regexp::{Regexp, RegexpFlags};
pub use rewrite::{REWRITE_TERMS_MAX, Rewrite};
pub use should_match::minimum_should_match;
pub use simple_query_string::{Flags as SimpleQueryFlags, SimpleQueryString};
pub use term::Term;
pub use term_pattern::TermPattern;
pub use terms::{TERMS_MAX, Terms};
pub use text_options::TextOptions;
pub use text_query::TextQuery;

use named::Params;

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
    Match(TextQuery),
    MatchPhrase(TextQuery),
    MatchPhrasePrefix(TextQuery),
    MatchBoolPrefix(TextQuery),
    MultiMatch(MultiMatch),
    Bool(Bool),
    DisMax(DisMax),
    Boosting(Boosting),
    ConstantScore(ConstantScore),
    QueryString(QueryString),
    SimpleQueryString(SimpleQueryString),
    Kql(Kql),
    Prefix(TermPattern),
    Wildcard(TermPattern),
    Regexp(Regexp),
    Fuzzy(FuzzyTerm),
    Named(Named),
}

/// Maximum nesting of queries, without the parentheses of `query_string`. Elasticsearch allows 30
/// (`indices.query.bool.max_nested_depth`), counting `bool` alone.
pub const DEPTH_MAX: usize = 100;

/// Maximum queries in one request, all levels together. Elasticsearch allows 1024 or more, depending on the heap; this
/// limit accepts generated filters of some thousand parts, in some megabytes of memory.
pub const CLAUSES_MAX: usize = 1024 * 16;

/// Maximum fuzzy words in one request, each counted per field. The default of Elasticsearch's
/// `indices.query.bool.max_clause_count` with a small heap. Each word is an automaton that walks a term dictionary,
/// some milliseconds of work, so the parser counts them before it builds the first.
pub const FUZZY_MAX: usize = 1024;

type Parse = fn(&Value, &mut Budget) -> Result<Query>;

/// One line per query.
const QUERIES: &[(&str, Params, Parse)] = &[
    (match_all::NAME, Params::InBody, match_all::parse),
    (match_all::NAME_NONE, Params::InBody, match_all::parse_none),
    (term::NAME, Params::InField, term::parse),
    (terms::NAME, Params::InBody, terms::parse),
    (range::NAME, Params::InField, range::parse),
    (exists::NAME, Params::InBody, exists::parse),
    (ids::NAME, Params::InBody, ids::parse),
    (match_query::NAME, Params::InField, match_query::parse),
    (match_phrase::NAME, Params::InField, match_phrase::parse),
    (match_phrase_prefix::NAME, Params::InField, match_phrase_prefix::parse),
    (match_bool_prefix::NAME, Params::InField, match_bool_prefix::parse),
    (multi_match::NAME, Params::InBody, multi_match::parse),
    (bool_query::NAME, Params::InBody, bool_query::parse),
    (dis_max::NAME, Params::InBody, dis_max::parse),
    (boosting::NAME, Params::InBody, boosting::parse),
    (constant_score::NAME, Params::InBody, constant_score::parse),
    (query_string::NAME, Params::InBody, query_string::parse_query),
    (simple_query_string::NAME, Params::InBody, simple_query_string::parse),
    (kql::NAME, Params::InBody, kql::parse_query),
    (prefix::NAME, Params::InField, prefix::parse),
    (wildcard::NAME, Params::InField, wildcard::parse),
    (regexp::NAME, Params::InField, regexp::parse),
    (fuzzy::NAME, Params::InField, fuzzy::parse),
    (wrapper::NAME, Params::Fixed, wrapper::parse),
];

/// Queries that Elasticsearch supports and firn does not.
const NOT_YET: &[&str] = &[
    "combined_fields",
    "distance_feature",
    "field_masking_span",
    "function_score",
    "geo_bounding_box",
    "geo_distance",
    "geo_grid",
    "geo_polygon",
    "geo_shape",
    "has_child",
    "has_parent",
    "intervals",
    "knn",
    "more_like_this",
    "nested",
    "parent_id",
    "percolate",
    "pinned",
    "rank_feature",
    "rule",
    "rule_query",
    "script",
    "script_score",
    "semantic",
    "shape",
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
];

/// Returns the names of supported and refused queries.
pub(crate) fn inventory() -> crate::inventory::Inventory {
    crate::inventory::Inventory {
        answered: QUERIES.iter().map(|(name, ..)| *name).collect(),
        refused: NOT_YET,
    }
}

/// Depth, clauses and fuzzy words counted while a request is parsed.
#[derive(Debug, Default)]
struct Budget {
    depth: usize,
    clauses: usize,
    fuzzy: usize,
}

impl Budget {
    /// Parses a query, one level deeper.
    fn parse(&mut self, value: &Value) -> Result<Query> {
        let Value::Object(object) = value else {
            return Err(Error::parsing("[_na] query malformed, must start with start_object"));
        };
        let mut entries = object.iter();
        let Some((name, body)) = entries.next() else {
            return Err(Error::illegal_argument("query malformed, empty clause found"));
        };
        let Some((_, place, parse)) = QUERIES.iter().find(|(known, ..)| known == name) else {
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
        let (query_name, body) = named::split(name, *place, body)?;
        let mut query = parse(&body, self)?;
        if let Some(name) = query_name {
            query = Query::Named(Named {
                name,
                query: Box::new(query),
            });
        }
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

    /// Counts fuzzy words once per field; all fields (`fields` = 0) count as one.
    fn take_fuzzy(&mut self, words: usize, fields: usize) -> Result<()> {
        self.fuzzy = self.fuzzy.saturating_add(words.saturating_mul(fields.max(1)));
        if self.fuzzy > FUZZY_MAX {
            return Err(Error::illegal_argument(format!(
                "Query contains too many fuzzy clauses; maxClauseCount is set to {FUZZY_MAX}"
            )));
        }
        Ok(())
    }
}

impl Query {
    /// Parses `{"term": {…}}`. Fails with [`firn_model::ErrorKind::Parsing`] or [`firn_model::ErrorKind::IllegalArgument`] in
    /// Elasticsearch's words, and with [`firn_model::ErrorKind::NotImplemented`] for what Elasticsearch supports and firn
    /// does not.
    pub fn parse(value: &Value) -> Result<Self> {
        Budget::default().parse(value)
    }

    /// Returns JSON that parses to this query.
    pub fn print(&self) -> Value {
        match self {
            Self::MatchAll(query) => query.print(),
            Self::MatchNone => params::print(match_all::NAME_NONE, serde_json::Map::new()),
            Self::Term(query) => query.print(),
            Self::Terms(query) => query.print(),
            Self::Range(query) => query.print(),
            Self::Exists(query) => query.print(),
            Self::Ids(query) => query.print(),
            Self::Match(query) => query.print(match_query::NAME),
            Self::MatchPhrase(query) => query.print(match_phrase::NAME),
            Self::MatchPhrasePrefix(query) => query.print(match_phrase_prefix::NAME),
            Self::MatchBoolPrefix(query) => query.print(match_bool_prefix::NAME),
            Self::MultiMatch(query) => query.print(),
            Self::Bool(query) => query.print(),
            Self::DisMax(query) => query.print(),
            Self::Boosting(query) => query.print(),
            Self::ConstantScore(query) => query.print(),
            Self::QueryString(query) => query.print(),
            Self::SimpleQueryString(query) => query.print(),
            Self::Kql(query) => query.print(),
            Self::Prefix(query) => query.print(prefix::NAME),
            Self::Wildcard(query) => query.print(wildcard::NAME),
            Self::Regexp(query) => query.print(),
            Self::Fuzzy(query) => query.print(),
            Self::Named(query) => query.print(),
        }
    }

    /// Returns the named queries with their names, in the order of the query.
    pub fn named(&self) -> Vec<(&str, &Query)> {
        let mut named = Vec::new();
        self.collect_named(&mut named);
        named
    }

    fn collect_named<'q>(&'q self, named: &mut Vec<(&'q str, &'q Query)>) {
        match self {
            Self::Named(query) => {
                named.push((&query.name, &query.query));
                query.query.collect_named(named);
            }
            Self::Bool(query) => {
                let clauses = query.must.iter().chain(&query.filter);
                for clause in clauses.chain(&query.should).chain(&query.must_not) {
                    clause.collect_named(named);
                }
            }
            Self::DisMax(query) => query.queries.iter().for_each(|query| query.collect_named(named)),
            Self::Boosting(query) => {
                query.positive.collect_named(named);
                query.negative.collect_named(named);
            }
            Self::ConstantScore(query) => query.filter.collect_named(named),
            _ => {}
        }
    }

    /// Returns every field path that the query reads, patterns as written, sorted; `*` for all.
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
            Self::Match(query)
            | Self::MatchPhrase(query)
            | Self::MatchPhrasePrefix(query)
            | Self::MatchBoolPrefix(query) => query.fields(fields),
            Self::MultiMatch(query) => query.fields(fields),
            Self::Bool(query) => query.fields(fields),
            Self::DisMax(query) => query.fields(fields),
            Self::Boosting(query) => query.fields(fields),
            Self::ConstantScore(query) => query.fields(fields),
            Self::QueryString(query) => query.fields(fields),
            Self::SimpleQueryString(query) => query.fields(fields),
            Self::Kql(query) => query.fields(fields),
            Self::Prefix(query) | Self::Wildcard(query) => query.fields(fields),
            Self::Regexp(query) => query.fields(fields),
            Self::Fuzzy(query) => query.fields(fields),
            Self::Named(named) => named.query.collect_fields(fields),
        }
    }
}

#[cfg(test)]
mod test_support;
#[cfg(test)]
pub(crate) mod tests;
