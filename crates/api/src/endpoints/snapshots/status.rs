//! `_status`: progress of snapshots.

use std::sync::Arc;

use firn_engine::snapshot::{FileCount, IndexSnapshotStatus, ShardSnapshotStatus, ShardStage, SnapshotStatus};
use firn_model::repository::snapshot_missing;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::split_list;
use crate::wire::reply::Reply;

/// `GET /_snapshot/_status`, `/_snapshot/{repository}/_status` and `/_snapshot/{repository}/{snapshot}/_status`.
pub(crate) async fn status(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let names = call.captured("snapshot").map(split_list).unwrap_or_default();
    let ignore_unavailable = call.params.bool("ignore_unavailable", false)?;
    let repository = call.captured("repository").filter(|name| *name != "_all");
    let statuses = edge
        .engine
        .require_snapshots()?
        .snapshot_status(&call.ctx, repository, &names, ignore_unavailable)
        .await?;
    if let (true, false, Some(repository), Some(name)) =
        (statuses.is_empty(), ignore_unavailable, repository, names.first())
        && name != "_all"
    {
        return Err(snapshot_missing(repository, name).into());
    }
    let printed: Vec<Value> = statuses.iter().map(print).collect();
    Ok(Reply::ok(&json!({"snapshots": printed})))
}

fn print(status: &SnapshotStatus) -> Value {
    let shards = || status.indices.iter().flat_map(|index| &index.shards);
    let indices: Map<String, Value> = status
        .indices
        .iter()
        .map(|index| (index.name.clone(), print_index(index)))
        .collect();
    json!({
        "snapshot": status.name,
        "repository": status.repository,
        "uuid": status.uuid,
        "state": match status.state {
            firn_engine::snapshot::SnapshotState::InProgress => "STARTED",
            other => other.name(),
        },
        "include_global_state": status.include_global_state,
        "shards_stats": shards_stats(shards()),
        "stats": stats(shards(), status.start_ms, status.time_ms),
        "indices": indices,
    })
}

fn print_index(index: &IndexSnapshotStatus) -> Value {
    let first = index
        .shards
        .iter()
        .map(|shard| shard.start_ms)
        .filter(|ms| *ms > 0)
        .min();
    let time = index.shards.iter().map(|shard| shard.time_ms).max();
    let shards: Map<String, Value> = index
        .shards
        .iter()
        .map(|shard| {
            let mut printed = json!({
                "stage": shard.stage.name(),
                "stats": stats(std::iter::once(shard), shard.start_ms, shard.time_ms),
            });
            if let Some(reason) = &shard.reason {
                printed["reason"] = reason.as_str().into();
            }
            (shard.shard.to_string(), printed)
        })
        .collect();
    json!({
        "shards_stats": shards_stats(index.shards.iter()),
        "stats": stats(index.shards.iter(), first.unwrap_or(0), time.unwrap_or(0)),
        "shards": shards,
    })
}

fn shards_stats<'a>(shards: impl Iterator<Item = &'a ShardSnapshotStatus> + Clone) -> Value {
    let mut printed = Map::new();
    for stage in ShardStage::ALL {
        let name = match stage {
            ShardStage::Init => "initializing",
            ShardStage::Started => "started",
            ShardStage::Finalize => "finalizing",
            ShardStage::Done => "done",
            ShardStage::Failure => "failed",
        };
        let count = shards.clone().filter(|shard| shard.stage == stage).count();
        printed.insert(name.to_owned(), count.into());
    }
    printed.insert("total".to_owned(), shards.count().into());
    Value::Object(printed)
}

fn stats<'a>(shards: impl Iterator<Item = &'a ShardSnapshotStatus>, start_ms: i64, time_ms: u64) -> Value {
    let (mut incremental, mut processed, mut total) = <(FileCount, FileCount, FileCount)>::default();
    let mut is_done = true;
    for shard in shards {
        incremental.add(shard.incremental);
        processed.add(shard.processed);
        total.add(shard.total);
        is_done &= matches!(shard.stage, ShardStage::Done | ShardStage::Failure);
    }
    let print = |count: FileCount| json!({"file_count": count.files, "size_in_bytes": count.bytes});
    let mut stats = json!({"incremental": print(incremental)});
    if !is_done {
        stats["processed"] = print(processed);
    }
    stats["total"] = print(total);
    stats["start_time_in_millis"] = start_ms.into();
    stats["time_in_millis"] = time_ms.into();
    stats
}
