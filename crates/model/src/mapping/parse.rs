//! A mapping from its JSON, and paths into it.

use serde_json::Value;

impl super::Mapping {
    /// Reads the value of `mappings`. Unknown parameters and types are refused by name.
    pub fn parse(_mappings: &Value) -> crate::Result<Self> {
        todo!()
    }
    /// What a full path means, aliases followed. `None`: unmapped.
    pub fn resolve(&self, _path: &str) -> Option<super::Resolved<'_>> {
        todo!()
    }
    /// All leaf fields with their full paths, multi-fields and aliases included, sorted.
    pub fn leaves(&self) -> Vec<(String, std::sync::Arc<super::FieldMapping>)> {
        todo!()
    }
    /// How many fields count towards `index.mapping.total_fields.limit` (objects, leaves, multi-fields, aliases).
    pub fn total_fields(&self) -> usize {
        todo!()
    }
}

impl super::FieldMapping {
    /// A leaf of a type with Elasticsearch's defaults.
    pub fn of(_field_type: super::FieldType) -> Self {
        todo!()
    }
}
