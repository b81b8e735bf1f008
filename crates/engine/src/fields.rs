//! Fields that have values, by index: what `_field_caps` needs beyond the mappings.

use std::collections::BTreeSet;

use firn_query::query::Query;
use firn_query::search::IndexTarget;

/// Request for the fields that have values.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldsInUseRequest {
    /// Target indices.
    pub target: IndexTarget,
    /// If set, indices that cannot hold a match are left out.
    pub index_filter: Option<Query>,
}

/// One index that may hold a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldsInUse {
    /// Index name.
    pub index: String,
    /// Leaf fields of its mapping that have a value in some document; recently deleted documents count too.
    pub fields: BTreeSet<String>,
}
