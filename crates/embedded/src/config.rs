//! What the engine needs to know before it opens: numbers a user tunes, and the clock, the disk
//! and the seed that come from outside.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firn_model::settings::SettingsMap;
use firn_model::{Error, Result};
use firn_storage::disk::Disk;
use firn_storage::object::{ObjectStores, StoresConfig};
use tokio::runtime::Handle;

use crate::tiers::TierPaths;

/// A clock: ms since the epoch in UTC.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Measures the file system of the data folder: total bytes, and bytes that firn may still use.
pub type SpaceProbe = Arc<dyn Fn() -> std::io::Result<(u64, u64)> + Send + Sync>;

/// Settings and components of an [`crate::Embedded`] engine.
#[derive(Clone)]
pub struct EmbeddedConfig {
    /// Holds everything: `catalog.redb`, `node.lock`, `indices/UUID/SHARD/`. Made if missing.
    pub path_data: PathBuf,
    /// Settings of the cluster that the node's configuration has, flat (`action.auto_create_index`, …); those of
    /// `_cluster/settings` go before them.
    pub cluster_settings: SettingsMap,
    /// Jobs of writing and searching that run at one moment, all tenants together.
    pub cores: usize,
    /// Threads that map and write documents, and jobs of one tenant that are begun
    /// (`thread_pool.write.size`).
    pub write_threads: usize,
    /// Threads that search, and jobs of one tenant that are begun (`thread_pool.search.size`).
    pub search_threads: usize,
    /// Threads that merge segments in the background. One is enough for what one disk writes,
    /// and leaves the processors to writing and searching.
    pub merge_threads: usize,
    /// Threads that make, read back and restore snapshots (`thread_pool.snapshot.max`).
    pub snapshot_threads: usize,
    /// Bulks that wait for a write thread (`thread_pool.write.queue_size`).
    pub write_queue_limit: usize,
    /// Searches that wait for a search thread (`thread_pool.search.queue_size`).
    pub search_queue_limit: usize,
    /// How long a search waits for a search thread before it is refused (`thread_pool.search.queue_wait_max`).
    pub search_queue_wait_max: Duration,
    /// Bytes of documents in bulks that have come in and are not answered yet
    /// (`indexing_pressure.memory.limit`). At least as large as the largest request body, or
    /// such a body could never be written.
    pub write_bytes_in_flight_max: u64,
    /// Memory of all write buffers together (`indices.memory.index_buffer_size`); past it the
    /// largest are written out as segments.
    pub indexing_buffer_bytes: u64,
    /// Buckets one answer may have (`search.max_buckets`).
    pub search_buckets_max: usize,
    /// Memory that one search may take for its aggregations and sorting
    /// (`indices.breaker.request.limit`).
    pub search_memory_bytes_max: u64,
    /// The same of all searches that run at one moment (`indices.breaker.total.limit`).
    pub search_memory_bytes_max_total: u64,
    /// Memory of what segments answered and may be asked again (`indices.requests.cache.size`).
    pub request_cache_bytes: u64,
    /// Bounds of scrolls and points in time.
    pub context_limits: ContextLimits,
    /// When writes stop (`cluster.routing.allocation.disk.watermark.flood_stage`).
    pub flood_stage: Watermark,
    /// Free bytes that are always enough, however large the disk
    /// (`cluster.routing.allocation.disk.watermark.flood_stage.max_headroom`).
    pub flood_stage_headroom_bytes_max: u64,
    /// A search of an index that nobody searched for so long (`index.search.idle.after`)
    /// refreshes it first; until then it is not refreshed by the clock. ms.
    pub search_idle_after_ms: u64,
    /// A shard without writes for so long is flushed, so that a restart has nothing to replay. ms.
    pub idle_flush_after_ms: u64,
    /// Within so long every byte of every segment is read against its checksums (`indices.scrub.period`), ms; `None`:
    /// never, but for what searches and merges read.
    pub scrub_period_ms: Option<u64>,
    /// Bytes of the file that holds room back for a full disk; 0: there is none.
    pub disk_reserve_bytes: u64,
    /// How long opening waits for all shards; those that take longer are opened in the background.
    pub start_patience: Duration,
    /// Now.
    pub now_ms: Clock,
    /// Seeds the identifiers of new indices.
    pub seed: u64,
    /// Where shards keep their files.
    pub disk: Arc<dyn Disk>,
    /// What the cache of indices that are mounted as `shared_cache` may take of the disk
    /// (`xpack.searchable.snapshot.shared_cache.size`).
    pub shared_cache_bytes: u64,
    /// What the indices of one tenant may take of it
    /// (`xpack.searchable.snapshot.shared_cache.tenant_size`).
    pub shared_cache_tenant_bytes: u64,
    /// About how much memory splits of mounted indices may take that are open
    /// (`xpack.searchable.snapshot.open_splits.size`).
    pub open_splits_bytes_max: u64,
    /// The data paths of tiers beside `path_data`, which is the hot one.
    pub tiers: TierPaths,
    /// Above it no shard is moved to a device (`cluster.routing.allocation.disk.watermark.low`).
    pub low_watermark: Watermark,
    /// Bytes that one search may fetch from snapshot repositories (`search.max_repository_bytes`); `None`: no limit.
    pub search_repository_bytes_max: Option<u64>,
    /// `None`: asks the file system of `path_data`.
    pub space: Option<SpaceProbe>,
    /// Whether a clock of the engine's own begins what is due: refreshes, flushes, merges, shards that are tried again. If not,
    /// [`crate::Embedded::begin_due`] does, for tests that choose the moment.
    pub ticks: bool,
    /// Opens snapshot repositories.
    pub object_stores: Arc<ObjectStores>,
    /// Threads that speak to object stores; `None`: nothing there can be reached.
    pub io: Option<Handle>,
}

impl EmbeddedConfig {
    /// Defaults for a data folder.
    pub fn new(path_data: impl Into<PathBuf>, disk: Arc<dyn Disk>, now_ms: Clock, seed: u64) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            path_data: path_data.into(),
            cluster_settings: SettingsMap::new(),
            cores,
            write_threads: cores,
            search_threads: cores,
            merge_threads: 1,
            write_queue_limit: 10_000,
            snapshot_threads: 2,
            search_queue_limit: 1000,
            search_queue_wait_max: Duration::from_secs(10),
            // Elasticsearch takes 10 % of its heap; firn has none. Two of the largest bodies
            // (`http.max_content_length`, 100 MB) fit, and the peak stays far below 0.8 GB.
            write_bytes_in_flight_max: 256 * 1024 * 1024,
            indexing_buffer_bytes: 256 * 1024 * 1024,
            search_buckets_max: 65_536,
            search_memory_bytes_max: 256 * 1024 * 1024,
            search_memory_bytes_max_total: 512 * 1024 * 1024,
            // Elasticsearch takes 1 % of its heap. An idle server holds at most 200 MB, and this is
            // room for what dashboards ask of some thousand segments.
            request_cache_bytes: 32 * 1024 * 1024,
            context_limits: ContextLimits::default(),
            flood_stage: Watermark::UsedRatio(0.95),
            // Elasticsearch has 100 GB, which stops a half-terabyte laptop that has 20 GB free.
            flood_stage_headroom_bytes_max: 10 * 1024 * 1024 * 1024,
            search_idle_after_ms: 30_000,
            idle_flush_after_ms: 10_000,
            scrub_period_ms: Some(7 * 24 * 3600 * 1000),
            disk_reserve_bytes: 0,
            start_patience: Duration::MAX,
            now_ms,
            seed,
            disk,
            shared_cache_bytes: 0,
            shared_cache_tenant_bytes: u64::MAX,
            // Some thousand splits: more than one question opens that is about one tenant.
            open_splits_bytes_max: 1 << 30,
            tiers: TierPaths::default(),
            low_watermark: Watermark::UsedRatio(0.85),
            search_repository_bytes_max: None,
            space: None,
            ticks: true,
            object_stores: Arc::new(ObjectStores::new(StoresConfig::new(seed))),
            io: None,
        }
    }
}

impl EmbeddedConfig {
    /// The given probe, or one that asks the disk.
    pub(crate) fn space_probe(&self) -> SpaceProbe {
        match &self.space {
            Some(probe) => Arc::clone(probe),
            None => {
                let (disk, path) = (Arc::clone(&self.disk), self.path_data.clone());
                Arc::new(move || Ok((disk.total_bytes(&path)?, disk.available_bytes(&path)?)))
            }
        }
    }
}

impl std::fmt::Debug for EmbeddedConfig {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("EmbeddedConfig")
            .field("path_data", &self.path_data)
            .finish_non_exhaustive()
    }
}

/// Bounds of scrolls and points in time, which hold files and memory for clients that may never
/// come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextLimits {
    /// Scrolls open at one moment (`search.max_open_scroll_context`).
    pub scrolls_max: usize,
    /// Points in time open at one moment (`search.max_open_pit_context`, as in OpenSearch).
    pub points_in_time_max: usize,
    /// The longest time that one may live unused (`search.max_keep_alive`), ms.
    pub keep_alive_max_ms: u64,
    /// How long one lives unused whose client did not say (`search.default_keep_alive`), ms.
    pub keep_alive_default_ms: u64,
}

impl Default for ContextLimits {
    fn default() -> Self {
        Self {
            scrolls_max: 500,
            points_in_time_max: 300,
            keep_alive_max_ms: 24 * 60 * 60 * 1000,
            keep_alive_default_ms: 5 * 60 * 1000,
        }
    }
}

/// A disk watermark, as Elasticsearch writes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Watermark {
    /// `95%` or `0.95`: this part of the disk is used.
    UsedRatio(f64),
    /// `500mb`: less than this is free.
    FreeBytes(u64),
}

/// Whatever the ratio says: less than this is too little to merge and flush in. A disk smaller
/// than ten times this gives a tenth of itself.
const FREE_BYTES_MIN: u64 = 500 * 1024 * 1024;

impl Watermark {
    /// Reads `95%`, `0.95` or `500mb`; [`firn_model::ErrorKind::IllegalArgument`] otherwise.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let invalid = || Error::illegal_argument(format!("unable to parse [{text}] as a disk watermark"));
        let ratio = match text.strip_suffix('%') {
            Some(percent) => Some(percent.trim().parse::<f64>().map_err(|_| invalid())? / 100.0),
            None => text.parse::<f64>().ok(),
        };
        match ratio {
            Some(ratio) if (0.0..=1.0).contains(&ratio) => Ok(Self::UsedRatio(ratio)),
            Some(_) => Err(invalid()),
            None => Ok(Self::FreeBytes(
                firn_model::settings::parse_bytes(text).map_err(|_| invalid())?,
            )),
        }
    }

    /// How many bytes must be free on a disk of `total_bytes`.
    pub fn free_bytes_required(self, total_bytes: u64, headroom_bytes_max: u64) -> u64 {
        match self {
            Self::FreeBytes(bytes) => bytes,
            Self::UsedRatio(ratio) => {
                let by_ratio = (total_bytes as f64 * (1.0 - ratio)) as u64;
                by_ratio
                    .min(headroom_bytes_max)
                    .max(FREE_BYTES_MIN.min(total_bytes / 10))
            }
        }
    }
}

impl std::fmt::Display for Watermark {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // Two digits, so that 0.95 does not print as 94.99999999999999 %.
            Self::UsedRatio(ratio) => write!(formatter, "{}%", (ratio * 10_000.0).round() / 100.0),
            Self::FreeBytes(bytes) => write!(formatter, "{bytes}b free"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1024 * 1024 * 1024;

    #[test]
    fn watermarks_are_read_as_elasticsearch_writes_them() {
        assert_eq!(Watermark::parse("95%").unwrap(), Watermark::UsedRatio(0.95));
        assert_eq!(Watermark::parse("0.9").unwrap(), Watermark::UsedRatio(0.9));
        assert_eq!(
            Watermark::parse("500mb").unwrap(),
            Watermark::FreeBytes(500 * 1024 * 1024)
        );
        for bad in ["", "120%", "2.5", "many", "%"] {
            assert!(Watermark::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn small_and_huge_disks_keep_a_sensible_reserve() {
        let watermark = Watermark::UsedRatio(0.95);
        assert_eq!(watermark.free_bytes_required(100 * GB, 10 * GB), 5 * GB);
        assert_eq!(watermark.free_bytes_required(4000 * GB, 10 * GB), 10 * GB);
        assert_eq!(watermark.free_bytes_required(6 * GB, 10 * GB), FREE_BYTES_MIN);
        assert_eq!(watermark.free_bytes_required(GB, 10 * GB), GB / 10);
        assert_eq!(Watermark::FreeBytes(7).free_bytes_required(GB, GB), 7);
        assert_eq!(watermark.to_string(), "95%");
    }
}
