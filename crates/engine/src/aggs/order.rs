//! The order of buckets.

/// A key of `order`; the bool beside it says ascending.
#[derive(Debug, Clone, PartialEq)]
pub enum TermsOrder {
    /// `_count`.
    Count,
    /// `_key`.
    Key,
    /// A metric below, `name` or `name.value` / `name.max`.
    Sub(String),
}
