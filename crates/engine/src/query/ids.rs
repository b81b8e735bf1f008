//! `ids`.

/// Documents by id.
#[derive(Debug, Clone, PartialEq)]
pub struct Ids {
    /// The ids.
    pub values: Vec<String>,
    /// The score.
    pub boost: f32,
}
