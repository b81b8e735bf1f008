//! What all single metrics share: the field, and the partial result.

use serde_json::Value;

use super::ValueFormat;

/// `min`, `max`, `sum`, `avg`, `stats`, `value_count`.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Full path.
    pub field: String,
    /// Value of documents without the field.
    pub missing: Option<Value>,
    /// Format of `value_as_string`.
    pub format: Option<String>,
}

/// Partial result of the single metrics: enough for any of them.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricPartial {
    /// Values seen.
    pub count: u64,
    /// Their sum (Kahan compensated).
    pub sum: f64,
    /// The compensation.
    pub sum_compensation: f64,
    /// Infinity if none.
    pub min: f64,
    /// Minus infinity if none.
    pub max: f64,
    /// How values print.
    pub format: ValueFormat,
}
