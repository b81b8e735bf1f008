//! State shared by all parts of the engine: configuration, catalog, pools, caches and services of one node.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use firn_engine::RequestContext;
use firn_engine::quarantine::QuarantinedFolder;
use firn_model::{Error, ErrorKind, Result};
use firn_scheduler::{Flow, Pool};
use firn_search::NodeMemory;
use firn_search::result_cache::RequestCache;
use firn_segment::splits::dry_run::catch;
use firn_storage::OverlayBudget;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::command_queue::CommandQueue;
use super::contexts::Contexts;
use super::metadata_copies::IndexRecords;
use super::recovery_gate::RecoveringCount;
use super::scoped_view::Views;
use super::state::{ShardFactory, State};
use super::tenant_fields::NarrowedMappings;
use crate::bulk::pressure::Pressure;
use crate::catalog::Catalog;
use crate::config::EmbeddedConfig;
use crate::data_folder::{CatalogCopy, Quarantine};
use crate::disk_watch::DiskWatch;
use crate::lock::NodeLock;
use crate::mounts::Mounts;
use crate::scrub::{DamageCounters, Scrub};
use crate::snapshots::Repositories;
use crate::tiers::Tiers;

/// State shared by all parts of the engine.
pub(crate) struct Core {
    pub(crate) config: EmbeddedConfig,
    pub(crate) factory: ShardFactory,
    pub(crate) state: ArcSwap<State>,
    pub(crate) commands: Mutex<Commands>,
    /// Commands that wait for the catalog.
    pub(crate) command_queue: CommandQueue,
    /// Held until the engine is closed or dropped.
    pub(crate) lock: Mutex<Option<NodeLock>>,
    /// Folders that the catalog does not name.
    pub(crate) quarantine: Quarantine,
    /// Content of the quarantine.
    pub(crate) quarantined: Mutex<Vec<QuarantinedFolder>>,
    /// Serializes changes of the quarantine.
    pub(crate) quarantine_lock: Mutex<()>,
    /// Uuids of indices being adopted: their folders exist before the catalog names them, and stay if the command
    /// fails.
    pub(crate) adopting: Mutex<HashSet<String>>,
    pub(crate) index_records: IndexRecords,
    pub(crate) catalog_copy: CatalogCopy,
    /// Copies of metadata are queued or being written.
    pub(crate) copying_metadata: AtomicBool,
    pub(crate) write_pool: Pool,
    /// Shared with the searches, whose segments are separate tasks.
    pub(crate) search_pool: Arc<Pool>,
    pub(crate) get_pool: Pool,
    pub(crate) maintenance_pool: Pool,
    pub(crate) merge_pool: Pool,
    /// Moves of shards between devices.
    pub(crate) move_pool: Pool,
    /// Devices other than that of the data folder.
    pub(crate) tiers: Tiers,
    /// Snapshots and restores, which take long and mostly wait.
    pub(crate) snapshot_pool: Pool,
    pub(crate) repositories: Repositories,
    pub(crate) pressure: Arc<Pressure>,
    pub(crate) disk_watch: DiskWatch,
    /// Memory for files that opening shards on a full disk would write.
    pub(crate) overlay_budget: Arc<OverlayBudget>,
    /// Current value of `search.max_buckets`.
    pub(crate) search_buckets_max: AtomicUsize,
    /// Memory of all running searches.
    pub(crate) search_memory: Arc<NodeMemory>,
    /// Mounted indices.
    pub(crate) mounts: Mounts,
    /// Cached partial results of segments and cached answers.
    pub(crate) request_cache: Arc<RequestCache>,
    /// Views of the metadata, by scope.
    pub(crate) views: Views,
    /// Mappings as tenants see them.
    pub(crate) narrowed_mappings: NarrowedMappings,
    /// Open scrolls and points in time.
    pub(crate) contexts: Contexts,
    /// Progress of the scrub.
    pub(crate) scrub: Scrub,
    pub(crate) damage: DamageCounters,
    /// Picks the shard of documents with a generated id.
    pub(crate) next_shard: AtomicU64,
    /// Number of shards that are being opened.
    pub(crate) recovering: RecoveringCount,
    /// Threads that open shards after the start.
    pub(crate) recovery_threads: Mutex<Vec<JoinHandle<()>>>,
    /// Time when the engine was opened, ms since epoch UTC.
    pub(crate) started_ms: i64,
    pub(crate) closing: AtomicBool,
    /// Number of segments per shard above which writers merge too.
    pub(crate) segments_calm: AtomicU64,
    /// The engine was closed while a merge was still running.
    pub(crate) merges_left_behind: AtomicBool,
}

/// Data that only one command at a time may use.
pub(crate) struct Commands {
    /// `None` once the engine is closed.
    pub(crate) catalog: Option<Catalog>,
    pub(crate) random: fastrand::Rng,
}

impl Core {
    /// Returns the current state.
    pub(crate) fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// Returns the current time, ms since the epoch in UTC.
    pub(crate) fn now_ms(&self) -> i64 {
        (self.config.now_ms)()
    }

    /// Fails once the engine is closing.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closing.load(Ordering::Acquire) {
            return Err(closing_error());
        }
        Ok(())
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}

/// Returns the error for requests that arrive while the node stops; the client should retry.
pub(crate) fn closing_error() -> Error {
    Error::new(ErrorKind::Rejected, "rejected execution: the node is shutting down")
}

/// Runs `work` on `pool` in the queue of the request's tenant, and waits for the result without blocking the
/// calling thread.
pub(crate) async fn run_on<T: Send + 'static>(
    pool: &Pool,
    ctx: &RequestContext,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    pool.spawn(&Flow::of(&ctx.scope), move || {
        // The receiver is gone if the client disconnected.
        let _ = sender.send(catch(work));
    })?;
    receiver.await.unwrap_or_else(|_| Err(panicked()))
}

/// Returns the error for work that ended without a result.
pub(crate) fn panicked() -> Error {
    Error::internal("the request failed because of a bug, see the log")
}
