//! State of the engine at one moment: metadata, and for each index its compiled mapping and its
//! shards. A state never changes; commands publish the next one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;
use firn_model::ids::AutoId;
use firn_model::metadata::{IndexMetadata, Metadata};
use firn_model::shared_map::{Difference, SharedMap};
use firn_model::tier::Tier;
use firn_model::{Error, ErrorKind, Result};
use firn_scheduler::wait_for_others;
use firn_search::result_cache::Account;
use firn_segment::catalog_version::CatalogVersion;
use firn_shard::mapper::CompiledMapping;
use firn_shard::{MarkFilter, ReplayThreads, Shard, ShardConfig};
use firn_storage::disk::Disk;
use firn_storage::wal::Syncer;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::recovery_gate::RecoveryGate;
use crate::backoff::Backoff;
use crate::data_folder::{IndexRecord, RecordState};
use crate::mounts::MountedShard;
use crate::tiers::{TierPaths, no_tier};

/// Metadata and all data derived from it.
pub(crate) struct State {
    pub(crate) metadata: Arc<Metadata>,
    /// All indices, by concrete name.
    pub(crate) indices: SharedMap<Arc<IndexState>>,
    /// Those of them that have local writable files and so need maintenance.
    written: SharedMap<Arc<IndexState>>,
}

/// State of one index.
pub(crate) struct IndexState {
    pub(crate) metadata: Arc<IndexMetadata>,
    pub(crate) name: Arc<str>,
    /// Tag in generated ids.
    pub(crate) tag: u32,
    /// `None`: the index is mounted, so it takes no writes.
    compiled: Option<Arc<CompiledMapping>>,
    /// By number. The slots stay the same when mapping or settings change.
    pub(crate) shards: Arc<[Arc<ShardSlot>]>,
}

impl IndexState {
    /// Creates the state of an index around its slots.
    pub(crate) fn new(metadata: &Arc<IndexMetadata>, shards: Arc<[Arc<ShardSlot>]>) -> Result<Arc<Self>> {
        let compiled = match metadata.settings.is_mounted() {
            true => None,
            false => Some(Arc::new(CompiledMapping::new(
                Arc::clone(&metadata.mapping),
                &metadata.settings,
            )?)),
        };
        Ok(Arc::new(Self {
            compiled,
            metadata: Arc::clone(metadata),
            name: metadata.name.as_str().into(),
            tag: AutoId::tag_of(metadata.ids_of()),
            shards,
        }))
    }

    /// Returns the compiled mapping for writes; fails for a mounted index.
    pub(crate) fn compiled(&self) -> Result<&Arc<CompiledMapping>> {
        self.compiled.as_ref().ok_or_else(|| write_blocked_error(&self.name))
    }
}

impl State {
    /// Returns the index of a concrete name.
    pub(crate) fn index(&self, name: &str) -> Result<&Arc<IndexState>> {
        self.indices.get(name).ok_or_else(|| Error::index_not_found(name))
    }

    /// Creates a state of metadata only.
    pub(crate) fn new(metadata: Arc<Metadata>) -> Self {
        Self {
            metadata,
            indices: SharedMap::default(),
            written: SharedMap::default(),
        }
    }

    /// Returns the same indices with other metadata.
    pub(crate) fn with_metadata(&self, metadata: Arc<Metadata>) -> Self {
        Self {
            metadata,
            indices: self.indices.clone(),
            written: self.written.clone(),
        }
    }

    /// Adds an index, or replaces the one of the same name.
    pub(crate) fn insert(&mut self, index: Arc<IndexState>) {
        let name = index.metadata.name.clone();
        match index.metadata.settings.is_mounted() {
            true => self.written.remove(&name),
            false => self.written.insert(name.clone(), Arc::clone(&index)),
        };
        self.indices.insert(name, index);
    }

    /// Removes an index.
    pub(crate) fn remove(&mut self, name: &str) {
        self.indices.remove(name);
        self.written.remove(name);
    }

    /// Returns the indices that differ in a later state.
    pub(crate) fn differences<'a>(&'a self, later: &'a Self) -> Vec<Difference<'a, Arc<IndexState>>> {
        self.indices.differences(&later.indices, Arc::ptr_eq)
    }

    /// Returns all shard slots.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (&Arc<IndexState>, &Arc<ShardSlot>)> {
        slots_of(&self.indices)
    }

    /// Returns the slots of mounted indices.
    pub(crate) fn mounted_slots(&self) -> impl Iterator<Item = (&Arc<IndexState>, &Arc<ShardSlot>)> {
        self.slots().filter(|(index, _)| index.metadata.settings.is_mounted())
    }

    /// Whether any index is mounted.
    pub(crate) fn has_mounted(&self) -> bool {
        self.indices.len() > self.written.len()
    }

    /// Returns the slots of indices that are not mounted.
    pub(crate) fn written_slots(&self) -> impl Iterator<Item = (&Arc<IndexState>, &Arc<ShardSlot>)> {
        slots_of(&self.written)
    }
}

fn slots_of(indices: &SharedMap<Arc<IndexState>>) -> impl Iterator<Item = (&Arc<IndexState>, &Arc<ShardSlot>)> {
    indices
        .values()
        .flat_map(|index| index.shards.iter().map(move |slot| (index, slot)))
}

/// Maximum pause between attempts of a failing flush: the WAL should shrink soon after the disk has
/// space again.
const FLUSH_PAUSE_S_MAX: u64 = 32;
/// Maximum pause between attempts of a failing merge: each attempt reads whole segments.
const MERGE_PAUSE_S_MAX: u64 = 256;

/// Maximum pause between attempts of a repair: each attempt searches repositories, and reads the whole shard if it
/// cannot be opened.
const REPAIR_PAUSE_S_MAX: u64 = 3600;

/// Maximum pause between attempts of a failing move: each attempt copies the whole shard.
const MOVE_PAUSE_S_MAX: u64 = 256;

/// Shard that a slot serves.
#[derive(Clone)]
pub(crate) enum Served {
    /// Shard with local writable files.
    Written(Arc<Shard>),
    /// Shard that reads a snapshot.
    Mounted(Arc<MountedShard>),
}

impl From<Arc<Shard>> for Served {
    fn from(shard: Arc<Shard>) -> Self {
        Self::Written(shard)
    }
}

/// Place of a shard of an index: the shard may be open, damaged or closed.
pub(crate) struct ShardSlot {
    pub(crate) number: u32,
    /// When the slot was created: with its index, or by the start. ms since epoch UTC.
    pub(crate) opened_ms: i64,
    shard: ArcSwap<Result<Served>>,
    /// Earlier shard objects of this slot that may still work on the same files.
    retired: Mutex<Vec<Arc<Shard>>>,
    pub(crate) counters: Counters,
    /// Request cache statistics of the shard.
    pub(crate) cache_account: Arc<Account>,
    /// Number of cache clears; cached responses from before a clear are not returned.
    pub(crate) clearings: AtomicU64,
    /// Last search, ms since epoch UTC.
    pub(crate) searched_ms: AtomicI64,
    /// Last write, ms since epoch UTC.
    pub(crate) written_ms: AtomicI64,
    /// Last refresh, ms since epoch UTC.
    pub(crate) refreshed_ms: AtomicI64,
    /// Segments may have been added since the last check for merges.
    pub(crate) changed: AtomicBool,
    /// A background refresh is queued or running.
    pub(crate) refreshing: AtomicBool,
    /// A background flush is queued or running.
    pub(crate) flushing: AtomicBool,
    /// A background merge is queued or running.
    pub(crate) merging: AtomicBool,
    /// A writer thread is merging.
    pub(crate) writer_merging: AtomicBool,
    /// Documents written since a writer thread last merged, while there were too many segments.
    pub(crate) written_unmerged: AtomicU64,
    /// Buffers are being written to segments to free memory.
    pub(crate) writing_out: AtomicBool,
    /// No open shard is here, but one should be: the ticker, or the first request, opens it.
    pub(crate) reopen: AtomicBool,
    /// Consecutive failed attempts to open it.
    pub(crate) reopen_failures: AtomicU32,
    /// Tick before which the ticker does not try to open it again.
    pub(crate) reopen_tick: AtomicU64,
    /// Delays flushes after failures.
    pub(crate) flush_backoff: Backoff,
    /// Delays merges after failures.
    pub(crate) merge_backoff: Backoff,
    /// Delays moves after failures.
    pub(crate) move_backoff: Backoff,
    /// Generations of the segments that were damaged at the last check.
    pub(crate) damaged: Mutex<BTreeSet<u64>>,
    /// A repair is queued or running.
    pub(crate) repairing: AtomicBool,
    /// Delays repairs after failures.
    pub(crate) repair_backoff: Backoff,
    /// Error of the last move, until one succeeds.
    pub(crate) move_failure: Mutex<Option<String>>,
    /// The log has an entry that the shard waits for space on another device.
    pub(crate) waits_for_room: AtomicBool,
    /// It is not certain on which device the catalog has the shard ([`crate::engine::shard_opener::ShardOpener`]).
    pub(crate) unsettled: AtomicBool,
    /// Read lock: the shard must not be replaced. Write lock: the shard is being replaced by its copy.
    standing_still: RwLock<()>,
    /// Requests wait at it while the shard is being opened.
    pub(crate) recovery: RecoveryGate,
    /// Locked while the shard is being opened or moved, and while its files are being removed. Opening may
    /// execute a command, so do not wait for this lock with the catalog held.
    pub(crate) opening: Mutex<()>,
    /// Callbacks for the next refresh.
    waiters: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

/// Counters of the engine for one shard; the shard counts the rest.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) search_total: AtomicU64,
    pub(crate) search_us: AtomicU64,
    pub(crate) scrolls: ContextCounters,
    pub(crate) points_in_time: ContextCounters,
    pub(crate) get_total: AtomicU64,
    pub(crate) index_us: AtomicU64,
    pub(crate) refresh_us: AtomicU64,
    pub(crate) flush_us: AtomicU64,
}

/// Counters of the contexts of one kind that hold a shard.
#[derive(Debug, Default)]
pub(crate) struct ContextCounters {
    pub(crate) current: AtomicU64,
    /// Number of closed contexts.
    pub(crate) total: AtomicU64,
    /// Total time for which closed contexts were open.
    pub(crate) open_us: AtomicU64,
}

impl ShardSlot {
    /// Creates a slot around an open, damaged or closed shard.
    pub(crate) fn new(number: u32, shard: Result<Served>, now_ms: i64) -> Arc<Self> {
        Arc::new(Self {
            number,
            opened_ms: now_ms,
            shard: ArcSwap::from_pointee(shard),
            retired: Mutex::new(Vec::new()),
            counters: Counters::default(),
            cache_account: Arc::default(),
            clearings: AtomicU64::new(0),
            // No search yet: loading a new index should not make one segment per second.
            searched_ms: AtomicI64::new(0),
            written_ms: AtomicI64::new(now_ms),
            refreshed_ms: AtomicI64::new(now_ms),
            refreshing: AtomicBool::new(false),
            flushing: AtomicBool::new(false),
            merging: AtomicBool::new(false),
            writer_merging: AtomicBool::new(false),
            written_unmerged: AtomicU64::new(0),
            writing_out: AtomicBool::new(false),
            changed: AtomicBool::new(true),
            reopen: AtomicBool::new(false),
            reopen_failures: AtomicU32::new(0),
            reopen_tick: AtomicU64::new(0),
            flush_backoff: Backoff::new(FLUSH_PAUSE_S_MAX),
            merge_backoff: Backoff::new(MERGE_PAUSE_S_MAX),
            move_backoff: Backoff::new(MOVE_PAUSE_S_MAX),
            damaged: Mutex::default(),
            repairing: AtomicBool::new(false),
            repair_backoff: Backoff::new(REPAIR_PAUSE_S_MAX),
            move_failure: Mutex::default(),
            waits_for_room: AtomicBool::new(false),
            unsettled: AtomicBool::new(false),
            standing_still: RwLock::new(()),
            recovery: RecoveryGate::default(),
            opening: Mutex::new(()),
            waiters: Mutex::new(Vec::new()),
        })
    }

    /// Returns the shard to read, or why there is none.
    pub(crate) fn served(&self) -> Result<Served> {
        Result::clone(&self.shard.load()).map_err(for_readers)
    }

    /// Returns the shard to write to, or why there is none.
    pub(crate) fn shard(&self) -> Result<Arc<Shard>> {
        match &**self.shard.load() {
            Ok(Served::Written(shard)) => Ok(Arc::clone(shard)),
            Ok(Served::Mounted(shard)) => Err(write_blocked_error(&shard.index)),
            Err(error) => Err(error.clone()),
        }
    }

    /// While this lock is held, the shard is not replaced by its copy on another device. Hold it for one batch at most,
    /// and never across [`firn_scheduler::yield_now`]: a move waits for this lock, and other writes wait for the move.
    pub(crate) fn hold(&self) -> RwLockReadGuard<'_, ()> {
        let held = self.standing_still.try_read();
        held.unwrap_or_else(|| wait_for_others(|| self.standing_still.read()))
    }

    /// Waits until no thread holds the shard; other threads that want to hold it wait until the guard is dropped.
    pub(crate) fn stand_still(&self) -> RwLockWriteGuard<'_, ()> {
        self.standing_still.write()
    }

    /// Runs `work` on the shard. If the shard was moved to another device meanwhile, runs it again from the start on
    /// the new one. For long work that may run twice.
    pub(crate) fn on_shard<T>(&self, work: impl Fn(&Shard) -> Result<T>) -> Result<T> {
        loop {
            let shard = self.shard()?;
            let result = work(&shard);
            let is_closed = result
                .as_ref()
                .is_err_and(|error| error.kind() == ErrorKind::IndexClosed);
            if !is_closed || !self.was_moved(&shard) {
                return result;
            }
        }
    }

    /// Whether a closed shard was replaced by its copy on another device; waits for a running replacement.
    pub(crate) fn was_moved(&self, shard: &Arc<Shard>) -> bool {
        drop(self.hold());
        self.shard().is_ok_and(|now| !Arc::ptr_eq(&now, shard))
    }

    /// Returns the shard if it reads a snapshot.
    pub(crate) fn mounted(&self) -> Option<Arc<MountedShard>> {
        match &**self.shard.load() {
            Ok(Served::Mounted(shard)) => Some(Arc::clone(shard)),
            _ => None,
        }
    }

    /// Replaces the shard (or the reason why there is none). The old shard gets no
    /// further requests, but may be executing one: it counts as retired until
    /// [`ShardSlot::end_retired`] has waited for it.
    pub(crate) fn replace(&self, shard: Result<Served>) {
        // The list is locked during the swap, so that the shard is always in one of both places.
        let mut retired = self.retired.lock();
        if let Ok(Served::Written(previous)) = &*self.shard.swap(Arc::new(shard)) {
            retired.push(Arc::clone(previous));
        }
    }

    /// Replaces one mounted shard by another; false: the slot no longer has `previous`.
    pub(crate) fn exchange_mounted(&self, previous: &Arc<MountedShard>, next: Arc<MountedShard>) -> bool {
        // As in `replace`, whose swap waits for this one.
        let _retired = self.retired.lock();
        let is_there = self.mounted().is_some_and(|now| Arc::ptr_eq(&now, previous));
        if is_there {
            self.shard.store(Arc::new(Ok(Served::Mounted(next))));
        }
        is_there
    }

    /// Flushes retired shards and closes them for writes.
    pub(crate) fn close_retired(&self) -> Result<()> {
        let retired = self.retired.lock().clone();
        let mut outcome = Ok(());
        for shard in &retired {
            match shard.close() {
                Ok(()) => {}
                // Already ended by the thread that opens the next shard, which replays unflushed writes.
                Err(error) if error.kind() == ErrorKind::IndexClosed => {}
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }

    /// Stops retired shards without a flush, and waits until none of them
    /// touches a file any more. Blocks until running merges notice.
    pub(crate) fn end_retired(&self) {
        let retired = self.retired.lock().clone();
        for shard in &retired {
            shard.abandon();
            shard.quiesce();
        }
        self.retired
            .lock()
            .retain(|shard| !retired.iter().any(|ended| Arc::ptr_eq(ended, shard)));
    }

    /// Makes all applied writes searchable and calls the waiters.
    pub(crate) fn refresh(&self, now_ms: i64) -> Result<bool> {
        if self.mounted().is_some() {
            return Ok(false);
        }
        // Taken first: a waiter that arrives during the refresh may have written after it began.
        let waiters = std::mem::take(&mut *self.waiters.lock());
        self.refreshed_ms.store(now_ms, Ordering::Relaxed);
        let started = Instant::now();
        let result = self.on_shard(Shard::refresh);
        add_us(&self.counters.refresh_us, started);
        self.changed.store(true, Ordering::Relaxed);
        for waiter in waiters {
            waiter();
        }
        result
    }

    /// Makes all applied writes durable and searchable, and returns their highest sequence number. `None`: the shard is mounted.
    pub(crate) fn checkpoint(&self, now_ms: i64) -> Result<Option<Option<u64>>> {
        if self.mounted().is_some() {
            return Ok(None);
        }
        let needs_refresh = self.on_shard(|shard| Ok(shard.needs_refresh()))?;
        let seq_no = self.on_shard(Shard::checkpoint)?;
        if needs_refresh {
            // Calls those that wait for a refresh.
            self.refresh(now_ms)?;
        }
        Ok(Some(seq_no))
    }

    /// Makes all applied writes durable as segments.
    pub(crate) fn flush(&self) -> Result<bool> {
        if self.mounted().is_some() {
            return Ok(false);
        }
        let started = Instant::now();
        let result = self.on_shard(Shard::flush);
        add_us(&self.counters.flush_us, started);
        self.changed.store(true, Ordering::Relaxed);
        result
    }

    /// Calls `waiter` after the next refresh, or at once if no refresh will come because the
    /// shard was closed, deleted or damaged.
    pub(crate) fn after_refresh(&self, waiter: impl FnOnce() + Send + 'static) {
        self.waiters.lock().push(Box::new(waiter));
        // A shard is removed from the slot before its waiters are released: either that release finds this
        // waiter, or this code finds no shard.
        if !matches!(&**self.shard.load(), Ok(Served::Written(_))) {
            self.release_waiters();
        }
    }

    /// Whether a request waits for a refresh.
    pub(crate) fn has_waiters(&self) -> bool {
        !self.waiters.lock().is_empty()
    }

    /// Calls all waiters: there will be no further refresh. Call it after
    /// [`ShardSlot::replace`] removed the shard.
    pub(crate) fn release_waiters(&self) {
        let waiters = std::mem::take(&mut *self.waiters.lock());
        for waiter in waiters {
            waiter();
        }
    }
}

/// Returns the error for a read from a shard that a full disk stopped: a client should not take it for a refused
/// write. The shard is about to be opened read-only.
pub(crate) fn for_readers(error: Error) -> Error {
    match error.kind() {
        ErrorKind::DiskFull => {
            let reason = "the disk is full, and the shard is about to be opened read-only, retry later";
            let unavailable = Error::new(ErrorKind::ShardNotReady, reason);
            match error.index() {
                Some(index) => unavailable.with_index(index).caused_by(error.clone()),
                None => unavailable.caused_by(error),
            }
        }
        _ => error,
    }
}

/// Adds the time since `started`.
pub(crate) fn add_us(counter: &AtomicU64, started: Instant) {
    counter.fetch_add(started.elapsed().as_micros() as u64, Ordering::Relaxed);
}

/// Folders and resources for creating and opening shards.
#[derive(Clone)]
pub(crate) struct ShardFactory {
    pub(crate) path_data: PathBuf,
    pub(crate) tiers: TierPaths,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) syncer: Arc<Syncer>,
    pub(crate) buffers_max: usize,
    pub(crate) buffer_bytes_max: usize,
    /// Version of the catalog, for the files of shards and indices.
    pub(crate) catalog: Arc<CatalogVersion>,
    pub(crate) replay_threads: Arc<ReplayThreads>,
    /// Decides which source marks a shard still needs.
    pub(crate) marks: MarkFilter,
}

impl ShardFactory {
    /// Returns `PATH_DATA/indices`.
    pub(crate) fn indices_dir(&self) -> PathBuf {
        self.path_data.join("indices")
    }

    /// Returns the folder of an index in `path.data`.
    pub(crate) fn index_dir(&self, uuid: &str) -> PathBuf {
        self.indices_dir().join(uuid)
    }

    /// Returns the folder of an index on a device.
    pub(crate) fn index_dir_on(&self, uuid: &str, tier: Tier) -> Result<PathBuf> {
        let path = match tier {
            Tier::Hot => &self.path_data,
            tier => self.tiers.of(tier).ok_or_else(|| no_tier(tier))?,
        };
        Ok(path.join("indices").join(uuid))
    }

    /// Returns the existing folders of an index on all devices.
    pub(crate) fn index_dirs(&self, uuid: &str) -> Result<Vec<PathBuf>> {
        let mut dirs = Vec::new();
        for tier in self.devices() {
            let dir = self.index_dir_on(uuid, tier)?;
            if self.disk.exists(&dir)? {
                dirs.push(dir);
            }
        }
        Ok(dirs)
    }

    /// Returns the devices of the node.
    pub(crate) fn devices(&self) -> impl Iterator<Item = Tier> {
        Tier::ALL.into_iter().filter(|tier| self.tiers.has(*tier))
    }

    /// Returns the device for the copies of a mounted, fully copied shard.
    pub(crate) fn tier_of_mounted(&self, index: &IndexMetadata) -> Tier {
        let target = index.settings.allocation.target(Tier::Hot, |tier| self.tiers.has(tier));
        target.unwrap_or_default()
    }

    /// Returns the folder of a shard of a mounted index.
    pub(crate) fn mounted_dir(&self, index: &IndexMetadata, number: u32) -> PathBuf {
        let dir = self.index_dir_on(&index.uuid, self.tier_of_mounted(index));
        dir.unwrap_or_else(|_| self.index_dir(&index.uuid))
            .join(number.to_string())
    }

    /// Returns the config of a shard on the device where the catalog has it.
    pub(crate) fn shard_config(&self, index: &IndexMetadata, number: u32) -> Result<ShardConfig> {
        self.shard_config_on(index, number, index.tier_of(number))
    }

    /// Returns the config of a shard on a device.
    pub(crate) fn shard_config_on(&self, index: &IndexMetadata, number: u32, tier: Tier) -> Result<ShardConfig> {
        let settings = &index.settings;
        let dir = self.index_dir_on(&index.uuid, tier)?.join(number.to_string());
        let mut config = ShardConfig::new(
            index.name.as_str(),
            index.uuid.as_str(),
            number,
            dir,
            Arc::clone(&self.disk),
            Arc::clone(&self.syncer),
        );
        config.catalog = Some(Arc::clone(&self.catalog));
        config.index_tag = AutoId::tag_of(index.ids_of());
        config.durability = settings.durability;
        config.sync_interval_ms = settings.sync_interval_ms;
        config.flush_threshold_bytes = settings.flush_threshold_bytes;
        config.tenant_field = settings.tenant_field.as_deref().map(Arc::from);
        config.best_compression = settings.best_compression;
        config.buffers_max = self.buffers_max;
        config.replay_threads = Arc::clone(&self.replay_threads);
        config.is_mark_needed = self.marks.clone();
        config.buffer_bytes_max = self.buffer_bytes_max;
        Ok(config)
    }

    /// Whether a restore has created the files of a new index.
    pub(crate) fn is_restored(&self, index: &IndexMetadata) -> Result<bool> {
        Shard::exists(&*self.disk, &self.shard_config(index, 0)?.dir)
    }

    /// Opens the shards that a restore created.
    pub(crate) fn open_restored(&self, index: &IndexMetadata) -> Result<Vec<Arc<Shard>>> {
        self.disk.sync_dir(&self.indices_dir())?;
        let nothing_to_replay = |_: &_| Err(Error::internal("a restored shard has an operation in its WAL"));
        (0..index.settings.number_of_shards)
            .map(|number| Shard::open(self.shard_config(index, number)?, &nothing_to_replay))
            .collect()
    }

    /// Creates the folders and empty shards of a new index durably, all of them or none.
    pub(crate) fn create(&self, index: &IndexMetadata) -> Result<Vec<Arc<Shard>>> {
        let dir = self.index_dir(&index.uuid);
        let shards = self.create_in(index, &dir);
        if let Err(error) = &shards {
            // The next start removes remaining files, as no index refers to them.
            self.remove(&index.uuid);
            return Err(Error::new(error.kind(), "cannot create the files of the index")
                .with_index(&index.name)
                .caused_by(error.clone()));
        }
        shards
    }

    fn create_in(&self, index: &IndexMetadata, dir: &Path) -> Result<Vec<Arc<Shard>>> {
        self.write_record(index, RecordState::Creating)?;
        let mut shards = Vec::new();
        for number in 0..index.settings.number_of_shards {
            shards.push(Shard::create(self.shard_config(index, number)?)?);
        }
        self.disk.sync_dir(dir)?;
        self.disk.sync_dir(&self.indices_dir())?;
        Ok(shards)
    }

    /// Writes the metadata of an index into its folder in `path.data`, which is created, and into its folders on other
    /// devices. Durable except for the directory entry of a new folder.
    pub(crate) fn write_record(&self, index: &IndexMetadata, state: RecordState) -> Result<()> {
        self.disk.create_dir_all(&self.index_dir(&index.uuid))?;
        self.update_record(index, state).map(|_| ())
    }

    /// Writes the metadata into the existing folders; returns how many there are.
    pub(crate) fn update_record(&self, index: &IndexMetadata, state: RecordState) -> Result<usize> {
        let record = IndexRecord {
            cluster_uuid: self.catalog.cluster_uuid().to_owned(),
            catalog_version: self.catalog.get(),
            state,
            index: index.clone(),
        };
        let dirs = self.index_dirs(&index.uuid)?;
        for dir in &dirs {
            record.write(&*self.disk, dir)?;
        }
        Ok(dirs.len())
    }

    /// Removes an index's folders; the next start removes those that cannot be removed now.
    pub(crate) fn remove(&self, uuid: &str) {
        for tier in self.devices() {
            if let Ok(dir) = self.index_dir_on(uuid, tier) {
                self.remove_dir(&dir);
            }
        }
    }

    /// Removes files of a shard on devices where the catalog does not have it, as far as possible now.
    pub(crate) fn remove_elsewhere(&self, index: &IndexMetadata, number: u32) {
        for tier in self.devices().filter(|tier| *tier != index.tier_of(number)) {
            if let Ok(dir) = self.index_dir_on(&index.uuid, tier) {
                self.remove_dir(&dir.join(number.to_string()));
            }
        }
    }

    pub(crate) fn remove_dir(&self, dir: &Path) {
        match self.disk.remove_dir_all(dir) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(path = %dir.display(), %error, "cannot remove unused files yet");
            }
        }
    }
}

/// Returns the error for shards of a closed index.
pub(crate) fn closed_error(name: &str) -> Error {
    Error::new(ErrorKind::IndexClosed, "closed").with_index(name)
}

/// Returns the error for writes to an index that has a write block or is mounted.
pub(crate) fn write_blocked_error(name: &str) -> Error {
    Error::new(
        ErrorKind::IndexBlocked,
        format!("index [{name}] blocked by: [FORBIDDEN/8/index write (api)];"),
    )
    .with_index(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_the_refresh_of_a_removed_shard_ends_at_once() {
        let slot = ShardSlot::new(0, Err(Error::index_not_found("logs")), 0);
        let (sender, receiver) = std::sync::mpsc::channel();
        slot.after_refresh(move || sender.send(()).unwrap());
        receiver.try_recv().expect("called at once");
        assert!(!slot.has_waiters());
    }
}
