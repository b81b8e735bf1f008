//! `GET /` and other endpoints by which clients identify the server.

use std::sync::Arc;

use serde_json::json;

use crate::endpoints::call::Call;
use crate::state::config::Security;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// `GET /`. The number is the Elasticsearch version whose behaviour firn follows; `firn` beside it is the version of
/// firn.
pub(crate) async fn info(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let config = &edge.config;
    Ok(Reply::ok(&json!({
        "name": config.node_name,
        "cluster_name": config.cluster_name,
        "cluster_uuid": metadata.cluster_uuid,
        "version": {
            "number": config.version.number,
            "build_flavor": "default",
            "build_type": "tar",
            "build_hash": config.version.build_hash,
            "build_date": config.version.build_date,
            "build_snapshot": false,
            "lucene_version": config.version.lucene_version,
            "minimum_wire_compatibility_version": "7.17.0",
            "minimum_index_compatibility_version": "7.0.0",
            "firn": config.version.firn,
        },
        "tagline": "You Know, for Search",
    })))
}

/// `GET /_license`: firn has no licence levels; clients that check one see the basic level.
pub(crate) async fn license(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    call.params.flag("accept_enterprise")?;
    Ok(Reply::ok(&json!({
        "license": {
            "status": "active",
            "uid": metadata.cluster_uuid,
            "type": "basic",
            "issue_date_in_millis": edge.config.started_ms,
            "max_nodes": 1000,
            "issued_to": edge.config.cluster_name,
            "issuer": "firn",
            "start_date_in_millis": -1,
        }
    })))
}

/// `GET /_xpack`. Shippers use it to check for lifecycle policies.
pub(crate) async fn xpack(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let features: serde_json::Map<String, serde_json::Value> = [
        "ilm",
        "ml",
        "monitoring",
        "security",
        "slm",
        "sql",
        "transform",
        "watcher",
    ]
    .into_iter()
    .map(|name| {
        let (available, enabled) = match name {
            "ilm" | "slm" => (true, true),
            "security" => (true, matches!(edge.config.security, Security::On(_))),
            _ => (false, false),
        };
        (name.to_owned(), json!({"available": available, "enabled": enabled}))
    })
    .collect();
    Ok(Reply::ok(&json!({
        "build": {"hash": edge.config.version.build_hash, "date": edge.config.version.build_date},
        "license": {"uid": metadata.cluster_uuid, "type": "basic", "mode": "basic", "status": "active"},
        "features": features,
        "tagline": "You know, for X",
    })))
}
