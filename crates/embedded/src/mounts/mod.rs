//! Mounted indices, which read a snapshot in its repository: searchable snapshots.
//!
//! A mounted index is an entry of the catalog whose settings name a snapshot. Each of its slots holds a
//! [`MountedShard`], which contains little more than a name until the first search. Then the **manifest** lists the
//! splits, once for all mounts of a snapshot. The times and tenants in the manifest decide without a request which
//! splits can hold a match, and term filters decide with a few ([`filtering`]). The footers of the remaining splits are
//! fetched concurrently to open them. An open split is a [`Segment`] like any other, shared by all mounts, and closed
//! when it is idle.
//!
//! What surprises: only full copies are durable here. After a crash a copy is used if it is complete.

mod copy_jobs;
mod filter_pruning;
mod filter_tables;
mod footer_prefetch;
mod local_copies;
mod manifest_pruning;
mod manifests;
mod mounting;
mod open_splits;
mod pinning;
mod shard;
mod snapshot_changes;
mod snapshot_switch;
mod split_bytes;
mod split_opening;
mod split_pruning;
mod split_sampling;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};
use firn_segment::segment::Segment;
use firn_storage::regions::{CachedObject, ObjectId, RegionCache, RegionCacheOptions};
use firn_storage::repository::SnapshotSegment;
use tokio::runtime::Handle;

pub(crate) use self::copy_jobs::Copying;
pub(crate) use self::manifest_pruning::Conditions;
pub(crate) use self::manifests::{Manifests, MountedIndex, file_name as manifest_file};
pub(crate) use self::mounting::Planned;
use self::open_splits::{OpenSplits, SplitKey};
use self::pinning::Pinned;
pub(crate) use self::shard::MountedShard;
use self::snapshot_changes::SnapshotChanges;
use self::split_bytes::{Missed, MountedBytes};
pub(crate) use self::split_opening::Opened;
pub(crate) use self::split_sampling::{SampledOut, sampled, sampled_alike};
use crate::config::EmbeddedConfig;
use crate::node::Node;
use crate::snapshots::Repositories;
use crate::tiers::Devices;

/// Idle time after which a split is closed. Opening it again reads its footer from the cache.
const IDLE_MS: i64 = 5 * 60 * 1000;

/// Mounted indices, and the state that they share.
pub(crate) struct MountService {
    pub(crate) node: Arc<Node>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) repositories: Arc<Repositories>,
    pub(crate) manifests: Manifests,
    /// `None`: the node has no object stores.
    regions: Option<Arc<RegionCache>>,
    open: OpenSplits,
    pub(crate) copying: Copying,
    pinned: Pinned,
    /// A read did not find an object in its repository.
    missed: Arc<Missed>,
    following: SnapshotChanges,
    /// How often shards were replaced because their snapshot was rewritten.
    switched: AtomicU64,
}

impl MountService {
    /// Creates the state without open splits.
    pub(crate) fn new(
        node: Arc<Node>,
        devices: Arc<Devices>,
        repositories: Arc<Repositories>,
        regions: Option<Arc<RegionCache>>,
    ) -> Self {
        let config = &node.config;
        Self {
            manifests: Manifests::new(&config.path_data, Arc::clone(&config.disk)),
            regions,
            open: OpenSplits::new(config.open_splits_bytes_max),
            copying: Copying::default(),
            pinned: Pinned::default(),
            missed: Arc::default(),
            following: SnapshotChanges::new((config.now_ms)()),
            switched: AtomicU64::new(0),
            node,
            devices,
            repositories,
        }
    }

    /// Returns the region cache of mounted indices.
    pub(crate) fn regions(&self) -> Result<&Arc<RegionCache>> {
        let cache = self.regions.as_ref();
        cache.ok_or_else(|| Error::not_implemented("mounting snapshots without a region cache"))
    }

    /// Closes idle splits and writes the journal of the cache. Must be called regularly.
    pub(crate) fn tick(&self, now_ms: i64) {
        self.open.close_idle(now_ms - IDLE_MS);
        if let Some(regions) = &self.regions {
            regions.flush();
        }
    }

    /// Returns the number of open splits, and about how much memory they take.
    pub(crate) fn open_usage(&self) -> (u64, u64) {
        self.open.usage()
    }

    /// Closes the splits that only a deleted index used: those with its full copies.
    pub(crate) fn forget_index(&self, uuid: &str) {
        self.open.close(|key| key.copy_of.as_deref() == Some(uuid));
    }

    /// Returns the open segments of a shard.
    pub(crate) fn open_segments(&self, shard: &MountedShard, now_ms: i64) -> Vec<Arc<Segment>> {
        let segments = shard.segments().map_or(&[][..], |segments| &segments.segments);
        let open = segments
            .iter()
            .map(|segment| self.open.get(&key_of(shard, segment), now_ms));
        open.flatten().collect()
    }

    /// Returns the number of open segments of a shard.
    pub(crate) fn open_count(&self, shard: &MountedShard) -> u64 {
        let segments = shard.segments().map_or(&[][..], |segments| &segments.segments);
        let is_open = |segment: &&Arc<SnapshotSegment>| self.open.is_open(&key_of(shard, segment));
        segments.iter().filter(is_open).count() as u64
    }
}

/// Opens the region cache of mounted indices, if the node has object stores.
pub(crate) fn open_regions(config: &EmbeddedConfig) -> Result<Option<Arc<RegionCache>>> {
    if config.io.is_none() {
        return Ok(None);
    }
    let options = RegionCacheOptions {
        size_bytes: config.shared_cache_bytes,
        owner_bytes_max: config.shared_cache_tenant_bytes,
        ..RegionCacheOptions::default()
    };
    let folder = config.tiers.frozen().unwrap_or(&config.path_data).join("regions");
    match RegionCache::open(Arc::clone(&config.disk), &folder, options) {
        Ok(cache) => Ok(Some(Arc::new(cache))),
        // Only the first file of the cache needs space; indices that are not mounted work without it.
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
            tracing::warn!(%error, "cannot open the region cache: the disk is full");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

impl MountService {
    /// Returns the bytes of a shard that are on this node.
    pub(crate) fn local_bytes(&self, shard: &MountedShard) -> u64 {
        if !shard.store.partial {
            return shard
                .copies(&self.node.config.disk)
                .iter()
                .map(|copy| copy.bytes())
                .sum();
        }
        let (Some(segments), Ok(regions)) = (shard.segments(), self.regions()) else {
            return 0;
        };
        let ids = segments
            .segments
            .iter()
            .filter_map(|segment| ObjectId::parse(&segment.split.id));
        ids.map(|id| regions.cached_bytes(id)).sum()
    }

    /// Returns the manifest of a shard if this node has it; sends no request to the repository.
    pub(crate) fn manifest_here(&self, shard: &MountedShard) -> Option<Arc<MountedIndex>> {
        if shard.known().is_none() {
            shard.learn(self.manifests.known_here(&shard.store)?);
        }
        shard.known().cloned()
    }

    /// Removes the data of shards from the region cache.
    pub(crate) fn clear_regions_of(&self, shards: &[Arc<MountedShard>]) -> Result<()> {
        let segments = shards.iter().filter_map(|shard| shard.segments());
        let ids = segments
            .flat_map(|segments| &segments.segments)
            .filter_map(|segment| ObjectId::parse(&segment.split.id));
        self.regions()?.clear(Some(&ids.collect()));
        Ok(())
    }

    /// Returns the byte source of a segment of a mounted shard.
    fn bytes_of(&self, shard: &MountedShard, place: usize, segment: &SnapshotSegment) -> Result<Arc<MountedBytes>> {
        let repository = self.repositories.repository(&shard.store.repository)?;
        let split = &segment.split;
        let id = ObjectId::parse(&split.id).ok_or_else(|| {
            Error::new(
                ErrorKind::Repository,
                format!("[{}] names a split with a bad id [{}]", repository.name(), split.id),
            )
        })?;
        let object = CachedObject {
            id,
            key: split.key(),
            len: split.len,
            salt: split.salt,
            store: Arc::clone(repository.store()),
            owner: self.owner_of(shard),
        };
        Ok(Arc::new(MountedBytes {
            object: Arc::new(object),
            cache: Arc::clone(self.regions()?),
            io: Handle::clone(self.repositories.io()?),
            local: shard.copies(&self.node.config.disk).get(place).cloned(),
            missed: Arc::clone(&self.missed),
        }))
    }

    /// Returns the tenant whose cache quota a shard counts for: the only tenant of its index.
    fn owner_of(&self, shard: &MountedShard) -> Option<TenantId> {
        let state = self.node.state();
        let index = state.index(&shard.index).ok()?;
        TenantId::parse(index.metadata.settings.tenant_owner.as_deref()?).ok()
    }
}

fn key_of(shard: &MountedShard, segment: &SnapshotSegment) -> SplitKey {
    SplitKey {
        split: segment.split.id.clone(),
        deletes: segment.deletes.as_ref().map(|deletes| deletes.id.clone()),
        repository: shard.store.repository.as_str().into(),
        copy_of: (!shard.store.partial).then(|| Arc::clone(&shard.uuid)),
    }
}
