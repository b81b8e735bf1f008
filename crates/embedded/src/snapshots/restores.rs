//! Running restores and the latest ended ones, as `_recovery` shows them. Not stored across a restart; after it the
//! shards are recovered from the local disk.

use std::collections::VecDeque;
use std::sync::Arc;

use firn_engine::recovery::{Recovered, RecoverySource, ShardRecovery};
use firn_model::metadata::{Command, DataStream, EmbeddedCommand, IndexMetadata, Metadata};
use firn_model::{Error, ErrorKind, Result};
use firn_storage::repository::IndexManifest;
use parking_lot::Mutex;

/// Index restores remembered: some hundred bytes for each shard.
const RESTORES_MAX: usize = 1000;

/// Restores of this process.
#[derive(Default)]
pub(crate) struct Restores {
    /// By index, the latest ones.
    last: Mutex<VecDeque<Arc<IndexRestore>>>,
    /// Restores whose indices are not visible yet.
    not_shown: Mutex<Vec<Arc<Restoring>>>,
}

/// A restore in the list of those whose indices are not visible yet. Dropped when the indices are visible, or when the
/// restore failed.
pub(super) struct Listed<'a> {
    restores: &'a Restores,
    own: Arc<Restoring>,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        let mut not_shown = self.restores.not_shown.lock();
        not_shown.retain(|other| !Arc::ptr_eq(other, &self.own));
    }
}

/// The indices of one restore. They become visible together.
pub(crate) struct Restoring {
    indices: Vec<Arc<IndexMetadata>>,
    data_streams: Vec<Arc<DataStream>>,
    /// Restores of those indices that have files to download.
    parts: Vec<Arc<IndexRestore>>,
}

/// Restore of one index.
pub(crate) struct IndexRestore {
    /// Uuid of the restored index in this cluster.
    uuid: String,
    shards: Mutex<Vec<ShardRecovery>>,
}

impl Restores {
    /// Adds an index whose shards are about to be downloaded to the list.
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
        let mut restores = self.last.lock();
        restores.push_back(Arc::clone(&restore));
        if restores.len() > RESTORES_MAX {
            restores.pop_front();
        }
        restore
    }

    /// Removes indices whose restore failed, by their uuids.
    pub(super) fn forget(&self, uuids: &[String]) {
        self.last.lock().retain(|restore| !uuids.contains(&restore.uuid));
    }

    /// Returns how a shard was restored; `None`: this process did not restore it.
    pub(crate) fn of_shard(&self, uuid: &str, shard: u32) -> Option<ShardRecovery> {
        let restores = self.last.lock();
        let own = restores.iter().find(|restore| restore.uuid == uuid)?;
        let shards = own.shards.lock();
        shards.iter().find(|recovery| recovery.shard == shard).cloned()
    }

    /// Adds a restore whose indices are not visible yet to the list.
    pub(super) fn list(&self, restoring: Restoring) -> Listed<'_> {
        let own = Arc::new(restoring);
        self.not_shown.lock().push(Arc::clone(&own));
        Listed { restores: self, own }
    }

    /// Refuses a command that would make a running restore fail in the end, for example because it takes the name of an
    /// index. `after` is the result of the command on `before`.
    pub(crate) fn check_running_restores(
        &self,
        command: &EmbeddedCommand,
        before: &Metadata,
        after: &Metadata,
        now_ms: i64,
    ) -> Result<()> {
        for restore in self.not_shown() {
            if restore.is_shown(after) {
                continue;
            }
            // The result is discarded, so no ids are needed.
            let ends = |metadata: &Metadata| {
                metadata
                    .apply_embedded(&restore.command(), now_ms, &mut String::new)
                    .err()
            };
            if ends(before).is_some() {
                continue;
            }
            if let Some(error) = ends(after) {
                return Err(restore.in_the_way(command, error));
            }
        }
        Ok(())
    }

    /// Returns the restores whose indices are not visible yet.
    pub(crate) fn not_shown(&self) -> Vec<Arc<Restoring>> {
        self.not_shown.lock().clone()
    }
}

impl Restoring {
    /// `parts`: the restores of those indices that have files to download.
    pub(super) fn new(
        indices: Vec<Arc<IndexMetadata>>,
        data_streams: Vec<Arc<DataStream>>,
        parts: Vec<Arc<IndexRestore>>,
    ) -> Self {
        Self {
            indices,
            data_streams,
            parts,
        }
    }

    /// Returns the command that makes the indices visible.
    pub(crate) fn command(&self) -> EmbeddedCommand {
        EmbeddedCommand::AddIndices {
            indices: self.indices.clone(),
            data_streams: self.data_streams.clone(),
            global: None,
        }
    }

    /// Whether the indices are visible.
    fn is_shown(&self, metadata: &Metadata) -> bool {
        let first = self.indices.first();
        first.is_some_and(|own| {
            metadata
                .indices
                .get(&own.name)
                .is_some_and(|index| index.uuid == own.uuid)
        })
    }

    fn in_the_way(&self, command: &EmbeddedCommand, why: Error) -> Error {
        match command {
            // The writer retries; then the index exists.
            EmbeddedCommand::Portable(Command::AutoCreate { name, .. } | Command::CreateOwnIndex { name, .. }) => {
                let reason = format!("[{name}] primary shard is not active: the index is being restored");
                Error::new(ErrorKind::ShardDamaged, reason).with_index(name)
            }
            _ => {
                let names: Vec<&str> = self.indices.iter().map(|index| index.name.as_str()).collect();
                let reason = format!(
                    "conflicts with a running restore of a snapshot as [{}]",
                    names.join(",")
                );
                Error::new(ErrorKind::ResourceAlreadyExists, reason).caused_by(why)
            }
        }
    }

    /// Returns the progress of the shards of an index; empty if the index is not part of this restore.
    pub(crate) fn shards_of(&self, index: &str) -> Vec<ShardRecovery> {
        let own = self.indices.iter().find(|own| own.name == index);
        let part = own.and_then(|own| self.parts.iter().find(|part| part.uuid == own.uuid));
        part.map_or_else(Vec::new, |part| part.shards.lock().clone())
    }
}

impl IndexRestore {
    /// Adds downloaded bytes of a shard.
    pub(super) fn came(&self, shard: u32, bytes: u64) {
        self.note(shard, |recovery| recovery.bytes.recovered += bytes);
    }

    /// Counts a split that was downloaded completely.
    pub(super) fn file_came(&self, shard: u32) {
        self.note(shard, |recovery| recovery.files.recovered += 1);
    }

    /// Marks a shard as restored.
    pub(super) fn done(&self, shard: u32, now_ms: i64) {
        self.note(shard, |recovery| recovery.stop_ms = Some(now_ms));
    }

    fn note(&self, shard: u32, change: impl FnOnce(&mut ShardRecovery)) {
        if let Some(recovery) = self.shards.lock().iter_mut().find(|recovery| recovery.shard == shard) {
            change(recovery);
        }
    }
}

/// Returns the metadata as it will be when these restores have ended; `None`: as it is now.
pub(crate) fn with_restored(
    metadata: &Arc<Metadata>,
    restoring: &[Arc<Restoring>],
    now_ms: i64,
) -> Option<Arc<Metadata>> {
    let mut next = None;
    for restore in restoring {
        let before = next.as_ref().unwrap_or(metadata);
        // The result is discarded, so no ids are needed. A restore that cannot be applied fails at its end.
        if let Ok((with, _)) = before.apply_embedded(&restore.command(), now_ms, &mut String::new) {
            next = Some(with);
        }
    }
    next
}
