//! `_cluster/settings`.

use std::sync::Arc;

use firn_engine::Error;
use firn_model::metadata::{Command, check_cluster_settings};
use firn_model::settings::SettingsMap;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::settings::print;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// `GET /_cluster/settings`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let flat = call.params.bool("flat_settings", false)?;
    let metadata = edge.metadata(&call).await?;
    let mut answer = json!({
        "persistent": print(&metadata.cluster_settings, flat),
        "transient": print(&metadata.transient_settings, flat),
    });
    if call.params.bool("include_defaults", false)? {
        let defaults: SettingsMap = edge
            .config
            .settings
            .iter()
            .filter(|(name, _)| !metadata.cluster_settings.contains_key(*name))
            .filter(|(name, _)| !metadata.transient_settings.contains_key(*name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        answer["defaults"] = print(&defaults, flat);
    }
    Ok(Reply::ok(&answer))
}

/// `PUT /_cluster/settings`.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let flat = call.params.bool("flat_settings", false)?;
    let (mut persistent, mut transient) = (Map::new(), Map::new());
    let Value::Object(body) = call.required_json()? else {
        return Err(Error::parsing("expected a JSON object as the body of [_cluster/settings]").into());
    };
    for (name, value) in body {
        match (name.as_str(), value) {
            ("persistent", Value::Object(settings)) => persistent = settings,
            ("transient", Value::Object(settings)) => transient = settings,
            ("persistent" | "transient", _) => {
                return Err(Error::parsing(format!("[{name}] must be an object")).into());
            }
            (other, _) => {
                return Err(
                    Error::parsing(format!("[cluster_update_settings_request] unknown field [{other}]")).into(),
                );
            }
        }
    }
    if persistent.is_empty() && transient.is_empty() {
        return Err(ApiError::validation(&["no settings to update".to_owned()]));
    }
    let (persistent, transient) = (Value::Object(persistent), Value::Object(transient));
    let answer = json!({
        "acknowledged": true,
        "persistent": print(&without_resets(&persistent)?, flat),
        "transient": print(&without_resets(&transient)?, flat),
    });
    // Checked before the persistent ones are stored, so that both are stored or neither is.
    check_cluster_settings(&transient)?;
    for command in [
        Command::PutClusterSettings { settings: persistent },
        Command::PutTransientSettings { settings: transient },
    ] {
        edge.engine.execute(&call.ctx, command).await?;
    }
    Ok(Reply::ok(&answer))
}

/// Returns the settings of an answer: those that were set, without resets.
fn without_resets(settings: &Value) -> Result<SettingsMap, Error> {
    let flat = firn_model::settings::flatten(settings, false)?;
    Ok(flat.into_iter().filter(|(_, value)| !value.is_null()).collect())
}
