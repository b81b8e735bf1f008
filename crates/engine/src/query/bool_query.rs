//! `bool`.

use super::Query;

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
