//! What of the language is answered and what is refused by name, from the lists that the parsers read. The
//! compatibility page is made of it, so that it cannot say anything else than the code.

use crate::{aggs, query, search};

/// Names in the order of the parsers' lists.
#[derive(Debug, Clone)]
pub struct Inventory {
    /// These are answered.
    pub answered: Vec<&'static str>,
    /// Elasticsearch has these too; they are refused as not implemented.
    pub refused: &'static [&'static str],
}

/// Queries.
pub fn queries() -> Inventory {
    query::inventory()
}

/// Aggregations, pipelines among them.
pub fn aggregations() -> Inventory {
    aggs::inventory()
}

/// Keys of a search's body that are refused unless they ask for nothing.
pub fn refused_search_keys() -> &'static [&'static str] {
    search::refused_keys()
}
