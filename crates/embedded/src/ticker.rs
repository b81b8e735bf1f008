//! Clock of the engine: one thread that checks every shard several times a second and hands work to the pools. It never
//! does the work itself, so nothing delays it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use firn_scheduler::Flow;
use firn_shard::Shard;
use parking_lot::{Condvar, Mutex};

use crate::background::{Lowered, is_gone, upkeep_flow, yield_to_others};
use crate::disk_watch::DiskWatch;
use crate::engine::contexts::Contexts;
use crate::engine::metadata_copies::MetadataCopies;
use crate::engine::shard_opener::ShardOpener;
use crate::maintenance::{due, policy_of, view_of};
use crate::merge_schedule::MergeService;
use crate::mounts::MountService;
use crate::node::Node;
use crate::node::pools::Pools;
use crate::node::state::{IndexState, ShardSlot};
use crate::scrub::Scrub;
use crate::snapshots::service::SnapshotService;
use crate::tiers::Devices;
use crate::tiers::relocations::Relocations;

/// Time between two ticks. A tenth of the default refresh interval, so that a refresh is at most a tenth late.
const TICK: Duration = Duration::from_millis(100);
/// Ticks between checks of the disk, merges and failed shards.
const SLOW_EVERY: u64 = 10;

/// Ticks between checks of mounted indices, of which there may be many thousands.
const MOUNTS_EVERY: u64 = 5 * SLOW_EVERY;

/// Ticks from one check of everything to the next for callers that trigger ticks themselves: after this many ticks no
/// failed shard is in its backoff any more.
pub(crate) const EVERYTHING_DUE: u64 = 10 * MOUNTS_EVERY;
/// A shard that a full disk made read-only is opened again at least every four seconds, so that writes continue soon.
const READ_ONLY_FAILURES_MAX: u32 = 2;

/// Nice value of refreshes and flushes, behind threads that answer requests: a third of a core, because written
/// documents must be searchable within a second.
const MAINTENANCE_NICE: i32 = 5;

/// The running clock.
pub(crate) struct Ticker {
    stopped: Arc<Stop>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    wake: Condvar,
}

impl Ticker {
    /// Starts the thread.
    pub(crate) fn start(upkeep: Arc<Upkeep>) -> Self {
        let stopped = Arc::new(Stop::default());
        let stop = Arc::clone(&stopped);
        let thread = std::thread::Builder::new()
            .name("ticker".to_owned())
            .spawn(move || {
                for number in 1.. {
                    let mut stopped = stop.stopped.lock();
                    if !*stopped {
                        stop.wake.wait_until(&mut stopped, Instant::now() + TICK);
                    }
                    if *stopped {
                        return;
                    }
                    drop(stopped);
                    upkeep.tick(number);
                }
            })
            .expect("the operating system starts a thread");
        Self { stopped, thread }
    }

    /// Stops the thread and waits for it; work in the pools continues.
    pub(crate) fn stop(self) {
        *self.stopped.stopped.lock() = true;
        self.stopped.wake.notify_all();
        let _ = self.thread.join();
    }
}

/// Services that do work in the background.
pub(crate) struct Upkeep {
    pub(crate) node: Arc<Node>,
    pub(crate) pools: Arc<Pools>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) mounts: Arc<MountService>,
    pub(crate) contexts: Arc<Contexts>,
    pub(crate) opener: Arc<ShardOpener>,
    pub(crate) relocations: Arc<Relocations>,
    pub(crate) merges: Arc<MergeService>,
    pub(crate) scrub: Arc<Scrub>,
    pub(crate) metadata_copies: Arc<MetadataCopies>,
    pub(crate) snapshots: Arc<SnapshotService>,
}

impl Upkeep {
    /// Runs one tick. If its number is a multiple of [`MOUNTS_EVERY`], it checks everything.
    pub(crate) fn tick(self: &Arc<Self>, number: u64) {
        let slow = number.is_multiple_of(SLOW_EVERY);
        if slow {
            self.devices.hot.observe();
            self.devices.tiers.observe();
            self.relocations.move_shards();
            self.merges.bound_segments();
            self.contexts.expire(self.node.now_ms());
            self.metadata_copies.copy_metadata_in_background();
            self.scrub.scrub_in_background();
            if number.is_multiple_of(MOUNTS_EVERY) {
                self.mounts.tick(self.node.now_ms());
                self.mounts.follow_rewritten();
                self.mounts.copy_mounted();
                self.mounts.pin_mounted();
            }
        }
        let state = self.node.state();
        let (now, now_ms) = (Instant::now(), self.node.now_ms());
        let mut buffers: Vec<(u64, &Arc<IndexState>, &Arc<ShardSlot>)> = Vec::new();
        for (index, slot) in state.written_slots() {
            let shard = slot.shard();
            if slow {
                self.snapshots.watch_damage(index, slot);
                self.recover(index, slot, shard.as_deref().ok(), number);
            }
            let Ok(shard) = shard else { continue };
            let due = due(&view_of(slot, &shard), &policy_of(&self.node.config, index), now_ms);
            if due.refresh {
                self.refresh_in_background(index, slot);
            }
            // On a full disk a flush would take the space that deletions need.
            if due.flush && slot.flush_backoff.is_over(now) && !self.is_out_of_space(index, slot) {
                self.flush_in_background(index, slot);
            }
            if slow && slot.merge_backoff.is_over(now) {
                self.merges.merge_in_background(index, slot);
            }
            let bytes = shard.buffer_bytes();
            if bytes > 0 {
                buffers.push((bytes, index, slot));
            }
        }
        self.bound_buffers(buffers);
    }

    fn is_out_of_space(&self, index: &IndexState, slot: &ShardSlot) -> bool {
        self.devices
            .watch(index.metadata.tier_of(slot.number))
            .is_some_and(DiskWatch::is_out_of_space)
    }

    /// Opens a shard again that an I/O error stopped: its WAL holds all acknowledged writes.
    fn recover(self: &Arc<Self>, index: &Arc<IndexState>, slot: &Arc<ShardSlot>, shard: Option<&Shard>, tick: u64) {
        let is_full = self
            .devices
            .watch(index.metadata.tier_of(slot.number))
            .is_some_and(|watch| watch.block_reason().is_some());
        match shard {
            // It was opened read-only on a full disk, and is opened for writing once there is space.
            Some(shard) if shard.read_only().is_some() => {
                if is_full {
                    return;
                }
                slot.reopen.store(true, Ordering::Release);
            }
            Some(shard) => {
                if let Some(failure) = shard.failure()
                    && !slot.reopen.swap(true, Ordering::AcqRel)
                {
                    tracing::error!(index = &*index.name, shard = slot.number, error = %failure, "a shard failed");
                }
            }
            None => {}
        }
        let busy = [
            &slot.refreshing,
            &slot.flushing,
            &slot.merging,
            &slot.writer_merging,
            &slot.writing_out,
        ];
        let busy = busy.iter().any(|flag| flag.load(Ordering::Acquire));
        let too_early = tick < slot.reopen_tick.load(Ordering::Relaxed);
        if busy || too_early || !slot.reopen.load(Ordering::Acquire) {
            return;
        }
        // Each attempt replays the WAL, so they get rarer: 1, 2, 4, … up to 32 seconds apart.
        let failures = slot.reopen_failures.load(Ordering::Relaxed);
        slot.reopen_tick
            .store(tick + (SLOW_EVERY << failures.min(5)), Ordering::Relaxed);
        let (service, index, slot) = (Arc::clone(self), Arc::clone(index), Arc::clone(slot));
        self.pools
            .maintenance
            .spawn_admitted(&Flow::node(), move || match service.opener.open_shard(&index, &slot) {
                // Opened read-only: the next attempt comes soon, but not every second.
                Ok(()) if slot.shard().is_ok_and(|shard| shard.read_only().is_some()) => {
                    let failures = slot.reopen_failures.load(Ordering::Relaxed);
                    slot.reopen_failures
                        .store((failures + 1).min(READ_ONLY_FAILURES_MAX), Ordering::Relaxed);
                }
                Ok(()) => {
                    slot.reopen_failures.store(0, Ordering::Relaxed);
                    tracing::info!(index = &*index.name, shard = slot.number, "opened the shard again");
                }
                Err(error) => {
                    slot.reopen_failures.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(index = &*index.name, shard = slot.number, %error, "cannot open the shard again");
                }
            });
    }

    fn refresh_in_background(self: &Arc<Self>, index: &Arc<IndexState>, slot: &Arc<ShardSlot>) {
        let service = Arc::clone(self);
        self.in_background(
            index,
            slot,
            "refresh",
            |slot| &slot.refreshing,
            move |slot| slot.refresh(service.node.now_ms()).map(|_| ()),
        );
    }

    fn flush_in_background(self: &Arc<Self>, index: &Arc<IndexState>, slot: &Arc<ShardSlot>) {
        self.in_background(
            index,
            slot,
            "flush",
            |slot| &slot.flushing,
            |slot| {
                let flushed = slot.flush();
                // A deleted shard has not failed; a new shard in its place starts without backoff.
                let failed = flushed.as_ref().is_err_and(|error| !is_gone(error.kind()));
                slot.flush_backoff.note(!failed, Instant::now());
                flushed.map(|_| ())
            },
        );
    }

    /// Queues maintenance of a shard, unless the same is queued or running.
    fn in_background(
        &self,
        index: &Arc<IndexState>,
        slot: &Arc<ShardSlot>,
        what: &'static str,
        flag: fn(&ShardSlot) -> &AtomicBool,
        work: impl FnOnce(&ShardSlot) -> firn_model::Result<()> + Send + 'static,
    ) {
        if flag(slot).swap(true, Ordering::AcqRel) {
            return;
        }
        let (index, shared) = (Arc::clone(index), Arc::clone(slot));
        let queued = self.pools.maintenance.spawn(&upkeep_flow(&index), move || {
            let _lowered = Lowered(flag(&shared));
            yield_to_others(MAINTENANCE_NICE);
            if let Err(error) = work(&shared)
                && !is_gone(error.kind())
            {
                tracing::warn!(index = &*index.name, shard = shared.number, %error, "cannot {what} a shard");
            }
        });
        if queued.is_err() {
            flag(slot).store(false, Ordering::Release);
        }
    }

    /// Writes the largest buffers as segments while all together exceed their limit.
    fn bound_buffers(self: &Arc<Self>, mut buffers: Vec<(u64, &Arc<IndexState>, &Arc<ShardSlot>)>) {
        let mut total: u64 = buffers.iter().map(|(bytes, ..)| bytes).sum();
        if total <= self.node.config.indexing_buffer_bytes {
            return;
        }
        buffers.sort_unstable_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
        for (bytes, index, slot) in buffers {
            if total <= self.node.config.indexing_buffer_bytes {
                return;
            }
            self.in_background(
                index,
                slot,
                "write out",
                |slot| &slot.writing_out,
                |slot| {
                    slot.on_shard(firn_shard::Shard::write_out_buffers)?;
                    slot.changed.store(true, Ordering::Relaxed);
                    Ok(())
                },
            );
            total -= bytes;
        }
    }
}
