//! `_snapshot/{repository}`: snapshot repositories.

use std::sync::Arc;

use firn_engine::Error;
use firn_engine::snapshot::{AnalyzeRepository, PutRepository};
use firn_model::settings::{nest, parse_bytes_setting, to_strings};
use serde_json::{Map, Value, json};

use super::body::Fields;
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::split_list;
use crate::wire::reply::Reply;

pub(crate) const ANALYZE_PARAMS: &[&str] = &[
    "blob_count",
    "concurrency",
    "detailed",
    "early_read_node_count",
    "max_blob_size",
    "max_total_data_size",
    "rare_action_probability",
    "rarely_abort_writes",
    "read_node_count",
    "register_operation_count",
    "seed",
];

/// `GET /_snapshot` and `GET /_snapshot/{repository}`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let names = call.captured("repository").map(split_list).unwrap_or_default();
    let mut printed = Map::new();
    for repository in edge.engine.require_snapshots()?.repositories(&call.ctx, &names).await? {
        let mut one = json!({"type": repository.kind});
        if let Some(uuid) = repository.uuid {
            one["uuid"] = uuid.into();
        }
        one["settings"] = Value::Object(nest(&to_strings(&repository.settings)));
        printed.insert(repository.name, one);
    }
    Ok(Reply::ok(&Value::Object(printed)))
}

/// `PUT /_snapshot/{repository}`.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let Value::Object(body) = call.required_json()? else {
        return Err(Error::parsing("the body of a repository is not an object").into());
    };
    let mut body = Fields::new("a repository", body);
    let kind = body.text("type")?;
    let settings = body.object("settings")?;
    body.end()?;
    let request = PutRepository {
        name: call.capture("repository").to_owned(),
        kind: kind.ok_or_else(|| ApiError::validation(&["type is missing".to_owned()]))?,
        settings: Value::Object(settings.unwrap_or_default()),
        verify: call.params.bool("verify", true)?,
    };
    edge.engine
        .require_snapshots()?
        .put_repository(&call.ctx, request)
        .await?;
    Ok(Reply::acknowledged())
}

/// `DELETE /_snapshot/{repository}`.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let names = split_list(call.capture("repository"));
    edge.engine
        .require_snapshots()?
        .delete_repository(&call.ctx, &names)
        .await?;
    Ok(Reply::acknowledged())
}

/// `POST /_snapshot/{repository}/_verify`.
pub(crate) async fn verify(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    edge.engine
        .require_snapshots()?
        .verify_repository(&call.ctx, call.capture("repository"))
        .await?;
    let config = &edge.config;
    let nodes = json!({config.node_id.as_str(): {"name": config.node_name}});
    Ok(Reply::ok(&json!({"nodes": nodes})))
}

/// `POST /_snapshot/{repository}/_cleanup`.
pub(crate) async fn cleanup(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let outcome = edge
        .engine
        .require_snapshots()?
        .cleanup_repository(&call.ctx, call.capture("repository"))
        .await?;
    Ok(Reply::ok(&json!({
        "results": {"deleted_bytes": outcome.deleted_bytes, "deleted_blobs": outcome.deleted_objects},
    })))
}

/// `POST /_snapshot/{repository}/_analyze`. Parameters that concern several nodes or registers are refused.
pub(crate) async fn analyze(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let params = &call.params;
    for name in [
        "early_read_node_count",
        "rare_action_probability",
        "rarely_abort_writes",
        "read_node_count",
        "register_operation_count",
    ] {
        if params.get(name).is_some() {
            return Err(Error::not_implemented(format!("the parameter [{name}] of [_analyze]")).into());
        }
    }
    let bytes = |name: &str, default: &str| parse_bytes_setting(name, params.get(name).unwrap_or(default));
    let request = AnalyzeRepository {
        name: call.capture("repository").to_owned(),
        blob_count: params.number("blob_count")?.unwrap_or(100),
        concurrency: params.number("concurrency")?.unwrap_or(10),
        blob_bytes_max: bytes("max_blob_size", "10mb")?,
        total_bytes_max: bytes("max_total_data_size", "1gb")?,
        timeout_ms: params
            .duration("timeout")?
            .map_or(30_000, |timeout| timeout.as_millis() as u64),
        seed: params.number("seed")?.unwrap_or_else(|| edge.now_ms() as u64),
        detailed: params.bool("detailed", false)?,
    };
    let report = edge
        .engine
        .require_snapshots()?
        .analyze_repository(&call.ctx, request)
        .await?;
    Ok(Reply::ok(&Value::Object(report)))
}
