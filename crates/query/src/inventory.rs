//! Inventory of the query language: what firn supports and what it refuses by name, from the lists that the parsers
//! read. The compatibility page is generated from it, so the page cannot contradict the code.

use crate::{aggs, query, search};

/// Names in the order of the parsers' lists.
#[derive(Debug, Clone)]
pub struct Inventory {
    /// Supported names.
    pub answered: Vec<&'static str>,
    /// Names that Elasticsearch has and firn refuses as not implemented.
    pub refused: &'static [&'static str],
}

/// Returns the inventory of queries.
pub fn queries() -> Inventory {
    query::inventory()
}

/// Returns the inventory of aggregations, pipeline aggregations included.
pub fn aggregations() -> Inventory {
    aggs::inventory()
}

/// Returns keys of a search body that are refused unless their value is trivial (null, false, empty).
pub fn refused_search_keys() -> &'static [&'static str] {
    search::refused_keys()
}
