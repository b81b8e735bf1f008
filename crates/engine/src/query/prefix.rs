//! `prefix`.

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
