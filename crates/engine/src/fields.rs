//! Which fields of which indices have values: what `_field_caps` asks beyond the mappings.

use std::collections::BTreeSet;

use crate::query::Query;
use crate::search::IndexTarget;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldsInUseRequest {
    /// Where.
    pub target: IndexTarget,
    /// Indices that cannot hold a match are left out.
    pub index_filter: Option<Query>,
}

/// One index that may hold a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldsInUse {
    /// Its name.
    pub index: String,
    /// Leaf fields of its mapping of which some document has a value; documents deleted lately
    /// count too.
    pub fields: BTreeSet<String>,
}
