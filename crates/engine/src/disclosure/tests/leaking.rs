//! [`Leaking`]: fake engine that answers every request with what no tenant may see.

use std::sync::Arc;

use async_trait::async_trait;
use firn_model::metadata::{Command, Metadata, Outcome};
use firn_model::tenant::TenantId;
use firn_query::query::Query;
use firn_query::search::{IndexTarget, QueryExplanation, SearchRequest, SearchResponse, SearchShards};

use crate::admin::{
    AnalyzeRequest, AnalyzedToken, DeviceStats, ForceMergeRequest, IndexStats, NodeStats, PurgeOutcome, PurgeRequest,
    ShardCheckpoint, ShardStats, ShardsOutcome,
};
use crate::context::{
    CloseContexts, ClosedContext, ContextKind, OpenPointInTime, OpenedPointInTime, PointInTimeInfo, ScrollRequest,
};
use crate::cost::SearchCost;
use crate::document::{BulkItemResponse, BulkRequest, BulkResponse, GetRequest, GetResult};
use crate::fields::{FieldsInUse, FieldsInUseRequest};
use crate::mounts::{MountSnapshot, Mounted, MountedShardStats, SearchableSnapshots, SharedCacheStats};
use crate::origin::{SourcePosition, SourceTotals};
use crate::quarantine::{QuarantinedFolder, QuarantinedFolders};
use crate::recovery::ShardRecovery;
use crate::snapshot::{SnapshotErasure, SnapshotVerification, Snapshots};
use crate::terms_enum::{TermsEnumRequest, TermsEnumResponse};
use crate::tiers::{ShardMove, Tiers};
use crate::{Capabilities, Engine, Error, ErrorKind, Knowledge, RequestContext, Result, TenantUsage};

/// Text that no tenant may see.
pub(super) const SECRET: &str = "http://store:9000/bucket";
/// Number that no tenant may see.
pub(super) const SECRET_COUNT: u64 = 424_242;

/// Fake engine. All its requests fail with an error, or all are answered.
pub(super) struct Leaking {
    pub(super) error: Option<Error>,
}

/// Returns an error that names an object of a repository.
pub(super) fn repository_error(kind: ErrorKind) -> Error {
    let cause = Error::new(kind, format!("GET {SECRET}/splits/39/a"));
    Error::new(kind, format!("object [{SECRET}/splits/39/a]: refused")).caused_by(cause)
}

fn failures() -> Vec<(String, u32, Error)> {
    let kinds = [ErrorKind::Repository, ErrorKind::Unavailable];
    let failures = kinds
        .into_iter()
        .zip(0..)
        .map(|(kind, shard)| ("logs".to_owned(), shard, repository_error(kind)));
    failures.collect()
}

fn shards() -> SearchShards {
    SearchShards {
        total: 2,
        failures: failures(),
        ..SearchShards::default()
    }
}

impl Leaking {
    fn answer<T>(&self, answer: T) -> Result<T> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(answer),
        }
    }

    fn known<T>(&self, answer: T) -> Result<Knowledge<T>> {
        self.answer(Knowledge::Known(answer))
    }

    fn shards_outcome(&self) -> Result<ShardsOutcome> {
        self.answer(ShardsOutcome {
            total: 2,
            successful: 0,
            failures: failures(),
        })
    }

    fn response(&self) -> Result<SearchResponse> {
        self.answer(SearchResponse {
            shards: shards(),
            ..SearchResponse::default()
        })
    }
}

#[async_trait]
impl Engine for Leaking {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        None
    }

    fn snapshot_erasure(&self) -> Option<&dyn SnapshotErasure> {
        None
    }

    fn snapshot_verification(&self) -> Option<&dyn SnapshotVerification> {
        None
    }

    fn mounts(&self) -> Option<&dyn SearchableSnapshots> {
        Some(self)
    }

    fn tiers(&self) -> Option<&dyn Tiers> {
        Some(self)
    }

    fn quarantine(&self) -> Option<&dyn QuarantinedFolders> {
        Some(self)
    }

    async fn metadata(&self, _: &RequestContext) -> Result<Arc<Metadata>> {
        self.answer(Arc::default())
    }

    async fn metadata_with_mappings(&self, _: &RequestContext) -> Result<Arc<Metadata>> {
        self.answer(Arc::default())
    }

    async fn execute(&self, _: &RequestContext, _: Command) -> Result<Outcome> {
        self.answer(Outcome::default())
    }

    async fn bulk(&self, _: &RequestContext, _: BulkRequest) -> Result<BulkResponse> {
        let items = failures().into_iter().map(|(index, _, error)| BulkItemResponse {
            index,
            id: String::new(),
            result: Err(error),
        });
        self.answer(BulkResponse { items: items.collect() })
    }

    async fn get(&self, _: &RequestContext, _: Vec<GetRequest>) -> Result<Vec<Result<GetResult>>> {
        self.answer(failures().into_iter().map(|(_, _, error)| Err(error)).collect())
    }

    async fn explain_query(&self, _: &RequestContext, _: IndexTarget, _: Query) -> Result<Vec<QueryExplanation>> {
        let explanations = failures().into_iter().map(|(index, shard, error)| QueryExplanation {
            index,
            shard,
            outcome: Err(error),
        });
        self.answer(explanations.collect())
    }

    async fn search(&self, ctx: &RequestContext, _: SearchRequest) -> Result<SearchResponse> {
        if let Some(progress) = &ctx.progress {
            progress.fail(failures());
            progress.publish(SearchResponse::default());
        }
        self.response()
    }

    async fn search_cost(&self, _: &RequestContext, _: SearchRequest) -> Result<Knowledge<SearchCost>> {
        self.known(SearchCost::default())
    }

    async fn fields_in_use(&self, _: &RequestContext, _: FieldsInUseRequest) -> Result<Knowledge<Vec<FieldsInUse>>> {
        self.known(Vec::new())
    }

    async fn terms_enum(&self, _: &RequestContext, _: TermsEnumRequest) -> Result<TermsEnumResponse> {
        self.answer(TermsEnumResponse {
            shards: shards(),
            ..TermsEnumResponse::default()
        })
    }

    async fn open_point_in_time(&self, _: &RequestContext, _: OpenPointInTime) -> Result<OpenedPointInTime> {
        self.answer(OpenedPointInTime {
            id: String::new(),
            created_ms: 0,
            shards: shards(),
        })
    }

    async fn points_in_time(&self, _: &RequestContext) -> Result<Vec<PointInTimeInfo>> {
        self.answer(Vec::new())
    }

    async fn scroll(&self, _: &RequestContext, _: ScrollRequest) -> Result<SearchResponse> {
        self.response()
    }

    async fn close_contexts(&self, _: &RequestContext, _: ContextKind, _: CloseContexts) -> Result<Vec<ClosedContext>> {
        self.answer(Vec::new())
    }

    async fn refresh(&self, _: &RequestContext, _: IndexTarget) -> Result<ShardsOutcome> {
        self.shards_outcome()
    }

    async fn checkpoints(&self, _: &RequestContext, _: IndexTarget) -> Result<Knowledge<Vec<ShardCheckpoint>>> {
        self.known(vec![ShardCheckpoint {
            index: SECRET.to_owned(),
            index_uuid: SECRET.to_owned(),
            shard: 0,
            seq_no: Some(SECRET_COUNT),
        }])
    }

    async fn flush(&self, _: &RequestContext, _: IndexTarget) -> Result<ShardsOutcome> {
        self.shards_outcome()
    }

    async fn clear_cache(&self, _: &RequestContext, _: IndexTarget) -> Result<ShardsOutcome> {
        self.shards_outcome()
    }

    async fn force_merge(&self, _: &RequestContext, _: ForceMergeRequest) -> Result<ShardsOutcome> {
        self.shards_outcome()
    }

    async fn purge_tenant(&self, _: &RequestContext, _: PurgeRequest) -> Result<PurgeOutcome> {
        self.answer(PurgeOutcome::default())
    }

    async fn drop_unused_of(&self, _: &RequestContext, _: TenantId) -> Result<Knowledge<Vec<String>>> {
        self.known(Vec::new())
    }

    async fn stats(&self, _: &RequestContext, _: IndexTarget) -> Result<Vec<IndexStats>> {
        let shard = ShardStats {
            shard: 1,
            failure: Some(format!("[{SECRET}] cannot be read")),
            is_recovering: true,
            doc_count: 3,
            store_size_bytes: 5,
            data_set_size_bytes: 7,
            deleted_count: SECRET_COUNT,
            search_total: SECRET_COUNT,
            max_seq_no: SECRET_COUNT as i64,
            ..ShardStats::default()
        };
        self.answer(vec![IndexStats {
            index: "logs".to_owned(),
            uuid: String::new(),
            shards: vec![shard],
        }])
    }

    async fn recoveries(&self, _: &RequestContext, _: IndexTarget) -> Result<Knowledge<Vec<ShardRecovery>>> {
        self.known(Vec::new())
    }

    async fn node_stats(&self, _: &RequestContext) -> Result<NodeStats> {
        self.answer(NodeStats::default())
    }

    async fn source_positions(&self, _: &RequestContext, _: &str) -> Result<Knowledge<Vec<SourcePosition>>> {
        self.known(vec![secret_position()])
    }

    async fn source_position(&self, _: &RequestContext, _: &str, _: &str) -> Result<Knowledge<Option<SourcePosition>>> {
        self.known(Some(secret_position()))
    }

    async fn forget_source_positions(&self, _: &RequestContext, _: &str, _: &[String]) -> Result<Knowledge<u64>> {
        // Engines refuse it to tenants.
        self.known(0)
    }

    async fn tenant_usage(&self, _: &RequestContext) -> Result<Knowledge<Vec<TenantUsage>>> {
        let other = TenantUsage {
            events: SECRET_COUNT,
            ..TenantUsage::none("bolt")
        };
        self.known(vec![TenantUsage::none("acme"), other])
    }

    async fn analyze(&self, _: &RequestContext, _: AnalyzeRequest) -> Result<Vec<AnalyzedToken>> {
        self.answer(Vec::new())
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl SearchableSnapshots for Leaking {
    async fn mount_snapshot(&self, _: &RequestContext, request: MountSnapshot) -> Result<Mounted> {
        self.answer(Mounted {
            snapshot: request.snapshot,
            index: request.index,
            total_shards: 0,
            successful_shards: 0,
        })
    }

    async fn mounted_shards(&self, _: &RequestContext, _: IndexTarget) -> Result<Vec<MountedShardStats>> {
        self.answer(Vec::new())
    }

    async fn shared_cache_stats(&self, _: &RequestContext) -> Result<Option<SharedCacheStats>> {
        self.answer(None)
    }

    async fn pin_shared_cache(&self, _: &RequestContext, _: IndexTarget, _: bool) -> Result<Vec<(String, u64)>> {
        self.answer(Vec::new())
    }

    fn set_shared_cache_quota(&self, _: &TenantId, _: Option<u64>) {}

    async fn clear_shared_cache(&self, _: &RequestContext, _: IndexTarget) -> Result<ShardsOutcome> {
        self.shards_outcome()
    }
}

#[async_trait]
impl Tiers for Leaking {
    async fn devices(&self, _: &RequestContext) -> Result<Vec<DeviceStats>> {
        self.answer(Vec::new())
    }

    async fn moves(&self, _: &RequestContext, _: IndexTarget) -> Result<Vec<ShardMove>> {
        self.answer(vec![ShardMove {
            index: "logs".to_owned(),
            shard: 0,
            to: firn_model::tier::Tier::Warm,
            waits_for: Some(format!("a copy from {SECRET}")),
        }])
    }
}

#[async_trait]
impl QuarantinedFolders for Leaking {
    fn quarantined_count(&self, _: &RequestContext) -> u64 {
        SECRET_COUNT
    }

    async fn quarantined_folders(&self, _: &RequestContext) -> Result<Vec<QuarantinedFolder>> {
        self.answer(Vec::new())
    }

    async fn adopt_quarantined(&self, _: &RequestContext, _: &str, _: Option<String>) -> Result<String> {
        self.answer(String::new())
    }

    async fn remove_quarantined(&self, _: &RequestContext, _: &str) -> Result<()> {
        self.answer(())
    }
}

fn secret_position() -> SourcePosition {
    SourcePosition {
        partition: SECRET.to_owned(),
        resume_offset: SECRET_COUNT,
        complete_offset: None,
        totals: SourceTotals::default(),
        note: None,
    }
}
