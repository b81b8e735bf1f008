//! Clock of the engine: one thread that checks every shard several times a second and hands work to the pools. It never
//! does the work itself, so nothing delays it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use firn_model::ErrorKind;
use firn_scheduler::Flow;
use firn_shard::Shard;
use parking_lot::{Condvar, Mutex};

use crate::disk_watch::DiskWatch;
use crate::engine::Core;
use crate::engine::state::{IndexState, ShardSlot};
use crate::maintenance::{Policy, ShardView, due};

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
    pub(crate) fn start(core: Arc<Core>) -> Self {
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
                    core.tick(number);
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

impl Core {
    /// Runs one tick. If its number is a multiple of [`MOUNTS_EVERY`], it checks everything.
    pub(crate) fn tick(self: &Arc<Self>, number: u64) {
        let slow = number.is_multiple_of(SLOW_EVERY);
        if slow {
            self.disk_watch.observe();
            self.tiers.observe();
            self.move_shards();
            self.bound_segments();
            self.contexts.expire(self.now_ms());
            self.copy_metadata_in_background();
            self.scrub_in_background();
            if number.is_multiple_of(MOUNTS_EVERY) {
                self.mounts.tick(self.now_ms());
                self.follow_rewritten();
                self.copy_mounted();
                self.pin_mounted();
            }
        }
        let state = self.state();
        let (now, now_ms) = (Instant::now(), self.now_ms());
        let mut buffers: Vec<(u64, &Arc<IndexState>, &Arc<ShardSlot>)> = Vec::new();
        for (index, slot) in state.written_slots() {
            let shard = slot.shard();
            if slow {
                self.watch_damage(index, slot);
                self.recover(index, slot, shard.as_deref().ok(), number);
            }
            let Ok(shard) = shard else { continue };
            let due = due(&view_of(slot, &shard), &policy_of(self, index), now_ms);
            if due.refresh {
                self.refresh_in_background(index, slot);
            }
            // On a full disk a flush would take the space that deletions need.
            if due.flush && slot.flush_backoff.is_over(now) && !self.is_out_of_space(index, slot) {
                self.flush_in_background(index, slot);
            }
            if slow && slot.merge_backoff.is_over(now) {
                self.merge_in_background(index, slot);
            }
            let bytes = shard.buffer_bytes();
            if bytes > 0 {
                buffers.push((bytes, index, slot));
            }
        }
        self.bound_buffers(buffers);
    }

    fn is_out_of_space(&self, index: &IndexState, slot: &ShardSlot) -> bool {
        self.watch(index.metadata.tier_of(slot.number))
            .is_some_and(DiskWatch::is_out_of_space)
    }

    /// Opens a shard again that an I/O error stopped: its WAL holds all acknowledged writes.
    fn recover(self: &Arc<Self>, index: &Arc<IndexState>, slot: &Arc<ShardSlot>, shard: Option<&Shard>, tick: u64) {
        let is_full = self
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
        let (core, index, slot) = (Arc::clone(self), Arc::clone(index), Arc::clone(slot));
        self.maintenance_pool
            .spawn_admitted(&Flow::node(), move || match core.open_shard(&index, &slot) {
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
        let core = Arc::clone(self);
        self.in_background(
            index,
            slot,
            "refresh",
            |slot| &slot.refreshing,
            move |slot| slot.refresh(core.now_ms()).map(|_| ()),
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
        let queued = self.maintenance_pool.spawn(&upkeep_flow(&index), move || {
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
        if total <= self.config.indexing_buffer_bytes {
            return;
        }
        buffers.sort_unstable_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
        for (bytes, index, slot) in buffers {
            if total <= self.config.indexing_buffer_bytes {
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

/// Returns the flow of an index's maintenance.
pub(crate) fn upkeep_flow(index: &IndexState) -> Flow {
    Flow::of_index(&index.name, index.metadata.settings.tenant_owner.as_deref())
}

/// Clears a flag when the work ends, also by a panic.
pub(crate) struct Lowered<'a>(pub(crate) &'a AtomicBool);

impl Drop for Lowered<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Whether the shard was deleted or closed, or the node is stopping: not worth a report.
pub(crate) fn is_gone(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::IndexNotFound | ErrorKind::IndexClosed | ErrorKind::Rejected
    )
}

/// Lowers the priority of this thread, once, so that the scheduler prefers writes and searches: no request waits for
/// merges, and few wait for refreshes. On Linux priorities are those of threads; elsewhere it would be the whole
/// process.
pub(crate) fn yield_to_others(nice: i32) {
    #[cfg(target_os = "linux")]
    {
        thread_local!(static DONE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
        if !DONE.replace(true) {
            let _ = rustix::process::setpriority_process(None, nice);
        }
    }
}

/// Returns the state of a shard for the maintenance decision.
pub(crate) fn view_of(slot: &ShardSlot, shard: &Shard) -> ShardView {
    ShardView {
        unsearchable: shard.needs_refresh(),
        unflushed: shard.has_uncommitted(),
        wal_full: shard.needs_flush(),
        waiters: slot.has_waiters(),
        refreshed_ms: slot.refreshed_ms.load(Ordering::Relaxed),
        searched_ms: slot.searched_ms.load(Ordering::Relaxed),
        written_ms: slot.written_ms.load(Ordering::Relaxed),
    }
}

/// Returns the settings that decide for the shards of an index.
pub(crate) fn policy_of(core: &Core, index: &IndexState) -> Policy {
    let settings = &index.metadata.settings;
    Policy {
        refresh_interval_ms: settings.refresh_interval_ms,
        refresh_explicit: settings.typed.contains_key("index.refresh_interval"),
        search_idle_after_ms: core.config.search_idle_after_ms,
        idle_flush_after_ms: core.config.idle_flush_after_ms,
    }
}
