//! `cardinality`.

mod sketch;

use serde_json::Value;

pub use sketch::Sketch;

/// `cardinality`.
#[derive(Debug, Clone, PartialEq)]
pub struct Cardinality {
    /// Full path.
    pub field: String,
    /// Below this the count is nearly exact (default 3000, at most 40000).
    pub precision_threshold: u64,
    /// Value of documents without the field.
    pub missing: Option<Value>,
}
