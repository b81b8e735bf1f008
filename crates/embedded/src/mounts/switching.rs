//! Mounted indices whose snapshot was rewritten.
//!
//! Removing a tenant's events from a snapshot leaves it with other splits under its name and id. Shards that read the old
//! ones are replaced by new shards in their slots; a search that is under way goes on with what it holds.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use firn_model::Result;
use firn_model::settings::SnapshotStore;
use firn_storage::regions::ObjectId;

use super::{MountedIndex, MountedShard};
use crate::engine::Core;
use crate::segment::ShardSnapshot;

/// Between two looks whether somebody still reads what is to go.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long a copy that is being made may take to notice that it is not wanted any more: one request's time.
const COPY_PATIENCE: Duration = Duration::from_secs(30);

/// The ids of a snapshot and of an index in it, and the name of its repository here.
type IndexKey<'a> = (&'a str, &'a str, &'a str);

pub(super) fn key_of_index(store: &SnapshotStore) -> IndexKey<'_> {
    (&store.snapshot_uuid, &store.index_uuid, &store.repository)
}

pub(super) fn is_same_index(one: &SnapshotStore, other: &SnapshotStore) -> bool {
    key_of_index(one) == key_of_index(other)
}

impl Core {
    /// Reads again what indices read that are mounted from a snapshot, under whatever name its repository has here. Blocks
    /// while searches end that read what is gone, `patience` at most for all of them; later ones read what is there now.
    pub(crate) fn reread_mounts(&self, snapshot_uuid: &str, patience: Duration) -> Result<()> {
        let until = Instant::now() + patience;
        let mut outcome = Ok(());
        for store in self.stores_of(snapshot_uuid) {
            let left = until.saturating_duration_since(Instant::now());
            outcome = outcome.and(self.reread_mounted(&store, left));
        }
        outcome
    }

    /// To be called before a snapshot is rewritten: what this node has kept of its manifests goes.
    pub(crate) fn forget_manifests(&self, snapshot_uuid: &str) -> Result<()> {
        let stores = self.stores_of(snapshot_uuid);
        stores
            .iter()
            .try_for_each(|store| self.mounts.manifests.forget_copy(store))
    }

    /// Where indices are read that are mounted from a snapshot, each once.
    fn stores_of(&self, snapshot_uuid: &str) -> Vec<Arc<SnapshotStore>> {
        let state = self.state();
        let indices = state.metadata.indices.values();
        let stores = indices.filter_map(|index| index.settings.snapshot.as_ref());
        let own = stores.filter(|store| store.snapshot_uuid == snapshot_uuid);
        let own: BTreeMap<IndexKey<'_>, &Arc<SnapshotStore>> = own.map(|store| (key_of_index(store), store)).collect();
        own.into_values().cloned().collect()
    }

    /// As [`Core::reread_mounts`] for one index of a snapshot. The copy of its manifest on this node is replaced last.
    pub(crate) fn reread_mounted(&self, store: &SnapshotStore, patience: Duration) -> Result<()> {
        let repository = self.repository(&store.repository)?;
        let manifests = &self.mounts.manifests;
        let (index, fetched) = self.io()?.block_on(manifests.fetch_anew(store, &repository))?;
        self.switch_mounts(store, &index, patience);
        self.forget_other_copies(store)?;
        manifests.keep(store, &fetched);
        Ok(())
    }

    /// Puts shards that read `new` in the place of those that read what the snapshot was before, waits for searches of
    /// those, `patience` at most, and lets go what is here of splits that nothing names any more.
    pub(crate) fn switch_mounts(&self, store: &SnapshotStore, new: &Arc<MountedIndex>, patience: Duration) {
        let state = self.state();
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
        self.mounts.switched.fetch_add(1, Ordering::AcqRel);
        let kept: HashSet<&str> = new.segments().map(|segment| segment.split.id.as_str()).collect();
        let named = old.iter().flat_map(|index| index.segments());
        let gone: HashSet<&str> = named
            .map(|segment| segment.split.id.as_str())
            .filter(|id| !kept.contains(id))
            .collect();
        let is_gone = |key: &super::SplitKey| gone.contains(key.split.as_str()) && *key.repository == *store.repository;
        let started = Instant::now();
        while self.mounts.open.any_in_use(is_gone) && started.elapsed() < patience && !self.is_closing() {
            std::thread::sleep(LOOK_EVERY);
        }
        self.mounts.open.close(is_gone);
        if let Ok(regions) = self.mounts.regions() {
            let tables = old.iter().flat_map(|index| &index.tables).map(|table| table.id());
            let kept: HashSet<&str> = new.tables.iter().map(|table| table.id()).collect();
            let tables = tables.filter(|id| !kept.contains(id));
            let ids = gone.iter().copied().chain(tables).filter_map(ObjectId::parse);
            regions.clear(Some(&ids.collect()));
        }
    }

    /// Removes whole copies of splits that the shards of an index do not read.
    pub(crate) fn forget_other_copies(&self, store: &SnapshotStore) -> Result<()> {
        let state = self.state();
        let shards = state.mounted_slots().filter_map(|(_, slot)| slot.mounted());
        for shard in shards.filter(|shard| !shard.store.partial && is_same_index(&shard.store, store)) {
            let started = Instant::now();
            // One that began before may be about to put its copy here.
            while self.copies_for_another(&shard) && started.elapsed() < COPY_PATIENCE {
                std::thread::sleep(LOOK_EVERY);
            }
            shard.remove_other_copies(&self.config.disk)?;
        }
        Ok(())
    }

    /// Whether a mounted shard reads what a search of it saw.
    pub(crate) fn still_reads(&self, shard: &MountedShard, seen: &ShardSnapshot) -> bool {
        if self.mounts.switched.load(Ordering::Acquire) == 0 {
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
