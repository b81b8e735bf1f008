//! The query language: Elasticsearch's query DSL as typed values.
//!
//! One file per query with its parse, print and tests; [`Query::parse`] finds it by name. An
//! unknown query or parameter is an error that names it. `Query::parse(&q.print()) == q`.
//! Parsing is bounded: depth 100 (a const), 1024 × 16 clauses in all.

use serde_json::Value;

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

/// Every document, score 1.
#[derive(Debug, Clone, PartialEq)]
pub struct MatchAll {
    /// Multiplies the score (default 1).
    pub boost: f32,
}

/// An exact value.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Full path.
    pub field: String,
    /// String, number or boolean.
    pub value: Value,
    /// Multiplies the score.
    pub boost: f32,
    /// ASCII letters match in either case.
    pub case_insensitive: bool,
}

/// Any of several exact values; constant score.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// Full path.
    pub field: String,
    /// At most 65,536.
    pub values: Vec<Value>,
    /// The score.
    pub boost: f32,
}

/// Between two values; dates may use date math.
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    /// Full path.
    pub field: String,
    /// Lower bound and whether it is included.
    pub lower: Option<(Value, bool)>,
    /// Upper bound and whether it is included.
    pub upper: Option<(Value, bool)>,
    /// Format of date bounds, instead of the field's.
    pub format: Option<String>,
    /// Time zone of date bounds without one.
    pub time_zone: Option<String>,
    /// The score.
    pub boost: f32,
}

/// Has any indexed value for a field or for any field of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Exists {
    /// Full path, `*` allowed.
    pub field: String,
    /// The score.
    pub boost: f32,
}

/// Documents by id.
#[derive(Debug, Clone, PartialEq)]
pub struct Ids {
    /// The ids.
    pub values: Vec<String>,
    /// The score.
    pub boost: f32,
}

/// Full text: analyzed with the field's search analyzer, then its terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Match {
    /// Full path.
    pub field: String,
    /// The text, or a number or boolean for such fields.
    pub query: Value,
    /// All terms must match, not any.
    pub operator_and: bool,
    /// As written (`2`, `-1`, `75%`, `3<90%`).
    pub minimum_should_match: Option<String>,
    /// Values that do not fit the field match nothing instead of failing.
    pub lenient: bool,
    /// `zero_terms_query: all`: a text without terms matches everything.
    pub zero_terms_all: bool,
    /// Multiplies the score.
    pub boost: f32,
}

/// Full text: the terms one after another.
#[derive(Debug, Clone, PartialEq)]
pub struct MatchPhrase {
    /// Full path.
    pub field: String,
    /// The text.
    pub query: Value,
    /// Moves allowed between terms.
    pub slop: u32,
    /// `zero_terms_query: all`.
    pub zero_terms_all: bool,
    /// Multiplies the score.
    pub boost: f32,
}

/// Terms that start so.
#[derive(Debug, Clone, PartialEq)]
pub struct Prefix {
    /// Full path.
    pub field: String,
    /// The start.
    pub value: String,
    /// ASCII letters match in either case.
    pub case_insensitive: bool,
    /// The score.
    pub boost: f32,
}

/// Terms that match `*` (any run) and `?` (one character); `\` escapes.
#[derive(Debug, Clone, PartialEq)]
pub struct Wildcard {
    /// Full path.
    pub field: String,
    /// The pattern.
    pub value: String,
    /// ASCII letters match in either case.
    pub case_insensitive: bool,
    /// The score.
    pub boost: f32,
}

/// Combines queries.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bool {
    /// All must match; scored.
    pub must: Vec<Query>,
    /// All must match; not scored.
    pub filter: Vec<Query>,
    /// Scored; how many must match depends on `minimum_should_match` (default: one if there is
    /// neither `must` nor `filter`, else none).
    pub should: Vec<Query>,
    /// None may match.
    pub must_not: Vec<Query>,
    /// As written.
    pub minimum_should_match: Option<String>,
    /// Multiplies the score (1.0).
    pub boost: Boost,
}

/// A boost whose default is 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Boost(pub f32);

impl Default for Boost {
    fn default() -> Self {
        Self(1.0)
    }
}

/// A filter with a fixed score.
#[derive(Debug, Clone, PartialEq)]
pub struct ConstantScore {
    /// What must match.
    pub filter: Box<Query>,
    /// The score.
    pub boost: f32,
}

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
    pub parsed: query_string::Node,
}

pub mod query_string;

impl Query {
    /// Reads `{"term": {…}}`.
    pub fn parse(_value: &Value) -> crate::Result<Self> {
        todo!()
    }
    /// The JSON that parses to this.
    pub fn print(&self) -> Value {
        todo!()
    }
    /// Every field path it reads, patterns as written, sorted; `*` for all.
    pub fn fields(&self) -> Vec<String> {
        todo!()
    }
}
