//! Responses about committed snapshots.

use std::collections::BTreeMap;

use firn_engine::snapshot::{
    FileCount, IndexDetails, IndexSnapshotStatus, ShardFailure, ShardSnapshotStatus, ShardStage, SnapshotInfo,
    SnapshotState, SnapshotStatus,
};
use firn_storage::repository::{ShardRecord, SnapshotManifest, SnapshotOutcome};

/// Returns the part of a shard's progress that the manifest stores.
pub(super) fn record_of(status: &ShardSnapshotStatus) -> ShardRecord {
    ShardRecord {
        shard: status.shard,
        start_ms: status.start_ms,
        time_ms: status.time_ms,
        new_segments: status.incremental.files,
        new_bytes: status.incremental.bytes,
        all_segments: status.total.files,
        all_bytes: status.total.bytes,
    }
}

fn state_of(manifest: &SnapshotManifest) -> SnapshotState {
    match manifest.outcome {
        SnapshotOutcome::Success => SnapshotState::Success,
        SnapshotOutcome::Partial => SnapshotState::Partial,
    }
}

/// Returns a snapshot as `GET _snapshot` shows it.
pub(super) fn info_of(repository: &str, manifest: &SnapshotManifest) -> SnapshotInfo {
    let total_shards = manifest.indices.values().map(|index| index.shards).sum();
    let failures: Vec<ShardFailure> = manifest
        .missing
        .iter()
        .map(|missing| ShardFailure {
            index: missing.index.clone(),
            index_uuid: manifest
                .indices
                .get(&missing.index)
                .map_or_else(String::new, |index| index.uuid.clone()),
            shard: missing.shard,
            reason: missing.reason.clone(),
        })
        .collect();
    let details = |index: &firn_storage::repository::IndexEntry| IndexDetails {
        shard_count: index.shards,
        size_bytes: index.size_bytes,
        segments_per_shard_max: index.segments_per_shard_max,
    };
    SnapshotInfo {
        name: manifest.name.clone(),
        uuid: manifest.uuid.clone(),
        repository: repository.to_owned(),
        indices: manifest.indices.keys().cloned().collect(),
        data_streams: manifest.data_streams.keys().cloned().collect(),
        include_global_state: manifest.global.is_some(),
        metadata: manifest.metadata.clone(),
        state: state_of(manifest),
        start_ms: manifest.start_ms,
        end_ms: Some(manifest.end_ms),
        total_shards,
        successful_shards: total_shards - (failures.len() as u32).min(total_shards),
        failures,
        index_details: manifest
            .indices
            .iter()
            .map(|(name, index)| (name.clone(), details(index)))
            .collect::<BTreeMap<_, _>>(),
    }
}

/// Returns a snapshot as `GET _snapshot/…/_status` shows it.
pub(super) fn status_of(repository: &str, manifest: &SnapshotManifest) -> SnapshotStatus {
    let indices = manifest.indices.iter().map(|(name, index)| {
        let records = manifest.shards.get(name).map_or(&[][..], Vec::as_slice);
        let shards = (0..index.shards).map(|shard| {
            let missing = manifest
                .missing
                .iter()
                .find(|missing| missing.index == *name && missing.shard == shard);
            let record = records.iter().find(|record| record.shard == shard);
            shard_of(shard, record, missing.map(|missing| missing.reason.clone()))
        });
        IndexSnapshotStatus {
            name: name.clone(),
            shards: shards.collect(),
        }
    });
    SnapshotStatus {
        name: manifest.name.clone(),
        uuid: manifest.uuid.clone(),
        repository: repository.to_owned(),
        state: state_of(manifest),
        include_global_state: manifest.global.is_some(),
        start_ms: manifest.start_ms,
        time_ms: (manifest.end_ms - manifest.start_ms).max(0) as u64,
        indices: indices.collect(),
    }
}

fn shard_of(shard: u32, record: Option<&ShardRecord>, failure: Option<String>) -> ShardSnapshotStatus {
    let incremental = FileCount {
        files: record.map_or(0, |record| record.new_segments),
        bytes: record.map_or(0, |record| record.new_bytes),
    };
    ShardSnapshotStatus {
        shard,
        stage: match failure {
            Some(_) => ShardStage::Failure,
            None => ShardStage::Done,
        },
        incremental,
        processed: incremental,
        total: FileCount {
            files: record.map_or(0, |record| record.all_segments),
            bytes: record.map_or(0, |record| record.all_bytes),
        },
        start_ms: record.map_or(0, |record| record.start_ms),
        time_ms: record.map_or(0, |record| record.time_ms),
        reason: failure,
    }
}
