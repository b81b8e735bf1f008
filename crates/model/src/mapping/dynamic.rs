//! Dynamic templates, and type detection for new fields.

use std::sync::{Arc, LazyLock};

use regex::Regex;
use serde_json::{Map, Value};

use super::parse::{Origin, parse_node, parse_strings, parsing, plain};
use super::{FieldMapping, FieldType, Node, ObjectMapping};
use crate::dates::DateFormat;
use crate::names::matches_pattern;
use crate::{Error, Result};

/// Maximum dynamic templates of one mapping: each new field is compared with all of them.
const TEMPLATES_MAX: usize = 1000;

/// Entry of `dynamic_templates`.
#[derive(Debug, Clone, PartialEq)]
pub struct DynamicTemplate {
    /// Its name.
    pub name: String,
    /// `match_mapping_type`; empty: any.
    pub match_mapping_type: Vec<MatchMappingType>,
    /// `unmatch_mapping_type`: excluded types.
    pub unmatch_mapping_type: Vec<MatchMappingType>,
    /// Patterns of the last name; empty: any.
    pub matches: Vec<String>,
    /// Excluded patterns of the last name.
    pub unmatch: Vec<String>,
    /// Patterns of the full path; empty: any.
    pub path_match: Vec<String>,
    /// Excluded patterns of the full path.
    pub path_unmatch: Vec<String>,
    /// `match_pattern: regex`: the patterns are regular expressions that match the whole name or path.
    pub regex: bool,
    /// Mapping of the field; `{name}` and `{dynamic_type}` are replaced in its strings.
    pub mapping: Value,
}

/// JSON type of a new field's first value.
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

/// Elasticsearch's `DYNAMIC_DATE_TIME_FORMATTERS`. The first is the default format of dates, so fields that match it
/// store no format.
static DATE_FORMATS: LazyLock<[Arc<DateFormat>; 2]> =
    LazyLock::new(|| [Arc::new(DateFormat::default_millis()), Arc::new(DateFormat::slashes())]);

impl super::Mapping {
    /// Returns the mapping of a new field at `path` whose first value has the type `detected`: from the first matching
    /// template, else Elasticsearch's defaults (strings: text with `.keyword`, doubles: `float`, objects: an object
    /// with its parent's `dynamic`). `None`: the matching template maps a leaf to an object, so there is nothing to
    /// add.
    ///
    /// For dates, [`super::Mapping::dynamic_string_field`] also returns the format.
    pub fn dynamic_field(&self, path: &str, detected: MatchMappingType) -> Result<Option<Node>> {
        self.dynamic_node(path, detected, None)
    }

    /// Combines [`super::Mapping::detect_string`] and [`super::Mapping::dynamic_field`]: a date field gets the format
    /// that matched `text`.
    pub fn dynamic_string_field(&self, path: &str, text: &str) -> Result<Option<Node>> {
        let (detected, format) = self.detect(text);
        let format = format.filter(|format| **format != DATE_FORMATS[0]);
        self.dynamic_node(path, detected, format)
    }

    fn dynamic_node(
        &self,
        path: &str,
        detected: MatchMappingType,
        format: Option<&Arc<DateFormat>>,
    ) -> Result<Option<Node>> {
        for template in self.dynamic_templates.iter().flatten() {
            if template.takes(path, detected)? {
                return template.node(path, detected, format);
            }
        }
        Ok(Some(match detected {
            MatchMappingType::Object => Node::Object(ObjectMapping::default()),
            MatchMappingType::Boolean => leaf(FieldMapping::of(FieldType::Boolean)),
            MatchMappingType::Long => leaf(FieldMapping::of(FieldType::Long)),
            MatchMappingType::Double => leaf(FieldMapping::of(FieldType::Float)),
            MatchMappingType::Date => leaf(FieldMapping {
                format: format.cloned(),
                ..FieldMapping::of(FieldType::Date)
            }),
            MatchMappingType::String | MatchMappingType::Any => Node::Field(Arc::clone(&TEXT_WITH_KEYWORD)),
        }))
    }

    /// Returns the type of a new string value: a date if date detection matches, else a string (a number with numeric
    /// detection). For most strings the first bytes decide.
    pub fn detect_string(&self, text: &str) -> MatchMappingType {
        self.detect(text).0
    }

    fn detect(&self, text: &str) -> (MatchMappingType, Option<&Arc<DateFormat>>) {
        let numeric_detection = self.numeric_detection.unwrap_or(false);
        if numeric_detection && text.parse::<i64>().is_ok() {
            return (MatchMappingType::Long, None);
        }
        if numeric_detection && is_double(text) {
            return (MatchMappingType::Double, None);
        }
        if !self.date_detection.unwrap_or(true) {
            return (MatchMappingType::String, None);
        }
        let formats = match &self.dynamic_date_formats {
            Some(formats) => formats.as_slice(),
            // Both built-in formats begin with four digits. Texts with a sign, or only digits of an epoch, are pure
            // numbers, which are never dates here.
            None if !text.as_bytes().first().is_some_and(u8::is_ascii_digit) => &[],
            None => DATE_FORMATS.as_slice(),
        };
        // A pure number is too often a false match of `yyyy` or `epoch_millis`.
        if formats.is_empty() || is_double(text) {
            return (MatchMappingType::String, None);
        }
        match formats.iter().find(|format| format.matches(text)) {
            Some(format) => (MatchMappingType::Date, Some(format)),
            None => (MatchMappingType::String, None),
        }
    }
}

static TEXT_WITH_KEYWORD: LazyLock<Arc<FieldMapping>> = LazyLock::new(|| {
    let keyword = FieldMapping {
        ignore_above: Some(256),
        ..FieldMapping::of(FieldType::Keyword)
    };
    let mut text = FieldMapping::of(FieldType::Text);
    text.fields.insert("keyword".to_owned(), Arc::new(keyword));
    Arc::new(text)
});

fn leaf(field: FieldMapping) -> Node {
    Node::Field(Arc::new(field))
}

/// Whether Java's `Double.parseDouble` accepts the text, except for its hexadecimal form.
fn is_double(text: &str) -> bool {
    let text = text.trim();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned.as_bytes().first() {
        Some(b'0'..=b'9' | b'.') => {
            let number = unsigned.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(unsigned);
            number.parse::<f64>().is_ok()
        }
        _ => matches!(unsigned, "NaN" | "Infinity"),
    }
}

impl MatchMappingType {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "boolean" => Self::Boolean,
            "long" => Self::Long,
            "double" => Self::Double,
            "string" => Self::String,
            "date" => Self::Date,
            "object" => Self::Object,
            "*" => Self::Any,
            _ => return None,
        })
    }

    /// Returns Elasticsearch's default type for such a value; `{dynamic_type}`.
    fn dynamic_type(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Long => "long",
            Self::Double => "float",
            Self::String | Self::Any => "text",
            Self::Date => "date",
            Self::Object => "object",
        }
    }
}

impl DynamicTemplate {
    /// Reads the list of `dynamic_templates`.
    pub(super) fn parse_all(value: &Value) -> Result<Vec<Self>> {
        let list = value.as_array().ok_or_else(|| {
            parsing("Dynamic template syntax error. An array of named objects is expected.".to_owned())
        })?;
        if list.len() > TEMPLATES_MAX {
            return Err(parsing(format!(
                "a mapping takes at most {TEMPLATES_MAX} dynamic templates"
            )));
        }
        let mut templates: Vec<Self> = Vec::with_capacity(list.len());
        for entry in list {
            let entry = entry.as_object().filter(|entry| entry.len() == 1);
            let Some((name, body)) = entry.and_then(|entry| entry.iter().next()) else {
                return Err(parsing("A dynamic template must be defined with a name".to_owned()));
            };
            let template = Self::parse(name, body)?;
            match templates.iter_mut().find(|existing| existing.name == *name) {
                Some(existing) => *existing = template,
                None => templates.push(template),
            }
        }
        Ok(templates)
    }

    fn parse(name: &str, body: &Value) -> Result<Self> {
        let body = body
            .as_object()
            .ok_or_else(|| parsing(format!("dynamic template [{name}] must be an object")))?;
        let mut template = Self {
            name: name.to_owned(),
            match_mapping_type: Vec::new(),
            unmatch_mapping_type: Vec::new(),
            matches: Vec::new(),
            unmatch: Vec::new(),
            path_match: Vec::new(),
            path_unmatch: Vec::new(),
            regex: false,
            mapping: Value::Null,
        };
        for (key, value) in body {
            match key.as_str() {
                "match" => template.matches = parse_strings(key, value)?,
                "unmatch" => template.unmatch = parse_strings(key, value)?,
                "path_match" => template.path_match = parse_strings(key, value)?,
                "path_unmatch" => template.path_unmatch = parse_strings(key, value)?,
                "match_mapping_type" => template.match_mapping_type = parse_types(name, value)?,
                "unmatch_mapping_type" => template.unmatch_mapping_type = parse_types(name, value)?,
                "match_pattern" => match value.as_str() {
                    Some("regex") => template.regex = true,
                    Some("simple") => template.regex = false,
                    _ => {
                        return Err(parsing(format!("No matching pattern matched on [{}]", plain(value))));
                    }
                },
                "mapping" => template.mapping = value.clone(),
                "runtime" => {
                    return Err(Error::not_implemented(format!(
                        "[runtime] of dynamic template [{name}]"
                    )));
                }
                other => {
                    return Err(parsing(format!("Illegal dynamic template parameter: [{other}]")));
                }
            }
        }
        template.check()?;
        Ok(template)
    }

    fn check(&self) -> Result<()> {
        let name = &self.name;
        if !self.mapping.is_object() {
            return Err(parsing(format!(
                "template [{name}] must have either mapping or runtime set"
            )));
        }
        let unconditional = self.matches.is_empty() && self.path_match.is_empty() && self.match_mapping_type.is_empty();
        if unconditional && self.unmatch_mapping_type.is_empty() {
            return Err(parsing(format!(
                "template must have match, path_match or match_mapping_type set {{\"{name}\": …}}"
            )));
        }
        if self.regex {
            for pattern in [&self.matches, &self.unmatch, &self.path_match, &self.path_unmatch]
                .into_iter()
                .flatten()
            {
                whole(pattern)?;
            }
        }
        // The mapping must be valid for at least one of the types that the template matches.
        let candidates = [
            MatchMappingType::String,
            MatchMappingType::Long,
            MatchMappingType::Double,
            MatchMappingType::Boolean,
            MatchMappingType::Date,
            MatchMappingType::Object,
        ];
        let mut failure = None;
        for detected in candidates.into_iter().filter(|detected| self.lists(*detected)) {
            match self.node("__dynamic__", detected, None) {
                Ok(_) => return Ok(()),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match failure {
            Some(error) if error.kind() == crate::ErrorKind::NotImplemented => Err(error),
            Some(error) => Err(parsing(format!(
                "dynamic template [{name}] has invalid content, attempted to validate it with the following \
                 match_mapping_type: {}: {}",
                plain(&Value::from(
                    self.match_mapping_type
                        .iter()
                        .map(|kind| kind.name())
                        .collect::<Vec<_>>()
                )),
                error.reason()
            ))
            .caused_by(error)),
            None => Ok(()),
        }
    }

    fn lists(&self, detected: MatchMappingType) -> bool {
        let listed = self.match_mapping_type.is_empty()
            || self
                .match_mapping_type
                .iter()
                .any(|kind| *kind == detected || *kind == MatchMappingType::Any);
        listed && !self.unmatch_mapping_type.contains(&detected)
    }

    /// Whether the template applies to a new field at `path`. Unlike in Elasticsearch, a template that does not name
    /// `object` and whose mapping creates a leaf does not match objects: in Elasticsearch it fails the event.
    fn takes(&self, path: &str, detected: MatchMappingType) -> Result<bool> {
        if !self.lists(detected) {
            return Ok(false);
        }
        if detected == MatchMappingType::Object && !self.match_mapping_type.contains(&MatchMappingType::Object) {
            let makes = self.mapping.get("type").and_then(Value::as_str);
            if !matches!(makes, Some("object" | "flattened" | "geo_point" | "{dynamic_type}")) {
                return Ok(false);
            }
        }
        let name = path.rsplit('.').next().unwrap_or(path);
        let any = |patterns: &[String], text: &str| -> Result<bool> {
            for pattern in patterns {
                let hit = if self.regex {
                    whole(pattern)?.is_match(text)
                } else {
                    matches_pattern(pattern, text)
                };
                if hit {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        Ok((self.matches.is_empty() || any(&self.matches, name)?)
            && (self.path_match.is_empty() || any(&self.path_match, path)?)
            && !any(&self.unmatch, name)?
            && !any(&self.path_unmatch, path)?)
    }

    /// Creates the node of a field at `path`.
    fn node(&self, path: &str, detected: MatchMappingType, format: Option<&Arc<DateFormat>>) -> Result<Option<Node>> {
        let name = path.rsplit('.').next().unwrap_or(path);
        let dynamic_type = detected.dynamic_type();
        let Value::Object(mut body) = fill(&self.mapping, name, dynamic_type) else {
            return Ok(None);
        };
        if !body.contains_key("type") && !body.contains_key("properties") {
            body.insert("type".to_owned(), dynamic_type.into());
        }
        if body.get("type").and_then(Value::as_str) == Some("string") {
            body.insert("type".to_owned(), "text".into());
        }
        match parse_node(path, &Value::Object(body), 0, Origin::Own)? {
            Node::Object(_) if detected != MatchMappingType::Object => Ok(None),
            Node::Field(field) if field.field_type == FieldType::Date && field.format.is_none() && format.is_some() => {
                Ok(Some(leaf(FieldMapping {
                    format: format.cloned(),
                    ..FieldMapping::clone(&field)
                })))
            }
            node => Ok(Some(node)),
        }
    }
}

fn parse_types(template: &str, value: &Value) -> Result<Vec<MatchMappingType>> {
    parse_strings("match_mapping_type", value)?
        .iter()
        .map(|name| {
            MatchMappingType::from_name(name).ok_or_else(|| {
                parsing(format!(
                    "No field type matched on [{name}], possible values are [object, string, long, double, boolean, \
                     date, binary] in dynamic template [{template}]"
                ))
            })
        })
        .collect()
}

/// Compiles a regular expression that must match the whole text, like Java's `String.matches`.
fn whole(pattern: &str) -> Result<Regex> {
    regex::RegexBuilder::new(&format!("^(?:{pattern})$"))
        .size_limit(1 << 20)
        .build()
        .map_err(|error| parsing(format!("Pattern [{pattern}] of type [regex] is invalid: {error}")))
}

/// Replaces the placeholders in names and strings.
fn fill(value: &Value, name: &str, dynamic_type: &str) -> Value {
    let replace = |text: &str| text.replace("{name}", name).replace("{dynamic_type}", dynamic_type);
    match value {
        Value::String(text) => Value::String(replace(text)),
        Value::Array(list) => list.iter().map(|item| fill(item, name, dynamic_type)).collect(),
        Value::Object(map) => {
            let filled: Map<String, Value> = map
                .iter()
                .map(|(key, item)| (replace(key), fill(item, name, dynamic_type)))
                .collect();
            Value::Object(filled)
        }
        other => other.clone(),
    }
}
