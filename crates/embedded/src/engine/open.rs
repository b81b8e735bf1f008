//! Opening of a data folder, and construction of the services over it.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Instant;

use firn_model::metadata::Metadata;
use firn_model::{Error, Result};
use firn_search::NodeMemory;
use firn_search::result_cache::RequestCache;
use firn_segment::catalog_version::CatalogVersion;
use firn_shard::{MarkFilter, ReplayThreads};
use firn_storage::OverlayBudget;
use firn_storage::disk::Disk;
use firn_storage::regions::RegionCache;
use firn_storage::wal::Syncer;
use parking_lot::Mutex;

use super::command_queue::CommandQueue;
use super::commands::{CommandService, Commands};
use super::contexts::Contexts;
use super::metadata_copies::{IndexRecords, MetadataCopies};
use super::narrowed_mappings::NarrowedMappings;
use super::quarantine_service::QuarantineService;
use super::search_service::SearchService;
use super::services::Services;
use super::shard_opener::{RecoveryReport, ShardOpener};
use crate::bulk::pressure::Pressure;
use crate::bulk::service::WriteService;
use crate::catalog::{Catalog, Inspection};
use crate::config::EmbeddedConfig;
use crate::data_folder::{
    CATALOG_FILE, CatalogCopy, Evidence, Quarantine, refuse_lost_catalog, refuse_old_catalog, sweep,
};
use crate::disk_reserve::DiskReserve;
use crate::disk_watch::DiskWatch;
use crate::lock::NodeLock;
use crate::merge_schedule::{MergeService, SEGMENTS_CALM_MAX};
use crate::mounts::{MountService, open_regions};
use crate::node::Node;
use crate::node::index_ids::fresh_uuid;
use crate::node::pools::Pools;
use crate::node::recovery_gate::recovering_error;
use crate::node::recovery_gates::RecoveryGates;
use crate::node::state::{IndexState, ShardFactory, ShardSlot, State};
use crate::positions::{Partitions, SourcePositions};
use crate::scrub::Scrub;
use crate::snapshots::damage_counters::DamageCounters;
use crate::snapshots::service::SnapshotService;
use crate::snapshots::{Repositories, scratch_dir};
use crate::ticker::Upkeep;
use crate::tiers::relocations::Relocations;
use crate::tiers::{Devices, Tiers};

/// Threads that sync WALs: one sync completes all writes that wait for one shard, so a few threads
/// keep any disk busy.
const SYNC_THREADS: usize = 4;
/// Makes the ids of repositories differ from those of indices.
const REPOSITORIES_SEED: u64 = 0x7265_706f_7369_746f;
/// A larger write buffer does not make indexing faster.
const BUFFER_BYTES_MAX: u64 = 96 << 20;

pub(super) fn open(config: EmbeddedConfig) -> Result<(Arc<Services>, RecoveryReport)> {
    let started = Instant::now();
    let path = &config.path_data;
    config.disk.create_dir_all(path).map_err(|error| {
        Error::internal(format!("cannot create the data folder [{}]", path.display())).caused_by(error)
    })?;
    let lock = NodeLock::take(&*config.disk, path)?;
    // Before the catalog is opened, which may have to write: if the disk is full, the reserve is released.
    let hot = watch_disk(&config);
    hot.release_reserve_if_full();
    let evidence = Evidence::gather(&*config.disk, path, &config.tiers)?;
    let deleted = check_catalog(&*config.disk, path, &evidence)?;
    let mut catalog = Catalog::open(&config.disk, &path.join(CATALOG_FILE))?;
    if !catalog.check_integrity()? {
        tracing::warn!("the catalog was repaired; it contains the newest change recorded in the data folder");
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
    let partitions = Arc::new(Partitions::default());
    let factory = shard_factory(&config, Arc::clone(&catalog_version), &partitions);
    config.disk.create_dir_all(&factory.indices_dir())?;
    config.disk.sync_dir(path)?;
    let quarantine = Quarantine::new(Arc::clone(&config.disk), path, &config.tiers);
    let swept = sweep(&factory, &metadata, &deleted, &evidence, &quarantine, (config.now_ms)())?;
    forget_deleted(&mut catalog, &factory, deleted)?;
    // A full disk must not stop a start that only reads.
    if let Err(error) = catalog_version.write(&*config.disk, path) {
        tracing::warn!(%error, "cannot write [catalog.version]");
    }
    let records = IndexRecords::new(&metadata, &evidence);
    let catalog_copy = CatalogCopy::new(evidence.copy.as_ref().map(|copy| copy.version));
    // Splits that were being transferred when the process ended.
    let scratch = scratch_dir(path);
    if config.disk.exists(&scratch)? {
        config.disk.remove_dir_all(&scratch)?;
    }

    let regions = open_regions(&config)?;
    let disk = Arc::clone(&config.disk);
    let positions = SourcePositions::open(
        disk,
        &config.path_data,
        &metadata.cluster_uuid,
        &factory.syncer,
        partitions,
    );
    let state = initial_state(metadata, (config.now_ms)())?;
    let services = connect(
        Arc::new(Node::new(config, factory, state)),
        Devices { hot, tiers },
        Commands {
            catalog: Some(catalog),
            random,
        },
        Folders {
            regions,
            quarantine,
            positions,
            lock,
        },
        (records, catalog_copy),
    );
    let settings = services.node.state().metadata.effective_cluster_settings();
    services.commands.use_cluster_settings(&settings)?;
    services.devices.hot.observe();

    services.quarantine.look_into_quarantine()?;
    services.mounts.tidy_mounts();
    let mut report = services.opener.open_all_shards();
    report.removed_folder_count = swept.removed;
    report.quarantined_folder_count = swept.quarantined;
    report.took_ms = started.elapsed().as_millis() as u64;
    Ok((Arc::new(services), report))
}

/// What is open in the data folders beside the catalog and the shards.
struct Folders {
    regions: Option<Arc<RegionCache>>,
    quarantine: Quarantine,
    positions: SourcePositions,
    lock: NodeLock,
}

/// Creates the services, each with the parts and services that it needs.
fn connect(
    node: Arc<Node>,
    devices: Devices,
    serial: Commands,
    folders: Folders,
    (records, catalog_copy): (IndexRecords, CatalogCopy),
) -> Services {
    let Folders {
        regions,
        quarantine: folders,
        positions,
        lock,
    } = folders;
    let positions = Arc::new(positions);
    let seed = node.config.seed ^ node.now_ms() as u64;
    let pools = Arc::new(Pools::new(&node.config));
    let devices = Arc::new(devices);
    let gates = Arc::new(RecoveryGates::new(Arc::clone(&node)));
    let contexts = Arc::new(Contexts::new(seed));
    let search_buckets_max = Arc::new(AtomicUsize::new(node.config.search_buckets_max));
    let repositories = Arc::new(Repositories::new(Arc::clone(&node), seed ^ REPOSITORIES_SEED));
    let mounts = Arc::new(MountService::new(
        Arc::clone(&node),
        Arc::clone(&devices),
        Arc::clone(&repositories),
        regions,
    ));
    let commands = Arc::new(CommandService {
        node: Arc::clone(&node),
        pools: Arc::clone(&pools),
        devices: Arc::clone(&devices),
        gates: Arc::clone(&gates),
        repositories: Arc::clone(&repositories),
        mounts: Arc::clone(&mounts),
        contexts: Arc::clone(&contexts),
        queue: CommandQueue::default(),
        serial: Mutex::new(serial),
        adopting: Mutex::default(),
        search_buckets_max: Arc::clone(&search_buckets_max),
    });
    let overlay_bytes_max = usize::try_from(node.config.indexing_buffer_bytes).unwrap_or(usize::MAX);
    let opener = Arc::new(ShardOpener {
        node: Arc::clone(&node),
        devices: Arc::clone(&devices),
        gates: Arc::clone(&gates),
        mounts: Arc::clone(&mounts),
        commands: Arc::clone(&commands),
        overlay_budget: OverlayBudget::new(overlay_bytes_max),
        threads: Mutex::default(),
    });
    let relocations = Arc::new(Relocations {
        node: Arc::clone(&node),
        pools: Arc::clone(&pools),
        devices: Arc::clone(&devices),
        commands: Arc::clone(&commands),
        opener: Arc::clone(&opener),
    });
    let merges = Arc::new(MergeService {
        node: Arc::clone(&node),
        pools: Arc::clone(&pools),
        devices: Arc::clone(&devices),
        segments_calm: AtomicU64::new(SEGMENTS_CALM_MAX),
    });
    let scrub = Arc::new(Scrub::new(Arc::clone(&node), Arc::clone(&pools), seed));
    let snapshots = Arc::new(SnapshotService {
        node: Arc::clone(&node),
        pools: Arc::clone(&pools),
        devices: Arc::clone(&devices),
        repositories: Arc::clone(&repositories),
        mounts: Arc::clone(&mounts),
        commands: Arc::clone(&commands),
        opener: Arc::clone(&opener),
        damage: DamageCounters::default(),
    });
    let metadata_copies = Arc::new(MetadataCopies {
        node: Arc::clone(&node),
        pools: Arc::clone(&pools),
        records,
        catalog_copy,
        is_copying: AtomicBool::new(false),
    });
    let quarantine = Arc::new(QuarantineService {
        node: Arc::clone(&node),
        commands: Arc::clone(&commands),
        opener: Arc::clone(&opener),
        folders,
        listed: Mutex::default(),
        changing: Mutex::default(),
    });
    let request_cache_bytes = usize::try_from(node.config.request_cache_bytes).unwrap_or(usize::MAX);
    let searches = Arc::new(SearchService {
        node: Arc::clone(&node),
        pools: Arc::clone(&pools),
        gates: Arc::clone(&gates),
        mounts: Arc::clone(&mounts),
        contexts: Arc::clone(&contexts),
        request_cache: RequestCache::new(request_cache_bytes),
        memory: NodeMemory::new(node.config.search_memory_bytes_max_total),
        buckets_max: search_buckets_max,
        narrowed_mappings: NarrowedMappings::default(),
    });
    let writes = Arc::new(WriteService {
        node: Arc::clone(&node),
        pools: Arc::clone(&pools),
        devices: Arc::clone(&devices),
        gates: Arc::clone(&gates),
        commands: Arc::clone(&commands),
        merges: Arc::clone(&merges),
        pressure: Pressure::new(node.config.write_bytes_in_flight_max),
        positions: Arc::clone(&positions),
        next_shard: AtomicU64::new(0),
    });
    let upkeep = Arc::new(Upkeep {
        node: Arc::clone(&node),
        pools: Arc::clone(&pools),
        devices: Arc::clone(&devices),
        mounts: Arc::clone(&mounts),
        contexts: Arc::clone(&contexts),
        opener: Arc::clone(&opener),
        relocations: Arc::clone(&relocations),
        merges,
        scrub: Arc::clone(&scrub),
        metadata_copies: Arc::clone(&metadata_copies),
        snapshots: Arc::clone(&snapshots),
    });
    Services {
        node,
        pools,
        devices,
        gates,
        repositories,
        mounts,
        contexts,
        commands,
        opener,
        relocations,
        scrub,
        snapshots,
        metadata_copies,
        quarantine,
        searches,
        positions,
        writes,
        upkeep,
        lock: Mutex::new(Some(lock)),
        merges_left_behind: AtomicBool::new(false),
    }
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
                    "the catalog fails its checksums; an older state of version {} is intact",
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

fn shard_factory(config: &EmbeddedConfig, catalog: Arc<CatalogVersion>, partitions: &Arc<Partitions>) -> ShardFactory {
    let partitions = Arc::clone(partitions);
    let buffers_max = config.write_threads.clamp(1, 8);
    ShardFactory {
        path_data: config.path_data.clone(),
        tiers: config.tiers.clone(),
        disk: Arc::clone(&config.disk),
        catalog,
        syncer: Arc::new(Syncer::new(SYNC_THREADS)),
        buffers_max,
        replay_threads: ReplayThreads::new(config.cores.max(1)),
        marks: MarkFilter(Arc::new(move |key, uuid, shard| {
            partitions.needs_mark(key, uuid, shard)
        })),
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

#[cfg(test)]
mod tests {
    use firn_model::ErrorKind;
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
        let (services, _) = open(config).unwrap();
        let create = Command::CreateIndex {
            name: "logs".to_owned(),
            settings: json!({}),
            mappings: None,
            aliases: None,
        };
        services
            .commands
            .finish_command(services.commands.queue_command(create))
            .unwrap();
        let state = services.node.state();
        let index = state.index("logs").unwrap();
        let slot = Arc::clone(&index.shards[0]);
        slot.replace(Err(Error::new(ErrorKind::DiskFull, "no space is left")));
        // A torn tail, so that opening has something to write.
        let wal = services
            .node
            .factory
            .shard_config(&index.metadata, 0)
            .unwrap()
            .dir
            .join("wal");
        let file = disk.list(&wal).unwrap().pop().unwrap();
        disk.damage(&wal.join(file.name), |bytes| bytes.extend(b"torn"))
            .unwrap();

        let heard = Arc::new(Mutex::new(Vec::new()));
        let (listener, heard_by) = (Arc::clone(&slot), Arc::clone(&heard));
        disk.set_hook(Some(Arc::new(move |_, _| {
            heard_by.lock().extend(listener.shard().err().map(|error| error.kind()));
        })));
        services.opener.open_shard(index, &slot).unwrap();
        disk.set_hook(None);
        assert!(slot.shard().is_ok());
        let heard = heard.lock();
        assert!(!heard.is_empty(), "opening writes");
        assert!(heard.iter().all(|kind| *kind == ErrorKind::DiskFull), "{heard:?}");
    }
}
