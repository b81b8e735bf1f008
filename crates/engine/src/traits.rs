//! The engine trait.

use std::sync::Arc;

use async_trait::async_trait;
use firn_model::Result;
use firn_model::metadata::{Command, Metadata, Outcome};
use firn_model::tenant::TenantId;
use firn_query::query::Query;
use firn_query::search::{IndexTarget, QueryExplanation, SearchRequest, SearchResponse};

use crate::admin::{
    AnalyzeRequest, AnalyzedToken, ForceMergeRequest, IndexStats, NodeStats, PurgeOutcome, PurgeRequest,
    ShardCheckpoint, ShardsOutcome,
};
use crate::capabilities::{Capabilities, Capability, Knowledge};
use crate::context::{
    CloseContexts, ClosedContext, ContextKind, OpenPointInTime, OpenedPointInTime, PointInTimeInfo, ScrollRequest,
};
use crate::cost::SearchCost;
use crate::document::{BulkRequest, BulkResponse, GetRequest, GetResult};
use crate::fields::{FieldsInUse, FieldsInUseRequest};
use crate::mounts::SearchableSnapshots;
use crate::origin::SourcePosition;
use crate::quarantine::QuarantinedFolders;
use crate::recovery::ShardRecovery;
use crate::snapshot::{SnapshotErasure, SnapshotVerification, Snapshots};
use crate::task::RequestContext;
use crate::tenant_usage::TenantUsage;
use crate::terms_enum::{TermsEnumRequest, TermsEnumResponse};
use crate::tiers::Tiers;

/// Storage and search engine for events. Every method may be called concurrently.
///
/// An acknowledged write is durable according to its index's `index.translog.durability`. Errors concern the whole
/// request; a failure of one item or one shard is in the answer.
///
/// No method has a default body: an engine that cannot do or say something lacks a [`Capability`] and says so. The
/// cases of the conformance suite hold every engine to that.
///
/// A request reads no more than its scope allows ([`crate::Scope`]). Which part of the answer its caller may see is
/// decided outside of the engine, in [`crate::disclosure`].
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Returns what the engine can do beyond what every engine must. It does not change while the engine is open.
    fn capabilities(&self) -> Capabilities;

    /// Returns the snapshot operations; `None`: the engine lacks [`Capability::Snapshots`].
    fn snapshots(&self) -> Option<&dyn Snapshots>;

    /// Returns the removal of tenants from snapshots; `None`: the engine lacks [`Capability::SnapshotErasure`].
    fn snapshot_erasure(&self) -> Option<&dyn SnapshotErasure>;

    /// Returns the verification of snapshots; `None`: the engine lacks [`Capability::SnapshotVerification`].
    fn snapshot_verification(&self) -> Option<&dyn SnapshotVerification>;

    /// Returns the searchable snapshot operations; `None`: the engine lacks [`Capability::Mounts`].
    fn mounts(&self) -> Option<&dyn SearchableSnapshots>;

    /// Returns the devices of the node and the moves between them; `None`: the engine lacks [`Capability::Tiers`].
    fn tiers(&self) -> Option<&dyn Tiers>;

    /// Returns the quarantine operations; `None`: the engine lacks [`Capability::Quarantine`].
    fn quarantine(&self) -> Option<&dyn QuarantinedFolders>;

    /// Returns indices, aliases, templates and data streams at one moment.
    async fn metadata(&self, ctx: &RequestContext) -> Result<Arc<Metadata>>;

    /// Returns the same with the mappings that the request's scope may see. [`Engine::metadata`] returns to a tenant
    /// only the mappings that all tenants share, so a caller that needs no mapping does not wait for it.
    async fn metadata_with_mappings(&self, ctx: &RequestContext) -> Result<Arc<Metadata>>;

    /// Changes metadata atomically: the whole command is applied and durable, or nothing is.
    async fn execute(&self, ctx: &RequestContext, command: Command) -> Result<Outcome>;

    /// Applies the items in order; items for the same document are never reordered.
    async fn bulk(&self, ctx: &RequestContext, request: BulkRequest) -> Result<BulkResponse>;

    /// Returns the positions of the partitions of a source, sorted by partition: what of it is stored.
    async fn source_positions(&self, ctx: &RequestContext, source: &str) -> Result<Knowledge<Vec<SourcePosition>>>;

    /// Returns the position of one partition of a source; `None`: nothing of it was ever stored. It takes as long however many
    /// partitions the source has.
    async fn source_position(
        &self,
        ctx: &RequestContext,
        source: &str,
        partition: &str,
    ) -> Result<Knowledge<Option<SourcePosition>>>;

    /// Removes the positions of partitions of a source that will never be read again, and those of their dead letters and alerts. If
    /// one is read again after all, its events are stored anew. Returns how many were removed; a partition that is being written keeps
    /// its position, and so does one whose name is unknown.
    async fn forget_source_positions(
        &self,
        ctx: &RequestContext,
        source: &str,
        partitions: &[String],
    ) -> Result<Knowledge<u64>>;

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

    /// Runs a search. The answer lists failed and timed-out shards. An engine without [`Capability::SearchCost`] cannot
    /// enforce [`RequestContext::repository_bytes_max`]: it refuses searches that have such a limit, unless they read no
    /// snapshot repository.
    async fn search(&self, ctx: &RequestContext, request: SearchRequest) -> Result<SearchResponse>;

    /// Estimates what a search would fetch from snapshot repositories, without searching. Opens some splits, which may
    /// fetch their footers. Unknown without [`Capability::SearchCost`].
    async fn search_cost(&self, ctx: &RequestContext, request: SearchRequest) -> Result<Knowledge<SearchCost>>;

    /// Returns the indices that may hold a match, with their fields that have values. Unknown without
    /// [`Capability::FieldUsage`].
    async fn fields_in_use(
        &self,
        ctx: &RequestContext,
        request: FieldsInUseRequest,
    ) -> Result<Knowledge<Vec<FieldsInUse>>>;

    /// Returns the values of a field with a prefix. Needs [`Capability::TermsEnum`].
    async fn terms_enum(&self, ctx: &RequestContext, request: TermsEnumRequest) -> Result<TermsEnumResponse>;

    /// Opens a point in time: a fixed view of the searchable data for later searches.
    async fn open_point_in_time(&self, ctx: &RequestContext, request: OpenPointInTime) -> Result<OpenedPointInTime>;

    /// Returns the open points in time, oldest first. Needs [`Capability::ContextListing`].
    async fn points_in_time(&self, ctx: &RequestContext) -> Result<Vec<PointInTimeInfo>>;

    /// Returns the next page of a scroll; an empty one after the last.
    async fn scroll(&self, ctx: &RequestContext, request: ScrollRequest) -> Result<SearchResponse>;

    /// Closes contexts. Returns one entry per named context, or per open one if all are closed, which needs
    /// [`Capability::ContextListing`]. A text that is not a valid id is an error.
    async fn close_contexts(
        &self,
        ctx: &RequestContext,
        kind: ContextKind,
        which: CloseContexts,
    ) -> Result<Vec<ClosedContext>>;

    /// Makes everything written so far searchable.
    async fn refresh(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome>;

    /// Makes everything written so far durable and searchable, and returns up to which sequence number, for each shard that takes
    /// writes; those of mounted and unavailable shards are missing. Unknown without [`Capability::Checkpoints`].
    async fn checkpoints(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Knowledge<Vec<ShardCheckpoint>>>;

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
    /// [`crate::ErrorKind::Forbidden`] unless the scope is unlimited. Needs [`Capability::Erasure`]: an engine that only
    /// marks events as deleted refuses and removes nothing.
    async fn purge_tenant(&self, ctx: &RequestContext, request: PurgeRequest) -> Result<PurgeOutcome>;

    /// Removes indices and data streams that a tenant's writes created and that hold no document of any tenant; returns
    /// the names of the removed indices. Closed, mounted and unavailable indices stay. If a concurrent write is lost,
    /// its caller gets an error. Fails with [`crate::ErrorKind::Forbidden`] unless the scope is unlimited. Unknown
    /// without [`Capability::UnusedIndices`]: then no index was removed, and some may be unused.
    async fn drop_unused_of(&self, ctx: &RequestContext, tenant: TenantId) -> Result<Knowledge<Vec<String>>>;

    /// Returns documents, bytes, segments and counters of every shard of the target, by index name. For a tenant,
    /// documents and bytes are its share.
    async fn stats(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Vec<IndexStats>>;

    /// Returns how the shards of the target were recovered on this node, by index and number; unavailable shards are
    /// missing. For operators: it names snapshots. Unknown without [`Capability::Recoveries`].
    async fn recoveries(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Knowledge<Vec<ShardRecovery>>>;

    /// Returns the state of this node: disk, memory, pools, totals.
    async fn node_stats(&self, ctx: &RequestContext) -> Result<NodeStats>;

    /// Returns the usage of this node by tenant name, of all tenants.
    /// Reads more than counters: do not call it often. Unknown without [`Capability::TenantUsage`].
    async fn tenant_usage(&self, ctx: &RequestContext) -> Result<Knowledge<Vec<TenantUsage>>>;

    /// Runs an analyzer.
    async fn analyze(&self, ctx: &RequestContext, request: AnalyzeRequest) -> Result<Vec<AnalyzedToken>>;

    /// Stops accepting writes, makes everything durable and releases the files. Idempotent.
    async fn close(&self) -> Result<()>;
}

/// Access to the operations of a capability, or the error that it is missing ([`Capability::missing`]).
impl dyn Engine {
    /// Returns the snapshot operations.
    pub fn require_snapshots(&self) -> Result<&dyn Snapshots> {
        self.snapshots().ok_or_else(|| Capability::Snapshots.missing())
    }

    /// Returns the removal of tenants from snapshots.
    pub fn require_snapshot_erasure(&self) -> Result<&dyn SnapshotErasure> {
        self.snapshot_erasure()
            .ok_or_else(|| Capability::SnapshotErasure.missing())
    }

    /// Returns the verification of snapshots.
    pub fn require_snapshot_verification(&self) -> Result<&dyn SnapshotVerification> {
        self.snapshot_verification()
            .ok_or_else(|| Capability::SnapshotVerification.missing())
    }

    /// Returns the searchable snapshot operations.
    pub fn require_mounts(&self) -> Result<&dyn SearchableSnapshots> {
        self.mounts().ok_or_else(|| Capability::Mounts.missing())
    }

    /// Returns the devices of the node and the moves between them.
    pub fn require_tiers(&self) -> Result<&dyn Tiers> {
        self.tiers().ok_or_else(|| Capability::Tiers.missing())
    }

    /// Returns the quarantine operations.
    pub fn require_quarantine(&self) -> Result<&dyn QuarantinedFolders> {
        self.quarantine().ok_or_else(|| Capability::Quarantine.missing())
    }
}
