//! A running snapshot: its request and its progress.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::BackgroundTask;
use firn_engine::snapshot::{
    CreateSnapshot, FileCount, IndexSnapshotStatus, ShardSnapshotStatus, ShardStage, SnapshotInfo, SnapshotState,
    SnapshotStatus,
};
use firn_model::{Error, ErrorKind};
use firn_query::Cancel;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Running snapshots of all repositories, in the order of their start.
#[derive(Default)]
pub(super) struct RunningList(pub(super) Mutex<Vec<Arc<Running>>>);

/// See the module.
pub(crate) struct Running {
    pub(super) repository: String,
    pub(super) name: String,
    pub(super) uuid: String,
    pub(super) start_ms: i64,
    pub(super) request: CreateSnapshot,
    pub(super) data_streams: Vec<String>,
    /// Raised by a deletion of the snapshot, by a cancellation of its task, and at the end of the process.
    pub(super) cancel: Cancel,
    /// Dropped when the snapshot has ended.
    _task: Option<BackgroundTask>,
    /// By index name and shard number.
    shards: Mutex<BTreeMap<(String, u32), ShardSnapshotStatus>>,
    /// Closed when the snapshot has ended.
    ended: watch::Sender<bool>,
}

impl Running {
    pub(super) fn new(
        request: CreateSnapshot,
        name: String,
        uuid: String,
        start_ms: i64,
        shards: impl Iterator<Item = (String, u32)>,
        data_streams: Vec<String>,
        task: Option<BackgroundTask>,
    ) -> Self {
        let waiting = |(index, shard)| {
            let status = ShardSnapshotStatus {
                shard,
                stage: ShardStage::Init,
                incremental: FileCount::default(),
                processed: FileCount::default(),
                total: FileCount::default(),
                start_ms: 0,
                time_ms: 0,
                reason: None,
            };
            ((index, shard), status)
        };
        Self {
            repository: request.repository.clone(),
            name,
            uuid,
            start_ms,
            request,
            data_streams,
            cancel: task.as_ref().map(|task| task.cancel.clone()).unwrap_or_default(),
            _task: task,
            shards: Mutex::new(shards.map(waiting).collect()),
            ended: watch::Sender::new(false),
        }
    }

    /// Changes the status of a shard.
    pub(super) fn note(&self, index: &str, shard: u32, change: impl FnOnce(&mut ShardSnapshotStatus)) {
        if let Some(status) = self.shards.lock().get_mut(&(index.to_owned(), shard)) {
            change(status);
        }
    }

    /// Removes a deleted index.
    pub(super) fn leave_out(&self, index: &str) {
        self.shards.lock().retain(|(name, _), _| name != index);
    }

    /// Returns the status of the shards of an index, by number.
    pub(super) fn shards_of(&self, index: &str) -> Vec<ShardSnapshotStatus> {
        let shards = self.shards.lock();
        let own = shards.iter().filter(|((name, _), _)| name == index);
        own.map(|(_, status)| status.clone()).collect()
    }

    pub(super) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Waits until the snapshot has ended.
    pub(super) async fn wait(&self) {
        let mut ended = self.ended.subscribe();
        // An error means that the sender was dropped, so the snapshot has ended too.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    pub(super) fn info(&self) -> SnapshotInfo {
        let shards = self.shards.lock();
        let mut indices: Vec<String> = shards.keys().map(|(index, _)| index.clone()).collect();
        indices.dedup();
        let done = |status: &&ShardSnapshotStatus| matches!(status.stage, ShardStage::Finalize | ShardStage::Done);
        SnapshotInfo {
            name: self.name.clone(),
            uuid: self.uuid.clone(),
            repository: self.repository.clone(),
            indices,
            data_streams: self.data_streams.clone(),
            include_global_state: self.request.include_global_state,
            metadata: self.request.metadata.clone(),
            state: SnapshotState::InProgress,
            start_ms: self.start_ms,
            end_ms: None,
            total_shards: shards.len() as u32,
            successful_shards: shards.values().filter(done).count() as u32,
            failures: Vec::new(),
            index_details: BTreeMap::new(),
        }
    }

    pub(super) fn status(&self, now_ms: i64) -> SnapshotStatus {
        let mut indices: Vec<IndexSnapshotStatus> = Vec::new();
        for ((index, _), status) in self.shards.lock().iter() {
            let mut status = status.clone();
            if status.stage == ShardStage::Started {
                status.time_ms = (now_ms - status.start_ms).max(0) as u64;
            }
            match indices.last_mut() {
                Some(last) if last.name == *index => last.shards.push(status),
                _ => indices.push(IndexSnapshotStatus {
                    name: index.clone(),
                    shards: vec![status],
                }),
            }
        }
        SnapshotStatus {
            name: self.name.clone(),
            uuid: self.uuid.clone(),
            repository: self.repository.clone(),
            state: SnapshotState::InProgress,
            include_global_state: self.request.include_global_state,
            start_ms: self.start_ms,
            time_ms: (now_ms - self.start_ms).max(0) as u64,
            indices,
        }
    }
}

/// Returns the error of a snapshot that was cancelled.
pub(super) fn aborted(running: &Running) -> Error {
    Error::new(
        ErrorKind::Cancelled,
        format!("[{}:{}] aborted", running.repository, running.name),
    )
}
