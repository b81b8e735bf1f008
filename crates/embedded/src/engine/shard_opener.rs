//! Opening of shards: at the start of a node, and again after a failure or a command.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use firn_model::metadata::EmbeddedCommand;
use firn_model::{Error, ErrorKind, Result};
use firn_shard::{Shard, ShardConfig};
use firn_storage::{OverlayBudget, OverlayDisk};
use parking_lot::{Condvar, Mutex};

use super::commands::CommandService;
use crate::disk_watch::DiskWatch;
use crate::mounts::MountService;
use crate::node::Node;
use crate::node::recovery_gates::RecoveryGates;
use crate::node::state::{IndexState, Served, ShardSlot};
use crate::tiers::Devices;

/// A WAL with more bytes takes more than about 100 ms to replay.
const LONG_WAL_BYTES: u64 = 8 << 20;

/// Result of opening, for the log.
#[derive(Debug, Clone, Default)]
pub struct RecoveryReport {
    /// Indices in the catalog.
    pub index_count: usize,
    /// Shards that serve requests.
    pub shard_count: usize,
    /// Shards that are still being opened.
    pub recovering_count: usize,
    /// Shards that fail, each with its error.
    pub damaged: Vec<DamagedShard>,
    /// Removed folders of deleted indices and of unfinished commands.
    pub removed_folder_count: usize,
    /// Folders that the catalog does not name, moved to the quarantine at this start.
    pub quarantined_folder_count: usize,
    /// Duration of the start, ms.
    pub took_ms: u64,
}

/// Shard that does not serve requests.
#[derive(Debug, Clone)]
pub struct DamagedShard {
    /// Name of its index.
    pub index: String,
    /// Number of the shard.
    pub shard: u32,
    /// The reason.
    pub error: Error,
}

/// Shards that the start opens.
struct Opening {
    slots: Vec<OpeningShard>,
    /// Position of the next shard in `slots`.
    next: AtomicUsize,
    /// Shards with a long WAL.
    long: Mutex<Vec<OpeningShard>>,
    found: Mutex<Found>,
    /// Signalled when `found` changes.
    changed: Condvar,
}

type OpeningShard = (Arc<IndexState>, Arc<ShardSlot>);

struct Found {
    report: RecoveryReport,
    /// The report was returned; later results go to the log.
    was_reported: bool,
}

/// Returns the error for writes to a shard on a full disk.
fn full_disk_error(index: &str) -> Error {
    let reason = format!(
        "index [{index}] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has \
         read-only-allow-delete block: the disk is full];"
    );
    Error::new(ErrorKind::DiskFull, reason).with_index(index)
}

/// See the module.
pub(crate) struct ShardOpener {
    pub(crate) node: Arc<Node>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) gates: Arc<RecoveryGates>,
    pub(crate) mounts: Arc<MountService>,
    pub(crate) commands: Arc<CommandService>,
    /// Memory for files that opening shards on a full disk would write.
    pub(crate) overlay_budget: Arc<OverlayBudget>,
    /// Threads that open shards after the start.
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
}

impl ShardOpener {
    /// Opens every shard, several at once, and returns when all are open or [`EmbeddedConfig::start_patience`] is over;
    /// the rest continues in the background.
    pub(super) fn open_all_shards(self: &Arc<Self>) -> RecoveryReport {
        let state = self.node.state();
        let slots: Vec<_> = state
            .slots()
            .map(|(index, slot)| (Arc::clone(index), Arc::clone(slot)))
            .collect();
        for (_, slot) in &slots {
            self.gates.expect_recovery(slot);
        }
        let opening = Arc::new(Opening {
            next: AtomicUsize::new(0),
            long: Mutex::default(),
            found: Mutex::new(Found {
                report: RecoveryReport {
                    index_count: state.indices.len(),
                    recovering_count: slots.len(),
                    ..RecoveryReport::default()
                },
                was_reported: false,
            }),
            changed: Condvar::new(),
            slots,
        });
        let threads = self.node.config.write_threads.max(2).min(opening.slots.len());
        for number in 0..threads {
            let (service, shared) = (Arc::clone(self), Arc::clone(&opening));
            let thread = std::thread::Builder::new()
                .name(format!("recovery-{number}"))
                .spawn(move || service.open_shards_of(&shared))
                .expect("the operating system starts a thread");
            self.threads.lock().push(thread);
        }
        let deadline = Instant::now().checked_add(self.node.config.start_patience);
        let mut found = opening.found.lock();
        while found.report.recovering_count > 0 {
            match deadline {
                None => opening.changed.wait(&mut found),
                Some(deadline) if opening.changed.wait_until(&mut found, deadline).timed_out() => break,
                Some(_) => {}
            }
        }
        found.was_reported = true;
        found.report.clone()
    }

    /// Opens the remaining shards; those with a long WAL come last, as the other shards need not wait for them.
    fn open_shards_of(&self, opening: &Opening) {
        while let Some((index, slot)) = opening.slots.get(opening.next.fetch_add(1, Ordering::Relaxed)) {
            match self.has_long_wal(index, slot) {
                true => opening.long.lock().push((Arc::clone(index), Arc::clone(slot))),
                false => self.open_at_start(opening, index, slot),
            }
        }
        loop {
            let Some((index, slot)) = opening.long.lock().pop() else {
                return;
            };
            self.open_at_start(opening, &index, &slot);
        }
    }

    fn has_long_wal(&self, index: &IndexState, slot: &ShardSlot) -> bool {
        if index.metadata.settings.is_mounted() {
            return false;
        }
        let config = self.node.factory.shard_config(&index.metadata, slot.number);
        config.is_ok_and(|config| Shard::wal_bytes(&config).is_ok_and(|bytes| bytes > LONG_WAL_BYTES))
    }

    fn open_at_start(&self, opening: &Opening, index: &IndexState, slot: &ShardSlot) {
        let opened = match self.node.check_open() {
            Ok(()) => self.open_shard(index, slot),
            Err(error) => {
                drop(self.gates.recovering(slot));
                Err(error)
            }
        };
        let mut found = opening.found.lock();
        let was_reported = found.was_reported;
        let report = &mut found.report;
        report.recovering_count -= 1;
        match opened {
            Ok(()) => {
                report.shard_count += 1;
                if was_reported {
                    tracing::info!(index = &*index.name, shard = slot.number, "the shard serves");
                }
            }
            Err(error) if error.kind() == ErrorKind::IndexClosed || self.node.is_closing() => {}
            Err(error) if was_reported => {
                tracing::error!(
                    index = &*index.name,
                    shard = slot.number,
                    "a shard does not serve: {error}"
                );
            }
            Err(error) => report.damaged.push(DamagedShard {
                index: index.name.to_string(),
                shard: slot.number,
                error,
            }),
        }
        opening.changed.notify_all();
    }

    /// Waits for the threads that open shards; they end soon once the engine is closing.
    pub(super) fn end_recovery(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            let _ = thread.join();
        }
    }

    /// Opens one shard into its slot; if that fails, the slot keeps the error.
    pub(crate) fn open_shard(&self, index: &IndexState, slot: &ShardSlot) -> Result<()> {
        let _one_at_a_time = slot.opening.lock();
        let _recovering = self.gates.recovering(slot);
        if let Some(store) = &index.metadata.settings.snapshot {
            return self.mounts.open_mounted_slot(index, store, slot);
        }
        let why_closed = match slot.shard() {
            Ok(shard) => shard.failure().or_else(|| shard.read_only().cloned()),
            Err(error) => Some(error),
        };
        let Some(why_closed) = why_closed else {
            slot.reopen.store(false, Ordering::Release);
            return Ok(());
        };
        // Two shards may never write to the same files. Concurrent requests get the reason: for a client a full disk
        // differs from damage.
        slot.replace(Err(why_closed));
        slot.reopen.store(false, Ordering::Release);
        slot.end_retired();
        let opened = self
            .settle(index, slot)
            .and_then(|()| self.open_shard_with_room(index, slot.number));
        let mut result = opened.as_ref().map(|_| ()).map_err(Error::clone);
        if let Err(error) = &result
            && matches!(error.kind(), ErrorKind::DiskFull | ErrorKind::Internal)
        {
            // A full disk or an I/O error may be temporary; damage is not.
            slot.reopen.store(true, Ordering::Release);
        }
        slot.replace(opened.map(Served::Written));
        slot.changed.store(true, Ordering::Relaxed);
        // A command that was published while the files were being opened did not find the shard.
        if let Err(error) = self.node.check_wanted(index) {
            slot.replace(Err(error.clone()));
            slot.end_retired();
            result = Err(error);
        }
        match &result {
            // Failures of the previous shard object say nothing about this one.
            Ok(()) => {
                self.commands.use_settings_of_now(index, slot);
                slot.flush_backoff.note(true, Instant::now());
                slot.merge_backoff.note(true, Instant::now());
            }
            Err(_) => slot.release_waiters(),
        }
        result
    }

    pub(crate) fn open_shard_files(&self, index: &IndexState, number: u32) -> Result<Arc<Shard>> {
        self.node.check_wanted(index)?;
        self.open_files_of(index, number)
    }

    /// Opens a shard; read-only if the disk is full.
    fn open_shard_with_room(&self, index: &IndexState, number: u32) -> Result<Arc<Shard>> {
        let watch = self.devices.watch(index.metadata.tier_of(number));
        let opened = match watch.is_some_and(DiskWatch::is_out_of_space) {
            true => Err(Error::new(ErrorKind::DiskFull, "no storage space is left")),
            false => self.open_shard_files(index, number),
        };
        match opened {
            Err(error) if error.kind() == ErrorKind::DiskFull => self.open_on_full_disk(index, number),
            opened => opened,
        }
    }

    /// Opens a shard without writing to its disk: what opening would write stays in memory. The ticker opens it again
    /// when the disk has space.
    fn open_on_full_disk(&self, index: &IndexState, number: u32) -> Result<Arc<Shard>> {
        self.node.check_wanted(index)?;
        let config = self.node.config_of(index, number)?;
        // Unfinished segments take disk space that a deletion needs.
        if let Err(error) = Shard::remove_uncommitted(&config) {
            tracing::warn!(index = &*index.name, shard = number, %error, "cannot remove unfinished segments");
        }
        let on_overlay = || ShardConfig {
            disk: Arc::new(OverlayDisk::new(
                Arc::clone(&config.disk),
                Arc::clone(&self.overlay_budget),
            )),
            ..config.clone()
        };
        tracing::warn!(
            index = &*index.name,
            shard = number,
            "the disk is full: the shard serves for reading only"
        );
        let opened = Shard::open_read_only(
            on_overlay(),
            &|source| {
                self.node.check_open()?;
                self.commands.map_for_replay(&index.name, source)
            },
            full_disk_error(&index.name),
        );
        match opened {
            Err(error) if error.kind() == ErrorKind::DiskFull => {
                let reason = format!(
                    "shard [{}][{number}]: events of its write-ahead log are not searchable until the disk has space, as they \
                     exceed [indices.memory.index_buffer_size]",
                    index.name
                );
                let reason = Error::new(ErrorKind::ShardNotReady, reason).with_index(&*index.name);
                Shard::open_committed(on_overlay(), reason)
            }
            opened => opened,
        }
    }

    /// Opens the files of a shard, also if the index is closed or deleted. The caller ensures that no other thread
    /// opens the shard.
    pub(crate) fn open_files_of(&self, index: &IndexState, number: u32) -> Result<Arc<Shard>> {
        let config = self.node.config_of(index, number)?;
        if !Shard::exists(&*self.node.config.disk, &config.dir)? {
            return Err(Error::new(
                ErrorKind::ShardDamaged,
                format!(
                    "shard [{}][{number}] is damaged: its files are missing from [{}], which has no commit point \
                     [commit-N.json]",
                    index.name,
                    config.dir.display()
                ),
            )
            .with_index(&*index.name));
        }
        Shard::open(config, &|source| {
            // A node that stops does not wait for a long replay; the next start replays again.
            self.node.check_open()?;
            self.commands.map_for_replay(&index.name, source)
        })
    }

    /// Opens the shards of indices that were just opened.
    pub(crate) fn open_waiting_shards(&self) {
        let state = self.node.state();
        for (index, slot) in state.slots() {
            if slot.reopen.load(Ordering::Acquire)
                && let Err(error) = self.open_shard(index, slot)
            {
                tracing::error!(index = &*index.name, shard = slot.number, %error, "cannot open a shard");
            }
        }
    }

    /// Writes the device of a shard to the catalog again, as it is in memory, so that both certainly agree. Removes the
    /// folders on other devices.
    pub(crate) fn settle(&self, index: &IndexState, slot: &ShardSlot) -> Result<()> {
        if !slot.unsettled.load(Ordering::Acquire) {
            return Ok(());
        }
        self.node.check_wanted(index)?;
        let state = self.node.state();
        let now = state.index(&index.name)?;
        self.commands.execute(EmbeddedCommand::MoveShard {
            index: now.name.to_string(),
            uuid: now.metadata.uuid.clone(),
            shard: slot.number,
            tier: now.metadata.tier_of(slot.number),
        })?;
        slot.unsettled.store(false, Ordering::Release);
        self.node.factory.remove_elsewhere(&now.metadata, slot.number);
        Ok(())
    }
}
