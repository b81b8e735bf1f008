//! One leaf field: its type and its parameters.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use crate::dates::DateFormat;

/// The type of a leaf field, by Elasticsearch's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum FieldType {
    Keyword,
    Text,
    MatchOnlyText,
    Long,
    Integer,
    Short,
    Byte,
    UnsignedLong,
    Double,
    Float,
    HalfFloat,
    ScaledFloat,
    Boolean,
    Date,
    DateNanos,
    Ip,
    Wildcard,
    ConstantKeyword,
    Flattened,
    GeoPoint,
    /// Kept in `_source`, not searchable.
    Binary,
    /// Another name for the field at `path`.
    Alias,
}

/// How text becomes terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Analyzer {
    /// Unicode word boundaries, lower case.
    #[default]
    Standard,
    /// Runs of letters, lower case.
    Simple,
    /// Runs without white space, as they are.
    Whitespace,
    /// The whole value as one term.
    Keyword,
}

/// A leaf field of a mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldMapping {
    /// Its type.
    pub field_type: FieldType,
    /// `index` (default true).
    pub index: bool,
    /// `doc_values` (default true, false for text).
    pub doc_values: bool,
    /// `store`, accepted and printed; firn answers `stored_fields` from `_source`.
    pub store: bool,
    /// Longer values (in characters) are kept in `_source` only and listed in `_ignored`.
    pub ignore_above: Option<u32>,
    /// Indexed in place of an explicit null.
    pub null_value: Option<Value>,
    /// Full paths of fields that also get this field's values.
    pub copy_to: Vec<String>,
    /// Overrides `index.mapping.ignore_malformed` for this field.
    pub ignore_malformed: Option<bool>,
    /// Whether strings become numbers and fractions are cut (default true).
    pub coerce: bool,
    /// Text only.
    pub analyzer: Analyzer,
    /// Text only; `None`: the same as `analyzer`.
    pub search_analyzer: Option<Analyzer>,
    /// `normalizer: lowercase` of keyword fields (the only one built in).
    pub lowercase: bool,
    /// Dates only. `None`: `strict_date_optional_time||epoch_millis`.
    pub format: Option<Arc<DateFormat>>,
    /// `scaled_float` only: values are stored times this, rounded.
    pub scaling_factor: f64,
    /// `constant_keyword` only: the value of every document, once known.
    pub constant: Option<String>,
    /// `alias` only: the full path it stands for.
    pub path: Option<String>,
    /// Multi-fields by name.
    pub fields: IndexMap<String, Arc<FieldMapping>>,
    /// Accepted parameters without effect here (`norms`, `index_options`, `meta`, …), printed as written.
    pub other: IndexMap<String, Value>,
}
