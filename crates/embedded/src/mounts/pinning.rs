//! Pinning of mounted indices in the shared cache (`index.store.snapshot.cache.pinned`).
//!
//! The set of pinned splits follows from the settings alone and is recomputed regularly, so a restart, a deletion or a
//! failed command leaves no stale pin. Several mounts may share a split: it is pinned as long as one of them is.

use std::collections::HashSet;

use firn_storage::regions::ObjectId;
use parking_lot::Mutex;

use super::MountService;

/// The splits that are pinned now.
#[derive(Default)]
pub(crate) struct Pinned(Mutex<HashSet<ObjectId>>);

impl MountService {
    /// Pins exactly the splits that the settings require. Needs the manifest of an index; until it is known, the index
    /// waits for the next call. Does not block.
    pub(crate) fn pin_mounted(&self) {
        let Ok(regions) = self.regions() else { return };
        let state = self.node.state();
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
        let mut pinned = self.pinned.0.lock();
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
