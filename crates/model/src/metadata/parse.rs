//! Parsing of request bodies with aliases and templates.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{AliasMetadata, ComponentTemplate, IndexTemplate, TemplateContent};
use crate::lifecycle::Lifecycle;
use crate::mapping::Mapping;
use crate::settings::{IndexSettings, flatten};
use crate::{Error, ErrorKind, Result};

/// Maximum aliases of one body.
const ALIASES_MAX: usize = 10_000;

/// Reads a mapping; errors get Elasticsearch's prefix.
pub(super) fn parse_mapping(value: &Value) -> Result<Mapping> {
    Mapping::parse(value).map_err(|error| match error.kind() {
        ErrorKind::NotImplemented => error,
        _ => Error::new(
            ErrorKind::MapperParsing,
            format!("Failed to parse mapping: {}", error.reason()),
        )
        .caused_by(error),
    })
}

impl AliasMetadata {
    /// Reads the properties below the name of an alias: `filter`, `routing`, `index_routing`, `search_routing`,
    /// `is_write_index`, `is_hidden`. `null` is the empty alias.
    pub fn parse(name: &str, value: &Value) -> Result<Self> {
        let mut alias = Self::default();
        let map = match value {
            Value::Null => return Ok(alias),
            Value::Object(map) => map,
            other => {
                return Err(Error::parsing(format!(
                    "alias [{name}] must be an object, not [{other}]"
                )));
            }
        };
        for (key, value) in map {
            match key.as_str() {
                "filter" => match value {
                    Value::Null => {}
                    Value::Object(filter) => alias.filter = (!filter.is_empty()).then(|| value.clone()),
                    _ => {
                        return Err(Error::illegal_argument(format!(
                            "failed to parse filter for alias [{name}]"
                        )));
                    }
                },
                "routing" => {
                    let routing = text(name, key, value)?;
                    alias.index_routing.get_or_insert_with(|| routing.clone());
                    alias.search_routing.get_or_insert(routing);
                }
                "index_routing" | "indexRouting" | "index-routing" => {
                    alias.index_routing = Some(text(name, key, value)?);
                }
                "search_routing" | "searchRouting" | "search-routing" => {
                    alias.search_routing = Some(text(name, key, value)?);
                }
                "is_write_index" => alias.is_write_index = Some(flag(key, value)?),
                "is_hidden" => alias.is_hidden = Some(flag(key, value)?),
                other => {
                    return Err(Error::parsing(format!("Unknown field [{other}] in alias [{name}]")));
                }
            }
        }
        Ok(alias)
    }

    /// Reads `aliases` of a body.
    pub(super) fn parse_all(value: Option<&Value>) -> Result<BTreeMap<String, AliasMetadata>> {
        let map = match value {
            None | Some(Value::Null) => return Ok(BTreeMap::new()),
            Some(Value::Object(map)) => map,
            Some(other) => return Err(Error::parsing(format!("[aliases] must be an object, not [{other}]"))),
        };
        if map.len() > ALIASES_MAX {
            return Err(Error::illegal_argument(format!("more than {ALIASES_MAX} aliases")));
        }
        map.iter()
            .map(|(name, value)| Ok((name.clone(), Self::parse(name, value)?)))
            .collect()
    }
}

impl TemplateContent {
    /// Reads `template` of a body. Settings and mapping are each validated alone.
    pub fn parse(value: Option<&Value>) -> Result<Self> {
        let mut content = Self::default();
        let map = match value {
            None | Some(Value::Null) => return Ok(content),
            Some(Value::Object(map)) => map,
            Some(other) => return Err(Error::parsing(format!("[template] must be an object, not [{other}]"))),
        };
        for (key, value) in map {
            match key.as_str() {
                "settings" => {
                    content.settings = flatten(value, true)?;
                    IndexSettings::from_flat(content.settings.clone())?;
                }
                "mappings" => {
                    // Clients may send the mapping as a string of JSON.
                    let mapping = match value {
                        Value::Null => continue,
                        Value::String(text) => serde_json::from_str(text)?,
                        other => other.clone(),
                    };
                    content.mappings = Some(parse_mapping(&mapping)?.print());
                }
                "aliases" => {
                    content.aliases = AliasMetadata::parse_all(Some(value))?;
                    for alias in content.aliases.keys() {
                        crate::names::validate_alias_name(alias)?;
                    }
                }
                "lifecycle" => {
                    Lifecycle::parse(value)?;
                    content.lifecycle = (!value.is_null()).then(|| value.clone());
                }
                other => return Err(Error::parsing(format!("[template] unknown field [{other}]"))),
            }
        }
        Ok(content)
    }
}

impl ComponentTemplate {
    /// Reads the body of `PUT /_component_template/name`.
    pub fn parse(body: &Value) -> Result<Self> {
        let map = object("component_template", body)?;
        let mut template = Self::default();
        for (key, value) in map {
            match key.as_str() {
                "template" => template.template = TemplateContent::parse(Some(value))?,
                "version" => template.version = integer(key, value)?,
                "_meta" => template.meta = meta(value)?,
                // Only requests a warning.
                "deprecated" => {
                    flag(key, value)?;
                }
                other => return Err(Error::parsing(format!("[component_template] unknown field [{other}]"))),
            }
        }
        if !map.contains_key("template") {
            return Err(Error::parsing("Required [template]"));
        }
        Ok(template)
    }
}

impl IndexTemplate {
    /// Reads the body of `PUT /_index_template/name`.
    pub fn parse(body: &Value) -> Result<Self> {
        let map = object("index_template", body)?;
        let mut template = Self::default();
        for (key, value) in map {
            match key.as_str() {
                "index_patterns" => template.index_patterns = strings(key, value)?,
                "composed_of" => template.composed_of = strings(key, value)?,
                "ignore_missing_component_templates" => {
                    template.ignore_missing_component_templates = strings(key, value)?;
                }
                "priority" => {
                    let priority = integer(key, value)?.unwrap_or(0);
                    template.priority = u64::try_from(priority)
                        .map_err(|_| Error::illegal_argument("index template priority must be >= 0"))?;
                }
                "template" => template.template = TemplateContent::parse(Some(value))?,
                "data_stream" => template.data_stream = parse_data_stream(value)?,
                "allow_auto_create" => {
                    template.allow_auto_create = if value.is_null() { None } else { Some(flag(key, value)?) };
                }
                "version" => template.version = integer(key, value)?,
                "_meta" => template.meta = meta(value)?,
                "deprecated" => {
                    flag(key, value)?;
                }
                other => return Err(Error::parsing(format!("[index_template] unknown field [{other}]"))),
            }
        }
        Ok(template)
    }
}

fn parse_data_stream(value: &Value) -> Result<Option<Map<String, Value>>> {
    let map = match value {
        Value::Null => return Ok(None),
        value => object("data_stream", value)?,
    };
    for (key, value) in map {
        match key.as_str() {
            "hidden" | "allow_custom_routing" => {
                flag(key, value)?;
            }
            "timestamp_field" => {
                if value.get("name").and_then(Value::as_str) != Some("@timestamp") {
                    return Err(Error::not_implemented(
                        "[timestamp_field] of data streams other than [@timestamp]",
                    ));
                }
            }
            "index_mode" | "failure_store" => {
                return Err(Error::not_implemented(format!("[{key}] of data streams")));
            }
            other => {
                return Err(Error::parsing(format!(
                    "[data_stream_template] unknown field [{other}]"
                )));
            }
        }
    }
    Ok(Some(map.clone()))
}

pub(super) fn object<'a>(what: &str, value: &'a Value) -> Result<&'a Map<String, Value>> {
    value
        .as_object()
        .ok_or_else(|| Error::parsing(format!("[{what}] must be an object, not [{value}]")))
}

fn text(alias: &str, key: &str, value: &Value) -> Result<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(Error::parsing(format!(
            "[{key}] of alias [{alias}] must be a string, not [{other}]"
        ))),
    }
}

fn flag(key: &str, value: &Value) -> Result<bool> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        Value::String(text) if text == "true" => Ok(true),
        Value::String(text) if text == "false" => Ok(false),
        other => Err(Error::parsing(format!("[{key}] must be a boolean, not [{other}]"))),
    }
}

fn integer(key: &str, value: &Value) -> Result<Option<i64>> {
    let number = match value {
        Value::Null => return Ok(None),
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    };
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(Error::parsing(format!("[{key}] must be a whole number, not [{value}]"))),
    }
}

fn meta(value: &Value) -> Result<Option<Value>> {
    match value {
        Value::Null => Ok(None),
        Value::Object(_) => Ok(Some(value.clone())),
        other => Err(Error::parsing(format!("[_meta] must be an object, not [{other}]"))),
    }
}

fn strings(key: &str, value: &Value) -> Result<Vec<String>> {
    let list = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    list.iter()
        .map(|item| {
            let text = item.as_str().map(str::to_owned);
            text.ok_or_else(|| Error::parsing(format!("[{key}] must be strings, not [{item}]")))
        })
        .collect()
}
