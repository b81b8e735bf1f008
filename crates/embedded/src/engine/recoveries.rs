//! Recovery information: how the shards of a target came to this node.

use firn_engine::RequestContext;
use firn_engine::recovery::{Recovered, RecoverySource, ShardRecovery};
use firn_model::Result;
use firn_model::metadata::resolve;
use firn_query::search::IndexTarget;
use firn_shard::Shard;

use super::services::Services;
use crate::mounts::MountedShard;
use crate::node::state::{IndexState, Served, ShardSlot};
use crate::snapshots::with_restored;

impl Services {
    /// Returns the recoveries of a target, sorted by index and shard number. Includes indices that are still being
    /// restored: no other request can see those yet, here they are resolved as if they existed.
    pub(super) fn recoveries(&self, ctx: &RequestContext, target: &IndexTarget) -> Result<Vec<ShardRecovery>> {
        // Read before the state: an index that becomes visible in between is then in both, instead of in neither.
        let restoring = self.repositories.restores.not_shown();
        let state = self.node.state();
        let view = match with_restored(&state.metadata, &restoring, self.node.now_ms()) {
            Some(metadata) if ctx.scope.is_unlimited() => metadata,
            _ => self.node.view(&state, &ctx.scope),
        };
        let resolved = resolve(&target.expression, target.options, &view, self.node.now_ms())?;
        let mut recoveries = Vec::new();
        for index in &resolved {
            match state.indices.get(&index.name) {
                Some(index) => {
                    let shards = index.shards.iter();
                    recoveries.extend(shards.filter_map(|slot| self.recovery_of(index, slot)));
                }
                None => {
                    let own = restoring.iter().flat_map(|restore| restore.shards_of(&index.name));
                    recoveries.extend(own);
                }
            }
        }
        recoveries.sort_by(|left, right| (&left.index, left.shard).cmp(&(&right.index, right.shard)));
        Ok(recoveries)
    }

    /// Returns the recovery of a shard; `None`: it does not serve and is not being opened.
    fn recovery_of(&self, index: &IndexState, slot: &ShardSlot) -> Option<ShardRecovery> {
        // Read before the shard: a shard that is published in between is then shown as recovered.
        let is_being_opened = slot.recovery.is_closed();
        match slot.served() {
            Err(_) => is_being_opened.then(|| recovery_of_opening(index, slot)),
            Ok(Served::Mounted(shard)) => Some(self.recovery_of_mounted(slot, &shard)),
            Ok(Served::Written(shard)) => {
                let restored = self.repositories.restores.of_shard(&index.metadata.uuid, slot.number);
                Some(restored.unwrap_or_else(|| self.recovery_of_written(index, slot, &shard)))
            }
        }
    }

    fn recovery_of_written(&self, index: &IndexState, slot: &ShardSlot, shard: &Shard) -> ShardRecovery {
        let began_empty = index.metadata.created_ms >= self.node.started_ms;
        let (files, bytes) = match began_empty {
            true => (0, 0),
            false => (shard.snapshot().segments.len() as u64, shard.stats().store_bytes),
        };
        ShardRecovery {
            index: index.name.to_string(),
            shard: slot.number,
            source: match began_empty {
                true => RecoverySource::EmptyStore,
                false => RecoverySource::ExistingStore,
            },
            start_ms: slot.opened_ms,
            stop_ms: Some(slot.opened_ms),
            files: Recovered::reused(files),
            bytes: Recovered::reused(bytes),
        }
    }

    /// A shard that is read through the shared cache has nothing to recover.
    fn recovery_of_mounted(&self, slot: &ShardSlot, shard: &MountedShard) -> ShardRecovery {
        let store = &shard.store;
        let copied = match store.partial {
            true => Copied::default(),
            false => self.copied(shard),
        };
        let is_whole = store.partial || (shard.segments().is_some() && copied.files.percent() >= 100.0);
        ShardRecovery {
            index: shard.index.to_string(),
            shard: shard.number,
            source: RecoverySource::Snapshot {
                repository: store.repository.clone(),
                snapshot: store.snapshot.clone(),
                index: store.index.clone(),
            },
            start_ms: slot.opened_ms,
            stop_ms: is_whole.then(|| shard.copied_ms().unwrap_or(slot.opened_ms)),
            files: copied.files,
            bytes: copied.bytes,
        }
    }

    /// Returns how much of a full copy is on this node.
    fn copied(&self, shard: &MountedShard) -> Copied {
        let mut copied = Copied::default();
        for (bytes, came, is_here) in shard.copied(&self.node.config.disk) {
            copied.files.total += 1;
            copied.bytes.total += bytes;
            copied.bytes.recovered += came;
            copied.files.recovered += u64::from(is_here);
        }
        copied
    }
}

#[derive(Default)]
struct Copied {
    files: Recovered,
    bytes: Recovered,
}

/// A shard that replays its write-ahead log: how much of it is read is not counted.
fn recovery_of_opening(index: &IndexState, slot: &ShardSlot) -> ShardRecovery {
    let settings = &index.metadata.settings;
    let source = settings.snapshot.as_ref().map(|store| RecoverySource::Snapshot {
        repository: store.repository.clone(),
        snapshot: store.snapshot.clone(),
        index: store.index.clone(),
    });
    ShardRecovery {
        index: index.name.to_string(),
        shard: slot.number,
        source: source.unwrap_or(RecoverySource::ExistingStore),
        start_ms: slot.opened_ms,
        stop_ms: None,
        files: Recovered::default(),
        bytes: Recovered::default(),
    }
}
