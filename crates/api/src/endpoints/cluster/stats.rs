//! `_cluster/stats`.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_query::search::IndexTarget;
use serde_json::{Value, json};

use super::health;
use crate::endpoints::call::Call;
use crate::endpoints::nodes::all_roles;
use crate::endpoints::stats::Totals;
use crate::state::edge::Edge;
use crate::state::host;
use crate::wire::error::ApiError;
use crate::wire::params::all_indices;
use crate::wire::reply::Reply;

/// `GET /_cluster/stats`.
pub(crate) async fn stats(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let target = IndexTarget {
        expression: Vec::new(),
        options: all_indices(),
    };
    let indices = edge.engine.stats(&call.ctx, target.clone()).await?;
    let health = health::look(&edge, &call.ctx, target, &metadata).await?;
    let totals = Totals::of(&indices);
    let node = edge.engine.node_stats(&call.ctx).await?;
    let mut field_types: BTreeMap<&'static str, (usize, usize)> = BTreeMap::new();
    let mut field_count = 0;
    for index in metadata.indices.values() {
        let mut here: BTreeMap<&'static str, usize> = BTreeMap::new();
        for (_, field) in index.mapping.leaves() {
            *here.entry(field.field_type.name()).or_default() += 1;
            field_count += 1;
        }
        for (name, count) in here {
            let entry = field_types.entry(name).or_default();
            entry.0 += count;
            entry.1 += 1;
        }
    }
    let field_types: Vec<Value> = field_types
        .into_iter()
        .map(|(name, (count, indices))| json!({"name": name, "count": count, "index_count": indices}))
        .collect();
    let mut printed = Value::Object(totals.print(&|metric| {
        matches!(
            metric,
            "docs" | "store" | "segments" | "fielddata" | "query_cache" | "completion"
        )
    }));
    printed["count"] = metadata.indices.len().into();
    printed["shards"] = json!({
        "total": totals.shards,
        "primaries": totals.shards,
        "replication": 0.0,
    });
    printed["mappings"] = json!({"total_field_count": field_count, "field_types": field_types});
    printed["versions"] = json!([]);
    let config = &edge.config;
    let host = edge.host_meter.read(edge.now_ms());
    let mut counts = json!({"total": 1, "coordinating_only": u8::from(config.roles.is_empty())});
    for role in all_roles() {
        counts[role] = u8::from(config.roles.iter().any(|own| own == role)).into();
    }
    Ok(Reply::ok(&json!({
        "_nodes": {"total": 1, "successful": 1, "failed": 0},
        "cluster_name": config.cluster_name,
        "cluster_uuid": metadata.cluster_uuid,
        "timestamp": edge.now_ms(),
        "status": health.status.name(),
        "indices": printed,
        "nodes": {
            "count": counts,
            "versions": [config.version.number],
            "os": {
                "available_processors": host::processors(),
                "allocated_processors": host::processors(),
                "names": [{"name": host::os_name(), "count": 1}],
                "pretty_names": [{"pretty_name": host::os_name(), "count": 1}],
                "architectures": [{"arch": host::arch(), "count": 1}],
                "mem": {
                    "total_in_bytes": host.memory_bytes,
                    "adjusted_total_in_bytes": host.memory_bytes,
                    "free_in_bytes": host.memory_available_bytes,
                    "used_in_bytes": host.memory_used_bytes(),
                    "free_percent": host.percent_of_memory(host.memory_available_bytes),
                    "used_percent": host.percent_of_memory(host.memory_used_bytes()),
                },
            },
            "process": {
                "cpu": {"percent": host.process_cpu_percent},
                "open_file_descriptors": {"min": host.open_files, "max": host.open_files, "avg": host.open_files},
            },
            "jvm": {
                "max_uptime_in_millis": (edge.now_ms() - config.started_ms).max(0),
                "versions": [],
                "mem": {"heap_used_in_bytes": host.heap_bytes, "heap_max_in_bytes": host.memory_bytes},
                "threads": host.threads,
            },
            "fs": {
                "total_in_bytes": node.disk_total_bytes,
                "free_in_bytes": node.disk_available_bytes,
                "available_in_bytes": node.disk_available_bytes,
            },
            "plugins": [],
            "network_types": {"transport_types": {}, "http_types": {"firn": 1}},
            "discovery_types": {"single-node": 1},
            "packaging_types": [{"flavor": "default", "type": "tar", "count": 1}],
            "ingest": {"number_of_pipelines": 0, "processor_stats": {}},
        },
        "snapshots": {"current_counts": {"snapshots": 0}},
    })))
}
