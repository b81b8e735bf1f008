//! `match_phrase`.

use serde_json::Value;

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
