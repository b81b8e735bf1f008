//! `_firn/quarantine`: quarantined folders, which look like indices and are not in the catalog.

use std::sync::Arc;

use firn_engine::quarantine::QuarantinedFolder;
use firn_engine::{Error, RequestContext};
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// `GET /_firn/quarantine`.
pub(crate) async fn list(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let folders = edge.engine.require_quarantine()?.quarantined_folders(&call.ctx).await?;
    let folders: Vec<Value> = folders.iter().map(print).collect();
    Ok(Reply::ok(&json!({"folders": folders})))
}

/// `POST /_firn/quarantine/{id}/_adopt`; the body may name the index: `{"index": "NAME"}`.
pub(crate) async fn adopt(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mut rename = None;
    for (name, value) in call.object()? {
        match (name.as_str(), value) {
            ("index", Value::String(index)) => rename = Some(index),
            ("index", _) => return Err(Error::illegal_argument("[index] is not a string").into()),
            _ => return Err(Error::illegal_argument(format!("unknown field [{name}]")).into()),
        }
    }
    let id = call.capture("id").to_owned();
    let quarantine = edge.engine.require_quarantine()?;
    let index = quarantine.adopt_quarantined(&call.ctx, &id, rename).await?;
    Ok(Reply::ok(&json!({"acknowledged": true, "index": index})))
}

/// `DELETE /_firn/quarantine/{id}`.
pub(crate) async fn remove(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let quarantine = edge.engine.require_quarantine()?;
    quarantine.remove_quarantined(&call.ctx, call.capture("id")).await?;
    Ok(Reply::acknowledged())
}

/// Returns why the cluster is not green although all shards serve; `None`: the quarantine is empty, the engine has
/// none, or the caller is no operator.
pub(crate) fn health_reason(edge: &Edge, ctx: &RequestContext) -> Option<String> {
    match edge.engine.quarantine()?.quarantined_count(ctx) {
        0 => None,
        1 => Some("1 folder is in quarantine: see GET /_firn/quarantine".to_owned()),
        count => Some(format!("{count} folders are in quarantine: see GET /_firn/quarantine")),
    }
}

fn print(folder: &QuarantinedFolder) -> Value {
    json!({
        "id": folder.id,
        "tier": folder.tier,
        "path": folder.path,
        "found_in_millis": folder.found_ms,
        "reason": folder.reason,
        "index": folder.index,
        "cluster_uuid": folder.cluster_uuid,
        "size_in_bytes": folder.size_bytes,
    })
}
