//! Leaf field of a mapping: its type and its parameters.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use crate::dates::DateFormat;

/// Type of a leaf field, by Elasticsearch's names.
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
    /// Stored in `_source`, not searchable.
    Binary,
    /// Second name of the field at `path`.
    Alias,
}

impl FieldType {
    /// All types, in the order of declaration.
    pub const ALL: [FieldType; 22] = [
        FieldType::Keyword,
        FieldType::Text,
        FieldType::MatchOnlyText,
        FieldType::Long,
        FieldType::Integer,
        FieldType::Short,
        FieldType::Byte,
        FieldType::UnsignedLong,
        FieldType::Double,
        FieldType::Float,
        FieldType::HalfFloat,
        FieldType::ScaledFloat,
        FieldType::Boolean,
        FieldType::Date,
        FieldType::DateNanos,
        FieldType::Ip,
        FieldType::Wildcard,
        FieldType::ConstantKeyword,
        FieldType::Flattened,
        FieldType::GeoPoint,
        FieldType::Binary,
        FieldType::Alias,
    ];

    /// Returns its name in a mapping (`scaled_float`).
    pub fn name(self) -> &'static str {
        match self {
            FieldType::Keyword => "keyword",
            FieldType::Text => "text",
            FieldType::MatchOnlyText => "match_only_text",
            FieldType::Long => "long",
            FieldType::Integer => "integer",
            FieldType::Short => "short",
            FieldType::Byte => "byte",
            FieldType::UnsignedLong => "unsigned_long",
            FieldType::Double => "double",
            FieldType::Float => "float",
            FieldType::HalfFloat => "half_float",
            FieldType::ScaledFloat => "scaled_float",
            FieldType::Boolean => "boolean",
            FieldType::Date => "date",
            FieldType::DateNanos => "date_nanos",
            FieldType::Ip => "ip",
            FieldType::Wildcard => "wildcard",
            FieldType::ConstantKeyword => "constant_keyword",
            FieldType::Flattened => "flattened",
            FieldType::GeoPoint => "geo_point",
            FieldType::Binary => "binary",
            FieldType::Alias => "alias",
        }
    }

    /// Returns the type with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field_type| field_type.name() == name)
    }

    /// Returns whether its values are numbers (dates and booleans are not).
    pub fn is_number(self) -> bool {
        matches!(
            self,
            FieldType::Long
                | FieldType::Integer
                | FieldType::Short
                | FieldType::Byte
                | FieldType::UnsignedLong
                | FieldType::Double
                | FieldType::Float
                | FieldType::HalfFloat
                | FieldType::ScaledFloat
        )
    }

    /// Returns whether it is `date` or `date_nanos`.
    pub fn is_date(self) -> bool {
        matches!(self, FieldType::Date | FieldType::DateNanos)
    }

    /// Returns whether it is `text` or `match_only_text`.
    pub fn is_text(self) -> bool {
        matches!(self, FieldType::Text | FieldType::MatchOnlyText)
    }
}

impl Analyzer {
    /// Returns its name in a mapping.
    pub fn name(self) -> &'static str {
        match self {
            Analyzer::Standard => "standard",
            Analyzer::Simple => "simple",
            Analyzer::Whitespace => "whitespace",
            Analyzer::Keyword => "keyword",
        }
    }

    /// Returns the analyzer with a name; `default` is the standard one.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "standard" | "default" => Some(Analyzer::Standard),
            "simple" => Some(Analyzer::Simple),
            "whitespace" => Some(Analyzer::Whitespace),
            "keyword" => Some(Analyzer::Keyword),
            _ => None,
        }
    }
}

impl FieldMapping {
    /// Creates a leaf of a type with Elasticsearch's defaults.
    pub fn of(field_type: FieldType) -> Self {
        Self {
            field_type,
            index: true,
            doc_values: !matches!(
                field_type,
                FieldType::Text | FieldType::MatchOnlyText | FieldType::Binary | FieldType::Alias
            ),
            store: false,
            ignore_above: None,
            null_value: None,
            copy_to: Vec::new(),
            ignore_malformed: None,
            coerce: true,
            analyzer: Analyzer::Standard,
            search_analyzer: None,
            lowercase: false,
            format: None,
            scaling_factor: 1.0,
            constant: None,
            path: None,
            fields: IndexMap::new(),
            other: IndexMap::new(),
        }
    }
}

/// Analyzer: turns text into terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Analyzer {
    /// Unicode word boundaries, lower case.
    #[default]
    Standard,
    /// Runs of letters, lower case.
    Simple,
    /// Runs without white space, unchanged.
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
    /// `store`, accepted and printed; firn reads `stored_fields` from `_source`.
    pub store: bool,
    /// Longer values (in characters) are only stored in `_source` and listed in `_ignored`.
    pub ignore_above: Option<u32>,
    /// Indexed in place of an explicit null.
    pub null_value: Option<Value>,
    /// Full paths of fields that also receive this field's values.
    pub copy_to: Vec<String>,
    /// Overrides `index.mapping.ignore_malformed` for this field.
    pub ignore_malformed: Option<bool>,
    /// Whether strings are converted to numbers and fractions are truncated (default true).
    pub coerce: bool,
    /// Text only.
    pub analyzer: Analyzer,
    /// Text only; `None`: the same as `analyzer`.
    pub search_analyzer: Option<Analyzer>,
    /// `normalizer: lowercase` of keyword fields (the only built-in normalizer).
    pub lowercase: bool,
    /// Dates only. `None`: `strict_date_optional_time||epoch_millis`.
    pub format: Option<Arc<DateFormat>>,
    /// `scaled_float` only: the factor by which values are multiplied before rounding.
    pub scaling_factor: f64,
    /// `constant_keyword` only: the value of every document, if already set.
    pub constant: Option<String>,
    /// `alias` only: full path of the target field.
    pub path: Option<String>,
    /// Multi-fields by name.
    pub fields: IndexMap<String, Arc<FieldMapping>>,
    /// Accepted parameters without effect here (`norms`, `index_options`, `meta`, …), and those of another engine that
    /// firn does not know ([`super::Mapping::parse_foreign`]); printed as written.
    pub other: IndexMap<String, Value>,
}
