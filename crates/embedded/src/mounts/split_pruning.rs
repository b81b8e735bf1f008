//! Remaining splits of mounted shards for one search, computed once for all mounts of the same snapshot.
//!
//! A search over very many mounts applies the same conditions to the same splits under many names. So a result belongs
//! to a manifest and conditions, not to a shard: for two hundred mounts of fifty shards, splits are pruned fifty times,
//! and all other shards are a lookup.

use std::collections::HashMap;
use std::sync::Arc;

use firn_search::NotOpened;
use firn_storage::repository::SnapshotSegment;

use super::manifest_pruning::Pruned;
use super::manifests::MountedIndex;
use super::{Conditions, MountedShard};

/// The remaining splits of one manifest under some conditions.
pub(super) struct RemainingSplitsOfIndex {
    pub(super) index: Arc<MountedIndex>,
    pub(super) conditions: Arc<Conditions>,
    /// By shard number; `None`: the search does not include the shard.
    pub(super) shards: Vec<Option<RemainingSplits>>,
}

/// The remaining splits of one shard of a snapshot.
pub(super) struct RemainingSplits {
    /// One of the mounted shards that read it.
    pub(super) shard: Arc<MountedShard>,
    /// Places of its segments that may hold a match.
    pub(super) places: Vec<usize>,
    pub(super) pruned: NotOpened,
}

/// See the module.
#[derive(Default)]
pub(super) struct SplitPruning {
    pub(super) indices: Vec<RemainingSplitsOfIndex>,
    /// Place of a manifest and conditions in `indices`, by their addresses, which `indices` keeps alive. Full copies
    /// belong to one index, so its uuid is part of the key.
    places: HashMap<(usize, usize, Option<Arc<str>>), usize>,
    /// For each shard of the search, the place of its manifest in `indices`; `None`: its manifest is unknown.
    of_shards: Vec<Option<usize>>,
}

impl SplitPruning {
    /// Computes the remaining splits of shards from their manifests.
    pub(super) fn of<'a>(wanted: impl Iterator<Item = (&'a Arc<MountedShard>, &'a Arc<Conditions>)>) -> Self {
        let mut left = Self::default();
        for (shard, conditions) in wanted {
            let place = left.add(shard, conditions);
            left.of_shards.push(place);
        }
        left
    }

    fn add(&mut self, shard: &Arc<MountedShard>, conditions: &Arc<Conditions>) -> Option<usize> {
        let index = shard.known()?;
        let key = (
            Arc::as_ptr(index) as usize,
            Arc::as_ptr(conditions) as usize,
            (!shard.store.partial).then(|| Arc::clone(&shard.uuid)),
        );
        let place = *self.places.entry(key).or_insert_with(|| {
            self.indices.push(RemainingSplitsOfIndex {
                index: Arc::clone(index),
                conditions: Arc::clone(conditions),
                shards: index.shards.iter().map(|_| None).collect(),
            });
            self.indices.len() - 1
        });
        self.indices[place].look(shard);
        Some(place)
    }

    /// Returns the remaining splits of the shard at a place of the search; `None`: the manifest is unknown or lacks the
    /// shard.
    pub(super) fn of_shard(&self, place: usize, number: u32) -> Option<&RemainingSplits> {
        let index = self.of_shards.get(place).copied().flatten()?;
        self.indices[index].shards.get(number as usize)?.as_ref()
    }
}

impl RemainingSplitsOfIndex {
    fn look(&mut self, shard: &Arc<MountedShard>) {
        let number = shard.number as usize;
        let (Some(segments), Some(slot)) = (self.index.shards.get(number), self.shards.get_mut(number)) else {
            return;
        };
        if slot.is_some() {
            return;
        }
        let mut left = RemainingSplits {
            shard: Arc::clone(shard),
            places: Vec::new(),
            pruned: NotOpened::default(),
        };
        for (place, segment) in segments.segments.iter().enumerate() {
            match self.conditions.prune(shard.number, &segment.split) {
                Some(pruned) => pruned.count(&mut left.pruned),
                None => left.places.push(place),
            }
        }
        *slot = Some(left);
    }

    /// Returns the remaining segments: number of the shard, place in it, segment.
    pub(super) fn segments(&self) -> impl Iterator<Item = (u32, usize, &Arc<SnapshotSegment>)> {
        let shards = self.shards.iter().zip(&self.index.shards);
        (0..).zip(shards).flat_map(|(number, (left, shard))| {
            let places = left.iter().flat_map(|left| &left.places);
            places.map(move |place| (number, *place, &shard.segments[*place]))
        })
    }

    /// Removes segments that the filters exclude.
    pub(super) fn drop(&mut self, number: u32, dropped: &[usize]) {
        let Some(Some(left)) = self.shards.get_mut(number as usize) else {
            return;
        };
        if self.conditions.scored && dropped.len() < left.places.len() {
            return;
        }
        left.places.retain(|place| !dropped.contains(place));
        dropped.iter().for_each(|_| Pruned::Value.count(&mut left.pruned));
    }
}
