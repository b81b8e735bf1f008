//! `_nodes` and `_nodes/stats`, with exactly one node.

mod jvm;
mod stats;

use std::sync::Arc;

use firn_model::names;
use serde_json::{Map, Value, json};

pub(crate) use stats::stats;

use crate::endpoints::call::Call;
use crate::endpoints::ingest;
use crate::endpoints::settings::print;
use crate::endpoints::stats::wanted_metrics;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::split_list;
use crate::wire::reply::Reply;

/// Elasticsearch's node roles, and their letters in `_cat/nodes`.
const ROLE_LETTERS: &[(&str, char)] = &[
    ("data_cold", 'c'),
    ("data", 'd'),
    ("data_frozen", 'f'),
    ("data_hot", 'h'),
    ("ingest", 'i'),
    ("ml", 'l'),
    ("master", 'm'),
    ("remote_cluster_client", 'r'),
    ("data_content", 's'),
    ("transform", 't'),
    ("voting_only", 'v'),
    ("data_warm", 'w'),
];

/// Returns the names of Elasticsearch's node roles.
pub(crate) fn all_roles() -> impl Iterator<Item = &'static str> {
    ROLE_LETTERS.iter().map(|(name, _)| *name)
}

/// Returns whether Elasticsearch has a node role of this name.
pub fn is_node_role(name: &str) -> bool {
    all_roles().any(|role| role == name)
}

/// Returns the roles as `_cat/nodes` prints them; `-` without any.
pub(crate) fn role_letters(roles: &[String]) -> String {
    let has = |name: &str| roles.iter().any(|role| role == name);
    let letters: String = ROLE_LETTERS
        .iter()
        .filter(|(name, _)| has(name))
        .map(|(_, letter)| *letter)
        .collect();
    if letters.is_empty() { "-".to_owned() } else { letters }
}

/// Parameters of `_nodes/stats`; only `level` has an effect.
pub(crate) const STATS_PARAMS: &[&str] = &[
    "completion_fields",
    "fielddata_fields",
    "fields",
    "groups",
    "include_segment_file_sizes",
    "include_unloaded_segments",
    "level",
    "timeout",
    "types",
];

const INFO_METRICS: &[&str] = &[
    "aggregations",
    "http",
    "indices",
    "ingest",
    "jvm",
    "os",
    "plugins",
    "process",
    "settings",
    "thread_pool",
    "transport",
];
/// `GET /_nodes`, `GET /_nodes/{node_id}`, `GET /_nodes/{node_id}/{metric}`.
pub(crate) async fn info(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    // A single part after `_nodes` is a node, or a list of metrics.
    let (node, metric) = match (call.captured("node_id"), call.captured("metric")) {
        (Some(text), None) if is_metrics(text, INFO_METRICS) => (None, Some(text)),
        (node, metric) => (node, metric),
    };
    let metrics = wanted_metrics(&call.path, metric, INFO_METRICS)?;
    let wants = |name: &str| {
        metrics
            .as_ref()
            .is_none_or(|metrics| metrics.iter().any(|metric| metric == name))
    };
    let flat = call.params.bool("flat_settings", false)?;
    let config = &edge.config;
    let mut object = json!({
        "name": config.node_name,
        "transport_address": config.http_address,
        "host": edge.host(),
        "ip": edge.host(),
        "version": config.version.number,
        "build_flavor": "default",
        "build_type": "tar",
        "build_hash": config.version.build_hash,
        "roles": config.roles,
        "attributes": config.attributes,
    });
    if wants("settings") {
        let settings = config
            .settings
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()));
        object["settings"] = print(&settings.collect(), flat);
    }
    if wants("os") {
        object["os"] = json!({
            "refresh_interval_in_millis": 1000,
            "name": crate::state::host::os_name(),
            "pretty_name": crate::state::host::os_name(),
            "arch": crate::state::host::arch(),
            "version": crate::state::host::kernel_version(),
            "available_processors": crate::state::host::processors(),
            "allocated_processors": crate::state::host::processors(),
        });
    }
    if wants("process") {
        object["process"] = json!({
            "refresh_interval_in_millis": 1000,
            "id": std::process::id(),
            "mlockall": false,
        });
    }
    if wants("jvm") {
        let host = edge.host_meter.read(edge.now_ms());
        object["jvm"] = jvm::info(&host, config.started_ms, &config.version.firn);
    }
    if wants("transport") {
        // There is no transport protocol between nodes, so the HTTP address stands here.
        object["transport"] = json!({
            "bound_address": [config.http_address],
            "publish_address": config.http_address,
            "profiles": {},
        });
    }
    if wants("ingest") {
        object["ingest"] = json!({"processors": ingest::processors()});
    }
    if wants("aggregations") {
        object["aggregations"] = json!({});
    }
    if wants("http") {
        object["http"] = json!({
            "bound_address": [config.http_address],
            "publish_address": config.http_address,
            "max_content_length_in_bytes": config.max_content_length,
        });
    }
    if wants("thread_pool") {
        let stats = edge.engine.node_stats(&call.ctx).await?;
        object["thread_pool"] = json!({
            "search": {"type": "fixed", "size": stats.search_threads, "queue_size": -1},
            "write": {"type": "fixed", "size": stats.write_threads, "queue_size": -1},
        });
    }
    if wants("plugins") {
        object["plugins"] = json!([]);
        object["modules"] = json!([]);
    }
    answer(&edge, node, object)
}

fn is_metrics(text: &str, known: &[&str]) -> bool {
    split_list(text).iter().all(|name| known.contains(&name.as_str()))
}

/// Returns whether a list of nodes includes this one; an absent list includes all.
pub(crate) fn names_this(edge: &Edge, filter: Option<&str>) -> bool {
    let config = &edge.config;
    filter.is_none_or(|filter| {
        split_list(filter).iter().any(|name| {
            matches!(
                name.as_str(),
                "_all" | "_local" | "_master" | "master:true" | "data:true"
            ) || names::matches_pattern(name, &config.node_id)
                || names::matches_pattern(name, &config.node_name)
                || name == edge.host()
        })
    })
}

/// Returns the node if the filter includes it.
fn answer(edge: &Edge, filter: Option<&str>, node: Value) -> Result<Reply, ApiError> {
    let config = &edge.config;
    let mut nodes = Map::new();
    if names_this(edge, filter) {
        nodes.insert(config.node_id.clone(), node);
    }
    Ok(Reply::ok(&json!({
        "_nodes": {"total": nodes.len(), "successful": nodes.len(), "failed": 0},
        "cluster_name": config.cluster_name,
        "nodes": nodes,
    })))
}
