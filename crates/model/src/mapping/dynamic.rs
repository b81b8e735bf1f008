//! Dynamic templates, and the type a new field gets.

use serde_json::Value;

/// One entry of `dynamic_templates`.
#[derive(Debug, Clone, PartialEq)]
pub struct DynamicTemplate {
    /// Its name.
    pub name: String,
    /// `match_mapping_type`; empty: any.
    pub match_mapping_type: Vec<MatchMappingType>,
    /// Patterns of the last name; empty: any.
    pub matches: Vec<String>,
    /// Patterns of names it does not take.
    pub unmatch: Vec<String>,
    /// Patterns of the full path; empty: any.
    pub path_match: Vec<String>,
    /// Patterns of paths it does not take.
    pub path_unmatch: Vec<String>,
    /// `match_pattern: regex`: `matches` and `unmatch` are regular expressions.
    pub regex: bool,
    /// The field's mapping; `{name}` and `{dynamic_type}` are replaced in its strings.
    pub mapping: Value,
}

/// The JSON type of a new field's first value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MatchMappingType {
    Boolean,
    Long,
    Double,
    String,
    Date,
    Object,
    /// `*` in a template.
    Any,
}

impl super::Mapping {
    /// The mapping of a new field at `path` whose first value detected as `detected`: by the first
    /// matching template, else Elasticsearch's defaults (strings: text with `.keyword`).
    /// `None`: the template says it is an object, or `match_mapping_type` maps it to nothing.
    pub fn dynamic_field(&self, _path: &str, _detected: MatchMappingType) -> crate::Result<Option<super::Node>> {
        todo!()
    }
    /// What a new string value is: a date if date detection says so, else a string (numbers with
    /// numeric detection).
    pub fn detect_string(&self, _text: &str) -> MatchMappingType {
        todo!()
    }
}
