//! Mappings: the fields of an index and their types, as users see them.
//!
//! Follows Elasticsearch's mapping reference. A [`Mapping`] is parsed from and printed to the JSON of `PUT
//! /index/_mapping`; merging two mappings allows exactly the changes that Elasticsearch allows (new fields, new
//! multi-fields, `ignore_above` and the like; never another type).

mod dynamic;
mod field;
mod limits;
mod merge;
mod narrow;
mod parse;
mod parse_field;
mod print;
mod resolve;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use crate::dates::DateFormat;

pub use dynamic::{DynamicTemplate, MatchMappingType};
pub use field::{Analyzer, FieldMapping, FieldType};

/// Handling of a field that the mapping lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dynamic {
    /// The field is added to the mapping with a detected type.
    #[default]
    True,
    /// The field stays in `_source` only. `runtime` behaves like this too.
    False,
    /// The document is refused.
    Strict,
    /// As `False`, printed as `runtime`.
    Runtime,
}

/// Complete mapping. Immutable, and shared as an `Arc`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mapping {
    /// The root object; its `dynamic` is the mapping's.
    pub root: ObjectMapping,
    /// Tried in order for a new field. `None`: not set.
    pub dynamic_templates: Option<Vec<DynamicTemplate>>,
    /// Whether new strings that look like dates become dates. `None`: not set, true.
    pub date_detection: Option<bool>,
    /// Whether new strings that look like numbers become numbers. `None`: not set, false.
    pub numeric_detection: Option<bool>,
    /// Formats tried by date detection. `None`: not set, the default date format and
    /// `yyyy/MM/dd HH:mm:ss||yyyy/MM/dd||epoch_millis`.
    pub dynamic_date_formats: Option<Vec<Arc<DateFormat>>>,
    /// `_routing: {required: true}`.
    pub routing_required: bool,
    /// `_meta`, stored unchanged.
    pub meta: Option<Value>,
    /// `_data_stream_timestamp: {enabled: true}`.
    pub data_stream_timestamp: bool,
    /// `_source`, as written, only for printing; `enabled: false` is refused.
    pub source: Option<Value>,
    /// Parameters of the root that only another engine knows, as written ([`Mapping::parse_foreign`]).
    pub foreign: IndexMap<String, Value>,
}

/// Object with its fields.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ObjectMapping {
    /// `None`: inherited from the parent.
    pub dynamic: Option<Dynamic>,
    /// `enabled: false`: stored in `_source`; nothing below it is indexed.
    pub disabled: bool,
    /// Direct children by their last name.
    pub properties: IndexMap<String, Node>,
    /// Direct children that only another engine knows, as written, by their name ([`Mapping::parse_foreign`]). Searches
    /// see them as unmapped.
    pub foreign: IndexMap<String, Value>,
}

impl ObjectMapping {
    /// Whether the object has no fields.
    fn is_empty(&self) -> bool {
        self.properties.is_empty() && self.foreign.is_empty()
    }
}

/// Child of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// An object.
    Object(ObjectMapping),
    /// A leaf field. Shared, because segments, mappers and queries hold references to it.
    Field(Arc<FieldMapping>),
}

/// Meaning of a full path in a mapping.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolved<'a> {
    /// A leaf, with aliases already followed: the path under which it is stored, and its mapping. A multi-field is
    /// stored under its full path (`message.keyword`).
    Field(String, &'a Arc<FieldMapping>),
    /// A key inside a `flattened` field: the path of the field, its mapping, and the key below it.
    Flattened(String, &'a Arc<FieldMapping>, String),
    /// An object: queries on it are queries on its leaves (`exists`).
    Object(&'a ObjectMapping),
}
