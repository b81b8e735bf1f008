//! Brings shards to the devices they belong on, one at a time, while they are searched and written to.
//!
//! The order makes a crash harmless at any instruction. The copy is whole and durable before the catalog says, in one
//! transaction, that the shard lies there; only then the old files go. Before the transaction the old folder is the shard
//! and the new one nothing, after it the other way round, and the next start removes whichever the catalog does not name.
//! Writes wait while the rest of the shard is copied and the catalog is written, which is short: all that was there when
//! the move began has been copied by then. Searches go on throughout.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use firn_model::metadata::Command;
use firn_model::tier::Tier;
use firn_model::{ErrorKind, Result};

use super::no_tier;
use crate::engine::Core;
use crate::engine::state::{IndexState, Served, ShardSlot};
use crate::pool::Flow;
use crate::shard::{Shard, ShardCopy};

/// A shard stands still to be copied once so little is left of it: what a disk writes in a fraction of a second.
const REST_BYTES: u64 = 16 << 20;
/// Or after so many rounds: it is written to faster than it is copied, and has to stand still for longer.
const ROUNDS_MAX: usize = 8;

/// A shard and where it belongs.
struct Move {
    index: Arc<IndexState>,
    slot: Arc<ShardSlot>,
    to: Tier,
}

impl Core {
    /// Where a shard has to be moved; `None`: it lies where it belongs, or there is no such place.
    pub(crate) fn move_of(&self, index: &IndexState, shard: u32) -> Option<Tier> {
        let (metadata, paths) = (&index.metadata, &self.config.tiers);
        if metadata.settings.is_mounted() || (metadata.settings.allocation.is_empty()) {
            return None;
        }
        let now = metadata.tier_of(shard);
        let target = metadata.settings.allocation.target(now, |tier| paths.has(tier))?;
        (target != now).then_some(target)
    }

    /// Moves a shard that lies elsewhere than its index wants, in the background, and then the next. To be called each
    /// second.
    pub(crate) fn move_shards(self: &Arc<Self>) {
        if self.is_closing() || self.tiers.moving.swap(true, Ordering::AcqRel) {
            return;
        }
        let Some(next) = self.next_move() else {
            self.tiers.moving.store(false, Ordering::Release);
            return;
        };
        let core = Arc::clone(self);
        let queued = self.move_pool.spawn(&Flow::node(), move || {
            let (index, shard, tier) = (&*next.index.name, next.slot.number, next.to.name());
            let started = Instant::now();
            let moved = core.move_shard(&next.index, &next.slot, next.to);
            next.slot.move_backoff.note(moved.is_ok(), Instant::now());
            *next.slot.move_failure.lock() = moved.as_ref().err().map(ToString::to_string);
            match moved {
                Ok(()) => {
                    let took_ms = started.elapsed().as_millis() as u64;
                    tracing::info!(index, shard, tier, took_ms, "a shard was moved");
                }
                Err(error) if matches!(error.kind(), ErrorKind::IndexNotFound | ErrorKind::IndexClosed) => {}
                Err(_) if core.is_closing() => {}
                Err(error) => tracing::warn!(index, shard, tier, %error, "cannot move a shard yet"),
            }
            core.tiers.moving.store(false, Ordering::Release);
            core.move_shards();
        });
        if queued.is_err() {
            self.tiers.moving.store(false, Ordering::Release);
        }
    }

    fn next_move(&self) -> Option<Move> {
        let (state, now) = (self.state(), Instant::now());
        state.written_slots().find_map(|(index, slot)| {
            let to = self.move_of(index, slot.number)?;
            let shard = slot
                .shard()
                .ok()
                .filter(|shard| shard.failure().is_none() && shard.read_only().is_none())?;
            let fits = slot.move_backoff.is_over(now) && self.finds_room(index, slot, &shard, to);
            fits.then(|| Move {
                index: Arc::clone(index),
                slot: Arc::clone(slot),
                to,
            })
        })
    }

    /// Whether a device stays below its low watermark with a shard more. The log says when one begins to wait for that,
    /// and when it ends.
    fn finds_room(&self, index: &IndexState, slot: &ShardSlot, shard: &Shard, to: Tier) -> bool {
        let lacks = self.lacks_room(shard, to);
        let has_waited = slot.waits_for_room.swap(lacks.is_some(), Ordering::AcqRel);
        let (index, number, tier) = (&*index.name, slot.number, to.name());
        match &lacks {
            Some(reason) if !has_waited => {
                tracing::warn!(index, shard = number, tier, reason, "a shard waits to be moved");
            }
            None if has_waited => tracing::info!(index, shard = number, tier, "there is room for a shard again"),
            _ => {}
        }
        lacks.is_none()
    }

    /// Why a shard does not go where it belongs; `None`: it does, or is in a row.
    pub(crate) fn why_not_moved(&self, slot: &ShardSlot, shard: &Shard, to: Tier) -> Option<String> {
        if let Some(error) = shard.failure() {
            return Some(format!("the shard does not serve: {error}"));
        }
        self.lacks_room(shard, to).or_else(|| {
            let failure = slot.move_failure.lock();
            failure
                .as_ref()
                .map(|error| format!("the last try failed, and is made again: {error}"))
        })
    }

    /// Why a device has no room for a shard more below its low watermark.
    fn lacks_room(&self, shard: &Shard, to: Tier) -> Option<String> {
        let stats = shard.stats();
        let needed = stats.store_bytes + stats.wal_bytes + stats.buffer_bytes;
        let low = *self.tiers.low.lock();
        let Some(watch) = self.watch(to) else {
            return Some(no_tier(to).to_string());
        };
        let room = watch.room_below(low);
        (room <= needed).then(|| {
            let space = watch.space();
            let place = format!(
                "data path [{}] of tier [{to}] has [{}] of [{}] bytes free",
                watch.path().display(),
                space.available_bytes,
                space.total_bytes
            );
            let which = "low watermark cluster.routing.allocation.disk.watermark.low";
            match room {
                0 => format!("{place} and is above the {which} [{low}], where nothing is moved to"),
                room => format!("{place}, of which [{room}] may be written below the {which} [{low}]: a shard of [{needed}] does not fit"),
            }
        })
    }

    /// Moves a shard. It lies on one device or on the other when this returns, whatever came of it.
    pub(crate) fn move_shard(&self, index: &IndexState, slot: &ShardSlot, to: Tier) -> Result<()> {
        // Nobody opens it meanwhile, and whoever deletes the index waits until nothing is written here.
        let opening = slot.opening.lock();
        let shard = slot.shard()?;
        let target = self.factory.shard_config_on(&index.metadata, slot.number, to)?;
        let stop = || {
            self.check_open()?;
            self.check_wanted(index)?;
            if let Some(watch) = self.watch(to) {
                watch.look_if_near();
                watch.check(&index.name)?;
            }
            shard.failure().map_or(Ok(()), Err)
        };
        let mut copy = ShardCopy::begin(target)?;
        for _ in 0..ROUNDS_MAX {
            match copy.catch_up(&shard, &stop) {
                Ok(bytes) if bytes <= REST_BYTES => break,
                Ok(_) => {}
                Err(error) => {
                    self.factory.remove_elsewhere(&index.metadata, slot.number);
                    return Err(error);
                }
            }
        }
        let writes_wait = slot.stand_still();
        // If this fails nothing has happened yet: the shard goes on where it is. Searches of the shard that stands still see
        // all that it took.
        let flushed = shard.flush().and_then(|_| shard.refresh());
        let switched = flushed.and_then(|_| {
            shard.abandon();
            shard.quiesce();
            copy.finish(&shard, &|| Ok(()))?;
            self.execute(Command::MoveShard {
                index: index.name.to_string(),
                uuid: index.metadata.uuid.clone(),
                shard: slot.number,
                tier: to,
            })
        });
        let opened = switched.and_then(|_| self.open_moved(index, slot));
        let Err(error) = opened else { return Ok(()) };
        if shard.failure().is_none() {
            self.factory.remove_elsewhere(&index.metadata, slot.number);
            return Err(error);
        }
        // It was stopped, and nobody knows for certain on which device the catalog has it.
        slot.unsettled.store(true, Ordering::Release);
        drop((writes_wait, opening));
        if let Err(error) = self.open_shard(index, slot) {
            tracing::error!(index = &*index.name, shard = slot.number, %error, "cannot open a shard that was to be moved");
        }
        Err(error)
    }

    /// Opens a shard on the device where the catalog has it by now, in place of the one that it was copied from.
    fn open_moved(&self, index: &IndexState, slot: &ShardSlot) -> Result<()> {
        let shard: Arc<Shard> = self.open_shard_files(index, slot.number)?;
        slot.replace(Ok(Served::Written(shard)));
        slot.end_retired();
        slot.changed.store(true, Ordering::Relaxed);
        // A command that was published meanwhile did not find this shard.
        if let Err(error) = self.check_open().and_then(|()| self.check_wanted(index)) {
            slot.replace(Err(error.clone()));
            slot.end_retired();
            return Err(error);
        }
        if let Ok(now) = self.state().index(&index.name) {
            self.factory.remove_elsewhere(&now.metadata, slot.number);
        }
        Ok(())
    }

    /// Makes the catalog say for certain on which device a shard lies: where memory has it. What lies elsewhere goes.
    pub(crate) fn settle(&self, index: &IndexState, slot: &ShardSlot) -> Result<()> {
        if !slot.unsettled.load(Ordering::Acquire) {
            return Ok(());
        }
        self.check_wanted(index)?;
        let state = self.state();
        let now = state.index(&index.name)?;
        self.execute(Command::MoveShard {
            index: now.name.to_string(),
            uuid: now.metadata.uuid.clone(),
            shard: slot.number,
            tier: now.metadata.tier_of(slot.number),
        })?;
        slot.unsettled.store(false, Ordering::Release);
        self.factory.remove_elsewhere(&now.metadata, slot.number);
        Ok(())
    }
}
