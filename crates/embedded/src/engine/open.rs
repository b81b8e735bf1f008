//! Opening and closing of a data folder.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use firn_model::metadata::Metadata;
use firn_model::{Error, ErrorKind, Result};
use firn_scheduler::{Pool, PoolConfig};
use firn_search::NodeMemory;
use firn_search::result_cache::RequestCache;
use firn_segment::catalog_version::CatalogVersion;
use firn_shard::{ReplayThreads, Shard, ShardConfig};
use firn_storage::disk::Disk;
use firn_storage::wal::Syncer;
use firn_storage::{OverlayBudget, OverlayDisk};
use parking_lot::{Condvar, Mutex};

use super::command_queue::CommandQueue;
use super::contexts::Contexts;
use super::index_ids::fresh_uuid;
use super::metadata_copies::IndexRecords;
use super::recovery_gate::{RecoveringCount, recovering_error};
use super::scoped_view::Views;
use super::state::{IndexState, Served, ShardFactory, ShardSlot, State, closed_error};
use super::tenant_fields::NarrowedMappings;
use super::{Commands, Core};
use crate::bulk::pressure::Pressure;
use crate::catalog::{Catalog, Inspection};
use crate::config::EmbeddedConfig;
use crate::data_folder::{
    CATALOG_FILE, CatalogCopy, Evidence, Quarantine, refuse_lost_catalog, refuse_old_catalog, sweep,
};
use crate::disk_reserve::DiskReserve;
use crate::disk_watch::DiskWatch;
use crate::lock::NodeLock;
use crate::merge_schedule::SEGMENTS_CALM_MAX;
use crate::mounts::{Mounts, open_regions};
use crate::scrub::{DamageCounters, Scrub};
use crate::snapshots::{Repositories, scratch_dir};
use crate::tiers::{Tiers, no_device};

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

/// Threads that sync WALs: one sync completes all writes that wait for one shard, so a few threads
/// keep any disk busy.
const SYNC_THREADS: usize = 4;
/// Threads for reads by id and statistics.
const GET_THREADS: usize = 2;
/// Threads for commands, refreshes and flushes.
const MAINTENANCE_THREADS: usize = 2;
/// Threads for moves of shards between devices.
const MOVE_THREADS: usize = 1;
/// Makes the ids of repositories differ from those of indices.
const REPOSITORIES_SEED: u64 = 0x7265_706f_7369_746f;
/// Maximum number of requests that wait for each of the two pools above, and of waiting force merges.
const QUEUE_LIMIT: usize = 1000;
/// Time for which closing waits for a running merge.
const MERGE_PATIENCE: Duration = Duration::from_secs(3);
/// A WAL with more bytes takes more than about 100 ms to replay.
const LONG_WAL_BYTES: u64 = 8 << 20;
/// A larger write buffer does not make indexing faster.
const BUFFER_BYTES_MAX: u64 = 96 << 20;

pub(super) fn open(config: EmbeddedConfig) -> Result<(Arc<Core>, RecoveryReport)> {
    let started = Instant::now();
    let path = &config.path_data;
    config.disk.create_dir_all(path).map_err(|error| {
        Error::internal(format!("cannot make the data folder [{}]", path.display())).caused_by(error)
    })?;
    let lock = NodeLock::take(&*config.disk, path)?;
    // Before the catalog is opened, which may have to write: if the disk is full, the reserve is released.
    let disk_watch = watch_disk(&config);
    disk_watch.release_reserve_if_full();
    let evidence = Evidence::gather(&*config.disk, path, &config.tiers)?;
    let deleted = check_catalog(&*config.disk, path, &evidence)?;
    let mut catalog = Catalog::open(&config.disk, &path.join(CATALOG_FILE))?;
    if !catalog.check_integrity()? {
        tracing::warn!("the catalog was repaired; it holds the newest change that the data folder knows of");
    }
    // The directory entries of a new catalog and a new folder must also survive a power loss.
    for dir in [Some(path.as_path()), path.parent()].into_iter().flatten() {
        config.disk.sync_dir(dir)?;
    }

    let mut random = fastrand::Rng::with_seed(config.seed ^ (config.now_ms)() as u64);
    let mut metadata = load_metadata(&mut catalog, &mut random)?;
    metadata.configured_settings = config.cluster_settings.clone();
    let catalog_version = Arc::new(CatalogVersion::new(&metadata.cluster_uuid, metadata.version));
    let tiers = Tiers::open(&config, &catalog_version.noted())?;
    let factory = shard_factory(&config, Arc::clone(&catalog_version));
    config.disk.create_dir_all(&factory.indices_dir())?;
    config.disk.sync_dir(path)?;
    let quarantine = Quarantine::new(Arc::clone(&config.disk), path, &config.tiers);
    let swept = sweep(&factory, &metadata, &deleted, &evidence, &quarantine, (config.now_ms)())?;
    forget_deleted(&mut catalog, &factory, deleted)?;
    // A full disk must not stop a start that only reads.
    if let Err(error) = catalog_version.write(&*config.disk, path) {
        tracing::warn!(%error, "cannot write [catalog.version]");
    }
    let index_records = IndexRecords::new(&metadata, &evidence);
    let catalog_copy = CatalogCopy::new(evidence.copy.as_ref().map(|copy| copy.version));
    // Splits that were being transferred when the process ended.
    let scratch = scratch_dir(path);
    if config.disk.exists(&scratch)? {
        config.disk.remove_dir_all(&scratch)?;
    }

    let regions = open_regions(&config)?;
    let state = initial_state(metadata, (config.now_ms)())?;
    let [write_pool, search_pool] = Pool::sharing(
        "work",
        config.cores,
        [
            PoolConfig {
                name: "write",
                threads: config.write_threads,
                queue_limit: config.write_queue_limit,
            },
            PoolConfig {
                name: "search",
                threads: config.search_threads,
                queue_limit: config.search_queue_limit,
            },
        ],
    );
    let core = Arc::new(Core {
        started_ms: (config.now_ms)(),
        factory,
        state: ArcSwap::from_pointee(state),
        command_queue: CommandQueue::default(),
        commands: Mutex::new(Commands {
            catalog: Some(catalog),
            random,
        }),
        lock: Mutex::new(Some(lock)),
        quarantine,
        quarantined: Mutex::default(),
        quarantine_lock: Mutex::default(),
        adopting: Mutex::default(),
        index_records,
        catalog_copy,
        copying_metadata: AtomicBool::new(false),
        write_pool,
        search_pool: Arc::new(search_pool),
        get_pool: Pool::new("get", GET_THREADS, QUEUE_LIMIT),
        maintenance_pool: Pool::new("maintenance", MAINTENANCE_THREADS, QUEUE_LIMIT),
        merge_pool: Pool::new("merge", config.merge_threads, QUEUE_LIMIT),
        move_pool: Pool::new("move", MOVE_THREADS, QUEUE_LIMIT),
        tiers,
        snapshot_pool: Pool::new("snapshot", config.snapshot_threads, QUEUE_LIMIT),
        repositories: Repositories::new(
            Arc::clone(&config.object_stores),
            config.io.clone(),
            config.seed ^ (config.now_ms)() as u64 ^ REPOSITORIES_SEED,
        ),
        pressure: Pressure::new(config.write_bytes_in_flight_max),
        disk_watch,
        overlay_budget: OverlayBudget::new(usize::try_from(config.indexing_buffer_bytes).unwrap_or(usize::MAX)),
        search_buckets_max: AtomicUsize::new(config.search_buckets_max),
        mounts: Mounts::new(&config, regions),
        search_memory: NodeMemory::new(config.search_memory_bytes_max_total),
        request_cache: RequestCache::new(usize::try_from(config.request_cache_bytes).unwrap_or(usize::MAX)),
        views: Views::default(),
        narrowed_mappings: NarrowedMappings::default(),
        contexts: Contexts::new(config.seed ^ (config.now_ms)() as u64),
        scrub: Scrub::new(config.seed ^ (config.now_ms)() as u64),
        damage: DamageCounters::default(),
        next_shard: AtomicU64::new(0),
        recovering: RecoveringCount::default(),
        recovery_threads: Mutex::default(),
        closing: AtomicBool::new(false),
        segments_calm: AtomicU64::new(SEGMENTS_CALM_MAX),
        merges_left_behind: AtomicBool::new(false),
        config,
    });
    let settings = core.state().metadata.effective_cluster_settings();
    core.use_cluster_settings(&settings)?;
    core.disk_watch.observe();

    core.look_into_quarantine()?;
    core.tidy_mounts();
    let mut report = core.open_all_shards();
    report.removed_folder_count = swept.removed;
    report.quarantined_folder_count = swept.quarantined;
    report.took_ms = started.elapsed().as_millis() as u64;
    Ok((core, report))
}

fn watch_disk(config: &EmbeddedConfig) -> DiskWatch {
    let reserve = match config.disk_reserve_bytes {
        0 => None,
        bytes => Some(DiskReserve::open(&config.path_data, bytes)),
    };
    let (probe, headroom) = (config.space_probe(), config.flood_stage_headroom_bytes_max);
    DiskWatch::new(config.path_data.clone(), probe, config.flood_stage, headroom).with_reserve(reserve)
}

fn load_metadata(catalog: &mut Catalog, random: &mut fastrand::Rng) -> Result<Metadata> {
    let stored = catalog.load()?;
    if !stored.cluster_uuid.is_empty() {
        return Ok(stored);
    }
    let mut metadata = stored.clone();
    metadata.cluster_uuid = fresh_uuid(random);
    catalog.store(&stored, &metadata).map_err(|failure| failure.error)?;
    Ok(metadata)
}

/// Fails if the catalog is missing or older than the files beside it show. Changes nothing in that case. Returns the
/// uuids of deleted indices.
fn check_catalog(disk: &dyn Disk, path_data: &Path, evidence: &Evidence) -> Result<HashSet<String>> {
    for damaged in &evidence.damaged {
        tracing::error!("{damaged}");
    }
    let path = path_data.join(CATALOG_FILE);
    match Catalog::inspect(disk, &path)? {
        Inspection::Missing => refuse_lost_catalog("is missing", path_data, evidence).map(|()| HashSet::new()),
        Inspection::Empty => refuse_lost_catalog("is empty", path_data, evidence).map(|()| HashSet::new()),
        Inspection::Found {
            metadata,
            deleted,
            repaired,
        } => {
            if repaired {
                tracing::warn!(
                    path = %path.display(),
                    "the catalog fails its checksums; an older state of version {} is whole",
                    metadata.version
                );
            }
            refuse_old_catalog(&metadata, path_data, evidence)?;
            Ok(deleted)
        }
    }
}

/// Removes indices from the catalog's list of deletions when their files are gone from every device.
fn forget_deleted(catalog: &mut Catalog, factory: &ShardFactory, deleted: HashSet<String>) -> Result<()> {
    let mut gone = Vec::new();
    for uuid in deleted {
        if factory.index_dirs(&uuid)?.is_empty() {
            gone.push(uuid);
        }
    }
    if gone.is_empty() {
        return Ok(());
    }
    if let Err(error) = catalog.forget_deleted(&gone) {
        tracing::warn!(%error, "cannot shorten the catalog's list of deleted indices");
    }
    Ok(())
}

fn shard_factory(config: &EmbeddedConfig, catalog: Arc<CatalogVersion>) -> ShardFactory {
    let buffers_max = config.write_threads.clamp(1, 8);
    ShardFactory {
        path_data: config.path_data.clone(),
        tiers: config.tiers.clone(),
        disk: Arc::clone(&config.disk),
        catalog,
        syncer: Arc::new(Syncer::new(SYNC_THREADS)),
        buffers_max,
        replay_threads: ReplayThreads::new(config.cores.max(1)),
        buffer_bytes_max: (config.indexing_buffer_bytes / buffers_max as u64).clamp(1 << 20, BUFFER_BYTES_MAX) as usize,
    }
}

fn initial_state(metadata: Metadata, now_ms: i64) -> Result<State> {
    let metadata = Arc::new(metadata);
    let mut state = State::new(Arc::clone(&metadata));
    for (name, index) in &metadata.indices {
        let not_yet = |number| ShardSlot::new(number, Err(recovering_error(name, number)), now_ms);
        let shards = (0..index.settings.number_of_shards).map(not_yet).collect();
        state.insert(IndexState::new(index, shards)?);
    }
    Ok(state)
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

impl Core {
    /// Opens every shard, several at once, and returns when all are open or [`EmbeddedConfig::start_patience`] is over;
    /// the rest continues in the background.
    fn open_all_shards(self: &Arc<Self>) -> RecoveryReport {
        let state = self.state();
        let slots: Vec<_> = state
            .slots()
            .map(|(index, slot)| (Arc::clone(index), Arc::clone(slot)))
            .collect();
        for (_, slot) in &slots {
            self.expect_recovery(slot);
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
        let threads = self.config.write_threads.max(2).min(opening.slots.len());
        for number in 0..threads {
            let (core, shared) = (Arc::clone(self), Arc::clone(&opening));
            let thread = std::thread::Builder::new()
                .name(format!("recovery-{number}"))
                .spawn(move || core.open_shards_of(&shared))
                .expect("the operating system starts a thread");
            self.recovery_threads.lock().push(thread);
        }
        let deadline = Instant::now().checked_add(self.config.start_patience);
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
        let config = self.factory.shard_config(&index.metadata, slot.number);
        config.is_ok_and(|config| Shard::wal_bytes(&config).is_ok_and(|bytes| bytes > LONG_WAL_BYTES))
    }

    fn open_at_start(&self, opening: &Opening, index: &IndexState, slot: &ShardSlot) {
        let opened = match self.check_open() {
            Ok(()) => self.open_shard(index, slot),
            Err(error) => {
                drop(self.recovering(slot));
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
            Err(error) if error.kind() == ErrorKind::IndexClosed || self.is_closing() => {}
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
        let threads = std::mem::take(&mut *self.recovery_threads.lock());
        for thread in threads {
            let _ = thread.join();
        }
    }

    /// Opens one shard into its slot; if that fails, the slot keeps the error.
    pub(crate) fn open_shard(&self, index: &IndexState, slot: &ShardSlot) -> Result<()> {
        let _one_at_a_time = slot.opening.lock();
        let _recovering = self.recovering(slot);
        if let Some(store) = &index.metadata.settings.snapshot {
            return self.open_mounted_slot(index, store, slot);
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
        if let Err(error) = self.check_wanted(index) {
            slot.replace(Err(error.clone()));
            slot.end_retired();
            result = Err(error);
        }
        match &result {
            // Failures of the previous shard object say nothing about this one.
            Ok(()) => {
                self.use_settings_of_now(index, slot);
                slot.flush_backoff.note(true, Instant::now());
                slot.merge_backoff.note(true, Instant::now());
            }
            Err(_) => slot.release_waiters(),
        }
        result
    }

    /// Fails if the index no longer exists or is closed in the current state; `index` may be from an older state.
    pub(crate) fn check_wanted(&self, index: &IndexState) -> Result<()> {
        match self.state().indices.get(&index.name) {
            Some(now) if now.metadata.uuid != index.metadata.uuid => Err(Error::index_not_found(&*index.name)),
            None => Err(Error::index_not_found(&*index.name)),
            Some(now) if now.metadata.closed => Err(closed_error(&index.name)),
            Some(_) => Ok(()),
        }
    }

    pub(crate) fn open_shard_files(&self, index: &IndexState, number: u32) -> Result<Arc<Shard>> {
        self.check_wanted(index)?;
        self.open_files_of(index, number)
    }

    /// Opens a shard; read-only if the disk is full.
    fn open_shard_with_room(&self, index: &IndexState, number: u32) -> Result<Arc<Shard>> {
        let watch = self.watch(index.metadata.tier_of(number));
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
        self.check_wanted(index)?;
        let config = self.config_of(index, number)?;
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
                self.check_open()?;
                self.map_for_replay(&index.name, source)
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

    /// Returns the config to open a shard with.
    pub(crate) fn config_of(&self, index: &IndexState, number: u32) -> Result<ShardConfig> {
        // The current device: the shard may have been moved since `index` was read.
        let state = self.state();
        let metadata = &state.index(&index.name)?.metadata;
        let config = self.factory.shard_config(metadata, number);
        config.map_err(|_| no_device(&index.name, number, metadata.tier_of(number)))
    }

    /// Opens the files of a shard, also if the index is closed or deleted. The caller ensures that no other thread
    /// opens the shard.
    pub(crate) fn open_files_of(&self, index: &IndexState, number: u32) -> Result<Arc<Shard>> {
        let config = self.config_of(index, number)?;
        if !Shard::exists(&*self.config.disk, &config.dir)? {
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
            self.check_open()?;
            self.map_for_replay(&index.name, source)
        })
    }

    /// Makes everything durable and releases the files.
    pub(super) fn close(&self) -> Result<()> {
        self.end_recovery();
        self.disk_watch.release_reserve_if_full();
        self.write_pool.close();
        self.get_pool.close();
        self.maintenance_pool.close();
        self.search_pool.close();
        self.contexts.clear();
        let state = self.state();
        let slots: Vec<_> = state.slots().collect();
        let next = AtomicUsize::new(0);
        let failure: Mutex<Option<Error>> = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..self.config.write_threads.clamp(1, 4) {
                scope.spawn(|| {
                    while let Some((index, slot)) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
                        slot.replace(Err(super::closing_error()));
                        slot.release_waiters();
                        match slot.close_retired() {
                            Ok(()) => {}
                            Err(error) if error.kind() == ErrorKind::DiskFull => {
                                tracing::warn!(
                                    index = &*index.name, shard = slot.number, %error,
                                    "the disk is full: the next start replays the write-ahead log of the shard"
                                );
                            }
                            Err(error) => {
                                failure.lock().get_or_insert(error.with_index(&*index.name));
                            }
                        }
                    }
                });
            }
        });
        self.repositories.stop();
        // A snapshot that does not end soon is waiting for its store, and touches no file of a shard.
        self.snapshot_pool.close_within(MERGE_PATIENCE);
        if let Err(error) = self.copy_metadata(true) {
            tracing::warn!(%error, "cannot write the copy of the catalog");
        }
        self.commands.lock().catalog = None;
        // Files of an unfinished merge are removed at the next start. The folder stays locked while a
        // merge runs; at the end of the process that time is short.
        let moved = self.move_pool.close_within(MERGE_PATIENCE);
        if self.merge_pool.close_within(MERGE_PATIENCE) && moved {
            *self.lock.lock() = None;
        } else {
            self.merges_left_behind.store(true, Ordering::Release);
        }
        match failure.into_inner() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use firn_model::metadata::Command;
    use firn_storage::disk::Disk;
    use firn_storage::sim::SimDisk;
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_during_the_reopening_of_a_shard_get_the_reason_of_its_stop() {
        let folder = tempfile::tempdir().unwrap();
        let disk = SimDisk::new();
        disk.create_dir_all(folder.path()).unwrap();
        let mut config = EmbeddedConfig::new(folder.path(), Arc::new(disk.clone()), Arc::new(|| 0), 7);
        config.space = Some(Arc::new(|| Ok((1 << 40, 1 << 39))));
        let (core, _) = open(config).unwrap();
        let create = Command::CreateIndex {
            name: "logs".to_owned(),
            settings: json!({}),
            mappings: None,
            aliases: None,
        };
        core.finish_command(core.queue_command(create)).unwrap();
        let state = core.state();
        let index = state.index("logs").unwrap();
        let slot = Arc::clone(&index.shards[0]);
        slot.replace(Err(Error::new(ErrorKind::DiskFull, "no space is left")));
        // A torn tail, so that opening has something to write.
        let wal = core.factory.shard_config(&index.metadata, 0).unwrap().dir.join("wal");
        let file = disk.list(&wal).unwrap().pop().unwrap();
        disk.damage(&wal.join(file.name), |bytes| bytes.extend(b"torn"))
            .unwrap();

        let heard = Arc::new(Mutex::new(Vec::new()));
        let (listener, heard_by) = (Arc::clone(&slot), Arc::clone(&heard));
        disk.set_hook(Some(Arc::new(move |_, _| {
            heard_by.lock().extend(listener.shard().err().map(|error| error.kind()));
        })));
        core.open_shard(index, &slot).unwrap();
        disk.set_hook(None);
        assert!(slot.shard().is_ok());
        let heard = heard.lock();
        assert!(!heard.is_empty(), "opening writes");
        assert!(heard.iter().all(|kind| *kind == ErrorKind::DiskFull), "{heard:?}");
    }
}
