//! `_nodes` and `_nodes/stats`: the one node there is.

use std::sync::Arc;

use firn_engine::admin::DeviceStats;
use firn_engine::search::IndexTarget;
use firn_model::names;
use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::params::{all_indices, split_list};
use crate::reply::Reply;
use crate::request::{Call, Edge};
use crate::settings::print;
use crate::stats::{Totals, wanted_metrics};

/// What a firn node does.
pub(crate) const ROLES: &[&str] = &["data", "master"];

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
const STATS_METRICS: &[&str] = &[
    "breaker",
    "fs",
    "http",
    "indices",
    "jvm",
    "os",
    "process",
    "thread_pool",
    "transport",
];

/// Processors the process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// `GET /_nodes`, `GET /_nodes/{node_id}`, `GET /_nodes/{node_id}/{metric}`.
pub(crate) async fn info(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    // One part after `_nodes` is a node, or a list of metrics.
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
        "roles": ROLES,
        "attributes": {},
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
            "name": std::env::consts::OS,
            "arch": std::env::consts::ARCH,
            "available_processors": processors(),
            "allocated_processors": processors(),
        });
    }
    if wants("process") {
        object["process"] = json!({"id": std::process::id()});
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
            "search": {"type": "fixed", "size": stats.search_threads},
            "write": {"type": "fixed", "size": stats.write_threads},
        });
    }
    if wants("plugins") {
        object["plugins"] = json!([]);
        object["modules"] = json!([]);
    }
    answer(&edge, node, object)
}

/// `GET /_nodes/stats` in its four forms.
pub(crate) async fn stats(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metrics = wanted_metrics(&call.path, call.captured("metric"), STATS_METRICS)?;
    let wants = |name: &str| {
        metrics
            .as_ref()
            .is_none_or(|metrics| metrics.iter().any(|metric| metric == name))
    };
    let config = &edge.config;
    let stats = edge.engine.node_stats(&call.ctx).await?;
    let mut object = json!({
        "timestamp": edge.now_ms(),
        "name": config.node_name,
        "transport_address": config.http_address,
        "host": edge.host(),
        "ip": config.http_address,
        "roles": ROLES,
        "attributes": {},
    });
    if wants("indices") {
        let target = IndexTarget {
            expression: Vec::new(),
            options: all_indices(),
        };
        let indices = edge.engine.stats(&call.ctx, target).await?;
        object["indices"] = Value::Object(Totals::of(&indices).print(&|_| true));
    }
    if wants("process") {
        object["process"] = process();
    }
    if wants("thread_pool") {
        object["thread_pool"] = json!({
            "search": {
                "threads": stats.search_threads,
                "queue": stats.search_queued,
                "active": stats.search_active,
                "rejected": stats.search_rejected,
                "completed": stats.search_completed,
            },
            "write": {
                "threads": stats.write_threads,
                "queue": stats.write_queued,
                "active": stats.write_active,
                "rejected": stats.write_rejected,
                "completed": stats.write_completed,
            },
        });
    }
    if wants("fs") {
        object["fs"] = json!({
            "timestamp": edge.now_ms(),
            "total": {
                "total_in_bytes": stats.disk_total_bytes,
                "free_in_bytes": stats.disk_available_bytes,
                "available_in_bytes": stats.disk_available_bytes,
            },
            "data": stats.devices.iter().map(data_path).collect::<Vec<_>>(),
            "write_block": stats.write_block,
        });
    }
    if wants("breaker") {
        object["breakers"] = json!({
            "inflight_requests": {
                "limit_size_in_bytes": config.body_memory_max,
                "estimated_size_in_bytes": edge.bodies.held(),
            },
            "request": {
                "limit_size_in_bytes": stats.search_memory_each_limit_bytes,
                "estimated_size_in_bytes": stats.search_memory_bytes,
                "tripped": stats.search_memory_each_tripped,
            },
            "parent": {
                "limit_size_in_bytes": stats.search_memory_limit_bytes,
                "estimated_size_in_bytes": stats.search_memory_bytes,
                "tripped": stats.search_memory_tripped,
            },
        });
    }
    if wants("http") {
        object["http"] = json!({"current_requests": edge.metrics.in_flight.get()});
    }
    if wants("os") {
        object["os"] = json!({"timestamp": edge.now_ms(), "available_processors": processors()});
    }
    answer(&edge, call.captured("node_id"), object)
}

/// A data path as `fs.data` has it, with its tier.
fn data_path(device: &DeviceStats) -> Value {
    json!({
        "path": device.path,
        "tier": device.tier.name(),
        "total_in_bytes": device.total_bytes,
        "free_in_bytes": device.available_bytes,
        "available_in_bytes": device.available_bytes,
        "shards": device.shards,
        "shards_in_bytes": device.shard_bytes,
        "write_block": device.write_block,
    })
}

/// Memory of the process, where the system tells.
fn process() -> Value {
    let resident = std::fs::read_to_string("/proc/self/status").ok().and_then(|status| {
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        let kilobytes: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(kilobytes * 1024)
    });
    match resident {
        Some(bytes) => json!({"id": std::process::id(), "mem": {"resident_in_bytes": bytes}}),
        None => json!({"id": std::process::id()}),
    }
}

fn is_metrics(text: &str, known: &[&str]) -> bool {
    split_list(text).iter().all(|name| known.contains(&name.as_str()))
}

/// Whether a list of nodes names this one; none names all.
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

/// The node, if the filter names it.
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
