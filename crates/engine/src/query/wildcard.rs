//! `wildcard`.

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
