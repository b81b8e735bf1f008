//! What is left of mounted shards for one search, decided once for all mounts of the same snapshot.
//!
//! A search over very many mounts asks the same of the same splits under many names. So decisions belong to a manifest and
//! conditions, not to a shard: two hundred mounts of fifty shards cost fifty looks, and a look-up for each of the rest.

use std::collections::HashMap;
use std::sync::Arc;

use firn_storage::repository::SnapshotSegment;

use super::manifests::MountedIndex;
use super::pruning::Pruned;
use super::{Conditions, MountedShard};
use crate::search::NotOpened;

/// What is left of one manifest under some conditions.
pub(super) struct LeftOfIndex {
    pub(super) index: Arc<MountedIndex>,
    pub(super) conditions: Arc<Conditions>,
    /// By number; `None`: nobody asked.
    pub(super) shards: Vec<Option<LeftOfShard>>,
}

/// What is left of a shard in a snapshot.
pub(super) struct LeftOfShard {
    /// One of the mounted shards that read it.
    pub(super) shard: Arc<MountedShard>,
    /// Places of its segments that may hold a match.
    pub(super) places: Vec<usize>,
    pub(super) pruned: NotOpened,
}

/// See the module.
#[derive(Default)]
pub(super) struct Left {
    pub(super) indices: Vec<LeftOfIndex>,
    /// The place of a manifest and conditions, by their addresses: both are held by `indices`. Copies of whole splits belong to
    /// their index, and so does what is asked of them.
    places: HashMap<(usize, usize, Option<Arc<str>>), usize>,
    /// For each shard that was asked for, the place of what is left of its index; `None`: it is not known what it reads.
    of_shards: Vec<Option<usize>>,
}

impl Left {
    /// What manifests leave of shards.
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
            self.indices.push(LeftOfIndex {
                index: Arc::clone(index),
                conditions: Arc::clone(conditions),
                shards: index.shards.iter().map(|_| None).collect(),
            });
            self.indices.len() - 1
        });
        self.indices[place].look(shard);
        Some(place)
    }

    /// What is left of the shard that was asked for at a place; `None`: it is not known, or not in the snapshot.
    pub(super) fn of_shard(&self, place: usize, number: u32) -> Option<&LeftOfShard> {
        let index = self.of_shards.get(place).copied().flatten()?;
        self.indices[index].shards.get(number as usize)?.as_ref()
    }
}

impl LeftOfIndex {
    fn look(&mut self, shard: &Arc<MountedShard>) {
        let number = shard.number as usize;
        let (Some(segments), Some(slot)) = (self.index.shards.get(number), self.shards.get_mut(number)) else {
            return;
        };
        if slot.is_some() {
            return;
        }
        let mut left = LeftOfShard {
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

    /// The segments that are left: number of the shard, place in it, segment.
    pub(super) fn segments(&self) -> impl Iterator<Item = (u32, usize, &Arc<SnapshotSegment>)> {
        let shards = self.shards.iter().zip(&self.index.shards);
        (0..).zip(shards).flat_map(|(number, (left, shard))| {
            let places = left.iter().flat_map(|left| &left.places);
            places.map(move |place| (number, *place, &shard.segments[*place]))
        })
    }

    /// Leaves out segments that filters said no of.
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
