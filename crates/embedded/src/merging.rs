//! When shards merge: in the background, and, where segments come faster than that, on the threads that write them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use firn_model::Result;

use crate::bulk::Touched;
use crate::engine::Core;
use crate::engine::state::{IndexState, ShardSlot};
use crate::shard::Shard;
use crate::ticker::{Lowered, is_gone, upkeep_flow, yield_to_others};

/// The largest segment a merge makes, as in a shard's defaults.
const MERGED_BYTES_MAX: u64 = 5 << 30;
/// How far merges stand back: a tenth of a core beside whoever answers requests.
const MERGE_NICE: i32 = 10;

/// Files that an open segment maps: stored documents, columns, terms, postings, positions.
const MAPS_OF_SEGMENT: u64 = 5;
/// Segments of a shard that merging in the background is left alone with, at most: a search visits each.
pub(crate) const SEGMENTS_CALM_MAX: u64 = 128;
/// The same at least: with fewer nobody would be left to wait for, as merges want some of each size.
const SEGMENTS_CALM_MIN: u64 = 32;
/// Who has written so many documents to a shard of too many segments merges some of them: about as many as a small
/// segment has, so a single event rarely pays.
const WRITTEN_PER_MERGE: u64 = 2_000;
/// Writers make no segment of more documents: their clients wait, and small segments are those that become too many.
const WRITERS_DOCS_MAX: u32 = 100_000;

/// How many segments a shard may have before those who write to it merge too: so many that all shards together map
/// half of the files that a process may.
fn segments_calm(maps_max: u64, shards: u64) -> u64 {
    (maps_max / 2 / MAPS_OF_SEGMENT / shards.max(1)).clamp(SEGMENTS_CALM_MIN, SEGMENTS_CALM_MAX)
}

impl Core {
    /// Says anew from how many segments on writers merge, as there are more or fewer shards.
    pub(crate) fn bound_segments(&self) {
        let shards = self.state().written_slots().count() as u64;
        let calm = segments_calm(self.config.disk.maps_max(), shards);
        self.segments_calm.store(calm, Ordering::Relaxed);
    }

    /// Looks for a merge where segments came; one at a time per shard, and none while the disk is
    /// past its watermark, as a merge needs room for what it writes.
    pub(crate) fn merge_in_background(self: &Arc<Self>, index: &Arc<IndexState>, slot: &Arc<ShardSlot>) {
        let may = slot.changed.load(Ordering::Relaxed) && self.may_merge(index, slot);
        if !may || slot.merging.swap(true, Ordering::AcqRel) {
            return;
        }
        slot.changed.store(false, Ordering::Relaxed);
        let (core, index, shared) = (Arc::clone(self), Arc::clone(index), Arc::clone(slot));
        let queued = self.merge_pool.spawn(&upkeep_flow(&index), move || {
            let _lowered = Lowered(&shared.merging);
            yield_to_others(MERGE_NICE);
            core.merge_once(&index, &shared, Shard::merge_tick);
        });
        if queued.is_err() {
            slot.merging.store(false, Ordering::Release);
            slot.changed.store(true, Ordering::Relaxed);
        }
    }

    /// Lets a bulk merge where it wrote much to shards of many segments, before it is answered: who sends faster than
    /// this machine merges is slowed down, and others are not.
    pub(crate) fn share_merging<'a>(&self, touched: impl Iterator<Item = &'a Touched>) {
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
            // A flag of their own: the other one is up while a merge waits for its turn in the background.
            if slot.writer_merging.swap(true, Ordering::AcqRel) {
                continue;
            }
            let _lowered = Lowered(&slot.writer_merging);
            slot.written_unmerged.store(0, Ordering::Relaxed);
            self.merge_once(&touched.index, slot, |shard| shard.merge_small(WRITERS_DOCS_MAX));
        }
    }

    /// Whether the disk has room and no merge of the shard failed just now.
    fn may_merge(&self, index: &IndexState, slot: &ShardSlot) -> bool {
        let tier = index.metadata.tier_of(slot.number);
        let is_full = self.watch(tier).is_some_and(|watch| watch.block_reason().is_some());
        !is_full && slot.merge_backoff.is_over(Instant::now())
    }

    fn merge_once(&self, index: &IndexState, slot: &ShardSlot, merge: fn(&Shard) -> Result<bool>) {
        if self.is_closing() {
            return;
        }
        match self.merged(index, slot, merge) {
            // Where one merge was worth it the next may be; others' turn comes first.
            Ok(merged) => {
                slot.merge_backoff.note(true, Instant::now());
                if merged {
                    slot.changed.store(true, Ordering::Relaxed);
                }
            }
            // A merge gives up with whatever error comes first when its shard is taken away.
            Err(error) if is_gone(error.kind()) || slot.shard().is_err() => {}
            Err(error) => {
                slot.merge_backoff.note(false, Instant::now());
                slot.changed.store(true, Ordering::Relaxed);
                tracing::warn!(index = &*index.name, shard = slot.number, %error, "cannot merge segments");
            }
        }
    }

    /// Whether there was something to merge.
    fn merged(&self, index: &IndexState, slot: &ShardSlot, merge: fn(&Shard) -> Result<bool>) -> Result<bool> {
        let shard = slot.shard()?;
        // A merge writes what it reads before that can go; without room for it, it waits.
        let bytes = shard.stats().store_bytes.min(MERGED_BYTES_MAX);
        match bytes <= self.room_bytes(index.metadata.tier_of(slot.number)) {
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
