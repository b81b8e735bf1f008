//! `terms`.

use serde_json::Value;

/// Any of several exact values; constant score.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// Full path.
    pub field: String,
    /// At most 65,536.
    pub values: Vec<Value>,
    /// The score.
    pub boost: f32,
}
