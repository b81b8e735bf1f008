//! `_recovery`: the recoveries of the shards of this node.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::recovery::{Recovered, RecoverySource, ShardRecovery};
use firn_model::names::IndicesOptions;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(crate) const PARAMS: &[&str] = &["active_only", "detailed"];

/// `GET /_recovery` and `GET /{index}/_recovery`. `detailed` adds nothing: firn stores no list of recovered files.
pub(crate) async fn recovery(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    call.params.bool("detailed", false)?;
    let mut by_index: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for shard in shards(&edge, &call).await? {
        let printed = print(&edge, &shard);
        by_index.entry(shard.index).or_default().push(printed);
    }
    let answer: Map<String, Value> = by_index
        .into_iter()
        .map(|(name, shards)| (name, json!({"shards": shards})))
        .collect();
    Ok(Reply::ok(&Value::Object(answer)))
}

/// Returns the shards that a request selects.
pub(crate) async fn shards(edge: &Edge, call: &Call) -> Result<Vec<ShardRecovery>, ApiError> {
    let only_active = call.params.bool("active_only", false)?;
    let options = IndicesOptions {
        expand_hidden: true,
        ..IndicesOptions::default()
    };
    let mut shards = edge
        .engine
        .recoveries(&call.ctx, call.target(options)?)
        .await?
        .require()?;
    shards.retain(|shard| !only_active || shard.stop_ms.is_none());
    Ok(shards)
}

fn print(edge: &Edge, shard: &ShardRecovery) -> Value {
    let took_ms = shard.time_ms(edge.now_ms());
    let node = json!({
        "id": edge.config.node_id,
        "host": edge.host(),
        "transport_address": edge.config.http_address,
        "ip": edge.host(),
        "name": edge.config.node_name,
    });
    json!({
        "id": shard.shard,
        "type": shard.source.name(),
        "stage": shard.stage(),
        "primary": true,
        "start_time_in_millis": shard.start_ms,
        "stop_time_in_millis": shard.stop_ms.unwrap_or(0),
        "total_time_in_millis": took_ms,
        "source": source(&shard.source),
        "target": node,
        "index": {
            "size": {
                "total_in_bytes": shard.bytes.total,
                "reused_in_bytes": shard.bytes.reused,
                "recovered_in_bytes": shard.bytes.recovered,
                "recovered_from_snapshot_in_bytes": from_snapshot(shard),
                "percent": percent(shard.bytes),
            },
            "files": {
                "total": shard.files.total,
                "reused": shard.files.reused,
                "recovered": shard.files.recovered,
                "percent": percent(shard.files),
            },
            "total_time_in_millis": took_ms,
            "source_throttle_time_in_millis": 0,
            "target_throttle_time_in_millis": 0,
        },
        "translog": {
            "recovered": 0,
            "total": 0,
            "percent": "100.0%",
            "total_on_start": 0,
            "total_time_in_millis": 0,
        },
        "verify_index": {"check_index_time_in_millis": 0, "total_time_in_millis": 0},
    })
}

fn source(source: &RecoverySource) -> Value {
    match source {
        RecoverySource::Snapshot {
            repository,
            snapshot,
            index,
        } => json!({"repository": repository, "snapshot": snapshot, "index": index}),
        RecoverySource::EmptyStore => json!({}),
        RecoverySource::ExistingStore => json!({"bootstrap_new_history_uuid": false}),
    }
}

fn from_snapshot(shard: &ShardRecovery) -> u64 {
    match shard.source {
        RecoverySource::Snapshot { .. } => shard.bytes.recovered,
        RecoverySource::EmptyStore | RecoverySource::ExistingStore => 0,
    }
}

/// Formats a percentage like `37.5%`.
pub(crate) fn percent(recovered: Recovered) -> String {
    format!("{:.1}%", recovered.percent())
}
