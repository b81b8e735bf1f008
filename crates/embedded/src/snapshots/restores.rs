//! Restores that run, and what the last ones did: what `_recovery` tells of them. Forgotten with the process, after
//! which the shards come from this node's own disk.

use std::collections::VecDeque;
use std::sync::Arc;

use firn_engine::recovery::{Recovered, RecoverySource, ShardRecovery};
use firn_model::metadata::IndexMetadata;
use firn_storage::repository::IndexManifest;
use parking_lot::Mutex;

/// Indices whose restore is remembered: some hundred bytes for each shard.
const RESTORES_KEPT: usize = 1000;

/// See the module.
#[derive(Default)]
pub(crate) struct Restores(Mutex<VecDeque<Arc<IndexRestore>>>);

/// One index.
pub(crate) struct IndexRestore {
    /// Of the index as it is, or will be, here.
    uuid: String,
    shards: Mutex<Vec<ShardRecovery>>,
}

impl Restores {
    /// Lists an index whose shards are about to be brought here.
    pub(super) fn begin(
        &self,
        index: &IndexMetadata,
        manifest: &IndexManifest,
        (repository, snapshot): (&str, &str),
        now_ms: i64,
    ) -> Arc<IndexRestore> {
        let name = manifest.index.get("name").and_then(|name| name.as_str());
        let source = RecoverySource::Snapshot {
            repository: repository.to_owned(),
            snapshot: snapshot.to_owned(),
            index: name.unwrap_or(&index.name).to_owned(),
        };
        let shards = manifest.shards.iter().map(|shard| ShardRecovery {
            index: index.name.clone(),
            shard: shard.shard,
            source: source.clone(),
            start_ms: now_ms,
            stop_ms: None,
            files: Recovered {
                total: shard.segments.len() as u64,
                ..Recovered::default()
            },
            bytes: Recovered {
                total: shard.segments.iter().map(|segment| segment.split.len).sum(),
                ..Recovered::default()
            },
        });
        let restore = Arc::new(IndexRestore {
            uuid: index.uuid.clone(),
            shards: Mutex::new(shards.collect()),
        });
        let mut restores = self.0.lock();
        restores.push_back(Arc::clone(&restore));
        if restores.len() > RESTORES_KEPT {
            restores.pop_front();
        }
        restore
    }

    /// Takes indices out whose restore failed, by their uuids.
    pub(super) fn forget(&self, uuids: &[String]) {
        self.0.lock().retain(|restore| !uuids.contains(&restore.uuid));
    }

    /// How a shard was restored; `None`: it was not, as far as this process knows.
    pub(crate) fn of_shard(&self, uuid: &str, shard: u32) -> Option<ShardRecovery> {
        let restores = self.0.lock();
        let own = restores.iter().find(|restore| restore.uuid == uuid)?;
        let shards = own.shards.lock();
        shards.iter().find(|recovery| recovery.shard == shard).cloned()
    }

    /// Those under way whose index nobody can see yet.
    pub(crate) fn under_way(&self) -> Vec<ShardRecovery> {
        let restores = self.0.lock();
        let all = restores.iter().flat_map(|restore| restore.shards.lock().clone());
        all.filter(|recovery| recovery.stop_ms.is_none()).collect()
    }
}

impl IndexRestore {
    /// Notes bytes of a shard that came.
    pub(super) fn came(&self, shard: u32, bytes: u64) {
        self.note(shard, |recovery| recovery.bytes.recovered += bytes);
    }

    /// Notes a split that came whole.
    pub(super) fn file_came(&self, shard: u32) {
        self.note(shard, |recovery| recovery.files.recovered += 1);
    }

    /// The shard is there.
    pub(super) fn done(&self, shard: u32, now_ms: i64) {
        self.note(shard, |recovery| recovery.stop_ms = Some(now_ms));
    }

    fn note(&self, shard: u32, change: impl FnOnce(&mut ShardRecovery)) {
        if let Some(recovery) = self.shards.lock().iter_mut().find(|recovery| recovery.shard == shard) {
            change(recovery);
        }
    }
}
