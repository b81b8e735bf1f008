//! `match`.

use serde_json::Value;

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
