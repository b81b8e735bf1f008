//! `_settings`: index settings.

use std::sync::Arc;

use firn_engine::Error;
use firn_model::metadata::{Command, IndexMetadata};
use firn_model::names::{self, IndicesOptions};
use firn_model::settings::{IndexSettings, SettingsMap};
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::{all_indices, split_list};
use crate::wire::reply::Reply;

/// Internal form of version 8.17.0 in `index.version.created`.
pub(crate) const VERSION_CREATED: &str = "8521000";

/// `GET /_settings`, `GET /{index}/_settings` and both with `/{name}`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let target = call.target(IndicesOptions {
        expand_closed: true,
        ..all_indices()
    })?;
    let flat = call.params.bool("flat_settings", false)?;
    let defaults = call.params.bool("include_defaults", false)?;
    let patterns = call.captured("name").map(split_list).unwrap_or_default();
    let wanted = |name: &str| {
        patterns.is_empty()
            || patterns
                .iter()
                .any(|pattern| pattern == "_all" || names::matches_pattern(pattern, name))
    };
    let mut answer = Map::new();
    for index in edge.resolve(&target, &metadata)? {
        let mut shown = settings_of(index);
        shown.retain(|name, _| wanted(name));
        if shown.is_empty() && !patterns.is_empty() {
            continue;
        }
        let mut object = json!({"settings": print(&shown, flat)});
        if defaults {
            let mut rest = defaults_of(&index.settings);
            rest.retain(|name, _| wanted(name) && !shown.contains_key(name));
            object["defaults"] = print(&rest, flat);
        }
        answer.insert(index.name.clone(), object);
    }
    Ok(Reply::ok(&Value::Object(answer)))
}

/// `PUT /_settings` and `PUT /{index}/_settings`.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let Value::Object(mut body) = call.required_json()? else {
        return Err(Error::parsing("expected a JSON object as the body of [_settings]").into());
    };
    if call.params.bool("reopen", false)? {
        return Err(Error::not_implemented("the parameter [reopen] of [_settings]").into());
    }
    // Both `{"index": …}` and `{"settings": {"index": …}}` are accepted.
    if body.len() == 1
        && let Some(inner @ Value::Object(_)) = body.get_mut("settings")
    {
        let Value::Object(inner) = inner.take() else {
            return Err(Error::internal("an object is an object").into());
        };
        body = inner;
    }
    let metadata = edge.metadata(&call).await?;
    let target = call.target(IndicesOptions {
        expand_closed: true,
        ..IndicesOptions::default()
    })?;
    let command = Command::PutSettings {
        names: edge.resolve_names(&target, &metadata)?,
        settings: Value::Object(body),
        preserve_existing: call.params.bool("preserve_existing", false)?,
    };
    edge.engine.execute(&call.ctx, command).await?;
    Ok(Reply::acknowledged())
}

/// Returns the visible settings of an index: explicit settings, and those that every index has.
pub(crate) fn settings_of(index: &IndexMetadata) -> SettingsMap {
    let mut shown = index.settings.typed.clone();
    let mut add = |name: &str, value: String| {
        shown.entry(name.to_owned()).or_insert(Value::String(value));
    };
    add("index.number_of_shards", index.settings.number_of_shards.to_string());
    add(
        "index.number_of_replicas",
        index.settings.number_of_replicas.to_string(),
    );
    add("index.creation_date", index.created_ms.to_string());
    add("index.provided_name", index.name.clone());
    add("index.uuid", index.uuid.clone());
    add("index.version.created", VERSION_CREATED.to_owned());
    if index.closed {
        add("index.verified_before_close", "true".to_owned());
    }
    shown
}

/// Returns the defaults of settings that are not explicit.
pub(crate) fn defaults_of(settings: &IndexSettings) -> SettingsMap {
    let mut defaults = SettingsMap::new();
    let mut add = |name: &str, value: String| {
        defaults.insert(name.to_owned(), Value::String(value));
    };
    add(
        "index.refresh_interval",
        settings
            .refresh_interval_ms
            .map_or_else(|| "-1".to_owned(), |ms| format!("{ms}ms")),
    );
    add(
        "index.translog.durability",
        match settings.durability {
            firn_model::settings::Durability::Request => "REQUEST".to_owned(),
            firn_model::settings::Durability::Async => "ASYNC".to_owned(),
        },
    );
    add(
        "index.translog.sync_interval",
        format!("{}ms", settings.sync_interval_ms),
    );
    add(
        "index.translog.flush_threshold_size",
        format!("{}b", settings.flush_threshold_bytes),
    );
    add(
        "index.mapping.total_fields.limit",
        settings.total_fields_limit.to_string(),
    );
    add("index.mapping.depth.limit", settings.depth_limit.to_string());
    add("index.mapping.ignore_malformed", settings.ignore_malformed.to_string());
    add("index.mapping.coerce", settings.coerce.to_string());
    add("index.max_result_window", settings.max_result_window.to_string());
    add("index.hidden", settings.hidden.to_string());
    add("index.blocks.write", settings.write_blocked.to_string());
    add(
        "index.codec",
        if settings.best_compression {
            "best_compression".to_owned()
        } else {
            "default".to_owned()
        },
    );
    defaults.insert(
        "index.query.default_field".to_owned(),
        settings.query_default_fields.iter().map(String::as_str).collect(),
    );
    defaults
}

/// Prints settings flat, or nested at the dots. Scalars are strings, as in Elasticsearch.
pub(crate) fn print(settings: &SettingsMap, flat: bool) -> Value {
    let mut root = Map::new();
    for (name, value) in settings {
        let value = text(value);
        if flat {
            root.insert(name.clone(), value);
        } else {
            insert(&mut root, name, value);
        }
    }
    Value::Object(root)
}

fn text(value: &Value) -> Value {
    match value {
        Value::Number(_) | Value::Bool(_) => Value::String(value.to_string()),
        Value::Array(values) => values.iter().map(text).collect(),
        other => other.clone(),
    }
}

/// If a name is both a value and a parent, the rest of the name stays dotted.
fn insert(object: &mut Map<String, Value>, name: &str, value: Value) {
    match name.split_once('.') {
        Some((first, rest)) if !matches!(object.get(first), Some(existing) if !existing.is_object()) => {
            let child = object
                .entry(first.to_owned())
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(child) = child {
                insert(child, rest, value);
            }
        }
        None if !object.contains_key(name) => {
            object.insert(name.to_owned(), value);
        }
        _ => {
            object.insert(name.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_nested_and_flat() {
        let settings: SettingsMap = [("index.a.b", json!(1)), ("index.a.c", json!(["x"]))]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        assert_eq!(print(&settings, false), json!({"index": {"a": {"b": "1", "c": ["x"]}}}));
        assert_eq!(print(&settings, true), json!({"index.a.b": "1", "index.a.c": ["x"]}));
    }
}
