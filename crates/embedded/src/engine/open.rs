//! Opening a data folder, and closing it.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use firn_model::metadata::Metadata;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::wal::Syncer;
use parking_lot::Mutex;

use super::command_queue::CommandQueue;
use super::contexts::Contexts;
use super::ids::fresh_uuid;
use super::metadata_copies::IndexRecords;
use super::state::{IndexState, Served, ShardFactory, ShardSlot, State, closed_error};
use super::tenant_fields::NarrowedMappings;
use super::view::Views;
use super::{Commands, Core};
use crate::bulk::pressure::Pressure;
use crate::catalog::{Catalog, Inspection};
use crate::config::EmbeddedConfig;
use crate::data_folder::{
    CATALOG_FILE, CatalogCopy, CatalogVersion, Evidence, Quarantine, refuse_lost_catalog, refuse_old_catalog, sweep,
};
use crate::disk_watch::DiskWatch;
use crate::lock::NodeLock;
use crate::merging::SEGMENTS_CALM_MAX;
use crate::mounts::{Mounts, open_regions};
use crate::pool::{Pool, PoolConfig};
use crate::request_cache::RequestCache;
use crate::scrub::{DamageCounters, Scrub};
use crate::search::NodeMemory;
use crate::shard::Shard;
use crate::snapshots::{Repositories, scratch_dir};
use crate::tiers::{Tiers, no_device};

/// What opening found, for the log.
#[derive(Debug, Clone, Default)]
pub struct RecoveryReport {
    /// Indices in the catalog.
    pub index_count: usize,
    /// Shards that serve.
    pub shard_count: usize,
    /// Shards that refuse, each with its reason.
    pub damaged: Vec<DamagedShard>,
    /// Folders of deleted indices and of unfinished commands, removed.
    pub removed_folder_count: usize,
    /// Folders that the catalog does not name, set aside at this start.
    pub quarantined_folder_count: usize,
    /// How long it took, ms.
    pub took_ms: u64,
}

/// A shard that does not serve.
#[derive(Debug, Clone)]
pub struct DamagedShard {
    /// Its index.
    pub index: String,
    /// Its number.
    pub shard: u32,
    /// Why.
    pub error: Error,
}

/// Threads that sync WALs: one sync serves everyone who waits for one shard, so a few threads
/// keep any disk busy.
const SYNC_THREADS: usize = 4;
/// Reads by id and statistics.
const GET_THREADS: usize = 2;
/// Commands, refreshes and flushes.
const MAINTENANCE_THREADS: usize = 2;
/// Snapshots and restores at a time.
const SNAPSHOT_THREADS: usize = 2;
/// Moves of shards between devices.
const MOVE_THREADS: usize = 1;
/// So that ids drawn for repositories are not those drawn for indices.
const REPOSITORIES_SEED: u64 = 0x7265_706f_7369_746f;
/// Requests that wait for the two pools above, and force-merges.
const QUEUE_LIMIT: usize = 1000;
/// How long closing waits for a merge to end.
const MERGE_PATIENCE: Duration = Duration::from_secs(3);
/// A write buffer larger than this indexes no faster.
const BUFFER_BYTES_MAX: u64 = 96 << 20;

pub(super) fn open(config: EmbeddedConfig) -> Result<(Arc<Core>, RecoveryReport)> {
    let started = Instant::now();
    let path = &config.path_data;
    config.disk.create_dir_all(path).map_err(|error| {
        Error::internal(format!("cannot make the data folder [{}]", path.display())).caused_by(error)
    })?;
    let lock = NodeLock::take(&*config.disk, path)?;
    let evidence = Evidence::gather(&*config.disk, path, &config.tiers)?;
    check_catalog(&*config.disk, path, &evidence)?;
    let mut catalog = Catalog::open(&config.disk, &path.join(CATALOG_FILE))?;
    if !catalog.check_integrity()? {
        tracing::warn!("the catalog was repaired; it holds the newest change that the data folder knows of");
    }
    // The names of a new catalog and a new folder must survive a power loss too.
    for dir in [Some(path.as_path()), path.parent()].into_iter().flatten() {
        config.disk.sync_dir(dir)?;
    }

    let mut random = fastrand::Rng::with_seed(config.seed ^ (config.now_ms)() as u64);
    let metadata = load_metadata(&mut catalog, &mut random)?;
    let catalog_version = Arc::new(CatalogVersion::new(&metadata.cluster_uuid, metadata.version));
    let tiers = Tiers::open(&config, &catalog_version.noted())?;
    let factory = shard_factory(&config, Arc::clone(&catalog_version));
    config.disk.create_dir_all(&factory.indices_dir())?;
    config.disk.sync_dir(path)?;
    let quarantine = Quarantine::new(Arc::clone(&config.disk), path, &config.tiers);
    let deleted = catalog.deleted_indices()?;
    let swept = sweep(&factory, &metadata, &deleted, &evidence, &quarantine, (config.now_ms)())?;
    forget_deleted(&mut catalog, &factory, deleted)?;
    // A full disk must not hold up a start that only reads.
    if let Err(error) = catalog_version.write(&*config.disk, path) {
        tracing::warn!(%error, "cannot write [catalog.version]");
    }
    let index_records = IndexRecords::new(&metadata, &evidence);
    let catalog_copy = CatalogCopy::new(evidence.copy.as_ref().map(|copy| copy.version));
    // Splits on their way when the process ended.
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
        snapshot_pool: Pool::new("snapshot", SNAPSHOT_THREADS, QUEUE_LIMIT),
        repositories: Repositories::new(
            Arc::clone(&config.object_stores),
            config.io.clone(),
            config.seed ^ (config.now_ms)() as u64 ^ REPOSITORIES_SEED,
        ),
        pressure: Pressure::new(config.write_bytes_in_flight_max),
        disk_watch: DiskWatch::new(
            config.path_data.clone(),
            config.space_probe(),
            config.flood_stage,
            config.flood_stage_headroom_bytes_max,
        ),
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
        closing: AtomicBool::new(false),
        segments_calm: AtomicU64::new(SEGMENTS_CALM_MAX),
        merges_left_behind: AtomicBool::new(false),
        config,
    });
    let settings = core.state().metadata.cluster_settings.clone();
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

/// Fails if the catalog is missing or older than the files beside it say. Nothing was changed then.
fn check_catalog(disk: &dyn Disk, path_data: &Path, evidence: &Evidence) -> Result<()> {
    for damaged in &evidence.damaged {
        tracing::error!("{damaged}");
    }
    let path = path_data.join(CATALOG_FILE);
    match Catalog::inspect(disk, &path)? {
        Inspection::Missing => refuse_lost_catalog("is missing", path_data, evidence),
        Inspection::Empty => refuse_lost_catalog("is empty", path_data, evidence),
        Inspection::Found { metadata, repaired, .. } => {
            if repaired {
                tracing::warn!(
                    path = %path.display(),
                    "the catalog fails its checksums; an older state of version {} is whole",
                    metadata.version
                );
            }
            refuse_old_catalog(&metadata, path_data, evidence)
        }
    }
}

/// Takes indices off the catalog's list of deletions whose files are gone from every device.
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
        buffer_bytes_max: (config.indexing_buffer_bytes / buffers_max as u64).clamp(1 << 20, BUFFER_BYTES_MAX) as usize,
    }
}

fn initial_state(metadata: Metadata, now_ms: i64) -> Result<State> {
    let metadata = Arc::new(metadata);
    let mut state = State::new(Arc::clone(&metadata));
    for (name, index) in &metadata.indices {
        let not_yet = |number| {
            let reason = Error::new(ErrorKind::ShardDamaged, "the shard is not open yet").with_index(name);
            ShardSlot::new(number, Err(reason), now_ms)
        };
        let shards = (0..index.settings.number_of_shards).map(not_yet).collect();
        state.insert(IndexState::new(index, shards)?);
    }
    Ok(state)
}

impl Core {
    /// Opens every shard, several at a time.
    fn open_all_shards(&self) -> RecoveryReport {
        let state = self.state();
        let slots: Vec<_> = state.slots().collect();
        let next = AtomicUsize::new(0);
        let report = Mutex::new(RecoveryReport {
            index_count: state.indices.len(),
            ..RecoveryReport::default()
        });
        let threads = self.config.write_threads.max(2).min(slots.len());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some((index, slot)) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let opened = self.open_shard(index, slot);
                        let mut report = report.lock();
                        match opened {
                            Ok(()) => report.shard_count += 1,
                            Err(error) if error.kind() == ErrorKind::IndexClosed => {}
                            Err(error) => report.damaged.push(DamagedShard {
                                index: index.name.to_string(),
                                shard: slot.number,
                                error,
                            }),
                        }
                    }
                });
            }
        });
        report.into_inner()
    }

    /// Opens one shard into its slot; a failure stays there as the slot's reason.
    pub(crate) fn open_shard(&self, index: &IndexState, slot: &ShardSlot) -> Result<()> {
        let _one_at_a_time = slot.opening.lock();
        if let Some(store) = &index.metadata.settings.snapshot {
            return self.open_mounted_slot(index, store, slot);
        }
        let why_closed = match slot.shard() {
            Ok(shard) => shard.failure(),
            Err(error) => Some(error),
        };
        let Some(why_closed) = why_closed else {
            slot.reopen.store(false, Ordering::Release);
            return Ok(());
        };
        // Two shards may never write to the same files. Whoever comes meanwhile hears why there is none: a disk that is
        // full is something else to a client than damage.
        slot.replace(Err(why_closed));
        slot.reopen.store(false, Ordering::Release);
        slot.end_retired();
        let opened = self
            .settle(index, slot)
            .and_then(|()| self.open_shard_files(index, slot.number));
        let mut result = opened.as_ref().map(|_| ()).map_err(Error::clone);
        if let Err(error) = &result
            && matches!(error.kind(), ErrorKind::DiskFull | ErrorKind::Internal)
        {
            // A full disk or an I/O error may pass; damage does not.
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
            // What the shard before it failed at says nothing about this one.
            Ok(()) => {
                slot.flush_backoff.note(true, Instant::now());
                slot.merge_backoff.note(true, Instant::now());
            }
            Err(_) => slot.release_waiters(),
        }
        result
    }

    /// Whether the index is there and open now, whatever it was when `index` was read.
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

    /// Whether the index is wanted or not. Whoever calls it sees to it that nobody else opens the shard.
    pub(crate) fn open_files_of(&self, index: &IndexState, number: u32) -> Result<Arc<Shard>> {
        // Where it lies now: it may have been moved since `index` was read.
        let state = self.state();
        let metadata = &state.index(&index.name)?.metadata;
        let config = self
            .factory
            .shard_config(metadata, number)
            .map_err(|_| no_device(&index.name, number, metadata.tier_of(number)))?;
        if !Shard::exists(&*self.config.disk, &config.dir)? {
            return Err(Error::new(
                ErrorKind::ShardDamaged,
                format!(
                    "shard [{}][{number}] is damaged: its files are missing from [{}]",
                    index.name,
                    config.dir.display()
                ),
            )
            .with_index(&*index.name));
        }
        Shard::open(config, &|source| self.map_for_replay(&index.name, source))
    }

    /// Makes everything durable and releases the files.
    pub(super) fn close(&self) -> Result<()> {
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
                        if let Err(error) = slot.close_retired() {
                            failure.lock().get_or_insert(error.with_index(&*index.name));
                        }
                    }
                });
            }
        });
        self.repositories.stop();
        // A snapshot that does not end soon waits for its store, and touches no file of a shard.
        self.snapshot_pool.close_within(MERGE_PATIENCE);
        if let Err(error) = self.copy_metadata(true) {
            tracing::warn!(%error, "cannot write the copy of the catalog");
        }
        self.commands.lock().catalog = None;
        // What a merge has written so far is removed at the next start. The folder stays locked
        // while one runs, which at the end of the process is no time at all.
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
    fn whoever_comes_while_a_shard_is_opened_again_hears_why_it_stopped() {
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
