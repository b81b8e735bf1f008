//! Searchable snapshots: indices that are mounted from a snapshot and read it in its repository.

use async_trait::async_trait;
use firn_model::Result;
use firn_model::tenant::TenantId;
use firn_query::search::IndexTarget;
use serde_json::Value;

use crate::RequestContext;
use crate::admin::ShardsOutcome;

/// Local storage of a mounted index on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Storage {
    /// Full copy, made in the background (cold tier).
    FullCopy,
    /// Regions that searches read, in the cache that all such indices share (frozen tier).
    SharedCache,
}

impl Storage {
    /// Returns the name in Elasticsearch's API.
    pub fn name(self) -> &'static str {
        match self {
            Self::FullCopy => "full_copy",
            Self::SharedCache => "shared_cache",
        }
    }
}

/// Request of `POST /_snapshot/REPOSITORY/SNAPSHOT/_mount`.
#[derive(Debug, Clone, PartialEq)]
pub struct MountSnapshot {
    /// Repository name.
    pub repository: String,
    /// Snapshot name.
    pub snapshot: String,
    /// Index in the snapshot.
    pub index: String,
    /// Name of the mounted index; `None`: the name in the snapshot.
    pub renamed_index: Option<String>,
    /// Local storage of its data.
    pub storage: Storage,
    /// Settings that override those of the snapshot, nested or flat.
    pub index_settings: Value,
    /// Settings of the snapshot to leave out; patterns are allowed.
    pub ignore_index_settings: Vec<String>,
}

/// Result of a mount. The index is searchable when this is returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// Snapshot name.
    pub snapshot: String,
    /// Name of the mounted index.
    pub index: String,
    /// Shards of the index.
    pub total_shards: u32,
    /// Shards that the snapshot holds.
    pub successful_shards: u32,
}

/// Statistics of one mounted shard, for `_searchable_snapshots/stats`.
#[derive(Debug, Clone, PartialEq)]
pub struct MountedShardStats {
    /// Index name.
    pub index: String,
    /// UUID of the index.
    pub uuid: String,
    /// Shard number.
    pub shard: u32,
    /// Local storage of its data.
    pub storage: Storage,
    /// UUID of the snapshot.
    pub snapshot_uuid: String,
    /// Name of the index in the snapshot.
    pub snapshot_index: String,
    /// UUID of the index in the snapshot.
    pub index_uuid: String,
    /// Statistics of the splits; `None`: no request has used the shard yet.
    pub splits: Option<MountedSplits>,
}

/// Statistics of the splits of one mounted shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MountedSplits {
    /// Number of splits.
    pub count: u64,
    /// Bytes of the splits.
    pub bytes: u64,
    /// Splits that are open now.
    pub open: u64,
    /// Bytes of the splits on this node: in the full copy, or in the shared cache.
    pub local_bytes: u64,
    /// Documents, deleted ones included.
    pub docs: u64,
    /// Bytes of the segments in the splits.
    pub segment_bytes: u64,
}

/// Statistics of the shared cache, for `_searchable_snapshots/cache/stats`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SharedCacheStats {
    /// Maximum size on disk.
    pub size_bytes: u64,
    /// Used bytes.
    pub used_bytes: u64,
    /// Of those the pinned bytes, which are not evicted.
    pub pinned_bytes: u64,
    /// Bytes of one region.
    pub region_bytes: u64,
    /// Cached regions.
    pub regions: u64,
    /// Capacity in regions.
    pub regions_max: u64,
    /// Reads of the cache file, and their bytes.
    pub reads: u64,
    /// See `reads`.
    pub read_bytes: u64,
    /// Writes to the cache file, and their bytes.
    pub writes: u64,
    /// See `writes`.
    pub written_bytes: u64,
    /// Evicted regions.
    pub evictions: u64,
    /// Requests to object stores.
    pub store_requests: u64,
    /// Reads that waited for a fetch of another read (single flight).
    pub joined: u64,
    /// Pages that were damaged on disk or in transit and were fetched again.
    pub damaged_pages: u64,
    /// Bytes that were read and not cached.
    pub bypassed_bytes: u64,
    /// Statistics by kind of file.
    pub kinds: Vec<(&'static str, CachedKind)>,
    /// Splits that are open now, of all mounted indices, and their approximate memory.
    pub open_splits: u64,
    /// See `open_splits`.
    pub open_bytes: u64,
}

/// Shared cache statistics of one kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CachedKind {
    /// Requested bytes.
    pub requested_bytes: u64,
    /// Bytes found in the cache.
    pub hit_bytes: u64,
    /// Bytes not found in the cache.
    pub missed_bytes: u64,
    /// Bytes fetched from object stores.
    pub fetched_bytes: u64,
    /// Bytes cached now.
    pub cached_bytes: u64,
    /// Evicted bytes.
    pub evicted_bytes: u64,
}

/// Searchable snapshot operations of an engine.
#[async_trait]
pub trait SearchableSnapshots: Send + Sync {
    /// Mounts an index of a snapshot without copying it first.
    async fn mount_snapshot(&self, ctx: &RequestContext, request: MountSnapshot) -> Result<Mounted>;

    /// Returns the mounted shards of a target, by index and number.
    async fn mounted_shards(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Vec<MountedShardStats>>;

    /// Returns the statistics of the shared cache; `None`: there is no shared cache.
    async fn shared_cache_stats(&self, ctx: &RequestContext) -> Result<Option<SharedCacheStats>>;

    /// Pins the cached data of the target's mounted indices, present and future, or unpins it (`false`). The pin
    /// survives restarts. Returns the indices, with the bytes of each that are cached now.
    async fn pin_shared_cache(
        &self,
        ctx: &RequestContext,
        target: IndexTarget,
        pinned: bool,
    ) -> Result<Vec<(String, u64)>>;

    /// Sets how many bytes of the shared cache the indices of a tenant may use; `None`: as the node's settings say.
    /// Applies from the next fetch until the process ends. Without a shared cache there is nothing to limit.
    fn set_shared_cache_quota(&self, tenant: &TenantId, bytes: Option<u64>);

    /// Removes the target's mounted indices from the shared cache.
    async fn clear_shared_cache(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome>;
}
