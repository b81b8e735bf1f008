//! Returned parts of a hit: the part of a search body that `top_hits` and `inner_hits` share.

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::{FieldSpec, Highlight};
use crate::json::{as_bool, as_text, token};
use crate::source::SourceFilter;

/// Maximum entries of `fields` and of `docvalue_fields` (`index.max_docvalue_fields_search`, which is 100;
/// Elasticsearch has no limit for `fields`).
const FIELDS_MAX: usize = 1000;

/// Returned parts of a hit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HitShape {
    /// Returned part of `_source`.
    pub source: SourceFilter,
    /// `fields`: patterns and formats.
    pub fields: Vec<FieldSpec>,
    /// `docvalue_fields`.
    pub docvalue_fields: Vec<FieldSpec>,
    /// Fields of `stored_fields`, wildcards allowed; those with `store: true` are returned.
    pub stored_fields: Vec<String>,
    /// `stored_fields: _none_`: no `_id`, no `_source`.
    pub no_stored_fields: bool,
    /// `_version`.
    pub version: bool,
    /// `_seq_no` and `_primary_term`.
    pub seq_no_primary_term: bool,
    /// `include_named_queries_score`.
    pub named_query_scores: bool,
    /// `highlight`.
    pub highlight: Option<Highlight>,
}

/// Parser of a [`HitShape`], key by key; `_source` and `stored_fields` are combined at the end.
#[derive(Default)]
pub(crate) struct ShapeParser {
    shape: HitShape,
    source: Option<SourceFilter>,
    stored_fields: Option<StoredFields>,
}

impl ShapeParser {
    /// Applies `stored_fields` of a URL.
    pub(crate) fn stored(names: &[String], mut shape: HitShape) -> Result<HitShape> {
        let parser = Self {
            source: Some(std::mem::take(&mut shape.source)).filter(|source| *source != SourceFilter::All),
            stored_fields: Some(StoredFields::parse(&names.to_vec().into())?),
            shape,
        };
        parser.finish()
    }

    /// Parses one key of a body; returns false if the key does not belong to a shape.
    pub(crate) fn take(&mut self, key: &str, value: &Value) -> Result<bool> {
        let flag = || as_bool(value).ok_or_else(|| unknown(key, value));
        match key {
            "_source" => self.source = Some(SourceFilter::parse(value)?),
            "fields" => self.shape.fields = field_specs(key, value)?,
            "docvalue_fields" => self.shape.docvalue_fields = field_specs(key, value)?,
            "stored_fields" => self.stored_fields = Some(StoredFields::parse(value)?),
            "version" => self.shape.version = flag()?,
            "seq_no_primary_term" => self.shape.seq_no_primary_term = flag()?,
            "include_named_queries_score" => self.shape.named_query_scores = flag()?,
            "highlight" => self.shape.highlight = Highlight::parse(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the parsed shape. As in Elasticsearch, `stored_fields` turns `_source` off unless `_source` is
    /// requested.
    pub(crate) fn finish(mut self) -> Result<HitShape> {
        let requested = matches!(self.source, Some(SourceFilter::All | SourceFilter::Paths { .. }));
        self.shape.source = match (self.stored_fields, self.source) {
            (Some(StoredFields::Nothing), _) if requested => {
                return Err(Error::illegal_argument(
                    "[stored_fields] cannot be disabled if [_source] is requested",
                ));
            }
            (Some(StoredFields::Nothing), _) => {
                self.shape.no_stored_fields = true;
                SourceFilter::None
            }
            (Some(StoredFields::Named { source, fields }), requested) => {
                self.shape.stored_fields = fields;
                requested.unwrap_or(if source { SourceFilter::All } else { SourceFilter::None })
            }
            (None, requested) => requested.unwrap_or_default(),
        };
        Ok(self.shape)
    }
}

impl HitShape {
    /// Adds the `stored_fields` of a URL.
    pub fn with_stored_fields(self, names: &[String]) -> Result<Self> {
        ShapeParser::stored(names, self)
    }

    /// Inserts keys that parse to this shape.
    pub(crate) fn print_into(&self, body: &mut Map<String, Value>) {
        if !self.stored_fields.is_empty() {
            body.insert("stored_fields".into(), self.stored_fields.clone().into());
        }
        match &self.source {
            SourceFilter::All if self.stored_fields.is_empty() => {}
            SourceFilter::All => {
                body.insert("_source".into(), true.into());
            }
            SourceFilter::None if self.no_stored_fields => {
                body.insert("stored_fields".into(), "_none_".into());
            }
            SourceFilter::None => {
                body.insert("_source".into(), false.into());
            }
            SourceFilter::Paths { includes, excludes } => {
                body.insert("_source".into(), json!({"includes": includes, "excludes": excludes}));
            }
        }
        for (key, specs) in [("fields", &self.fields), ("docvalue_fields", &self.docvalue_fields)] {
            if !specs.is_empty() {
                body.insert(key.into(), specs.iter().map(FieldSpec::print).collect());
            }
        }
        for (key, flag) in [
            ("version", self.version),
            ("seq_no_primary_term", self.seq_no_primary_term),
            ("include_named_queries_score", self.named_query_scores),
        ] {
            if flag {
                body.insert(key.into(), true.into());
            }
        }
        if let Some(highlight) = &self.highlight {
            body.insert("highlight".into(), highlight.print());
        }
    }
}

impl FieldSpec {
    fn print(&self) -> Value {
        match &self.format {
            Some(format) => json!({"field": self.field, "format": format}),
            None => Value::from(self.field.as_str()),
        }
    }
}

/// Returns the error for an unknown key, or for the wrong type of its value.
pub(crate) fn unknown(key: &str, value: &Value) -> Error {
    Error::parsing(format!("Unknown key for a {} in [{key}].", token(value)))
}

/// Value of `stored_fields`.
enum StoredFields {
    /// `_none_`.
    Nothing,
    /// Field names, and whether `_source` is among them.
    Named { source: bool, fields: Vec<String> },
}

impl StoredFields {
    fn parse(value: &Value) -> Result<Self> {
        let names: Vec<&Value> = match value {
            Value::Array(names) => names.iter().collect(),
            name => vec![name],
        };
        let mut source = false;
        let mut fields = Vec::new();
        for name in &names {
            match name.as_str() {
                Some("_none_") if names.len() == 1 => return Ok(Self::Nothing),
                Some("_none_") => {
                    return Err(Error::parsing(
                        "cannot combine _none_ with other fields in [stored_fields]",
                    ));
                }
                Some("_source") => source = true,
                // Every hit has these fields anyway.
                Some("_id" | "_routing") => {}
                Some(name) => fields.push(name.to_owned()),
                None => {
                    return Err(Error::parsing(format!(
                        "Expected [VALUE_STRING] in [stored_fields] but found [{}]",
                        token(name)
                    )));
                }
            }
        }
        if fields.len() > FIELDS_MAX {
            return Err(Error::illegal_argument(format!(
                "[stored_fields] has [{}] fields, more than the allowed maximum of [{FIELDS_MAX}]",
                fields.len()
            )));
        }
        Ok(Self::Named { source, fields })
    }
}

/// Parses a list of patterns, or of `{"field": pattern, "format": format}`.
fn field_specs(key: &str, value: &Value) -> Result<Vec<FieldSpec>> {
    let Value::Array(values) = value else {
        return Err(unknown(key, value));
    };
    if values.len() > FIELDS_MAX {
        return Err(Error::illegal_argument(format!(
            "Trying to retrieve too many {key}. Must be less than or equal to: [{FIELDS_MAX}] but was [{}].",
            values.len()
        )));
    }
    values.iter().map(|value| field_spec(key, value)).collect()
}

fn field_spec(key: &str, value: &Value) -> Result<FieldSpec> {
    let wrong = |value: &Value| {
        Error::parsing(format!(
            "[{key}] expected a field name or an object but found [{}]",
            token(value)
        ))
    };
    let mut spec = FieldSpec {
        field: String::new(),
        format: None,
    };
    match value {
        Value::String(field) => spec.field.clone_from(field),
        Value::Object(options) => {
            for (option, value) in options {
                match option.as_str() {
                    "field" => spec.field = as_text(value).ok_or_else(|| wrong(value))?,
                    "format" if value.is_null() => {}
                    "format" => spec.format = Some(as_text(value).ok_or_else(|| wrong(value))?),
                    "include_unmapped" if as_bool(value) == Some(false) => {}
                    "include_unmapped" => {
                        return Err(Error::not_implemented(format!("option [include_unmapped] of [{key}]")));
                    }
                    _ => return Err(Error::parsing(format!("[{key}] unknown field [{option}]"))),
                }
            }
        }
        other => return Err(wrong(other)),
    }
    if spec.field.is_empty() {
        return Err(Error::illegal_argument(format!("[{key}] needs a [field]")));
    }
    Ok(spec)
}
