//! List of failed snapshots. The repository holds nothing of them; a client that started one without waiting finds its
//! error here.

use std::collections::VecDeque;

use firn_engine::snapshot::{ShardFailure, ShardStage, SnapshotInfo, SnapshotState, SnapshotStatus};
use firn_model::Error;
use parking_lot::Mutex;

use super::running_snapshots::Running;

/// Failed snapshots remembered over all repositories, the newest, until the process ends. The bound exists because each
/// may have many shards.
const ENTRIES_MAX: usize = 20;

/// Failed snapshots in the order of their end.
#[derive(Default)]
pub(super) struct FailedList(Mutex<VecDeque<Failed>>);

/// A failed snapshot.
#[derive(Clone)]
pub(super) struct Failed {
    pub(super) info: SnapshotInfo,
    pub(super) status: SnapshotStatus,
}

impl FailedList {
    /// Records a snapshot that ended with an error. Replaces an earlier entry with the same name.
    pub(super) fn note(&self, running: &Running, error: &Error, now_ms: i64) {
        let failed = Failed::new(running, error, now_ms);
        self.forget(&running.repository, |name| name == running.name);
        let mut entries = self.0.lock();
        entries.push_back(failed);
        if entries.len() > ENTRIES_MAX {
            entries.pop_front();
        }
    }

    /// Returns the failed snapshots of a repository.
    pub(super) fn of(&self, repository: &str) -> Vec<Failed> {
        let entries = self.0.lock();
        let own = entries.iter().filter(|failed| failed.info.repository == repository);
        own.cloned().collect()
    }

    /// Removes the failed snapshots of a repository whose name matches.
    pub(super) fn forget(&self, repository: &str, is_meant: impl Fn(&str) -> bool) {
        let mut entries = self.0.lock();
        entries.retain(|failed| failed.info.repository != repository || !is_meant(&failed.info.name));
    }
}

impl Failed {
    fn new(running: &Running, error: &Error, now_ms: i64) -> Self {
        let mut info = running.info();
        let mut status = running.status(now_ms);
        info.state = SnapshotState::Failed;
        status.state = SnapshotState::Failed;
        info.end_ms = Some(now_ms);
        // The splits of the other shards are useless now and are removed.
        info.successful_shards = 0;
        for index in &mut status.indices {
            // An error of one index does not concern the other indices.
            let is_its = error.index().is_none_or(|name| name == index.name);
            for shard in index.shards.iter_mut().filter(|shard| is_its || shard.reason.is_some()) {
                shard.stage = ShardStage::Failure;
                let reason = shard.reason.get_or_insert_with(|| error.to_string()).clone();
                info.failures.push(ShardFailure {
                    index: index.name.clone(),
                    index_uuid: String::new(),
                    shard: shard.shard,
                    reason,
                });
            }
        }
        Self { info, status }
    }
}
