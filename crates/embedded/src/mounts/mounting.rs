//! Mounting of indices from snapshots, and information about mounted indices.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::RequestContext;
use firn_engine::mounts::{CachedKind, MountSnapshot, MountedShardStats, MountedSplits, SharedCacheStats, Storage};
use firn_model::metadata::{IndexMetadata, MountIndex, resolve};
use firn_model::repository::snapshot_missing;
use firn_model::settings::{SnapshotStore, flatten};
use firn_model::{Error, Result};
use firn_query::search::IndexTarget;
use firn_storage::repository::State;
use firn_storage::split::PartKind;

use super::{MountService, MountedIndex, MountedShard};
use crate::node::state::{IndexState, Served, ShardSlot};
use crate::snapshots::{Reading, Use, Work};

/// Mount whose snapshot has been read and checked.
pub(crate) struct Planned {
    pub(crate) command: MountIndex,
    /// Held until the index exists; then its shards hold it.
    pub(crate) manifest: Arc<MountedIndex>,
    /// Held until the index exists, which holds both from then on.
    pub(crate) _used: Use,
    pub(crate) _reading: Reading,
}

/// Refuses to mount an index that was itself mounted when the snapshot was made: the snapshot holds none of its events.
/// The text is that of Elasticsearch.
pub(crate) fn check_holds_events(index: &IndexMetadata, from: &SnapshotStore) -> Result<()> {
    let Some(origin) = &index.settings.snapshot else {
        return Ok(());
    };
    Err(Error::illegal_argument(format!(
        "index [{}] in snapshot [{}/{}:{}] is a snapshot of a searchable snapshot index backed by index [{}] in snapshot \
         [{}/{}:{}] and cannot be mounted; did you mean to restore it instead?",
        from.index,
        from.repository,
        from.repository_uuid,
        from.snapshot,
        origin.index,
        origin.repository,
        origin.repository_uuid,
        origin.snapshot,
    )))
}

impl MountService {
    pub(crate) async fn plan_mount(&self, request: &MountSnapshot) -> Result<Planned> {
        let settings = flatten(&request.index_settings, true)?;
        let (repository, used) = self.repositories.repository_for(&request.repository, Work::Mount)?;
        let manifests = &self.manifests;
        let state = repository.state().await?;
        let (_, reading) = self
            .repositories
            .read_snapshot(&repository, &state, &request.snapshot, Work::Mount)?;
        let snapshot = manifests.snapshot(&repository, &state, &request.snapshot).await?;
        let Some(entry) = snapshot.indices.get(&request.index) else {
            return Err(Error::index_not_found(&request.index));
        };
        let store = SnapshotStore {
            repository: request.repository.clone(),
            repository_uuid: state.uuid.clone(),
            snapshot: request.snapshot.clone(),
            snapshot_uuid: snapshot.uuid.clone(),
            index: request.index.clone(),
            index_uuid: entry.uuid.clone(),
            partial: request.storage == Storage::SharedCache,
        };
        let (index, manifest) = manifests.source(&store, &entry.manifest, &repository).await?;
        self.switch_mounts(&store, &manifest, Duration::ZERO);
        check_holds_events(&index, &store)?;
        self.open_tables(&manifest, &repository).await;
        // Reading may have taken long, and other nodes may have removed the snapshot meanwhile.
        let is_there = |state: &State| {
            let entry = state.snapshots.get(&request.snapshot);
            entry.is_some_and(|entry| entry.uuid == snapshot.uuid)
        };
        if !is_there(&*repository.state().await?) {
            return Err(snapshot_missing(&request.repository, &request.snapshot));
        }
        Ok(Planned {
            command: MountIndex {
                name: request.renamed_index.clone().unwrap_or_else(|| request.index.clone()),
                index,
                store,
                settings,
                ignored_settings: request.ignore_index_settings.clone(),
            },
            manifest,
            _used: used,
            _reading: reading,
        })
    }

    /// Returns the state of a mounted index.
    pub(crate) fn new_mounted(
        &self,
        index: &Arc<IndexMetadata>,
        store: &Arc<SnapshotStore>,
    ) -> Result<Arc<IndexState>> {
        let now_ms = self.node.now_ms();
        let slot = |number| {
            let shard = self.mounted_shard(index, store, number);
            ShardSlot::new(number, Ok(Served::Mounted(shard)), now_ms)
        };
        IndexState::new(index, (0..index.settings.number_of_shards).map(slot).collect())
    }

    pub(crate) fn mounted_shard(
        &self,
        index: &IndexMetadata,
        store: &Arc<SnapshotStore>,
        number: u32,
    ) -> Arc<MountedShard> {
        let dir = self.node.factory.mounted_dir(index, number);
        let shard = MountedShard::new(index, store, number, dir);
        if let Some(known) = self.manifests.known(store) {
            shard.learn(known);
        }
        Arc::new(shard)
    }

    /// Puts a mounted shard into its slot: nothing can fail before the first read.
    pub(crate) fn open_mounted_slot(
        &self,
        index: &IndexState,
        store: &Arc<SnapshotStore>,
        slot: &ShardSlot,
    ) -> Result<()> {
        slot.reopen.store(false, std::sync::atomic::Ordering::Release);
        let outcome = self.node.check_wanted(index);
        slot.replace(match &outcome {
            Ok(()) => Ok(Served::Mounted(self.mounted_shard(&index.metadata, store, slot.number))),
            Err(error) => Err(error.clone()),
        });
        outcome
    }

    /// Removes files that mounts of an earlier process left behind.
    pub(crate) fn tidy_mounts(&self) {
        let state = self.node.state();
        let indices = state.metadata.indices.values();
        self.manifests
            .retain(indices.filter_map(|index| index.settings.snapshot.as_deref()));
    }

    /// Returns the mounted shards of a target.
    pub(crate) fn mounted_of(&self, ctx: &RequestContext, target: &IndexTarget) -> Result<Vec<Arc<MountedShard>>> {
        let state = self.node.state();
        let view = self.node.view(&state, &ctx.scope);
        let resolved = resolve(&target.expression, target.options, &view, self.node.now_ms())?;
        let indices = resolved.iter().filter_map(|target| state.indices.get(&target.name));
        let slots = indices.flat_map(|index| index.shards.iter());
        Ok(slots.filter_map(|slot| slot.mounted()).collect())
    }

    pub(crate) fn mounted_stats(&self, shard: &Arc<MountedShard>) -> MountedShardStats {
        let splits = shard.segments().map(|segments| {
            let mut splits = MountedSplits {
                open: self.open_count(shard),
                local_bytes: self.local_bytes(shard),
                ..MountedSplits::default()
            };
            for segment in &segments.segments {
                splits.count += 1;
                splits.bytes += segment.split.len;
                splits.docs += u64::from(segment.split.docs);
                splits.segment_bytes += segment.split.segment_bytes;
            }
            splits
        });
        MountedShardStats {
            index: shard.index.to_string(),
            uuid: shard.uuid.to_string(),
            shard: shard.number,
            storage: match shard.store.partial {
                true => Storage::SharedCache,
                false => Storage::FullCopy,
            },
            snapshot_uuid: shard.store.snapshot_uuid.clone(),
            snapshot_index: shard.store.index.clone(),
            index_uuid: shard.store.index_uuid.clone(),
            splits,
        }
    }

    pub(crate) fn shared_cache_stats(&self) -> Result<SharedCacheStats> {
        let stats = self.regions()?.stats();
        let (open_splits, open_bytes) = self.open_usage();
        let kinds = PartKind::ALL.into_iter().map(|kind| {
            let own = stats.kind(kind);
            let cached = CachedKind {
                requested_bytes: own.requested_bytes,
                hit_bytes: own.hit_bytes,
                missed_bytes: own.missed_bytes,
                fetched_bytes: own.fetched_bytes,
                cached_bytes: own.cached_bytes,
                evicted_bytes: own.evicted_bytes,
            };
            (kind.name(), cached)
        });
        Ok(SharedCacheStats {
            size_bytes: stats.size_bytes,
            used_bytes: stats.used_bytes,
            pinned_bytes: stats.pinned_bytes,
            region_bytes: firn_storage::regions::REGION_BYTES,
            regions: stats.regions,
            regions_max: stats.regions_max,
            reads: stats.disk_reads,
            read_bytes: stats.disk_read_bytes,
            writes: stats.disk_writes,
            written_bytes: stats.disk_write_bytes,
            evictions: stats.evictions,
            store_requests: stats.store_requests,
            joined: stats.joined,
            damaged_pages: stats.damaged_pages + stats.store_damaged,
            bypassed_bytes: stats.bypassed_bytes,
            kinds: kinds.collect(),
            open_splits,
            open_bytes,
        })
    }
}
