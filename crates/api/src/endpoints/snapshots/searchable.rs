//! `_searchable_snapshots`: statistics of mounted indices, and their shared cache.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::mounts::{MountedShardStats, Storage};
use firn_engine::{Error, ErrorKind};
use firn_model::names::IndicesOptions;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::nodes::names_this;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(crate) const STATS_PARAMS: &[&str] = &["level"];

/// `GET /_searchable_snapshots/stats` and `GET /{index}/_searchable_snapshots/stats`. Where Elasticsearch counts Lucene's
/// files by their extension, firn has splits, one object each.
pub(crate) async fn stats(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let level = call.params.get("level").unwrap_or("indices");
    if !["cluster", "indices", "shards"].contains(&level) {
        return Err(Error::illegal_argument(format!(
            "level parameter must be one of [cluster] or [indices] or [shards] but was [{level}]"
        ))
        .into());
    }
    let shards = edge
        .engine
        .require_mounts()?
        .mounted_shards(&call.ctx, call.target(hidden_too())?)
        .await?;
    let shards = some(shards)?;
    let mut by_index: BTreeMap<&str, Vec<&MountedShardStats>> = BTreeMap::new();
    for shard in &shards {
        by_index.entry(&shard.index).or_default().push(shard);
    }
    let mut answer = json!({
        "_shards": {"total": shards.len(), "successful": shards.len(), "failed": 0},
        "total": [files(&shards.iter().collect::<Vec<_>>())],
    });
    if level != "cluster" {
        let indices: Map<String, Value> = by_index
            .into_iter()
            .map(|(name, shards)| (name.to_owned(), index(&edge, &shards, level == "shards")))
            .collect();
        answer["indices"] = Value::Object(indices);
    }
    Ok(Reply::ok(&answer))
}

fn index(edge: &Edge, shards: &[&MountedShardStats], with_shards: bool) -> Value {
    let mut printed = json!({"total": [files(shards)]});
    if with_shards {
        let by_number: Map<String, Value> = shards
            .iter()
            .map(|shard| (shard.shard.to_string(), json!([one(edge, shard)])))
            .collect();
        printed["shards"] = Value::Object(by_number);
    }
    printed
}

fn one(edge: &Edge, shard: &MountedShardStats) -> Value {
    json!({
        "snapshot_uuid": shard.snapshot_uuid,
        "index_uuid": shard.index_uuid,
        "shard": {
            "state": "STARTED",
            "primary": true,
            "node": edge.config.node_id,
            "relocating_node": null,
            "shard": shard.shard,
            "index": shard.index,
        },
        "storage": shard.storage.name(),
        "files": [files(&[shard])],
    })
}

/// Prints the splits of some shards. Shards without a search since the start have unknown splits.
fn files(shards: &[&MountedShardStats]) -> Value {
    let known: Vec<_> = shards
        .iter()
        .filter_map(|shard| Some((shard.storage, shard.splits?)))
        .collect();
    let sum = |field: fn(&firn_engine::mounts::MountedSplits) -> u64| -> u64 {
        known.iter().map(|(_, splits)| field(splits)).sum()
    };
    let local = |storage: Storage| -> u64 {
        let own = known.iter().filter(|(other, _)| *other == storage);
        own.map(|(_, splits)| splits.local_bytes).sum()
    };
    json!({
        "file_ext": "split",
        "num_files": sum(|splits| splits.count),
        "total_size_in_bytes": sum(|splits| splits.bytes),
        "num_open": sum(|splits| splits.open),
        "num_docs": sum(|splits| splits.docs),
        "segment_size_in_bytes": sum(|splits| splits.segment_bytes),
        "full_copy_in_bytes": local(Storage::FullCopy),
        "shared_cache_in_bytes": local(Storage::SharedCache),
        "num_shards_unknown": shards.len() - known.len(),
    })
}

/// `GET /_searchable_snapshots/cache/stats` and `GET /_searchable_snapshots/{node_id}/cache/stats`.
pub(crate) async fn cache_stats(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let stats = match names_this(&edge, call.captured("node_id")) {
        true => edge.engine.require_mounts()?.shared_cache_stats(&call.ctx).await?,
        false => None,
    };
    let Some(stats) = stats else {
        return Ok(Reply::ok(&json!({"nodes": {}})));
    };
    let kinds: Map<String, Value> = stats
        .kinds
        .iter()
        .map(|(name, kind)| {
            let printed = json!({
                "requested_in_bytes": kind.requested_bytes,
                "hit_in_bytes": kind.hit_bytes,
                "missed_in_bytes": kind.missed_bytes,
                "hit_rate": match kind.hit_bytes + kind.missed_bytes {
                    0 => Value::Null,
                    all => (kind.hit_bytes as f64 / all as f64).into(),
                },
                "fetched_in_bytes": kind.fetched_bytes,
                "cached_in_bytes": kind.cached_bytes,
                "evicted_in_bytes": kind.evicted_bytes,
            });
            ((*name).to_owned(), printed)
        })
        .collect();
    let mut nodes = Map::new();
    nodes.insert(
        edge.config.node_id.clone(),
        json!({
            "shared_cache": {
                "reads": stats.reads,
                "bytes_read_in_bytes": stats.read_bytes,
                "writes": stats.writes,
                "bytes_written_in_bytes": stats.written_bytes,
                "evictions": stats.evictions,
                "num_regions": stats.regions_max,
                "size_in_bytes": stats.size_bytes,
                "region_size_in_bytes": stats.region_bytes,
                "used_in_bytes": stats.used_bytes,
                "pinned_in_bytes": stats.pinned_bytes,
                "regions_in_use": stats.regions,
                "store_requests": stats.store_requests,
                "joined_requests": stats.joined,
                "damaged_pages": stats.damaged_pages,
                "bypassed_in_bytes": stats.bypassed_bytes,
                "kinds": kinds,
            },
            "open_splits": {"count": stats.open_splits, "memory_in_bytes": stats.open_bytes},
        }),
    );
    Ok(Reply::ok(&json!({"nodes": nodes})))
}

/// `POST /_searchable_snapshots/cache/clear` and `POST /{index}/_searchable_snapshots/cache/clear`.
pub(crate) async fn clear(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let target = call.target(hidden_too())?;
    some(
        edge.engine
            .require_mounts()?
            .mounted_shards(&call.ctx, target.clone())
            .await?,
    )?;
    let outcome = edge
        .engine
        .require_mounts()?
        .clear_shared_cache(&call.ctx, target)
        .await?;
    Ok(Reply::ok(&json!({
        "_shards": {
            "total": outcome.total,
            "successful": outcome.successful,
            "failed": outcome.total - outcome.successful,
        },
    })))
}

/// Returns Elasticsearch's error for a target without mounted indices.
fn some(shards: Vec<MountedShardStats>) -> Result<Vec<MountedShardStats>, Error> {
    match shards.is_empty() {
        true => Err(Error::new(
            ErrorKind::ResourceNotFound,
            "No searchable snapshots indices found",
        )),
        false => Ok(shards),
    }
}

/// Options that include hidden indices, because backing indices of data streams may be mounted.
pub(super) fn hidden_too() -> IndicesOptions {
    IndicesOptions {
        expand_hidden: true,
        ..IndicesOptions::default()
    }
}
