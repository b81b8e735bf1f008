//! `range`.

use serde_json::Value;

/// Between two values; dates may use date math.
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    /// Full path.
    pub field: String,
    /// Lower bound and whether it is included.
    pub lower: Option<(Value, bool)>,
    /// Upper bound and whether it is included.
    pub upper: Option<(Value, bool)>,
    /// Format of date bounds, instead of the field's.
    pub format: Option<String>,
    /// Time zone of date bounds without one.
    pub time_zone: Option<String>,
    /// The score.
    pub boost: f32,
}
