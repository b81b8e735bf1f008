//! `match_all` and `match_none`.

/// Every document, score 1.
#[derive(Debug, Clone, PartialEq)]
pub struct MatchAll {
    /// Multiplies the score (default 1).
    pub boost: f32,
}
