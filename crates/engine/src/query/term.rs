//! `term`.

use serde_json::Value;

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
