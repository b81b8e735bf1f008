//! `exists`.

/// Has any indexed value for a field or for any field of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Exists {
    /// Full path, `*` allowed.
    pub field: String,
    /// The score.
    pub boost: f32,
}
