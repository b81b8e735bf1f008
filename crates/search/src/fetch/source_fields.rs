//! `fields` of hits: values from the source in the format of the mapping, always as lists.

use std::sync::Arc;

use firn_model::Result;
use firn_model::dates::{DateFormat, Zone};
use firn_model::mapping::{FieldMapping, FieldType, Mapping, Resolved};
use firn_model::names::matches_pattern;
use firn_query::search::FieldSpec;
use serde_json::{Map, Value};

use super::super::format;
use crate::compile::field::{read_number, scalar_text};

/// The requested fields.
pub(super) struct Fields(Vec<RequestedFields>);

struct RequestedFields {
    /// The name in the answer.
    name: String,
    /// The path of the values in the source: the parent's path for a multi-field.
    path: String,
    mapping: Arc<FieldMapping>,
    format: Option<DateFormat>,
}

impl Fields {
    pub(super) fn new(mapping: &Mapping, specs: &[FieldSpec]) -> Result<Self> {
        let mut requested = Vec::new();
        if specs.is_empty() {
            return Ok(Self(requested));
        }
        for (name, _) in mapping.leaves() {
            let Some(spec) = specs
                .iter()
                .find(|spec| spec.field == name || matches_pattern(&spec.field, &name))
            else {
                continue;
            };
            let Some(Resolved::Field(path, field)) = mapping.resolve(&name) else {
                continue;
            };
            let custom = spec.format.as_deref().filter(|format| *format != "use_field_mapping");
            requested.push(RequestedFields {
                path: source_path(mapping, path),
                name,
                mapping: Arc::clone(field),
                format: custom.map(DateFormat::new).transpose()?,
            });
        }
        Ok(Self(requested))
    }

    /// Returns the stored fields (`store: true`) among the named ones. Firn stores no second copy of them: their
    /// values are in the source.
    pub(super) fn stored(mapping: &Mapping, names: &[String]) -> Result<Self> {
        let specs: Vec<FieldSpec> = names
            .iter()
            .map(|name| FieldSpec {
                field: name.clone(),
                format: None,
            })
            .collect();
        let mut fields = Self::new(mapping, &specs)?;
        fields.0.retain(|requested| requested.mapping.store);
        Ok(fields)
    }

    /// Adds other fields.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the values of `source`.
    pub(super) fn read(&self, source: &Value, out: &mut Map<String, Value>) {
        for requested in &self.0 {
            let mut found = Vec::new();
            match &requested.mapping.constant {
                Some(constant) => found.push(Value::from(constant.as_str())),
                None => walk(source, &requested.path, &mut |value| {
                    found.extend(requested.print(value))
                }),
            }
            if !found.is_empty() {
                out.insert(requested.name.clone(), Value::Array(found));
            }
        }
    }
}

/// Returns the path of a field's values in the source: a multi-field has the values of its parent.
pub(crate) fn source_path(mapping: &Mapping, path: String) -> String {
    if let Some((parent, _)) = path.rsplit_once('.')
        && let Some(Resolved::Field(parent, _)) = mapping.resolve(parent)
    {
        return parent;
    }
    path
}

/// Calls `found` with each value at `path`, through arrays, objects and dotted names.
pub(crate) fn walk(value: &Value, path: &str, found: &mut dyn FnMut(&Value)) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| walk(value, path, found)),
        other if path.is_empty() => found(other),
        Value::Object(object) => {
            for (name, inner) in object {
                if name == path {
                    walk(inner, "", found);
                } else if let Some(rest) = path.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('.')) {
                    walk(inner, rest, found);
                }
            }
        }
        _ => {}
    }
}

impl RequestedFields {
    /// Formats the value by its type; `None` for null and for values that do not fit the type.
    fn print(&self, value: &Value) -> Option<Value> {
        let field = &self.mapping;
        match field.field_type {
            FieldType::Date | FieldType::DateNanos => {
                let default;
                let own = match &field.format {
                    Some(format) => format.as_ref(),
                    None => {
                        default = DateFormat::default_millis();
                        &default
                    }
                };
                let nanos = own.parse_nanos(&scalar_text(value)?).ok()?;
                let print = self.format.as_ref().unwrap_or(own);
                Some(Value::from(match field.field_type {
                    FieldType::Date => print.print_ms(i64::try_from(nanos.div_euclid(1_000_000)).ok()?, &Zone::utc()),
                    _ => print.print_nanos(i64::try_from(nanos).ok()?, &Zone::utc()),
                }))
            }
            FieldType::Boolean => match value {
                Value::Bool(flag) => Some(Value::from(*flag)),
                Value::String(text) if text == "true" => Some(Value::from(true)),
                Value::String(text) if text == "false" || text.is_empty() => Some(Value::from(false)),
                _ => None,
            },
            FieldType::Long
            | FieldType::Integer
            | FieldType::Short
            | FieldType::Byte
            | FieldType::UnsignedLong
            | FieldType::Double
            | FieldType::Float
            | FieldType::HalfFloat
            | FieldType::ScaledFloat => match value {
                Value::Number(_) => Some(value.clone()),
                Value::String(text) => read_number(text).map(format::number),
                _ => None,
            },
            FieldType::GeoPoint | FieldType::Flattened => (!value.is_null()).then(|| value.clone()),
            _ => scalar_text(value).map(Value::from),
        }
    }
}
