//! Update of mounted indices after their snapshot was rewritten.
//!
//! When a tenant's events are removed from a snapshot, it gets other splits under the same name and id. Shards that
//! read the old splits are replaced by new shards in their slots. A running search continues with the old ones.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use firn_model::Result;
use firn_model::settings::SnapshotStore;
use firn_segment::segment::ShardSnapshot;
use firn_storage::regions::ObjectId;

use super::{MountService, MountedIndex, MountedShard};

/// Interval between checks whether removed splits are still in use.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long a running copy may take to notice that it is obsolete: the time of one request.
const COPY_PATIENCE: Duration = Duration::from_secs(30);

/// The ids of a snapshot and of an index in it, and the name of its repository on this node.
type IndexKey<'a> = (&'a str, &'a str, &'a str);

pub(super) fn key_of_index(store: &SnapshotStore) -> IndexKey<'_> {
    (&store.snapshot_uuid, &store.index_uuid, &store.repository)
}

pub(super) fn is_same_index(one: &SnapshotStore, other: &SnapshotStore) -> bool {
    key_of_index(one) == key_of_index(other)
}

impl MountService {
    /// Reloads the manifests of indices that are mounted from a snapshot, under any registered name of its repository.
    /// Blocks while searches of removed splits end, `patience` at most for all of them; later searches read the new
    /// splits.
    pub(crate) fn reread_mounts(&self, snapshot_uuid: &str, patience: Duration) -> Result<()> {
        let until = Instant::now() + patience;
        let mut outcome = Ok(());
        for store in self.stores_of(snapshot_uuid) {
            let left = until.saturating_duration_since(Instant::now());
            outcome = outcome.and(self.reread_mounted(&store, left));
        }
        outcome
    }

    /// Removes this node's copies of the snapshot's manifests. Must be called before a snapshot is rewritten.
    pub(crate) fn forget_manifests(&self, snapshot_uuid: &str) -> Result<()> {
        let stores = self.stores_of(snapshot_uuid);
        stores.iter().try_for_each(|store| self.manifests.forget_copy(store))
    }

    /// Returns the sources of the indices that are mounted from a snapshot, each once.
    fn stores_of(&self, snapshot_uuid: &str) -> Vec<Arc<SnapshotStore>> {
        let state = self.node.state();
        let indices = state.metadata.indices.values();
        let stores = indices.filter_map(|index| index.settings.snapshot.as_ref());
        let own = stores.filter(|store| store.snapshot_uuid == snapshot_uuid);
        let own: BTreeMap<IndexKey<'_>, &Arc<SnapshotStore>> = own.map(|store| (key_of_index(store), store)).collect();
        own.into_values().cloned().collect()
    }

    /// As [`MountService::reread_mounts`] for one index of a snapshot. Replaces the copy of its manifest on this node
    /// last.
    pub(crate) fn reread_mounted(&self, store: &SnapshotStore, patience: Duration) -> Result<()> {
        let repository = self.repositories.repository(&store.repository)?;
        let manifests = &self.manifests;
        let (index, fetched) = self
            .repositories
            .io()?
            .block_on(manifests.fetch_anew(store, &repository))?;
        self.switch_mounts(store, &index, patience);
        self.forget_other_copies(store)?;
        manifests.keep(store, &fetched);
        Ok(())
    }

    /// Replaces the shards that read the old manifest with shards that read `new`. Waits for searches of the old ones,
    /// `patience` at most. Then releases the data of splits that are no longer named.
    pub(crate) fn switch_mounts(&self, store: &SnapshotStore, new: &Arc<MountedIndex>, patience: Duration) {
        let state = self.node.state();
        let mut old: Vec<Arc<MountedIndex>> = Vec::new();
        for (index, slot) in state.mounted_slots() {
            let Some(shard) = slot.mounted().filter(|shard| is_same_index(&shard.store, store)) else {
                continue;
            };
            shard.learn(Arc::clone(new));
            let Some(known) = shard.known().filter(|known| !Arc::ptr_eq(known, new)) else {
                continue;
            };
            let next = self.mounted_shard(&index.metadata, &shard.store, slot.number);
            next.learn(Arc::clone(new));
            if slot.exchange_mounted(&shard, next) && !old.iter().any(|one| Arc::ptr_eq(one, known)) {
                old.push(Arc::clone(known));
            }
        }
        if old.is_empty() {
            return;
        }
        self.switched.fetch_add(1, Ordering::AcqRel);
        let current: HashSet<&str> = new.segments().map(|segment| segment.split.id.as_str()).collect();
        let named = old.iter().flat_map(|index| index.segments());
        let gone: HashSet<&str> = named
            .map(|segment| segment.split.id.as_str())
            .filter(|id| !current.contains(id))
            .collect();
        let is_gone = |key: &super::SplitKey| gone.contains(key.split.as_str()) && *key.repository == *store.repository;
        let started = Instant::now();
        while self.open.any_in_use(is_gone) && started.elapsed() < patience && !self.node.is_closing() {
            std::thread::sleep(LOOK_EVERY);
        }
        self.open.close(is_gone);
        if let Ok(regions) = self.regions() {
            let tables = old.iter().flat_map(|index| &index.tables).map(|table| table.id());
            let current_tables: HashSet<&str> = new.tables.iter().map(|table| table.id()).collect();
            let tables = tables.filter(|id| !current_tables.contains(id));
            let ids = gone.iter().copied().chain(tables).filter_map(ObjectId::parse);
            regions.clear(Some(&ids.collect()));
        }
    }

    /// Removes full copies of splits that the shards of an index do not read.
    pub(crate) fn forget_other_copies(&self, store: &SnapshotStore) -> Result<()> {
        let state = self.node.state();
        let shards = state.mounted_slots().filter_map(|(_, slot)| slot.mounted());
        for shard in shards.filter(|shard| !shard.store.partial && is_same_index(&shard.store, store)) {
            let started = Instant::now();
            // A copy that started earlier may be about to create its file here.
            while self.copies_for_another(&shard) && started.elapsed() < COPY_PATIENCE {
                std::thread::sleep(LOOK_EVERY);
            }
            shard.remove_other_copies(&self.node.config.disk)?;
        }
        Ok(())
    }

    /// Whether a mounted shard still reads the manifest that a search used.
    pub(crate) fn still_reads(&self, shard: &MountedShard, seen: &ShardSnapshot) -> bool {
        if self.switched.load(Ordering::Acquire) == 0 {
            return true;
        }
        let Some(segments) = shard.segments() else {
            return seen.segments.is_empty();
        };
        let named: HashSet<&str> = segments
            .segments
            .iter()
            .map(|segment| segment.split.segment.as_str())
            .collect();
        let splits = seen.segments.iter().map(|segment| segment.derived.split());
        splits
            .into_iter()
            .all(|split| split.is_some_and(|split| named.contains(split.made_from())))
    }
}
