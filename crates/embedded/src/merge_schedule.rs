//! Scheduling of merges: in the background, and, if segments come faster than that, on the threads that write them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use firn_model::Result;
use firn_shard::Shard;

use crate::background::{Lowered, is_gone, upkeep_flow, yield_to_others};
use crate::bulk::progress::WrittenShard;
use crate::node::Node;
use crate::node::pools::Pools;
use crate::node::state::{IndexState, ShardSlot};
use crate::tiers::Devices;

/// Size of the largest merged segment, as in a shard's defaults.
const MERGED_BYTES_MAX: u64 = 5 << 30;
/// Nice value of merge threads: a tenth of a core beside threads that answer requests.
const MERGE_NICE: i32 = 10;

/// Files that an open segment maps: stored documents, columns, terms, postings, positions.
const MAPS_OF_SEGMENT: u64 = 5;
/// Upper bound of the number of segments of a shard up to which only background merges run: a search visits each
/// segment.
pub(crate) const SEGMENTS_CALM_MAX: u64 = 128;
/// Lower bound of that number: a merge needs several segments of similar size, so some of each size always remain, and
/// with a lower bound writers could find nothing to merge.
const SEGMENTS_CALM_MIN: u64 = 32;
/// A writer that has written this many documents to a shard with too many segments merges some of them: about as many
/// as a small segment has, so that a single event rarely triggers a merge.
const WRITTEN_PER_MERGE: u64 = 2_000;
/// Maximum documents of a segment that a writer merges: its client waits, and small segments are those that become too
/// many.
const WRITERS_DOCS_MAX: u32 = 100_000;

/// Returns how many segments a shard may have before its writers merge too: so many that all shards together map half
/// of the files that a process may map.
fn segments_calm(maps_max: u64, shards: u64) -> u64 {
    (maps_max / 2 / MAPS_OF_SEGMENT / shards.max(1)).clamp(SEGMENTS_CALM_MIN, SEGMENTS_CALM_MAX)
}

/// See the module.
pub(crate) struct MergeService {
    pub(crate) node: Arc<Node>,
    pub(crate) pools: Arc<Pools>,
    pub(crate) devices: Arc<Devices>,
    /// Number of segments per shard above which writers merge too.
    pub(crate) segments_calm: AtomicU64,
}

impl MergeService {
    /// Recomputes the number of segments from which on writers merge. It depends on the number of shards.
    pub(crate) fn bound_segments(&self) {
        let shards = self.node.state().written_slots().count() as u64;
        let calm = segments_calm(self.node.config.disk.maps_max(), shards);
        self.segments_calm.store(calm, Ordering::Relaxed);
    }

    /// Starts a merge in shards that got new segments; one at a time per shard, and none while the disk is past its
    /// watermark, because a merge needs space for its output.
    pub(crate) fn merge_in_background(self: &Arc<Self>, index: &Arc<IndexState>, slot: &Arc<ShardSlot>) {
        let may = slot.changed.load(Ordering::Relaxed) && self.may_merge(index, slot);
        if !may || slot.merging.swap(true, Ordering::AcqRel) {
            return;
        }
        slot.changed.store(false, Ordering::Relaxed);
        let (service, index, shared) = (Arc::clone(self), Arc::clone(index), Arc::clone(slot));
        let queued = self.pools.merge.spawn(&upkeep_flow(&index), move || {
            let _lowered = Lowered(&shared.merging);
            yield_to_others(MERGE_NICE);
            service.merge_once(&index, &shared, Shard::merge_tick);
        });
        if queued.is_err() {
            slot.merging.store(false, Ordering::Release);
            slot.changed.store(true, Ordering::Relaxed);
        }
    }

    /// Makes a bulk merge before its response if it wrote much to shards with many segments: a client that sends faster
    /// than this machine merges is slowed down, and others are not.
    pub(crate) fn share_merging<'a>(&self, touched: impl Iterator<Item = &'a WrittenShard>) {
        for touched in touched {
            let written = touched.items.len() as u64;
            let slot = &touched.slot;
            if touched.shard.segment_count() as u64 <= self.segments_calm.load(Ordering::Relaxed) {
                slot.written_unmerged.store(0, Ordering::Relaxed);
                continue;
            }
            let owed = slot.written_unmerged.fetch_add(written, Ordering::Relaxed) + written;
            if owed < WRITTEN_PER_MERGE || !self.may_merge(&touched.index, slot) {
                continue;
            }
            // A separate flag: the other one is set while a background merge is queued.
            if slot.writer_merging.swap(true, Ordering::AcqRel) {
                continue;
            }
            let _lowered = Lowered(&slot.writer_merging);
            slot.written_unmerged.store(0, Ordering::Relaxed);
            self.merge_once(&touched.index, slot, |shard| shard.merge_small(WRITERS_DOCS_MAX));
        }
    }

    /// Whether the disk has space and no recent merge of the shard failed.
    fn may_merge(&self, index: &IndexState, slot: &ShardSlot) -> bool {
        let tier = index.metadata.tier_of(slot.number);
        let is_full = self
            .devices
            .watch(tier)
            .is_some_and(|watch| watch.block_reason().is_some());
        !is_full && slot.merge_backoff.is_over(Instant::now())
    }

    fn merge_once(&self, index: &IndexState, slot: &ShardSlot, merge: fn(&Shard) -> Result<bool>) {
        if self.node.is_closing() {
            return;
        }
        match self.merged(index, slot, merge) {
            // After a useful merge the next one may be useful too; other shards go first.
            Ok(merged) => {
                slot.merge_backoff.note(true, Instant::now());
                if merged {
                    slot.changed.store(true, Ordering::Relaxed);
                }
            }
            // A merge ends with an arbitrary error if its shard is taken away.
            Err(error) if is_gone(error.kind()) || slot.shard().is_err() => {}
            Err(error) => {
                slot.merge_backoff.note(false, Instant::now());
                slot.changed.store(true, Ordering::Relaxed);
                tracing::warn!(index = &*index.name, shard = slot.number, %error, "cannot merge segments");
            }
        }
    }

    /// Runs a merge. Returns whether there was something to merge.
    fn merged(&self, index: &IndexState, slot: &ShardSlot, merge: fn(&Shard) -> Result<bool>) -> Result<bool> {
        let shard = slot.shard()?;
        // A merge writes its output before its inputs can be removed; without space for it, it waits.
        let bytes = shard.stats().store_bytes.min(MERGED_BYTES_MAX);
        match bytes <= self.devices.room_bytes(index.metadata.tier_of(slot.number)) {
            true => merge(&shard),
            false => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_shards_have_fewer_segments_each() {
        let usual = 65_530;
        assert_eq!(segments_calm(usual, 0), SEGMENTS_CALM_MAX);
        assert_eq!(segments_calm(usual, 10), SEGMENTS_CALM_MAX);
        assert_eq!(segments_calm(usual, 100), 65);
        assert_eq!(segments_calm(usual, 5_000), SEGMENTS_CALM_MIN);
        assert_eq!(segments_calm(u64::MAX, 5_000), SEGMENTS_CALM_MAX);
    }
}
