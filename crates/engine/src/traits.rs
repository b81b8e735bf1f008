//! The engine trait.

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
use crate::recovery::ShardRecovery;
use crate::snapshot::Snapshots;
use crate::task::RequestContext;
use crate::tenant_usage::TenantUsage;
use crate::terms_enum::{TermsEnumRequest, TermsEnumResponse};
use firn_query::query::Query;
use firn_query::search::{IndexTarget, QueryExplanation, SearchRequest, SearchResponse};

/// Storage and search engine for events. Every method may be called concurrently.
///
/// An acknowledged write is durable according to its index's `index.translog.durability`. Errors concern the whole
/// request; a failure of one item or one shard is in the answer.
#[async_trait]
pub trait Engine: Snapshots + SearchableSnapshots + QuarantinedFolders + Send + Sync + 'static {
    /// Returns indices, aliases, templates and data streams at one moment.
    async fn metadata(&self, ctx: &RequestContext) -> Result<Arc<Metadata>>;

    /// Returns the same with the mappings that the request's scope may see. [`Engine::metadata`] returns to a tenant
    /// only the mappings that all tenants share, so a caller that needs no mapping does not wait for it.
    async fn metadata_with_mappings(&self, ctx: &RequestContext) -> Result<Arc<Metadata>> {
        self.metadata(ctx).await
    }

    /// Changes metadata atomically: the whole command is applied and durable, or nothing is.
    async fn execute(&self, ctx: &RequestContext, command: Command) -> Result<Outcome>;

    /// Applies the items in order; items for the same document are never reordered.
    async fn bulk(&self, ctx: &RequestContext, request: BulkRequest) -> Result<BulkResponse>;

    /// Reads documents by id in real time (acknowledged is enough, no refresh needed). Returns one result per request,
    /// in the same order.
    async fn get(&self, ctx: &RequestContext, requests: Vec<GetRequest>) -> Result<Vec<Result<GetResult>>>;

    /// Explains a query on every shard of a target, or why it is invalid there. Does not search.
    async fn explain_query(
        &self,
        ctx: &RequestContext,
        target: IndexTarget,
        query: Query,
    ) -> Result<Vec<QueryExplanation>>;

    /// Runs a search. The answer lists failed and timed-out shards.
    async fn search(&self, ctx: &RequestContext, request: SearchRequest) -> Result<SearchResponse>;

    /// Estimates what a search would fetch from snapshot repositories, without searching. Opens some splits, which may
    /// fetch their footers.
    async fn search_cost(&self, _ctx: &RequestContext, _request: SearchRequest) -> Result<SearchCost> {
        Ok(SearchCost::default())
    }

    /// Returns the indices that may hold a match, with their fields that have values.
    async fn fields_in_use(&self, ctx: &RequestContext, request: FieldsInUseRequest) -> Result<Vec<FieldsInUse>>;

    /// Returns the values of a field with a prefix.
    async fn terms_enum(&self, ctx: &RequestContext, request: TermsEnumRequest) -> Result<TermsEnumResponse>;

    /// Opens a point in time: a fixed view of the searchable data for later searches.
    async fn open_point_in_time(&self, ctx: &RequestContext, request: OpenPointInTime) -> Result<OpenedPointInTime>;

    /// Returns the open points in time, oldest first.
    async fn points_in_time(&self, ctx: &RequestContext) -> Result<Vec<PointInTimeInfo>>;

    /// Returns the next page of a scroll; an empty one after the last.
    async fn scroll(&self, ctx: &RequestContext, request: ScrollRequest) -> Result<SearchResponse>;

    /// Closes contexts. Returns one entry per named context, or per open one if all are closed. A text that is not a
    /// valid id is an error.
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

    /// Removes the target's entries from the request cache.
    async fn clear_cache(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome>;

    /// Merges segments now and returns when done.
    async fn force_merge(&self, ctx: &RequestContext, request: ForceMergeRequest) -> Result<ShardsOutcome>;

    /// Removes a tenant's events permanently from every index that holds events by tenant: when this returns, no file
    /// holds them, and no crash brings them back. Events written meanwhile may stay, and so do events that points in
    /// time and scrolls of other callers hold, until those contexts close. Takes long, because it rewrites the segments
    /// that hold such events; a repeated call after an error continues with the rest. Fails with
    /// [`crate::ErrorKind::Forbidden`] unless the scope is unlimited.
    async fn purge_tenant(&self, ctx: &RequestContext, request: PurgeRequest) -> Result<PurgeOutcome>;

    /// Removes indices and data streams that a tenant's writes created and that hold no document of any tenant; returns
    /// the names of the removed indices. Closed, mounted and unavailable indices stay. If a concurrent write is lost,
    /// its caller gets an error. Fails with [`crate::ErrorKind::Forbidden`] unless the scope is unlimited.
    async fn drop_unused_of(&self, _ctx: &RequestContext, _tenant: TenantId) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Returns documents, bytes, segments and counters of every shard of the target, by index name.
    async fn stats(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Vec<IndexStats>>;

    /// Returns how the shards of the target were recovered on this node, by index and number; unavailable shards are
    /// missing. For operators: it names snapshots.
    async fn recoveries(&self, _ctx: &RequestContext, _target: IndexTarget) -> Result<Vec<ShardRecovery>> {
        Ok(Vec::new())
    }

    /// Returns the state of this node: disk, memory, pools, totals.
    async fn node_stats(&self, ctx: &RequestContext) -> Result<NodeStats>;

    /// Returns the usage of this node by tenant name: of all tenants for an operator, of the tenant alone for a tenant.
    /// Reads more than counters: do not call it often.
    async fn tenant_usage(&self, ctx: &RequestContext) -> Result<Vec<TenantUsage>>;

    /// Runs an analyzer.
    async fn analyze(&self, ctx: &RequestContext, request: AnalyzeRequest) -> Result<Vec<AnalyzedToken>>;

    /// Stops accepting writes, makes everything durable and releases the files. Idempotent.
    async fn close(&self) -> Result<()>;
}
