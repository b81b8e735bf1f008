//! [`Embedded`]: the engine on one machine.
//!
//! Fixed worker pools run all heavy work, none runs on the threads of the async runtime: writes and
//! searches (which share the cores fairly between tenants), reads by id, maintenance (commands, refreshes,
//! flushes), and merges. State is published as a whole ([`state::State`]); commands are executed serially
//! and stored before they are published. The thread that synced the WAL of a write sends its
//! answer; no thread waits for a sync.

pub(crate) mod addressing;
mod admin;
mod can_match;
mod cluster_settings;
mod command_queue;
mod commands;
mod contexts;
mod fields_in_use;
mod get;
pub(crate) mod index_ids;
pub(crate) mod mapping;
mod metadata_copies;
mod mounting;
mod open;
mod paging;
mod purge;
mod quarantine;
mod recoveries;
pub(crate) mod recovery_gate;
mod response_cache;
mod scoped_view;
mod search_cost;
mod searching;
mod snapshots;
pub(crate) mod state;
mod stats;
mod tenant_fields;
mod tenant_usage;
mod terms_enum;
mod tier_moves;
mod unused_indices;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use firn_engine::admin::{
    AnalyzeRequest, AnalyzedToken, ForceMergeRequest, IndexStats, NodeStats, PurgeOutcome, PurgeRequest, ShardsOutcome,
};
use firn_engine::context::{
    CloseContexts, ClosedContext, ContextKind, OpenPointInTime, OpenedPointInTime, PointInTimeInfo, ScrollRequest,
};
use firn_engine::cost::SearchCost;
use firn_engine::document::{BulkRequest, BulkResponse, GetRequest, GetResult};
use firn_engine::fields::{FieldsInUse, FieldsInUseRequest};
use firn_engine::mounts::SearchableSnapshots;
use firn_engine::quarantine::{QuarantinedFolder, QuarantinedFolders};
use firn_engine::recovery::ShardRecovery;
use firn_engine::snapshot::{SnapshotErasure, SnapshotVerification, Snapshots};
use firn_engine::terms_enum::{TermsEnumRequest, TermsEnumResponse};
use firn_engine::{Capabilities, Engine, Knowledge, RequestContext, TenantUsage};
use firn_model::metadata::{Command, Metadata, Outcome};
use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};
use firn_query::query::Query;
use firn_query::search::{IndexTarget, QueryExplanation, SearchRequest, SearchResponse};
use firn_scheduler::{Flow, Pool};
use firn_search::NodeMemory;
use firn_search::result_cache::RequestCache;
use firn_segment::splits::dry_run::catch;
use firn_storage::OverlayBudget;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use self::command_queue::CommandQueue;
use self::contexts::Contexts;
use self::metadata_copies::IndexRecords;
pub use self::open::{DamagedShard, RecoveryReport};
use self::recovery_gate::RecoveringCount;
use self::scoped_view::Views;
use self::searching::InTime;
use self::state::{ShardFactory, State};
use self::tenant_fields::NarrowedMappings;
use crate::bulk::pressure::Pressure;
use crate::catalog::Catalog;
use crate::config::EmbeddedConfig;
use crate::data_folder::{CatalogCopy, Quarantine};
use crate::disk_watch::DiskWatch;
use crate::lock::NodeLock;
use crate::mounts::Mounts;
use crate::scrub::{DamageCounters, Scrub};
use crate::snapshots::{Repositories, check_operator};
use crate::ticker::{EVERYTHING_DUE, Ticker};
use crate::tiers::Tiers;

/// Engine on Tantivy: one machine, one data folder, one process.
///
/// Dropping it without [`Engine::close`] loses no acknowledged write; the next start has
/// more to replay.
pub struct Embedded {
    core: Arc<Core>,
    /// Tick number of the next [`Embedded::begin_due`], as the ticker counts.
    looks: AtomicU64,
    ticker: Mutex<Option<Ticker>>,
    recovery: RecoveryReport,
}

/// State shared by all parts of the engine.
pub(crate) struct Core {
    pub(crate) config: EmbeddedConfig,
    pub(crate) factory: ShardFactory,
    pub(crate) state: ArcSwap<State>,
    pub(crate) commands: Mutex<Commands>,
    /// Commands that wait for the catalog.
    command_queue: CommandQueue,
    /// Held until the engine is closed or dropped.
    lock: Mutex<Option<NodeLock>>,
    /// Folders that the catalog does not name.
    quarantine: Quarantine,
    /// Content of the quarantine.
    quarantined: Mutex<Vec<QuarantinedFolder>>,
    /// Serializes changes of the quarantine.
    quarantine_lock: Mutex<()>,
    /// Uuids of indices being adopted: their folders exist before the catalog names them, and stay if the command
    /// fails.
    adopting: Mutex<HashSet<String>>,
    index_records: IndexRecords,
    catalog_copy: CatalogCopy,
    /// Copies of metadata are queued or being written.
    copying_metadata: AtomicBool,
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
    recovery_threads: Mutex<Vec<JoinHandle<()>>>,
    /// Time when the engine was opened, ms since epoch UTC.
    started_ms: i64,
    closing: AtomicBool,
    /// Number of segments per shard above which writers merge too.
    pub(crate) segments_calm: AtomicU64,
    /// The engine was closed while a merge was still running.
    merges_left_behind: AtomicBool,
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

impl Embedded {
    /// Opens or creates a data folder: takes its lock, reads the catalog, opens every shard and
    /// replays the WAL after the last flush. Shards that take longer than [`EmbeddedConfig::start_patience`] are opened
    /// in the background. If a shard is damaged, only that shard fails. Blocks; call it outside of async threads.
    pub fn open(config: EmbeddedConfig) -> Result<Arc<Self>> {
        let (core, recovery) = open::open(config)?;
        let ticker = core.config.ticks.then(|| Ticker::start(Arc::clone(&core)));
        Ok(Arc::new(Self {
            core,
            looks: AtomicU64::new(EVERYTHING_DUE),
            ticker: Mutex::new(ticker),
            recovery,
        }))
    }

    /// Returns what [`Embedded::open`] found.
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.recovery
    }

    /// Checks once for all due background work and queues it on the pools, which may still run when this returns. The
    /// engine's clock does the same several times a second.
    pub fn begin_due(&self) {
        self.core.tick(self.looks.fetch_add(EVERYTHING_DUE, Ordering::Relaxed));
    }

    fn stop_background(&self) {
        self.core.closing.store(true, Ordering::Release);
        if let Some(ticker) = self.ticker.lock().take() {
            ticker.stop();
        }
        self.core.end_recovery();
        self.core.write_pool.close();
        self.core.get_pool.close();
        self.core.maintenance_pool.close();
        self.core.merge_pool.close();
        self.core.move_pool.close();
        self.core.repositories.stop();
        self.core.snapshot_pool.close();
        self.core.search_pool.close();
    }

    fn release_files(&self) {
        self.core.commands.lock().catalog = None;
        if !self.core.merges_left_behind.load(Ordering::Acquire) {
            *self.core.lock.lock() = None;
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop_background();
        self.release_files();
    }
}

#[async_trait]
impl Engine for Embedded {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        Some(self)
    }

    fn snapshot_erasure(&self) -> Option<&dyn SnapshotErasure> {
        Some(self)
    }

    fn snapshot_verification(&self) -> Option<&dyn SnapshotVerification> {
        Some(self)
    }

    fn mounts(&self) -> Option<&dyn SearchableSnapshots> {
        Some(self)
    }

    fn tiers(&self) -> Option<&dyn firn_engine::tiers::Tiers> {
        Some(self)
    }

    fn quarantine(&self) -> Option<&dyn QuarantinedFolders> {
        Some(self)
    }

    async fn metadata(&self, ctx: &RequestContext) -> Result<Arc<Metadata>> {
        let state = self.core.state();
        Ok(self.core.view(&state, &ctx.scope))
    }

    async fn metadata_with_mappings(&self, ctx: &RequestContext) -> Result<Arc<Metadata>> {
        if ctx.scope.tenant_id().is_none() {
            return self.metadata(ctx).await;
        }
        self.core.check_open()?;
        searching::on_search_pool(&self.core, ctx, |core, ctx| core.view_with_mappings(ctx)).await
    }

    async fn execute(&self, ctx: &RequestContext, command: Command) -> Result<Outcome> {
        self.core.check_open()?;
        let command = self.core.command_of(ctx, command)?;
        let core = Arc::clone(&self.core);
        let opens = matches!(command, Command::SetClosed { closed: false, .. });
        // Queued now, so that it is stored together with commands that already wait.
        let queued = core.queue_command(command);
        let outcome = run_on(&self.core.maintenance_pool, ctx, move || {
            let outcome = core.finish_command(queued)?;
            if opens {
                core.open_waiting_shards();
            }
            Ok(outcome)
        });
        let mut outcome = outcome
            .await
            .map_err(|error| ctx.tell(scoped_view::as_called(ctx, error)))?;
        if !ctx.scope.is_unlimited() {
            let state = self.core.state();
            outcome.metadata = Some(self.core.view(&state, &ctx.scope));
        }
        Ok(outcome)
    }

    async fn bulk(&self, ctx: &RequestContext, request: BulkRequest) -> Result<BulkResponse> {
        self.core.check_open()?;
        let mut response = crate::bulk::bulk(&self.core, ctx, request).await?;
        ctx.work.add_bulk(&response);
        for item in &mut response.items {
            if let Err(error) = &item.result {
                item.result = Err(ctx.tell(error.clone()));
            }
        }
        Ok(response)
    }

    async fn get(&self, ctx: &RequestContext, requests: Vec<GetRequest>) -> Result<Vec<Result<GetResult>>> {
        self.core.check_open()?;
        get::get_all(&self.core, ctx, requests).await
    }

    async fn explain_query(
        &self,
        ctx: &RequestContext,
        target: IndexTarget,
        query: Query,
    ) -> Result<Vec<QueryExplanation>> {
        self.core.check_open()?;
        let explain = move |core: &Core, ctx: &RequestContext| core.explain_query(ctx, &target, &query);
        let mut explanations = searching::on_search_pool(&self.core, ctx, explain).await?;
        for explanation in &mut explanations {
            if let Err(error) = &mut explanation.outcome {
                *error = searching::told(ctx, error.clone());
            }
        }
        Ok(explanations)
    }

    async fn search(&self, ctx: &RequestContext, request: SearchRequest) -> Result<SearchResponse> {
        self.core.check_open()?;
        let asked = self.core.asked(ctx, &request);
        if let Some(response) = asked.as_ref().and_then(|asked| self.core.answered(ctx, asked)) {
            ctx.work.add_search(&response);
            return Ok(response);
        }
        let timeout = request.timeout;
        let search = move |core: &Core, ctx: &RequestContext, request| core.search_now(ctx, request, asked);
        let mut response = match searching::in_time_on_search_pool(&self.core, ctx, timeout, request, search).await? {
            InTime::Done(response) => response,
            InTime::Late(request) => {
                let unsearched = self.core.unsearched(ctx, request);
                unsearched.map_err(|error| searching::told(ctx, error))?
            }
        };
        searching::tell_failures(ctx, &mut response.shards.failures);
        ctx.work.add_search(&response);
        Ok(response)
    }

    async fn search_cost(&self, ctx: &RequestContext, request: SearchRequest) -> Result<Knowledge<SearchCost>> {
        self.core.check_open()?;
        let cost = searching::on_search_pool(&self.core, ctx, move |core, ctx| core.search_cost(ctx, &request));
        cost.await.map(Knowledge::Known)
    }

    async fn fields_in_use(
        &self,
        ctx: &RequestContext,
        request: FieldsInUseRequest,
    ) -> Result<Knowledge<Vec<FieldsInUse>>> {
        self.core.check_open()?;
        let fields = searching::on_search_pool(&self.core, ctx, move |core, ctx| core.fields_in_use(ctx, &request));
        fields.await.map(Knowledge::Known)
    }

    async fn terms_enum(&self, ctx: &RequestContext, request: TermsEnumRequest) -> Result<TermsEnumResponse> {
        self.core.check_open()?;
        let look = move |core: &Core, ctx: &RequestContext| core.terms_enum(ctx, &request);
        let mut response = searching::on_search_pool(&self.core, ctx, look).await?;
        searching::tell_failures(ctx, &mut response.shards.failures);
        Ok(response)
    }

    async fn open_point_in_time(&self, ctx: &RequestContext, request: OpenPointInTime) -> Result<OpenedPointInTime> {
        self.core.check_open()?;
        let open = move |core: &Core, ctx: &RequestContext| core.open_point_in_time(ctx, &request);
        let mut opened = searching::on_search_pool(&self.core, ctx, open).await?;
        searching::tell_failures(ctx, &mut opened.shards.failures);
        Ok(opened)
    }

    async fn points_in_time(&self, ctx: &RequestContext) -> Result<Vec<PointInTimeInfo>> {
        Ok(self.core.contexts.points_in_time(&ctx.scope))
    }

    async fn scroll(&self, ctx: &RequestContext, request: ScrollRequest) -> Result<SearchResponse> {
        self.core.check_open()?;
        let page = move |core: &Core, ctx: &RequestContext| core.next_page(ctx, &request);
        let mut response = searching::on_search_pool(&self.core, ctx, page).await?;
        searching::tell_failures(ctx, &mut response.shards.failures);
        ctx.work.add_search(&response);
        Ok(response)
    }

    async fn close_contexts(
        &self,
        ctx: &RequestContext,
        kind: ContextKind,
        which: CloseContexts,
    ) -> Result<Vec<ClosedContext>> {
        self.core.contexts.close(&ctx.scope, kind, &which)
    }

    async fn refresh(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome> {
        self.core.check_open()?;
        self.core.wait_for_target(ctx, &target).await?;
        let (core, its) = (Arc::clone(&self.core), ctx.clone());
        run_on(&self.core.maintenance_pool, ctx, move || core.refresh(&its, &target)).await
    }

    async fn flush(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome> {
        self.core.check_open()?;
        self.core.wait_for_target(ctx, &target).await?;
        let (core, its) = (Arc::clone(&self.core), ctx.clone());
        run_on(&self.core.maintenance_pool, ctx, move || core.flush(&its, &target)).await
    }

    async fn clear_cache(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome> {
        self.core.check_open()?;
        let (core, its) = (Arc::clone(&self.core), ctx.clone());
        run_on(&self.core.maintenance_pool, ctx, move || {
            core.clear_cache(&its, &target)
        })
        .await
    }

    async fn force_merge(&self, ctx: &RequestContext, request: ForceMergeRequest) -> Result<ShardsOutcome> {
        self.core.check_open()?;
        let (core, its) = (Arc::clone(&self.core), ctx.clone());
        run_on(&self.core.merge_pool, ctx, move || core.force_merge(&its, &request)).await
    }

    async fn purge_tenant(&self, ctx: &RequestContext, request: PurgeRequest) -> Result<PurgeOutcome> {
        self.core.check_open()?;
        let (core, ctx) = (Arc::clone(&self.core), ctx.clone());
        run_on(&self.core.merge_pool, &ctx.clone(), move || {
            core.purge_tenant(&ctx, &request)
        })
        .await
    }

    async fn drop_unused_of(&self, ctx: &RequestContext, tenant: TenantId) -> Result<Knowledge<Vec<String>>> {
        self.core.check_open()?;
        let (core, its) = (Arc::clone(&self.core), ctx.clone());
        run_on(&self.core.maintenance_pool, ctx, move || {
            core.drop_unused_of(&its, &tenant).map(Knowledge::Known)
        })
        .await
    }

    async fn stats(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Vec<IndexStats>> {
        let (core, its) = (Arc::clone(&self.core), ctx.clone());
        run_on(&self.core.get_pool, ctx, move || core.stats(&its, &target)).await
    }

    async fn recoveries(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Knowledge<Vec<ShardRecovery>>> {
        check_operator(ctx)?;
        let (core, its) = (Arc::clone(&self.core), ctx.clone());
        let recoveries = run_on(&self.core.get_pool, ctx, move || core.recoveries(&its, &target));
        recoveries.await.map(Knowledge::Known)
    }

    async fn node_stats(&self, _ctx: &RequestContext) -> Result<NodeStats> {
        Ok(self.core.node_stats())
    }

    async fn tenant_usage(&self, ctx: &RequestContext) -> Result<Knowledge<Vec<TenantUsage>>> {
        let core = Arc::clone(&self.core);
        let mut usage = run_on(&self.core.get_pool, ctx, move || core.tenant_usage()).await?;
        if let Some(own) = ctx.scope.tenant_id() {
            usage.retain(|usage| *usage.tenant == *own.as_str());
        }
        Ok(Knowledge::Known(usage))
    }

    async fn analyze(&self, ctx: &RequestContext, request: AnalyzeRequest) -> Result<Vec<AnalyzedToken>> {
        self.core.check_open()?;
        run_on(&self.core.get_pool, ctx, move || admin::analyze(&request)).await
    }

    async fn close(&self) -> Result<()> {
        // On a separate thread, so that the caller's timers (a deadline, a second Ctrl-C) keep running.
        let (sender, receiver) = oneshot::channel();
        self.core.closing.store(true, Ordering::Release);
        let ticker = self.ticker.lock().take();
        let core = Arc::clone(&self.core);
        std::thread::Builder::new()
            .name("close".to_owned())
            .spawn(move || {
                if let Some(ticker) = ticker {
                    ticker.stop();
                }
                let _ = sender.send(core.close());
            })
            .map_err(Error::from)?;
        receiver.await.unwrap_or_else(|_| Err(panicked()))
    }
}
