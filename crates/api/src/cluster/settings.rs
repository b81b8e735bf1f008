//! `_cluster/settings`.

use std::sync::Arc;

use firn_engine::Error;
use firn_model::metadata::Command;
use firn_model::settings::SettingsMap;
use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::reply::Reply;
use crate::request::{Call, Edge};
use crate::settings::print;

/// `GET /_cluster/settings`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let flat = call.params.bool("flat_settings", false)?;
    let metadata = edge.metadata(&call).await?;
    let mut answer = json!({
        "persistent": print(&metadata.cluster_settings, flat),
        "transient": {},
    });
    if call.params.bool("include_defaults", false)? {
        let defaults: SettingsMap = edge
            .config
            .settings
            .iter()
            .filter(|(name, _)| !metadata.cluster_settings.contains_key(*name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        answer["defaults"] = print(&defaults, flat);
    }
    Ok(Reply::ok(&answer))
}

/// `PUT /_cluster/settings`.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let flat = call.params.bool("flat_settings", false)?;
    let mut persistent = Map::new();
    let Value::Object(body) = call.required_json()? else {
        return Err(Error::parsing("expected a JSON object as the body of [_cluster/settings]").into());
    };
    for (name, value) in body {
        match (name.as_str(), value) {
            ("persistent", Value::Object(settings)) => persistent = settings,
            ("transient", Value::Object(settings)) if settings.is_empty() => {}
            // They are deprecated since Elasticsearch 7.16.
            ("transient", _) => {
                return Err(Error::not_implemented("[transient] cluster settings (use [persistent])").into());
            }
            ("persistent", _) => return Err(Error::parsing("[persistent] must be an object").into()),
            (other, _) => {
                return Err(
                    Error::parsing(format!("[cluster_update_settings_request] unknown field [{other}]")).into(),
                );
            }
        }
    }
    if persistent.is_empty() {
        return Err(ApiError::validation(&["no settings to update".to_owned()]));
    }
    let asked = firn_model::settings::flatten(&Value::Object(persistent.clone()), false)?;
    let command = Command::PutClusterSettings {
        settings: Value::Object(persistent),
    };
    edge.engine.execute(&call.ctx, command).await?;
    // The answer shows what was set, without what was reset.
    let set: SettingsMap = asked.into_iter().filter(|(_, value)| !value.is_null()).collect();
    Ok(Reply::ok(&json!({
        "acknowledged": true,
        "persistent": print(&set, flat),
        "transient": {},
    })))
}
