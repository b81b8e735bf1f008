//! `constant_score`.

use super::Query;

/// A filter with a fixed score.
#[derive(Debug, Clone, PartialEq)]
pub struct ConstantScore {
    /// What must match.
    pub filter: Box<Query>,
    /// The score.
    pub boost: f32,
}
