//! [`Embedded`]: the engine on one machine.
//!
//! Fixed worker pools run all heavy work, none runs on the threads of the async runtime: writes and
//! searches (which share the cores fairly between tenants), reads by id, maintenance (commands, refreshes,
//! flushes), and merges. State is published as a whole ([`crate::node::state::State`]); commands are executed serially
//! and stored before they are published. The thread that synced the WAL of a write sends its
//! answer; no thread waits for a sync.

mod addressed;
pub(crate) mod addressing;
mod admin;
mod can_match;
mod close;
mod cluster_settings;
mod command_queue;
mod command_scope;
pub(crate) mod commands;
pub(crate) mod contexts;
mod device_stats;
mod fields_in_use;
mod get;
pub(crate) mod mapping;
pub(crate) mod metadata_copies;
mod mounting;
mod narrowed_mappings;
mod open;
mod paging;
mod purge;
mod quarantine;
mod quarantine_service;
mod recoveries;
mod response_cache;
mod search_cost;
mod search_service;
mod searching;
mod services;
pub(crate) mod shard_opener;
mod snapshots;
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
    AnalyzeRequest, AnalyzedToken, ForceMergeRequest, IndexStats, NodeStats, PurgeOutcome, PurgeRequest,
    ShardCheckpoint, ShardsOutcome,
};
use firn_engine::context::{
    CloseContexts, ClosedContext, ContextKind, OpenPointInTime, OpenedPointInTime, PointInTimeInfo, ScrollRequest,
};
use firn_engine::cost::SearchCost;
use firn_engine::document::{BulkRequest, BulkResponse, GetRequest, GetResult};
use firn_engine::fields::{FieldsInUse, FieldsInUseRequest};
use firn_engine::mounts::SearchableSnapshots;
use firn_engine::origin::SourcePosition;
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

use self::search_service::SearchService;
use self::searching::InTime;
use self::services::Services;
pub use self::shard_opener::{DamagedShard, RecoveryReport};
use crate::config::EmbeddedConfig;
use crate::node::closing_error;
use crate::node::pools::{panicked, run_on};
use crate::operators::check_operator;
use crate::ticker::{EVERYTHING_DUE, Ticker};

/// Engine on Tantivy: one machine, one data folder, one process.
///
/// Dropping it without [`Engine::close`] loses no acknowledged write; the next start has
/// more to replay.
pub struct Embedded {
    services: Arc<Services>,
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
        let (services, recovery) = open::open(config)?;
        let ticker = services
            .node
            .config
            .ticks
            .then(|| Ticker::start(Arc::clone(&services.upkeep)));
        Ok(Arc::new(Self {
            services,
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
        self.services
            .upkeep
            .tick(self.looks.fetch_add(EVERYTHING_DUE, Ordering::Relaxed));
    }

    fn stop_background(&self) {
        self.services.node.closing.store(true, Ordering::Release);
        if let Some(ticker) = self.ticker.lock().take() {
            ticker.stop();
        }
        self.services.opener.end_recovery();
        self.services.pools.write.close();
        self.services.pools.get.close();
        self.services.pools.maintenance.close();
        self.services.pools.merge.close();
        self.services.pools.relocation.close();
        self.services.repositories.stop();
        self.services.pools.snapshot.close();
        self.services.pools.search.close();
    }

    /// Releases the data folder. Write-ahead logs are abandoned before: their syncs would go on after the folder has its
    /// next owner.
    fn release_files(&self) {
        self.services.positions.abandon(closing_error());
        for (_, slot) in self.services.node.state().slots() {
            if let Ok(shard) = slot.shard() {
                shard.stop_writing();
            }
        }
        self.services.commands.serial.lock().catalog = None;
        if !self.services.merges_left_behind.load(Ordering::Acquire) {
            *self.services.lock.lock() = None;
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
        let state = self.services.node.state();
        Ok(self.services.node.view(&state, &ctx.scope))
    }

    async fn metadata_with_mappings(&self, ctx: &RequestContext) -> Result<Arc<Metadata>> {
        if ctx.scope.tenant_id().is_none() {
            return self.metadata(ctx).await;
        }
        self.services.node.check_open()?;
        searching::on_search_pool(&self.services.searches, ctx, |searches, ctx| {
            searches.view_with_mappings(ctx)
        })
        .await
    }

    async fn execute(&self, ctx: &RequestContext, command: Command) -> Result<Outcome> {
        self.services.node.check_open()?;
        let command = self.services.commands.command_of(ctx, command)?;
        let services = Arc::clone(&self.services);
        let opens = matches!(command, Command::SetClosed { closed: false, .. });
        // Queued now, so that it is stored together with commands that already wait.
        let queued = services.commands.queue_command(command);
        let outcome = run_on(&self.services.pools.maintenance, ctx, move || {
            let outcome = services.commands.finish_command(queued)?;
            if opens {
                services.opener.open_waiting_shards();
            }
            Ok(outcome)
        });
        let mut outcome = outcome.await?;
        if !ctx.scope.is_unlimited() {
            let state = self.services.node.state();
            outcome.metadata = Some(self.services.node.view(&state, &ctx.scope));
        }
        Ok(outcome)
    }

    async fn bulk(&self, ctx: &RequestContext, request: BulkRequest) -> Result<BulkResponse> {
        self.services.node.check_open()?;
        let response = crate::bulk::bulk(&self.services.writes, ctx, request).await?;
        ctx.work.add_bulk(&response);
        Ok(response)
    }

    async fn get(&self, ctx: &RequestContext, requests: Vec<GetRequest>) -> Result<Vec<Result<GetResult>>> {
        self.services.node.check_open()?;
        get::get_all(&self.services.searches, ctx, requests).await
    }

    async fn explain_query(
        &self,
        ctx: &RequestContext,
        target: IndexTarget,
        query: Query,
    ) -> Result<Vec<QueryExplanation>> {
        self.services.node.check_open()?;
        let explain =
            move |searches: &SearchService, ctx: &RequestContext| searches.explain_query(ctx, &target, &query);
        searching::on_search_pool(&self.services.searches, ctx, explain).await
    }

    async fn search(&self, ctx: &RequestContext, request: SearchRequest) -> Result<SearchResponse> {
        self.services.node.check_open()?;
        let key = self.services.searches.response_key(ctx, &request);
        if let Some(response) = key.as_ref().and_then(|key| self.services.searches.answered(ctx, key)) {
            ctx.work.add_search(&response);
            return Ok(response);
        }
        let timeout = request.timeout;
        let search =
            move |searches: &SearchService, ctx: &RequestContext, request| searches.search_now(ctx, request, key);
        let response =
            match searching::in_time_on_search_pool(&self.services.searches, ctx, timeout, request, search).await? {
                InTime::Done(response) => response,
                InTime::Late(request) => self.services.searches.unsearched(ctx, request)?,
            };
        ctx.work.add_search(&response);
        Ok(response)
    }

    async fn search_cost(&self, ctx: &RequestContext, request: SearchRequest) -> Result<Knowledge<SearchCost>> {
        self.services.node.check_open()?;
        let cost = searching::on_search_pool(&self.services.searches, ctx, move |searches, ctx| {
            searches.search_cost(ctx, &request)
        });
        cost.await.map(Knowledge::Known)
    }

    async fn fields_in_use(
        &self,
        ctx: &RequestContext,
        request: FieldsInUseRequest,
    ) -> Result<Knowledge<Vec<FieldsInUse>>> {
        self.services.node.check_open()?;
        let fields = searching::on_search_pool(&self.services.searches, ctx, move |searches, ctx| {
            searches.fields_in_use(ctx, &request)
        });
        fields.await.map(Knowledge::Known)
    }

    async fn terms_enum(&self, ctx: &RequestContext, request: TermsEnumRequest) -> Result<TermsEnumResponse> {
        self.services.node.check_open()?;
        let look = move |searches: &SearchService, ctx: &RequestContext| searches.terms_enum(ctx, &request);
        searching::on_search_pool(&self.services.searches, ctx, look).await
    }

    async fn open_point_in_time(&self, ctx: &RequestContext, request: OpenPointInTime) -> Result<OpenedPointInTime> {
        self.services.node.check_open()?;
        let open = move |searches: &SearchService, ctx: &RequestContext| searches.open_point_in_time(ctx, &request);
        searching::on_search_pool(&self.services.searches, ctx, open).await
    }

    async fn points_in_time(&self, ctx: &RequestContext) -> Result<Vec<PointInTimeInfo>> {
        Ok(self.services.contexts.points_in_time(&ctx.scope))
    }

    async fn scroll(&self, ctx: &RequestContext, request: ScrollRequest) -> Result<SearchResponse> {
        self.services.node.check_open()?;
        let page = move |searches: &SearchService, ctx: &RequestContext| searches.next_page(ctx, &request);
        let response = searching::on_search_pool(&self.services.searches, ctx, page).await?;
        ctx.work.add_search(&response);
        Ok(response)
    }

    async fn close_contexts(
        &self,
        ctx: &RequestContext,
        kind: ContextKind,
        which: CloseContexts,
    ) -> Result<Vec<ClosedContext>> {
        self.services.contexts.close(&ctx.scope, kind, &which)
    }

    async fn refresh(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome> {
        self.services.node.check_open()?;
        self.services.gates.wait_for_target(ctx, &target).await?;
        let (services, its) = (Arc::clone(&self.services), ctx.clone());
        run_on(&self.services.pools.maintenance, ctx, move || {
            services.refresh(&its, &target)
        })
        .await
    }

    async fn checkpoints(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Knowledge<Vec<ShardCheckpoint>>> {
        check_operator(ctx)?;
        self.services.node.check_open()?;
        self.services.gates.wait_for_target(ctx, &target).await?;
        let (services, its) = (Arc::clone(&self.services), ctx.clone());
        run_on(&self.services.pools.maintenance, ctx, move || {
            services.checkpoints(&its, &target).map(Knowledge::Known)
        })
        .await
    }

    async fn flush(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome> {
        self.services.node.check_open()?;
        self.services.gates.wait_for_target(ctx, &target).await?;
        let (services, its) = (Arc::clone(&self.services), ctx.clone());
        run_on(&self.services.pools.maintenance, ctx, move || {
            services.flush(&its, &target)
        })
        .await
    }

    async fn clear_cache(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome> {
        self.services.node.check_open()?;
        let (services, its) = (Arc::clone(&self.services), ctx.clone());
        run_on(&self.services.pools.maintenance, ctx, move || {
            services.clear_cache(&its, &target)
        })
        .await
    }

    async fn force_merge(&self, ctx: &RequestContext, request: ForceMergeRequest) -> Result<ShardsOutcome> {
        self.services.node.check_open()?;
        let (services, its) = (Arc::clone(&self.services), ctx.clone());
        run_on(&self.services.pools.merge, ctx, move || {
            services.force_merge(&its, &request)
        })
        .await
    }

    async fn purge_tenant(&self, ctx: &RequestContext, request: PurgeRequest) -> Result<PurgeOutcome> {
        self.services.node.check_open()?;
        let (services, ctx) = (Arc::clone(&self.services), ctx.clone());
        run_on(&self.services.pools.merge, &ctx.clone(), move || {
            services.purge_tenant(&ctx, &request)
        })
        .await
    }

    async fn drop_unused_of(&self, ctx: &RequestContext, tenant: TenantId) -> Result<Knowledge<Vec<String>>> {
        self.services.node.check_open()?;
        let (services, its) = (Arc::clone(&self.services), ctx.clone());
        run_on(&self.services.pools.maintenance, ctx, move || {
            services.drop_unused_of(&its, &tenant).map(Knowledge::Known)
        })
        .await
    }

    async fn stats(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Vec<IndexStats>> {
        let (services, its) = (Arc::clone(&self.services), ctx.clone());
        run_on(&self.services.pools.get, ctx, move || services.stats(&its, &target)).await
    }

    async fn recoveries(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Knowledge<Vec<ShardRecovery>>> {
        check_operator(ctx)?;
        let (services, its) = (Arc::clone(&self.services), ctx.clone());
        let recoveries = run_on(&self.services.pools.get, ctx, move || {
            services.recoveries(&its, &target)
        });
        recoveries.await.map(Knowledge::Known)
    }

    async fn node_stats(&self, _ctx: &RequestContext) -> Result<NodeStats> {
        Ok(self.services.node_stats())
    }

    async fn source_positions(&self, ctx: &RequestContext, source: &str) -> Result<Knowledge<Vec<SourcePosition>>> {
        ctx.check()?;
        self.services.node.check_open()?;
        self.services.positions.of_source(source).map(Knowledge::Known)
    }

    async fn source_position(
        &self,
        ctx: &RequestContext,
        source: &str,
        partition: &str,
    ) -> Result<Knowledge<Option<SourcePosition>>> {
        ctx.check()?;
        self.services.node.check_open()?;
        let position = self.services.positions.of_partition(source, partition);
        position.map(Knowledge::Known)
    }

    async fn forget_source_positions(
        &self,
        ctx: &RequestContext,
        source: &str,
        partitions: &[String],
    ) -> Result<Knowledge<u64>> {
        check_operator(ctx)?;
        self.services.node.check_open()?;
        self.services.positions.forget(source, partitions).map(Knowledge::Known)
    }

    async fn tenant_usage(&self, ctx: &RequestContext) -> Result<Knowledge<Vec<TenantUsage>>> {
        let services = Arc::clone(&self.services);
        let usage = run_on(&self.services.pools.get, ctx, move || services.tenant_usage());
        usage.await.map(Knowledge::Known)
    }

    async fn analyze(&self, ctx: &RequestContext, request: AnalyzeRequest) -> Result<Vec<AnalyzedToken>> {
        self.services.node.check_open()?;
        run_on(&self.services.pools.get, ctx, move || admin::analyze(&request)).await
    }

    async fn close(&self) -> Result<()> {
        // On a separate thread, so that the caller's timers (a deadline, a second Ctrl-C) keep running.
        let (sender, receiver) = oneshot::channel();
        self.services.node.closing.store(true, Ordering::Release);
        let ticker = self.ticker.lock().take();
        let services = Arc::clone(&self.services);
        std::thread::Builder::new()
            .name("close".to_owned())
            .spawn(move || {
                if let Some(ticker) = ticker {
                    ticker.stop();
                }
                let _ = sender.send(services.close());
            })
            .map_err(Error::from)?;
        receiver.await.unwrap_or_else(|_| Err(panicked()))
    }
}
