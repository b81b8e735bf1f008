//! Indices that read a snapshot where it lies: searchable snapshots.
//!
//! A mounted index is an entry of the catalog whose settings name a snapshot. Its slots hold a [`MountedShard`] each,
//! which knows little more than its name until somebody searches it. Then the **manifest** says which splits there are,
//! once for all mounts of a snapshot; what it says of their time and tenants decides which of them can hold a match at
//! all, without a request, and filters of exact values with a few ([`filtering`]); and the footers of those that can are fetched, all at once, to open them. An open split is a
//! [`Segment`] like any other, shared by all that mounted it, and closed when nobody has used it for a while.
//!
//! What surprises: nothing here is durable but copies. What a crash leaves of them is used if it is whole.

mod ahead;
mod bytes;
mod copying;
mod filtering;
mod following;
mod left;
mod local;
mod manifests;
mod open_splits;
mod opening;
mod pinning;
mod pruning;
mod sampling;
mod shard;
mod switching;
mod tables;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::regions::{CachedObject, ObjectId, RegionCache, RegionCacheOptions};
use firn_storage::repository::SnapshotSegment;
use tokio::runtime::Handle;

use self::bytes::{Missed, MountedBytes};
pub(crate) use self::copying::Copying;
use self::following::Following;
pub(crate) use self::manifests::{Manifests, MountedIndex, file_name as manifest_file};
use self::open_splits::{OpenSplits, SplitKey};
pub(crate) use self::opening::Opened;
use self::pinning::Pinned;
pub(crate) use self::pruning::Conditions;
pub(crate) use self::sampling::{LeftOut, sampled, sampled_alike};
pub(crate) use self::shard::MountedShard;
use crate::config::EmbeddedConfig;
use crate::engine::Core;
use crate::segment::Segment;

/// A split that nobody has used for so long is closed. Opening it again takes its footer out of the cache.
const IDLE_MS: i64 = 5 * 60 * 1000;

/// What all mounted indices share.
pub(crate) struct Mounts {
    pub(crate) manifests: Manifests,
    /// `None`: the node has no object stores.
    regions: Option<Arc<RegionCache>>,
    open: OpenSplits,
    pub(crate) copying: Copying,
    pinned: Pinned,
    /// Something was not in its repository when somebody read it.
    missed: Arc<Missed>,
    following: Following,
    /// How often shards were put in the place of others that read what their snapshot was before.
    switched: AtomicU64,
}

impl Mounts {
    /// Nothing is open.
    pub(crate) fn new(config: &EmbeddedConfig, regions: Option<Arc<RegionCache>>) -> Self {
        Self {
            manifests: Manifests::new(&config.path_data, Arc::clone(&config.disk)),
            regions,
            open: OpenSplits::new(config.open_splits_bytes_max),
            copying: Copying::default(),
            pinned: Pinned::default(),
            missed: Arc::default(),
            following: Following::new((config.now_ms)()),
            switched: AtomicU64::new(0),
        }
    }

    /// The cache that mounted indices share.
    pub(crate) fn regions(&self) -> Result<&Arc<RegionCache>> {
        let cache = self.regions.as_ref();
        cache.ok_or_else(|| Error::not_implemented("mounting snapshots without a cache for them"))
    }

    /// To be called once in a while: closes what nobody uses, and writes down what the cache holds.
    pub(crate) fn tick(&self, now_ms: i64) {
        self.open.close_idle(now_ms - IDLE_MS);
        if let Some(regions) = &self.regions {
            regions.flush();
        }
    }

    /// How many splits are open, and about how much memory they take.
    pub(crate) fn open_usage(&self) -> (u64, u64) {
        self.open.usage()
    }

    /// Closes the splits of an index that is gone, as far as they are its own.
    pub(crate) fn forget_index(&self, uuid: &str) {
        self.open.close(|key| key.copy_of.as_deref() == Some(uuid));
    }

    /// A shard's segments that are open now.
    pub(crate) fn open_segments(&self, shard: &MountedShard, now_ms: i64) -> Vec<Arc<Segment>> {
        let segments = shard.segments().map_or(&[][..], |segments| &segments.segments);
        let open = segments
            .iter()
            .map(|segment| self.open.get(&key_of(shard, segment), now_ms));
        open.flatten().collect()
    }

    /// Of a shard's segments, how many are open now.
    pub(crate) fn open_count(&self, shard: &MountedShard) -> u64 {
        let segments = shard.segments().map_or(&[][..], |segments| &segments.segments);
        let is_open = |segment: &&Arc<SnapshotSegment>| self.open.is_open(&key_of(shard, segment));
        segments.iter().filter(is_open).count() as u64
    }
}

/// Opens the cache that mounted indices share, where the node has object stores.
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
        // Only its first file needs room; what is not mounted serves without it.
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
            tracing::warn!(%error, "the cache of mounted indices cannot be opened on a full disk");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

impl Core {
    /// Bytes of a shard that are on this node.
    pub(crate) fn local_bytes(&self, shard: &MountedShard) -> u64 {
        if !shard.store.partial {
            return shard.copies(&self.config.disk).iter().map(|copy| copy.bytes()).sum();
        }
        let (Some(segments), Ok(regions)) = (shard.segments(), self.mounts.regions()) else {
            return 0;
        };
        let ids = segments
            .segments
            .iter()
            .filter_map(|segment| ObjectId::parse(&segment.split.id));
        ids.map(|id| regions.cached_bytes(id)).sum()
    }

    /// What a shard reads, as far as this node knows without asking a repository.
    pub(crate) fn manifest_here(&self, shard: &MountedShard) -> Option<Arc<MountedIndex>> {
        if shard.known().is_none() {
            shard.learn(self.mounts.manifests.known_here(&shard.store)?);
        }
        shard.known().cloned()
    }

    /// Lets go what the shared cache holds of shards.
    pub(crate) fn clear_regions_of(&self, shards: &[Arc<MountedShard>]) -> Result<()> {
        let segments = shards.iter().filter_map(|shard| shard.segments());
        let ids = segments
            .flat_map(|segments| &segments.segments)
            .filter_map(|segment| ObjectId::parse(&segment.split.id));
        self.mounts.regions()?.clear(Some(&ids.collect()));
        Ok(())
    }

    /// Where a segment of a mounted shard is read.
    fn bytes_of(&self, shard: &MountedShard, place: usize, segment: &SnapshotSegment) -> Result<Arc<MountedBytes>> {
        let repository = self.repository(&shard.store.repository)?;
        let split = &segment.split;
        let id = ObjectId::parse(&split.id).ok_or_else(|| {
            Error::new(
                ErrorKind::Repository,
                format!("[{}] names a split [{}] that is none", repository.name(), split.id),
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
            cache: Arc::clone(self.mounts.regions()?),
            io: Handle::clone(self.io()?),
            local: shard.copies(&self.config.disk).get(place).cloned(),
            missed: Arc::clone(&self.mounts.missed),
        }))
    }

    /// Whose quota of the cache counts: that of the tenant who alone has the index.
    fn owner_of(&self, shard: &MountedShard) -> Option<TenantId> {
        let state = self.state();
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
