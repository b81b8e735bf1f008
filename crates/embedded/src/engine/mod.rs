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
mod core;
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

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
use firn_engine::quarantine::QuarantinedFolders;
use firn_engine::recovery::ShardRecovery;
use firn_engine::snapshot::{SnapshotErasure, SnapshotVerification, Snapshots};
use firn_engine::terms_enum::{TermsEnumRequest, TermsEnumResponse};
use firn_engine::{Capabilities, Engine, Knowledge, RequestContext, TenantUsage};
use firn_model::metadata::{Command, Metadata, Outcome};
use firn_model::tenant::TenantId;
use firn_model::{Error, Result};
use firn_query::query::Query;
use firn_query::search::{IndexTarget, QueryExplanation, SearchRequest, SearchResponse};
use parking_lot::Mutex;
use tokio::sync::oneshot;

pub(crate) use self::core::{Commands, Core, closing_error, panicked, run_on};
pub use self::open::{DamagedShard, RecoveryReport};
use self::searching::InTime;
use crate::config::EmbeddedConfig;
use crate::snapshots::check_operator;
use crate::ticker::{EVERYTHING_DUE, Ticker};

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
        let mut outcome = outcome.await?;
        if !ctx.scope.is_unlimited() {
            let state = self.core.state();
            outcome.metadata = Some(self.core.view(&state, &ctx.scope));
        }
        Ok(outcome)
    }

    async fn bulk(&self, ctx: &RequestContext, request: BulkRequest) -> Result<BulkResponse> {
        self.core.check_open()?;
        let response = crate::bulk::bulk(&self.core, ctx, request).await?;
        ctx.work.add_bulk(&response);
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
        searching::on_search_pool(&self.core, ctx, explain).await
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
        let response = match searching::in_time_on_search_pool(&self.core, ctx, timeout, request, search).await? {
            InTime::Done(response) => response,
            InTime::Late(request) => self.core.unsearched(ctx, request)?,
        };
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
        searching::on_search_pool(&self.core, ctx, look).await
    }

    async fn open_point_in_time(&self, ctx: &RequestContext, request: OpenPointInTime) -> Result<OpenedPointInTime> {
        self.core.check_open()?;
        let open = move |core: &Core, ctx: &RequestContext| core.open_point_in_time(ctx, &request);
        searching::on_search_pool(&self.core, ctx, open).await
    }

    async fn points_in_time(&self, ctx: &RequestContext) -> Result<Vec<PointInTimeInfo>> {
        Ok(self.core.contexts.points_in_time(&ctx.scope))
    }

    async fn scroll(&self, ctx: &RequestContext, request: ScrollRequest) -> Result<SearchResponse> {
        self.core.check_open()?;
        let page = move |core: &Core, ctx: &RequestContext| core.next_page(ctx, &request);
        let response = searching::on_search_pool(&self.core, ctx, page).await?;
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
        let usage = run_on(&self.core.get_pool, ctx, move || core.tenant_usage());
        usage.await.map(Knowledge::Known)
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
