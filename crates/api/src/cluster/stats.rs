//! `_cluster/stats`.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::search::IndexTarget;
use serde_json::{Value, json};

use super::health;
use crate::error::ApiError;
use crate::params::all_indices;
use crate::reply::Reply;
use crate::request::{Call, Edge};
use crate::stats::Totals;

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
    let mut printed = Value::Object(totals.print(&|metric| matches!(metric, "docs" | "store" | "segments")));
    printed["count"] = metadata.indices.len().into();
    printed["shards"] = json!({
        "total": totals.shards,
        "primaries": totals.shards,
        "replication": 0.0,
    });
    printed["mappings"] = json!({"total_field_count": field_count, "field_types": field_types});
    Ok(Reply::ok(&json!({
        "_nodes": {"total": 1, "successful": 1, "failed": 0},
        "cluster_name": edge.config.cluster_name,
        "cluster_uuid": metadata.cluster_uuid,
        "timestamp": edge.now_ms(),
        "status": health.status.name(),
        "indices": printed,
        "nodes": {
            "count": {"total": 1, "data": 1, "master": 1, "ingest": 0, "coordinating_only": 0},
            "versions": [edge.config.version.number],
            "os": {
                "available_processors": crate::nodes::processors(),
                "names": [{"name": std::env::consts::OS, "count": 1}],
                "architectures": [{"arch": std::env::consts::ARCH, "count": 1}],
            },
            "fs": {
                "total_in_bytes": node.disk_total_bytes,
                "free_in_bytes": node.disk_available_bytes,
                "available_in_bytes": node.disk_available_bytes,
            },
            "plugins": [],
        },
        "snapshots": {"current_counts": {"snapshots": 0}},
    })))
}
