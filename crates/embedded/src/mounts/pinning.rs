//! Indices whose part of the shared cache makes no room for others (`index.store.snapshot.cache.pinned`).
//!
//! What is to be pinned follows from the settings alone and is found out again now and then, so a restart, a deletion or
//! a command that failed half-way leaves nothing behind. Several mounts may share a split: it is pinned as long as one
//! of them is.

use std::collections::HashSet;

use firn_storage::regions::ObjectId;
use parking_lot::Mutex;

use crate::engine::Core;

/// The splits that are pinned now.
#[derive(Default)]
pub(crate) struct Pinned(Mutex<HashSet<ObjectId>>);

impl Core {
    /// Pins what settings say, and nothing else. What a mounted index reads has to be known for it; until then the next call
    /// does it. Waits for nothing.
    pub(crate) fn pin_mounted(&self) {
        let Ok(regions) = self.mounts.regions() else { return };
        let state = self.state();
        let is_pinned = |settings: &firn_model::settings::IndexSettings| settings.cache_pinned && settings.is_frozen();
        let indices = state
            .indices
            .values()
            .filter(|index| is_pinned(&index.metadata.settings));
        let shards = indices.flat_map(|index| index.shards.iter().filter_map(|slot| slot.mounted()));
        let mut wanted = HashSet::new();
        for shard in shards {
            let segments = shard.segments().map_or(&[][..], |segments| &segments.segments);
            wanted.extend(segments.iter().filter_map(|segment| ObjectId::parse(&segment.split.id)));
        }
        // Held throughout, so that two calls do not undo each other.
        let mut pinned = self.mounts.pinned.0.lock();
        if *pinned == wanted {
            return;
        }
        let gone: Vec<ObjectId> = pinned.difference(&wanted).copied().collect();
        let new: Vec<ObjectId> = wanted.difference(&pinned).copied().collect();
        regions.unpin(&gone);
        regions.pin(&new);
        *pinned = wanted;
    }
}
