//! The trait.

use std::sync::Arc;

use async_trait::async_trait;
use firn_model::metadata::{Command, Metadata, Outcome};
use firn_model::tenant::TenantId;

use crate::Result;
use crate::admin::{
    AnalyzeRequest, AnalyzedToken, ForceMergeRequest, IndexStats, NodeStats, PurgeOutcome, PurgeRequest, ShardsOutcome,
};
use crate::context::{
    CloseContexts, ClosedContext, ContextKind, OpenPointInTime, OpenedPointInTime, PointInTimeInfo, ScrollRequest,
};
use crate::cost::SearchCost;
use crate::document::{BulkRequest, BulkResponse, GetRequest, GetResult};
use crate::fields::{FieldsInUse, FieldsInUseRequest};
use crate::mounts::SearchableSnapshots;
use crate::quarantine::QuarantinedFolders;
use crate::query::Query;
use crate::recovery::ShardRecovery;
use crate::search::{IndexTarget, QueryExplanation, SearchRequest, SearchResponse};
use crate::snapshot::Snapshots;
use crate::task::RequestContext;
use crate::terms_enum::{TermsEnumRequest, TermsEnumResponse};
use crate::usage::TenantUsage;

/// What keeps, changes and finds events. Every method may be called concurrently.
///
/// An acknowledged write is durable according to its index's `index.translog.durability`.
/// Errors are those of the whole request; what fails for one item or one shard is in the answer.
#[async_trait]
pub trait Engine: Snapshots + SearchableSnapshots + QuarantinedFolders + Send + Sync + 'static {
    /// Indices, aliases, templates and data streams at one moment.
    async fn metadata(&self, ctx: &RequestContext) -> Result<Arc<Metadata>>;

    /// The same with mappings as far as the request's scope may know them. [`Engine::metadata`] has of a
    /// tenant's mappings only what every tenant has, so that whoever needs no mapping need not wait for it.
    async fn metadata_with_mappings(&self, ctx: &RequestContext) -> Result<Arc<Metadata>> {
        self.metadata(ctx).await
    }

    /// Changes metadata: all of the command happens and is durable, or none of it.
    async fn execute(&self, ctx: &RequestContext, command: Command) -> Result<Outcome>;

    /// Applies the items in order; items of one document never overtake each other.
    async fn bulk(&self, ctx: &RequestContext, request: BulkRequest) -> Result<BulkResponse>;

    /// Reads documents by id in real time (acknowledged is enough, no refresh needed). One
    /// result per request, in their order.
    async fn get(&self, ctx: &RequestContext, requests: Vec<GetRequest>) -> Result<Vec<Result<GetResult>>>;

    /// What a query means on every shard of a target, or why it means nothing there. Nothing is
    /// searched.
    async fn explain_query(
        &self,
        ctx: &RequestContext,
        target: IndexTarget,
        query: Query,
    ) -> Result<Vec<QueryExplanation>>;

    /// Answers a search. Failed or timed-out shards are named in the answer.
    async fn search(&self, ctx: &RequestContext, request: SearchRequest) -> Result<SearchResponse>;

    /// What a search would fetch from snapshot repositories, without searching. Opens some splits, for which their footers may
    /// have to be fetched.
    async fn search_cost(&self, _ctx: &RequestContext, _request: SearchRequest) -> Result<SearchCost> {
        Ok(SearchCost::default())
    }

    /// The indices that may hold a match, with their fields that have values.
    async fn fields_in_use(&self, ctx: &RequestContext, request: FieldsInUseRequest) -> Result<Vec<FieldsInUse>>;

    /// Values of a field that begin with a text.
    async fn terms_enum(&self, ctx: &RequestContext, request: TermsEnumRequest) -> Result<TermsEnumResponse>;

    /// Holds what is searchable now, for searches that name it.
    async fn open_point_in_time(&self, ctx: &RequestContext, request: OpenPointInTime) -> Result<OpenedPointInTime>;

    /// The points in time that are open, oldest first.
    async fn points_in_time(&self, ctx: &RequestContext) -> Result<Vec<PointInTimeInfo>>;

    /// The next page of a scroll; an empty one after the last.
    async fn scroll(&self, ctx: &RequestContext, request: ScrollRequest) -> Result<SearchResponse>;

    /// Closes contexts; one entry for each that was named or, of all, that was open. A text that is
    /// no id at all is an error.
    async fn close_contexts(
        &self,
        ctx: &RequestContext,
        kind: ContextKind,
        which: CloseContexts,
    ) -> Result<Vec<ClosedContext>>;

    /// Makes everything written so far searchable.
    async fn refresh(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome>;

    /// Makes segments durable and trims the WAL.
    async fn flush(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome>;

    /// Lets go what the request cache holds of the target.
    async fn clear_cache(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome>;

    /// Merges segments now and returns when done.
    async fn force_merge(&self, ctx: &RequestContext, request: ForceMergeRequest) -> Result<ShardsOutcome>;

    /// Removes a tenant's events from every index that holds events by tenant, for ever: when this
    /// returns, no file holds them, and they come back after no crash. What is written meanwhile may
    /// stay, and so does what points in time and scrolls of others hold until they end. Rewrites the segments
    /// that hold such events, so it takes long; asking again after an error goes on with the rest.
    /// [`crate::ErrorKind::Forbidden`] unless the scope is unlimited.
    async fn purge_tenant(&self, ctx: &RequestContext, request: PurgeRequest) -> Result<PurgeOutcome>;

    /// Removes indices and data streams that a tenant's writes made and that nobody has a document in; the names of the
    /// indices that went. What is closed, mounted or does not serve stays. A write that comes meanwhile is lost only
    /// where it is told so. [`crate::ErrorKind::Forbidden`] unless the scope is unlimited.
    async fn drop_unused_of(&self, _ctx: &RequestContext, _tenant: TenantId) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Documents, bytes, segments and counters of every shard of the target, by index name.
    async fn stats(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Vec<IndexStats>>;

    /// How the shards of the target came to be on this node, by index and number; those that do not serve are missing.
    /// For operators: it names snapshots.
    async fn recoveries(&self, _ctx: &RequestContext, _target: IndexTarget) -> Result<Vec<ShardRecovery>> {
        Ok(Vec::new())
    }

    /// The state of this node: disk, memory, pools, totals.
    async fn node_stats(&self, ctx: &RequestContext) -> Result<NodeStats>;

    /// What tenants use of this node, by name: all of them for an operator, itself for a tenant. Reads
    /// more than counters: ask once in a while.
    async fn tenant_usage(&self, ctx: &RequestContext) -> Result<Vec<TenantUsage>>;

    /// Runs an analyzer.
    async fn analyze(&self, ctx: &RequestContext, request: AnalyzeRequest) -> Result<Vec<AnalyzedToken>>;

    /// Stops taking writes, makes everything durable and releases the files. Idempotent.
    async fn close(&self) -> Result<()>;
}
