//! Searchable snapshots: indices that are mounted from a snapshot and read it where it lies.

use async_trait::async_trait;
use firn_model::tenant::TenantId;
use serde_json::Value;

use crate::admin::ShardsOutcome;
use crate::search::IndexTarget;
use crate::{Error, RequestContext, Result};

/// Where the data of a mounted index is kept on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Storage {
    /// All of it, copied in the background (cold).
    FullCopy,
    /// What was read of it, in the cache that all such indices share (frozen).
    SharedCache,
}

impl Storage {
    /// As Elasticsearch's API calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::FullCopy => "full_copy",
            Self::SharedCache => "shared_cache",
        }
    }
}

/// `POST /_snapshot/REPOSITORY/SNAPSHOT/_mount`.
#[derive(Debug, Clone, PartialEq)]
pub struct MountSnapshot {
    /// Where.
    pub repository: String,
    /// Which.
    pub snapshot: String,
    /// The index in it.
    pub index: String,
    /// What it is to be called here; `None`: as in the snapshot.
    pub renamed_index: Option<String>,
    /// Where its data is kept.
    pub storage: Storage,
    /// Settings over those in the snapshot, nested or flat.
    pub index_settings: Value,
    /// Settings in the snapshot that are left out; patterns are allowed.
    pub ignore_index_settings: Vec<String>,
}

/// What was mounted. It can be searched when this is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// The snapshot.
    pub snapshot: String,
    /// The index, as it is called here.
    pub index: String,
    /// Its shards.
    pub total_shards: u32,
    /// Those that the snapshot holds.
    pub successful_shards: u32,
}

/// A mounted shard, for `_searchable_snapshots/stats`.
#[derive(Debug, Clone, PartialEq)]
pub struct MountedShardStats {
    /// Its index.
    pub index: String,
    /// Of the index.
    pub uuid: String,
    /// Its number.
    pub shard: u32,
    /// Where its data is kept.
    pub storage: Storage,
    /// The snapshot's id.
    pub snapshot_uuid: String,
    /// The index in the snapshot.
    pub snapshot_index: String,
    /// Its id there.
    pub index_uuid: String,
    /// Splits; `None` of this and what follows: nobody has asked for the shard yet.
    pub splits: Option<MountedSplits>,
}

/// The splits of a mounted shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MountedSplits {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that are open now.
    pub open: u64,
    /// Bytes of them on this node: of the whole copy, or in the shared cache.
    pub local_bytes: u64,
    /// Documents, the deleted ones included.
    pub docs: u64,
    /// Bytes of segments in it.
    pub segment_bytes: u64,
}

/// The shared cache, for `_searchable_snapshots/cache/stats`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SharedCacheStats {
    /// What it may take of the disk.
    pub size_bytes: u64,
    /// What it takes.
    pub used_bytes: u64,
    /// Of that what makes no room for others.
    pub pinned_bytes: u64,
    /// Bytes of a region.
    pub region_bytes: u64,
    /// Regions that are there.
    pub regions: u64,
    /// Regions that it has room for.
    pub regions_max: u64,
    /// Reads of its file, and their bytes.
    pub reads: u64,
    /// See `reads`.
    pub read_bytes: u64,
    /// Writes to its file, and their bytes.
    pub writes: u64,
    /// See `writes`.
    pub written_bytes: u64,
    /// Regions that made room for others.
    pub evictions: u64,
    /// Requests to object stores.
    pub store_requests: u64,
    /// Reads that waited for what another one was fetching.
    pub joined: u64,
    /// Pages that were damaged, on the disk or on their way, and were fetched again.
    pub damaged_pages: u64,
    /// Bytes that were read and not kept.
    pub bypassed_bytes: u64,
    /// By kind of file.
    pub kinds: Vec<(&'static str, CachedKind)>,
    /// Splits that are open now, of all mounted indices, and about how much memory they take.
    pub open_splits: u64,
    /// See `open_splits`.
    pub open_bytes: u64,
}

/// What the shared cache did for one kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CachedKind {
    /// Bytes that were asked for.
    pub requested_bytes: u64,
    /// Of them what was there.
    pub hit_bytes: u64,
    /// And what was not.
    pub missed_bytes: u64,
    /// Bytes that came from object stores.
    pub fetched_bytes: u64,
    /// Bytes that are there now.
    pub cached_bytes: u64,
    /// Bytes that made room for others.
    pub evicted_bytes: u64,
}

/// What an engine does with searchable snapshots. One that has none refuses by name, as these defaults do.
#[async_trait]
pub trait SearchableSnapshots: Send + Sync {
    /// Makes an index of one in a snapshot without copying it first.
    async fn mount_snapshot(&self, _ctx: &RequestContext, _request: MountSnapshot) -> Result<Mounted> {
        Err(lacks())
    }

    /// The mounted shards of a target, by index and number.
    async fn mounted_shards(&self, _ctx: &RequestContext, _target: IndexTarget) -> Result<Vec<MountedShardStats>> {
        Ok(Vec::new())
    }

    /// What the shared cache holds and did; `None`: there is none.
    async fn shared_cache_stats(&self, _ctx: &RequestContext) -> Result<Option<SharedCacheStats>> {
        Ok(None)
    }

    /// Makes what the shared cache holds, and will hold, of a target's mounted indices stay there, or (`false`) make room again for
    /// others. Holds over restarts. Returns the indices, with the bytes of each that are there now.
    async fn pin_shared_cache(
        &self,
        _ctx: &RequestContext,
        _target: IndexTarget,
        _pinned: bool,
    ) -> Result<Vec<(String, u64)>> {
        Err(lacks())
    }

    /// What the indices of a tenant may take of the shared cache, bytes; `None`: as much as the node's settings say. Counts
    /// from the next fetch on, and until the process ends.
    fn set_shared_cache_quota(&self, _tenant: &TenantId, _bytes: Option<u64>) {}

    /// Lets go what the shared cache holds of a target's mounted indices.
    async fn clear_shared_cache(&self, _ctx: &RequestContext, _target: IndexTarget) -> Result<ShardsOutcome> {
        Ok(ShardsOutcome::default())
    }
}

fn lacks() -> Error {
    Error::not_implemented("mounting snapshots with this engine")
}
