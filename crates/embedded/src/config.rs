//! Configuration of the engine: settings that a user tunes, and external components such as the clock, the disk and the
//! seed.

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
    /// The data folder: `catalog.redb`, `node.lock`, `indices/UUID/SHARD/`. Created if missing.
    pub path_data: PathBuf,
    /// Cluster settings from the configuration of the node, flat (`action.auto_create_index`, …). Values of
    /// `_cluster/settings` take precedence.
    pub cluster_settings: SettingsMap,
    /// Maximum of write and search jobs that run concurrently, over all tenants.
    pub cores: usize,
    /// Threads that map and write documents, and maximum of begun jobs of one tenant (`thread_pool.write.size`).
    pub write_threads: usize,
    /// Threads that search, and maximum of begun jobs of one tenant (`thread_pool.search.size`).
    pub search_threads: usize,
    /// Threads that merge segments in the background. One is enough for the data that one disk writes, and leaves the
    /// processors to writing and searching.
    pub merge_threads: usize,
    /// Threads that create, read back and restore snapshots (`thread_pool.snapshot.max`).
    pub snapshot_threads: usize,
    /// Maximum of bulks that wait for a write thread (`thread_pool.write.queue_size`).
    pub write_queue_limit: usize,
    /// Maximum of searches that wait for a search thread (`thread_pool.search.queue_size`).
    pub search_queue_limit: usize,
    /// How long a search waits for a search thread before it is refused (`thread_pool.search.queue_wait_max`).
    pub search_queue_wait_max: Duration,
    /// Maximum bytes of documents in bulks that are received and not answered yet (`indexing_pressure.memory.limit`).
    /// At least as large as the largest request body, or such a body could never be written.
    pub write_bytes_in_flight_max: u64,
    /// Memory of all write buffers together (`indices.memory.index_buffer_size`). Above it the largest buffers are
    /// written as segments.
    pub indexing_buffer_bytes: u64,
    /// Maximum of buckets in one response (`search.max_buckets`).
    pub search_buckets_max: usize,
    /// Memory that one search may use for aggregations and sorting (`indices.breaker.request.limit`).
    pub search_memory_bytes_max: u64,
    /// Memory that all running searches together may use for this (`indices.breaker.total.limit`).
    pub search_memory_bytes_max_total: u64,
    /// Memory of the segment result cache (`indices.requests.cache.size`).
    pub request_cache_bytes: u64,
    /// Bounds of scrolls and points in time.
    pub context_limits: ContextLimits,
    /// Disk watermark at which writes stop (`cluster.routing.allocation.disk.watermark.flood_stage`).
    pub flood_stage: Watermark,
    /// Free bytes that are always enough, however large the disk
    /// (`cluster.routing.allocation.disk.watermark.flood_stage.max_headroom`).
    pub flood_stage_headroom_bytes_max: u64,
    /// After this time without searches (`index.search.idle.after`), an index is not refreshed by the clock; its next
    /// search refreshes it first. ms.
    pub search_idle_after_ms: u64,
    /// After this time without writes, a shard is flushed, so that a restart replays nothing. ms.
    pub idle_flush_after_ms: u64,
    /// Period in which every byte of every segment is verified against its checksums (`indices.scrub.period`), ms;
    /// `None`: only bytes that searches and merges read are verified.
    pub scrub_period_ms: Option<u64>,
    /// Bytes of the file that reserves space for a full disk; 0: no file.
    pub disk_reserve_bytes: u64,
    /// How long opening waits for all shards; slower shards are opened in the background.
    pub start_patience: Duration,
    /// The current time.
    pub now_ms: Clock,
    /// Seeds the identifiers of new indices.
    pub seed: u64,
    /// The disk with the files of shards.
    pub disk: Arc<dyn Disk>,
    /// Maximum disk space of the cache of indices mounted as `shared_cache`
    /// (`xpack.searchable.snapshot.shared_cache.size`).
    pub shared_cache_bytes: u64,
    /// Maximum part of it for the indices of one tenant (`xpack.searchable.snapshot.shared_cache.tenant_size`).
    pub shared_cache_tenant_bytes: u64,
    /// Approximate maximum memory of open splits of mounted indices (`xpack.searchable.snapshot.open_splits.size`).
    pub open_splits_bytes_max: u64,
    /// The data paths of tiers other than the hot one, whose path is `path_data`.
    pub tiers: TierPaths,
    /// Watermark above which no shard is moved to a device (`cluster.routing.allocation.disk.watermark.low`).
    pub low_watermark: Watermark,
    /// Maximum bytes that one search fetches from snapshot repositories (`search.max_repository_bytes`); `None`: no
    /// limit.
    pub search_repository_bytes_max: Option<u64>,
    /// `None`: reads the free space of the file system of `path_data`.
    pub space: Option<SpaceProbe>,
    /// Whether a thread of the engine starts due work: refreshes, flushes, merges, retries of shards. If not,
    /// [`crate::Embedded::begin_due`] does, for tests that choose the moment.
    pub ticks: bool,
    /// Opens snapshot repositories.
    pub object_stores: Arc<ObjectStores>,
    /// Runtime for requests to object stores; `None`: no store can be reached.
    pub io: Option<Handle>,
}

impl EmbeddedConfig {
    /// Returns the defaults for a data folder.
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
            // Elasticsearch takes 1 % of its heap. An idle server uses at most 200 MB, and this is enough for
            // dashboards over some thousand segments.
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
            // Some thousand splits: more than one search for one tenant opens.
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
    /// Returns the configured probe, or one that reads from the disk.
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

/// Bounds of scrolls and points in time, which hold files and memory for clients that may never come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextLimits {
    /// Maximum of open scrolls (`search.max_open_scroll_context`).
    pub scrolls_max: usize,
    /// Maximum of open points in time (`search.max_open_pit_context`, as in OpenSearch).
    pub points_in_time_max: usize,
    /// Maximum idle time of a context (`search.max_keep_alive`), ms.
    pub keep_alive_max_ms: u64,
    /// Idle time of a context if the client did not set one (`search.default_keep_alive`), ms.
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

/// A disk watermark, in Elasticsearch's syntax.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Watermark {
    /// `95%` or `0.95`: this part of the disk is used.
    UsedRatio(f64),
    /// `500mb`: less than this is free.
    FreeBytes(u64),
}

/// Lower bound of a ratio: less free space is too little for merges and flushes. A disk smaller than ten times this
/// reserves a tenth of itself.
const FREE_BYTES_MIN: u64 = 500 * 1024 * 1024;

impl Watermark {
    /// Parses `95%`, `0.95` or `500mb`; [`firn_model::ErrorKind::IllegalArgument`] otherwise.
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

    /// Returns how many bytes must be free on a disk of `total_bytes`.
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
