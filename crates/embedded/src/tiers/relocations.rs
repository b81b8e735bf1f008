//! Moves of shards between devices, one at a time, while the shards are searched and written to.
//!
//! The order makes a crash harmless at any instruction. The copy is complete and durable before one transaction of the
//! catalog assigns the shard to the new device; only then the old files are removed. Before the transaction the old
//! folder is the shard and the new one is unused, after it the reverse, and the next start removes the folder that the
//! catalog does not name. Writes wait while the rest of the shard is copied and the catalog is written. This is short,
//! because the copy of all earlier data is complete by then. Searches continue throughout.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use firn_model::metadata::EmbeddedCommand;
use firn_model::tier::Tier;
use firn_model::{ErrorKind, Result};
use firn_scheduler::Flow;
use firn_shard::{Shard, ShardCopy};

use super::{Devices, no_tier};
use crate::engine::commands::CommandService;
use crate::engine::shard_opener::ShardOpener;
use crate::node::Node;
use crate::node::pools::Pools;
use crate::node::state::{IndexState, Served, ShardSlot};

/// Remaining bytes at which writes to the shard are paused for the last copy: what a disk writes in a fraction of a
/// second.
const REST_BYTES: u64 = 16 << 20;
/// Copy rounds after which writes are paused anyway: the shard is written to faster than it is copied, and the pause is
/// longer.
const ROUNDS_MAX: usize = 8;

/// A shard and its target device.
struct Move {
    index: Arc<IndexState>,
    slot: Arc<ShardSlot>,
    to: Tier,
}

/// See the module.
pub(crate) struct Relocations {
    pub(crate) node: Arc<Node>,
    pub(crate) pools: Arc<Pools>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) commands: Arc<CommandService>,
    pub(crate) opener: Arc<ShardOpener>,
}

impl Relocations {
    /// Returns the device to which a shard has to be moved; `None`: it is on the right device, or the node has no such
    /// device.
    pub(crate) fn move_of(&self, index: &IndexState, shard: u32) -> Option<Tier> {
        let (metadata, paths) = (&index.metadata, &self.node.config.tiers);
        if metadata.settings.is_mounted() || (metadata.settings.allocation.is_empty()) {
            return None;
        }
        let now = metadata.tier_of(shard);
        let target = metadata.settings.allocation.target(now, |tier| paths.has(tier))?;
        (target != now).then_some(target)
    }

    /// Moves a shard that is not on the device of its index's allocation, in the background, and then the next one.
    /// Must be called every second.
    pub(crate) fn move_shards(self: &Arc<Self>) {
        if self.node.is_closing() || self.devices.tiers.moving.swap(true, Ordering::AcqRel) {
            return;
        }
        let Some(next) = self.next_move() else {
            self.devices.tiers.moving.store(false, Ordering::Release);
            return;
        };
        let service = Arc::clone(self);
        let queued = self.pools.relocation.spawn(&Flow::node(), move || {
            let (index, shard, tier) = (&*next.index.name, next.slot.number, next.to.name());
            let started = Instant::now();
            let moved = service.move_shard(&next.index, &next.slot, next.to);
            next.slot.move_backoff.note(moved.is_ok(), Instant::now());
            *next.slot.move_failure.lock() = moved.as_ref().err().map(ToString::to_string);
            match moved {
                Ok(()) => {
                    let took_ms = started.elapsed().as_millis() as u64;
                    tracing::info!(index, shard, tier, took_ms, "moved a shard");
                }
                Err(error) if matches!(error.kind(), ErrorKind::IndexNotFound | ErrorKind::IndexClosed) => {}
                Err(_) if service.node.is_closing() => {}
                Err(error) => tracing::warn!(index, shard, tier, %error, "cannot move a shard"),
            }
            service.devices.tiers.moving.store(false, Ordering::Release);
            service.move_shards();
        });
        if queued.is_err() {
            self.devices.tiers.moving.store(false, Ordering::Release);
        }
    }

    fn next_move(&self) -> Option<Move> {
        let (state, now) = (self.node.state(), Instant::now());
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

    /// Whether a device stays below its low watermark with another shard. Logs the beginning and the end of a wait for
    /// space.
    fn finds_room(&self, index: &IndexState, slot: &ShardSlot, shard: &Shard, to: Tier) -> bool {
        let lacks = self.lacks_room(shard, to);
        let has_waited = slot.waits_for_room.swap(lacks.is_some(), Ordering::AcqRel);
        let (index, number, tier) = (&*index.name, slot.number, to.name());
        match &lacks {
            Some(reason) if !has_waited => {
                tracing::warn!(index, shard = number, tier, reason, "no space to move a shard");
            }
            None if has_waited => tracing::info!(index, shard = number, tier, "space to move a shard again"),
            _ => {}
        }
        lacks.is_none()
    }

    /// Returns the reason why a shard is not being moved to its device; `None`: it is moved, or waits for other moves.
    pub(crate) fn why_not_moved(&self, slot: &ShardSlot, shard: &Shard, to: Tier) -> Option<String> {
        if let Some(error) = shard.failure() {
            return Some(format!("the shard failed: {error}"));
        }
        self.lacks_room(shard, to).or_else(|| {
            let failure = slot.move_failure.lock();
            failure
                .as_ref()
                .map(|error| format!("the last attempt failed and is repeated: {error}"))
        })
    }

    /// Returns the reason why a device has no space for another shard below its low watermark.
    fn lacks_room(&self, shard: &Shard, to: Tier) -> Option<String> {
        let stats = shard.stats();
        let needed = stats.store_bytes + stats.wal_bytes + stats.buffer_bytes;
        let low = *self.devices.tiers.low.lock();
        let Some(watch) = self.devices.watch(to) else {
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
                0 => format!("{place} and is above the {which} [{low}]: no shard is moved there"),
                room => format!("{place}, of which [{room}] may be written below the {which} [{low}]: a shard of [{needed}] does not fit"),
            }
        })
    }

    /// Moves a shard. When this returns, also with an error, the shard is on one of the two devices.
    pub(crate) fn move_shard(&self, index: &IndexState, slot: &ShardSlot, to: Tier) -> Result<()> {
        // No other thread opens the shard meanwhile, and a deletion of the index waits until no more files are written
        // here.
        let opening = slot.opening.lock();
        let shard = slot.shard()?;
        let target = self.node.factory.shard_config_on(&index.metadata, slot.number, to)?;
        let stop = || {
            self.node.check_open()?;
            self.node.check_wanted(index)?;
            if let Some(watch) = self.devices.watch(to) {
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
                    self.node.factory.remove_elsewhere(&index.metadata, slot.number);
                    return Err(error);
                }
            }
        }
        let writes_wait = slot.stand_still();
        // If this fails, nothing has changed yet: the shard stays where it is. Searches of the paused shard see all its
        // documents.
        let flushed = shard.flush().and_then(|_| shard.refresh());
        let switched = flushed.and_then(|_| {
            shard.abandon();
            shard.quiesce();
            copy.finish(&shard, &|| Ok(()))?;
            self.commands.execute(EmbeddedCommand::MoveShard {
                index: index.name.to_string(),
                uuid: index.metadata.uuid.clone(),
                shard: slot.number,
                tier: to,
            })
        });
        let opened = switched.and_then(|_| self.open_moved(index, slot));
        let Err(error) = opened else { return Ok(()) };
        if shard.failure().is_none() {
            self.node.factory.remove_elsewhere(&index.metadata, slot.number);
            return Err(error);
        }
        // The shard was stopped, and it is uncertain on which device the catalog has it.
        slot.unsettled.store(true, Ordering::Release);
        drop((writes_wait, opening));
        if let Err(error) = self.opener.open_shard(index, slot) {
            tracing::error!(index = &*index.name, shard = slot.number, %error, "cannot open a shard after a move");
        }
        Err(error)
    }

    /// Opens a shard on the device that the catalog names now, in place of the shard that was copied.
    fn open_moved(&self, index: &IndexState, slot: &ShardSlot) -> Result<()> {
        let shard: Arc<Shard> = self.opener.open_shard_files(index, slot.number)?;
        slot.replace(Ok(Served::Written(shard)));
        slot.end_retired();
        slot.changed.store(true, Ordering::Relaxed);
        // A command that was published meanwhile did not find this shard.
        if let Err(error) = self.node.check_open().and_then(|()| self.node.check_wanted(index)) {
            slot.replace(Err(error.clone()));
            slot.end_retired();
            return Err(error);
        }
        if let Ok(now) = self.node.state().index(&index.name) {
            self.node.factory.remove_elsewhere(&now.metadata, slot.number);
        }
        Ok(())
    }
}
