//! Conversion between nested and flat settings.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::kinds::plain;
use crate::{Error, Result};

/// Maximum settings of one request: far more than Elasticsearch has.
const SETTINGS_MAX: usize = 10_000;

/// Map from flat names (`index.number_of_shards`) to scalar values or lists, as typed (strings stay strings).
pub type SettingsMap = BTreeMap<String, Value>;

/// Flattens nested settings; with `prefix`, names without `index.` get that prefix. `null` is retained, because it
/// resets a setting in an update. Lists must contain only scalars.
pub fn flatten(settings: &Value, prefix: bool) -> Result<SettingsMap> {
    let mut flat = SettingsMap::new();
    match settings {
        Value::Null => return Ok(flat),
        Value::Object(map) => add(&mut flat, "", map)?,
        other => {
            return Err(Error::illegal_argument(format!(
                "malformed settings, expected an object but got [{other}]"
            )));
        }
    }
    if prefix {
        flat = flat
            .into_iter()
            .map(|(name, value)| {
                if name.starts_with("index.") || name == "*" {
                    (name, value)
                } else {
                    (format!("index.{name}"), value)
                }
            })
            .collect();
    }
    Ok(flat)
}

fn add(flat: &mut SettingsMap, path: &str, map: &Map<String, Value>) -> Result<()> {
    for (key, value) in map {
        let name = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        match value {
            Value::Object(inner) => add(flat, &name, inner)?,
            Value::Array(list) if list.iter().any(|item| item.is_array() || item.is_object()) => {
                return Err(Error::illegal_argument(format!(
                    "malformed settings, the list [{name}] may only hold plain values"
                )));
            }
            value => {
                if flat.len() == SETTINGS_MAX {
                    return Err(Error::illegal_argument(format!("more than {SETTINGS_MAX} settings")));
                }
                flat.insert(name, value.clone());
            }
        }
    }
    Ok(())
}

/// Returns every scalar as a string, as Elasticsearch prints settings. `null`s are omitted.
pub fn to_strings(settings: &SettingsMap) -> SettingsMap {
    settings
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| {
            let value = match value {
                Value::Array(list) => list.iter().map(|item| Value::String(plain(item))).collect(),
                other => Value::String(plain(other)),
            };
            (name.clone(), value)
        })
        .collect()
}

/// Nests flat settings; the inverse of [`flatten`]. If a name has a value and is also the prefix of another name, the
/// other name keeps its dots.
pub fn nest(settings: &SettingsMap) -> Map<String, Value> {
    let mut root = Map::new();
    for (name, value) in settings {
        put(&mut root, name, value);
    }
    root
}

fn put(map: &mut Map<String, Value>, name: &str, value: &Value) {
    if let Some((head, tail)) = name.split_once('.') {
        let child = map.entry(head).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(child) = child {
            put(child, tail, value);
            return;
        }
    }
    map.insert(name.to_owned(), value.clone());
}
