//! `_cluster/state`: metadata part, for tools that read it.

use std::sync::Arc;

use firn_engine::Error;
use firn_model::names::IndicesOptions;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::indices::state_of;
use crate::endpoints::stats::wanted_metrics;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::all_indices;
use crate::wire::reply::Reply;

const METRICS: &[&str] = &["blocks", "master_node", "metadata", "nodes", "version"];

/// `GET /_cluster/state[/{metric}[/{index}]]`.
pub(crate) async fn state(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    if let Some(metric) = call.captured("metric")
        && metric
            .split(',')
            .any(|name| matches!(name, "routing_table" | "routing_nodes" | "customs"))
    {
        return Err(Error::not_implemented(format!("the metric [{metric}] of [_cluster/state]")).into());
    }
    let metrics = wanted_metrics(&call.path, call.captured("metric"), METRICS)?;
    let wants = |name: &str| {
        metrics
            .as_ref()
            .is_none_or(|metrics| metrics.iter().any(|metric| metric == name))
    };
    let flat = call.params.bool("flat_settings", false)?;
    let metadata = edge.metadata(&call).await?;
    let node_id = &edge.config.node_id;
    let mut answer = json!({
        "cluster_name": edge.config.cluster_name,
        "cluster_uuid": metadata.cluster_uuid,
    });
    if wants("version") {
        answer["version"] = metadata.version.into();
    }
    if wants("master_node") {
        answer["master_node"] = node_id.as_str().into();
    }
    if wants("blocks") {
        answer["blocks"] = json!({});
    }
    if wants("nodes") {
        answer["nodes"] = json!({
            node_id: {
                "name": edge.config.node_name,
                "transport_address": edge.config.http_address,
                "attributes": edge.config.attributes,
                "roles": edge.config.roles,
                "version": edge.config.version.number,
            }
        });
    }
    if wants("metadata") {
        let target = call.target(IndicesOptions { ..all_indices() })?;
        let indices: Map<String, Value> = edge
            .resolve(&target, &metadata)?
            .into_iter()
            .map(|index| (index.name.clone(), state_of(index, flat)))
            .collect();
        answer["metadata"] = json!({
            "cluster_uuid": metadata.cluster_uuid,
            "templates": {},
            "indices": indices,
        });
    }
    Ok(Reply::ok(&answer))
}
