//! `query_string`.

mod syntax;

pub use syntax::{Node, parse};

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
