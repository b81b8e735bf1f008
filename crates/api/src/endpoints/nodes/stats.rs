//! `_nodes/stats`: counters and sizes of the node, in Elasticsearch's sections.
//!
//! Benchmarks, exporters and monitors read fields by name and fail if one is missing. So every section of Elasticsearch
//! is present; the counters of missing features (ingest pipelines, scripts, transport between nodes) are 0.

use std::sync::Arc;

use firn_engine::RequestContext;
use firn_engine::admin::{DeviceStats, IndexStats, NodeStats};
use firn_query::search::IndexTarget;
use serde_json::{Map, Value, json};

use super::{answer, jvm};
use crate::endpoints::call::Call;
use crate::endpoints::ingest;
use crate::endpoints::stats;
use crate::endpoints::stats::{Totals, wanted_metrics};
use crate::state::edge::Edge;
use crate::state::host;
use crate::state::host::Host;
use crate::wire::error::ApiError;
use crate::wire::params::all_indices;
use crate::wire::reply::Reply;

const METRICS: &[&str] = &[
    "adaptive_selection",
    "breaker",
    "discovery",
    "fs",
    "http",
    "indexing_pressure",
    "indices",
    "ingest",
    "jvm",
    "os",
    "process",
    "repositories",
    "script",
    "script_cache",
    "thread_pool",
    "transport",
];

/// `GET /_nodes/stats` in its forms.
pub(crate) async fn stats(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metrics = wanted_metrics(&call.path, call.captured("metric"), METRICS)?;
    let wants = |name: &str| {
        metrics
            .as_ref()
            .is_none_or(|metrics| metrics.iter().any(|metric| metric == name))
    };
    let config = &edge.config;
    let now_ms = edge.now_ms();
    let node = edge.engine.node_stats(&call.ctx).await?;
    let devices = match edge.engine.tiers() {
        Some(tiers) => tiers.devices(&call.ctx).await?,
        None => Vec::new(),
    };
    let mut object = json!({
        "timestamp": now_ms,
        "name": config.node_name,
        "transport_address": config.http_address,
        "host": edge.host(),
        "ip": config.http_address,
        "roles": config.roles,
        "attributes": config.attributes,
    });
    let metadata = edge.engine.metadata(&RequestContext::new()).await?;
    let compiled = edge.ingest.compiled(&metadata.ingest);
    let mut section = |metric: &str, name: &str, value: &dyn Fn() -> Value| {
        if wants(metric) {
            object[name] = value();
        }
    };
    if wants("indices") {
        let indices = indices(&edge, &call).await?;
        section("indices", "indices", &|| indices.clone());
    }
    if ["os", "process", "jvm"].into_iter().any(&wants) {
        let host = edge.host_meter.read(now_ms);
        section("os", "os", &|| os(&host, now_ms));
        section("process", "process", &|| process(&host, now_ms));
        section("jvm", "jvm", &|| jvm::stats(&host, now_ms, config.started_ms));
    }
    section("thread_pool", "thread_pool", &|| thread_pools(&node));
    section("fs", "fs", &|| file_systems(&node, &devices, now_ms));
    section("breaker", "breakers", &|| breakers(&edge, &node));
    section("http", "http", &|| http(&edge));
    section("indexing_pressure", "indexing_pressure", &|| {
        indexing_pressure(&edge, &node)
    });
    section("transport", "transport", &transport);
    section("discovery", "discovery", &discovery);
    section("ingest", "ingest", &|| ingest::statistics(&edge, &compiled));
    section(
        "script",
        "script",
        &|| json!({"compilations": 0, "cache_evictions": 0, "compilation_limit_triggered": 0}),
    );
    section(
        "script_cache",
        "script_cache",
        &|| json!({"sum": {"compilations": 0, "cache_evictions": 0, "compilation_limit_triggered": 0}}),
    );
    section("adaptive_selection", "adaptive_selection", &|| json!({}));
    section("repositories", "repositories", &|| json!({}));
    answer(&edge, call.captured("node_id"), object)
}

/// Returns the sums of all shards; with `level` also those of each index or shard.
async fn indices(edge: &Edge, call: &Call) -> Result<Value, ApiError> {
    let level = call.params.get("level").unwrap_or("node");
    if !matches!(level, "node" | "indices" | "shards") {
        let reason = format!("level parameter must be one of [node] or [indices] or [shards] but was [{level}]");
        return Err(firn_engine::Error::illegal_argument(reason).into());
    }
    let metrics = wanted_metrics(&call.path, call.captured("index_metric"), stats::METRICS)?;
    let wanted = |name: &str| {
        metrics
            .as_ref()
            .is_none_or(|metrics| metrics.iter().any(|metric| metric == name))
    };
    let target = IndexTarget {
        expression: Vec::new(),
        options: all_indices(),
    };
    let indices = edge.engine.stats(&call.ctx, target).await?;
    let mut printed = Totals::of(&indices).print(&wanted);
    let each = |of: &dyn Fn(&IndexStats) -> Value| -> Map<String, Value> {
        indices.iter().map(|index| (index.index.clone(), of(index))).collect()
    };
    if level == "indices" {
        let value = each(&|index| Totals::of([index]).print(&wanted).into());
        printed.insert("indices".to_owned(), value.into());
    }
    if level == "shards" {
        let value = each(&|index| {
            let shards = index.shards.iter().map(|shard| {
                let printed = stats::print_shard(shard, &wanted, &edge.config.node_id);
                json!({ shard.shard.to_string(): printed })
            });
            shards.collect::<Vec<_>>().into()
        });
        printed.insert("shards".to_owned(), value.into());
    }
    Ok(printed.into())
}

fn os(host: &Host, now_ms: i64) -> Value {
    let used = host.memory_used_bytes();
    let mut cpu = json!({"percent": host.cpu_percent});
    if let Some([one, five, fifteen]) = host.load {
        cpu["load_average"] = json!({"1m": one, "5m": five, "15m": fifteen});
    }
    json!({
        "timestamp": now_ms,
        "available_processors": host::processors(),
        "cpu": cpu,
        "mem": {
            "total_in_bytes": host.memory_bytes,
            "adjusted_total_in_bytes": host.memory_bytes,
            "free_in_bytes": host.memory_available_bytes,
            "used_in_bytes": used,
            "free_percent": host.percent_of_memory(host.memory_available_bytes),
            "used_percent": host.percent_of_memory(used),
        },
        "swap": {
            "total_in_bytes": host.swap_bytes,
            "free_in_bytes": host.swap_free_bytes,
            "used_in_bytes": host.swap_bytes.saturating_sub(host.swap_free_bytes),
        },
    })
}

fn process(host: &Host, now_ms: i64) -> Value {
    json!({
        "timestamp": now_ms,
        "id": std::process::id(),
        "open_file_descriptors": host.open_files,
        "max_file_descriptors": host.open_files_max,
        "cpu": {"percent": host.process_cpu_percent, "total_in_millis": host.cpu_ms},
        // Elasticsearch has no `resident_in_bytes`.
        "mem": {"total_virtual_in_bytes": host.virtual_bytes, "resident_in_bytes": host.resident_bytes},
    })
}

fn thread_pools(node: &NodeStats) -> Value {
    json!({
        "search": {
            "threads": node.search_threads,
            "queue": node.search_queued,
            "active": node.search_active,
            "rejected": node.search_rejected,
            "largest": node.search_threads,
            "completed": node.search_completed,
        },
        "write": {
            "threads": node.write_threads,
            "queue": node.write_queued,
            "active": node.write_active,
            "rejected": node.write_rejected,
            "largest": node.write_threads,
            "completed": node.write_completed,
        },
    })
}

fn file_systems(node: &NodeStats, devices: &[DeviceStats], now_ms: i64) -> Value {
    json!({
        "timestamp": now_ms,
        "total": {
            "total_in_bytes": node.disk_total_bytes,
            "free_in_bytes": node.disk_available_bytes,
            "available_in_bytes": node.disk_available_bytes,
        },
        "data": devices.iter().map(data_path).collect::<Vec<_>>(),
        "write_block": node.write_block,
    })
}

/// Prints a data path as in `fs.data`, with its tier.
fn data_path(device: &DeviceStats) -> Value {
    json!({
        "path": device.path,
        "mount": device.path,
        "type": "unknown",
        "tier": device.tier.name(),
        "total_in_bytes": device.total_bytes,
        "free_in_bytes": device.available_bytes,
        "available_in_bytes": device.available_bytes,
        "shards": device.shards,
        "shards_in_bytes": device.shard_bytes,
        "write_block": device.write_block,
    })
}

fn breakers(edge: &Edge, node: &NodeStats) -> Value {
    let breaker = |limit: u64, used: u64, tripped: u64| {
        json!({
            "limit_size_in_bytes": limit,
            "estimated_size_in_bytes": used,
            "overhead": 1.0,
            "tripped": tripped,
        })
    };
    json!({
        "request": breaker(
            node.search_memory_each_limit_bytes,
            node.search_memory_bytes,
            node.search_memory_each_tripped,
        ),
        // Columns are memory-mapped, not loaded into a heap.
        "fielddata": breaker(0, 0, 0),
        "inflight_requests": breaker(edge.config.body_memory_max, edge.bodies.held(), 0),
        "parent": breaker(node.search_memory_limit_bytes, node.search_memory_bytes, node.search_memory_tripped),
    })
}

fn http(edge: &Edge) -> Value {
    json!({
        "current_open": edge.metrics.connections_open.get(),
        "total_opened": edge.metrics.connections_total.get(),
        "clients": [],
        "current_requests": edge.metrics.in_flight.get(),
    })
}

fn indexing_pressure(edge: &Edge, node: &NodeStats) -> Value {
    let current = node.write_bytes_in_flight;
    json!({"memory": {
        "current": {
            "combined_coordinating_and_primary_in_bytes": current,
            "coordinating_in_bytes": current,
            "primary_in_bytes": current,
            "replica_in_bytes": 0,
            "all_in_bytes": current,
        },
        "total": {
            "combined_coordinating_and_primary_in_bytes": 0,
            "coordinating_in_bytes": 0,
            "primary_in_bytes": 0,
            "replica_in_bytes": 0,
            "all_in_bytes": 0,
            "coordinating_rejections": node.write_rejected,
            "primary_rejections": 0,
            "replica_rejections": 0,
            "primary_document_rejections": 0,
        },
        "limit_in_bytes": edge.config.body_memory_max,
    }})
}

fn transport() -> Value {
    json!({
        "server_open": 0,
        "total_outbound_connections": 0,
        "rx_count": 0,
        "rx_size_in_bytes": 0,
        "tx_count": 0,
        "tx_size_in_bytes": 0,
    })
}

fn discovery() -> Value {
    json!({
        "cluster_state_queue": {"total": 0, "pending": 0, "committed": 0},
        "published_cluster_states": {"full_states": 0, "incompatible_diffs": 0, "compatible_diffs": 0},
    })
}
