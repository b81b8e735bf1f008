//! [`Disclosed`]: decorator that applies the disclosure rules to the answers of an engine.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use firn_model::metadata::{Command, Metadata, Outcome};
use firn_model::tenant::TenantId;
use firn_query::query::Query;
use firn_query::search::{IndexTarget, QueryExplanation, SearchRequest, SearchResponse};

use super::{disclose_error, disclose_failures, log_withheld, rules};
use crate::admin::{
    AnalyzeRequest, AnalyzedToken, DeviceStats, ForceMergeRequest, IndexStats, NodeStats, PurgeOutcome, PurgeRequest,
    ShardCheckpoint, ShardsOutcome,
};
use crate::capabilities::{Capabilities, Knowledge};
use crate::context::{
    CloseContexts, ClosedContext, ContextKind, OpenPointInTime, OpenedPointInTime, PointInTimeInfo, ScrollRequest,
};
use crate::cost::SearchCost;
use crate::document::{BulkRequest, BulkResponse, GetRequest, GetResult};
use crate::fields::{FieldsInUse, FieldsInUseRequest};
use crate::mounts::{MountSnapshot, Mounted, MountedShardStats, SearchableSnapshots, SharedCacheStats};
use crate::origin::SourcePosition;
use crate::quarantine::{QuarantinedFolder, QuarantinedFolders};
use crate::recovery::ShardRecovery;
use crate::snapshot::{SnapshotErasure, SnapshotVerification, Snapshots};
use crate::terms_enum::{TermsEnumRequest, TermsEnumResponse};
use crate::tiers::{ShardMove, Tiers};
use crate::{Engine, RequestContext, Result, TenantUsage};

/// Engine whose answers and errors say no more than the caller of the request may see.
///
/// The snapshot operations are for operators only, so they are those of the engine itself.
pub struct Disclosed {
    engine: Arc<dyn Engine>,
}

impl Disclosed {
    /// Wraps an engine.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    fn require_mounts(&self) -> Result<&dyn SearchableSnapshots> {
        self.engine.require_mounts()
    }
}

/// Applies the rules to the error of a request.
trait DiscloseError<T> {
    fn disclosed(self, ctx: &RequestContext) -> Result<T>;
}

impl<T> DiscloseError<T> for Result<T> {
    fn disclosed(self, ctx: &RequestContext) -> Result<T> {
        self.map_err(|error| disclose_error(ctx, error))
    }
}

/// Returns the context for the engine: partial results of a tenant's search are published under the rules, too.
fn with_disclosed_progress(ctx: &RequestContext) -> Cow<'_, RequestContext> {
    match (&ctx.progress, ctx.scope.tenant_id()) {
        (Some(progress), Some(_)) => Cow::Owned(RequestContext {
            progress: Some(Arc::new(progress.disclosed_to(&ctx.scope, rules::disclose_failures))),
            ..ctx.clone()
        }),
        _ => Cow::Borrowed(ctx),
    }
}

#[async_trait]
impl Engine for Disclosed {
    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        self.engine.snapshots()
    }

    fn snapshot_erasure(&self) -> Option<&dyn SnapshotErasure> {
        self.engine.snapshot_erasure()
    }

    fn snapshot_verification(&self) -> Option<&dyn SnapshotVerification> {
        self.engine.snapshot_verification()
    }

    fn mounts(&self) -> Option<&dyn SearchableSnapshots> {
        self.engine.mounts().map(|_| self as &dyn SearchableSnapshots)
    }

    fn tiers(&self) -> Option<&dyn Tiers> {
        self.engine.tiers().map(|_| self as &dyn Tiers)
    }

    fn quarantine(&self) -> Option<&dyn QuarantinedFolders> {
        self.engine.quarantine().map(|_| self as &dyn QuarantinedFolders)
    }

    async fn metadata(&self, ctx: &RequestContext) -> Result<Arc<Metadata>> {
        self.engine.metadata(ctx).await.disclosed(ctx)
    }

    async fn metadata_with_mappings(&self, ctx: &RequestContext) -> Result<Arc<Metadata>> {
        self.engine.metadata_with_mappings(ctx).await.disclosed(ctx)
    }

    async fn execute(&self, ctx: &RequestContext, command: Command) -> Result<Outcome> {
        self.engine.execute(ctx, command).await.map_err(|error| {
            log_withheld(&ctx.scope, error.index(), &error);
            rules::disclose_command_error(ctx, error)
        })
    }

    async fn bulk(&self, ctx: &RequestContext, request: BulkRequest) -> Result<BulkResponse> {
        let mut response = self.engine.bulk(ctx, request).await.disclosed(ctx)?;
        for item in &mut response.items {
            if let Err(error) = &mut item.result {
                *error = disclose_error(ctx, error.clone());
            }
        }
        Ok(response)
    }

    async fn get(&self, ctx: &RequestContext, requests: Vec<GetRequest>) -> Result<Vec<Result<GetResult>>> {
        let results = self.engine.get(ctx, requests).await.disclosed(ctx)?;
        Ok(results.into_iter().map(|result| result.disclosed(ctx)).collect())
    }

    async fn explain_query(
        &self,
        ctx: &RequestContext,
        target: IndexTarget,
        query: Query,
    ) -> Result<Vec<QueryExplanation>> {
        let mut explanations = self.engine.explain_query(ctx, target, query).await.disclosed(ctx)?;
        for explanation in &mut explanations {
            if let Err(error) = &mut explanation.outcome {
                *error = disclose_error(ctx, error.clone());
            }
        }
        Ok(explanations)
    }

    async fn search(&self, ctx: &RequestContext, request: SearchRequest) -> Result<SearchResponse> {
        let published = with_disclosed_progress(ctx);
        let mut response = self.engine.search(&published, request).await.disclosed(ctx)?;
        disclose_failures(ctx, &mut response.shards.failures);
        Ok(response)
    }

    async fn search_cost(&self, ctx: &RequestContext, request: SearchRequest) -> Result<Knowledge<SearchCost>> {
        self.engine.search_cost(ctx, request).await.disclosed(ctx)
    }

    async fn fields_in_use(
        &self,
        ctx: &RequestContext,
        request: FieldsInUseRequest,
    ) -> Result<Knowledge<Vec<FieldsInUse>>> {
        self.engine.fields_in_use(ctx, request).await.disclosed(ctx)
    }

    async fn terms_enum(&self, ctx: &RequestContext, request: TermsEnumRequest) -> Result<TermsEnumResponse> {
        let mut response = self.engine.terms_enum(ctx, request).await.disclosed(ctx)?;
        disclose_failures(ctx, &mut response.shards.failures);
        Ok(response)
    }

    async fn open_point_in_time(&self, ctx: &RequestContext, request: OpenPointInTime) -> Result<OpenedPointInTime> {
        let mut opened = self.engine.open_point_in_time(ctx, request).await.disclosed(ctx)?;
        disclose_failures(ctx, &mut opened.shards.failures);
        Ok(opened)
    }

    async fn points_in_time(&self, ctx: &RequestContext) -> Result<Vec<PointInTimeInfo>> {
        self.engine.points_in_time(ctx).await.disclosed(ctx)
    }

    async fn scroll(&self, ctx: &RequestContext, request: ScrollRequest) -> Result<SearchResponse> {
        let mut response = self.engine.scroll(ctx, request).await.disclosed(ctx)?;
        disclose_failures(ctx, &mut response.shards.failures);
        Ok(response)
    }

    async fn close_contexts(
        &self,
        ctx: &RequestContext,
        kind: ContextKind,
        which: CloseContexts,
    ) -> Result<Vec<ClosedContext>> {
        self.engine.close_contexts(ctx, kind, which).await.disclosed(ctx)
    }

    async fn refresh(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome> {
        let outcome = self.engine.refresh(ctx, target).await;
        of_shards(ctx, outcome)
    }

    async fn checkpoints(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Knowledge<Vec<ShardCheckpoint>>> {
        let checkpoints = self.engine.checkpoints(ctx, target).await.disclosed(ctx)?;
        Ok(checkpoints.map(|checkpoints| rules::disclose_checkpoints(&ctx.scope, checkpoints)))
    }

    async fn flush(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome> {
        let outcome = self.engine.flush(ctx, target).await;
        of_shards(ctx, outcome)
    }

    async fn clear_cache(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome> {
        let outcome = self.engine.clear_cache(ctx, target).await;
        of_shards(ctx, outcome)
    }

    async fn force_merge(&self, ctx: &RequestContext, request: ForceMergeRequest) -> Result<ShardsOutcome> {
        let outcome = self.engine.force_merge(ctx, request).await;
        of_shards(ctx, outcome)
    }

    async fn purge_tenant(&self, ctx: &RequestContext, request: PurgeRequest) -> Result<PurgeOutcome> {
        self.engine.purge_tenant(ctx, request).await.disclosed(ctx)
    }

    async fn drop_unused_of(&self, ctx: &RequestContext, tenant: TenantId) -> Result<Knowledge<Vec<String>>> {
        self.engine.drop_unused_of(ctx, tenant).await.disclosed(ctx)
    }

    async fn stats(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Vec<IndexStats>> {
        let stats = self.engine.stats(ctx, target).await.disclosed(ctx)?;
        Ok(rules::disclose_stats(&ctx.scope, stats))
    }

    async fn recoveries(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Knowledge<Vec<ShardRecovery>>> {
        self.engine.recoveries(ctx, target).await.disclosed(ctx)
    }

    async fn node_stats(&self, ctx: &RequestContext) -> Result<NodeStats> {
        self.engine.node_stats(ctx).await.disclosed(ctx)
    }

    async fn source_positions(&self, ctx: &RequestContext, source: &str) -> Result<Knowledge<Vec<SourcePosition>>> {
        let positions = self.engine.source_positions(ctx, source).await.disclosed(ctx)?;
        Ok(positions.map(|positions| rules::disclose_positions(&ctx.scope, positions)))
    }

    async fn source_position(
        &self,
        ctx: &RequestContext,
        source: &str,
        partition: &str,
    ) -> Result<Knowledge<Option<SourcePosition>>> {
        let position = self.engine.source_position(ctx, source, partition).await;
        let position = position.disclosed(ctx)?;
        Ok(position.map(|position| {
            let position = position.into_iter().collect();
            rules::disclose_positions(&ctx.scope, position).pop()
        }))
    }

    async fn forget_source_positions(
        &self,
        ctx: &RequestContext,
        source: &str,
        partitions: &[String],
    ) -> Result<Knowledge<u64>> {
        let forgotten = self.engine.forget_source_positions(ctx, source, partitions).await;
        forgotten.disclosed(ctx)
    }

    async fn tenant_usage(&self, ctx: &RequestContext) -> Result<Knowledge<Vec<TenantUsage>>> {
        let usage = self.engine.tenant_usage(ctx).await.disclosed(ctx)?;
        Ok(usage.map(|usage| rules::disclose_usage(&ctx.scope, usage)))
    }

    async fn analyze(&self, ctx: &RequestContext, request: AnalyzeRequest) -> Result<Vec<AnalyzedToken>> {
        self.engine.analyze(ctx, request).await.disclosed(ctx)
    }

    async fn close(&self) -> Result<()> {
        self.engine.close().await
    }
}

fn of_shards(ctx: &RequestContext, outcome: Result<ShardsOutcome>) -> Result<ShardsOutcome> {
    let mut outcome = outcome.disclosed(ctx)?;
    disclose_failures(ctx, &mut outcome.failures);
    Ok(outcome)
}

#[async_trait]
impl SearchableSnapshots for Disclosed {
    async fn mount_snapshot(&self, ctx: &RequestContext, request: MountSnapshot) -> Result<Mounted> {
        self.require_mounts()?.mount_snapshot(ctx, request).await.disclosed(ctx)
    }

    async fn mounted_shards(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Vec<MountedShardStats>> {
        self.require_mounts()?.mounted_shards(ctx, target).await.disclosed(ctx)
    }

    async fn shared_cache_stats(&self, ctx: &RequestContext) -> Result<Option<SharedCacheStats>> {
        self.require_mounts()?.shared_cache_stats(ctx).await.disclosed(ctx)
    }

    async fn pin_shared_cache(
        &self,
        ctx: &RequestContext,
        target: IndexTarget,
        pinned: bool,
    ) -> Result<Vec<(String, u64)>> {
        let mounts = self.require_mounts()?;
        mounts.pin_shared_cache(ctx, target, pinned).await.disclosed(ctx)
    }

    fn set_shared_cache_quota(&self, tenant: &TenantId, bytes: Option<u64>) {
        if let Some(mounts) = self.engine.mounts() {
            mounts.set_shared_cache_quota(tenant, bytes);
        }
    }

    async fn clear_shared_cache(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome> {
        let outcome = self.require_mounts()?.clear_shared_cache(ctx, target).await;
        of_shards(ctx, outcome)
    }
}

#[async_trait]
impl Tiers for Disclosed {
    async fn devices(&self, ctx: &RequestContext) -> Result<Vec<DeviceStats>> {
        self.engine.require_tiers()?.devices(ctx).await.disclosed(ctx)
    }

    async fn moves(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Vec<ShardMove>> {
        let moves = self.engine.require_tiers()?.moves(ctx, target).await.disclosed(ctx)?;
        Ok(rules::disclose_moves(&ctx.scope, moves))
    }
}

#[async_trait]
impl QuarantinedFolders for Disclosed {
    fn quarantined_count(&self, ctx: &RequestContext) -> u64 {
        let folders = self.engine.quarantine();
        let count = folders.map_or(0, |folders| folders.quarantined_count(ctx));
        rules::disclose_quarantined_count(&ctx.scope, count)
    }

    async fn quarantined_folders(&self, ctx: &RequestContext) -> Result<Vec<QuarantinedFolder>> {
        let folders = self.engine.require_quarantine()?;
        folders.quarantined_folders(ctx).await.disclosed(ctx)
    }

    async fn adopt_quarantined(&self, ctx: &RequestContext, id: &str, rename: Option<String>) -> Result<String> {
        let folders = self.engine.require_quarantine()?;
        folders.adopt_quarantined(ctx, id, rename).await.disclosed(ctx)
    }

    async fn remove_quarantined(&self, ctx: &RequestContext, id: &str) -> Result<()> {
        let folders = self.engine.require_quarantine()?;
        folders.remove_quarantined(ctx, id).await.disclosed(ctx)
    }
}
