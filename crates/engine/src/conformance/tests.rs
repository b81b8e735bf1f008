//! Tests of the suite itself: an engine that refuses everything, and engines that claim too much.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use firn_model::metadata::{Command, Metadata, Outcome};
use firn_model::tenant::TenantId;
use firn_query::query::Query;
use firn_query::search::{IndexTarget, QueryExplanation, SearchRequest, SearchResponse};

use super::*;
use crate::admin::{
    AnalyzeRequest, AnalyzedToken, DeviceStats, ForceMergeRequest, IndexStats, NodeStats, PurgeOutcome, PurgeRequest,
    ShardCheckpoint, ShardsOutcome,
};
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
use crate::terms_enum::{TermsEnumRequest, TermsEnumResponse};
use crate::tiers::{ShardMove, Tiers};
use crate::{Capabilities, Engine, Error, ErrorKind, Knowledge, RequestContext, Result, TenantUsage};

/// Engine that refuses everything: an engine without any capability, of which nothing else works either.
struct Refusing {
    /// Answers requests for this capability all the same, or claims to have it.
    lie: Option<Lie>,
}

/// What an engine says about a capability that it lacks.
#[derive(Clone, Copy, PartialEq)]
enum Lie {
    /// Answers with zeros and empty lists.
    Answers(Capability),
    /// Refuses without its name.
    Unnamed(Capability),
}

fn refusal<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unavailable, "the engine refuses everything"))
}

impl Refusing {
    fn answers(&self, capability: Capability) -> bool {
        self.lie == Some(Lie::Answers(capability))
    }

    fn lacks<T: Default>(&self, capability: Capability) -> Result<T> {
        match self.lie {
            Some(Lie::Answers(lie)) if lie == capability => Ok(T::default()),
            Some(Lie::Unnamed(lie)) if lie == capability => refusal(),
            _ => Err(capability.missing()),
        }
    }

    fn unknown<T: Default>(&self, capability: Capability) -> Result<Knowledge<T>> {
        match self.lie {
            Some(Lie::Answers(lie)) if lie == capability => Ok(Knowledge::Known(T::default())),
            Some(Lie::Unnamed(lie)) if lie == capability => refusal(),
            _ => Ok(Knowledge::Unknown(capability)),
        }
    }
}

#[async_trait]
impl Tiers for Refusing {
    async fn devices(&self, _: &RequestContext) -> Result<Vec<DeviceStats>> {
        Ok(Vec::new())
    }

    async fn moves(&self, _: &RequestContext, _: IndexTarget) -> Result<Vec<ShardMove>> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl Engine for Refusing {
    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
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
        None
    }

    fn tiers(&self) -> Option<&dyn Tiers> {
        self.answers(Capability::Tiers).then_some(self)
    }

    fn quarantine(&self) -> Option<&dyn QuarantinedFolders> {
        None
    }

    async fn metadata(&self, _: &RequestContext) -> Result<Arc<Metadata>> {
        refusal()
    }

    async fn metadata_with_mappings(&self, _: &RequestContext) -> Result<Arc<Metadata>> {
        refusal()
    }

    async fn execute(&self, _: &RequestContext, _: Command) -> Result<Outcome> {
        refusal()
    }

    async fn bulk(&self, _: &RequestContext, request: BulkRequest) -> Result<BulkResponse> {
        if !self.answers(Capability::TypeConflicts) {
            return refusal();
        }
        let items = request.items.into_iter().map(|item| crate::document::BulkItemResponse {
            index: item.index,
            id: item.id.unwrap_or_default(),
            result: Ok(crate::document::Written {
                effect: crate::document::Effect::Created,
                version: 1,
                seq_no: 0,
                primary_term: 1,
                forced_refresh: false,
                get: None,
            }),
        });
        Ok(BulkResponse { items: items.collect() })
    }

    async fn get(&self, _: &RequestContext, _: Vec<GetRequest>) -> Result<Vec<Result<GetResult>>> {
        refusal()
    }

    async fn explain_query(&self, _: &RequestContext, _: IndexTarget, _: Query) -> Result<Vec<QueryExplanation>> {
        refusal()
    }

    async fn search(&self, ctx: &RequestContext, _: SearchRequest) -> Result<SearchResponse> {
        if self.answers(Capability::SearchProgress)
            && let Some(progress) = &ctx.progress
        {
            progress.publish(SearchResponse::default());
        }
        refusal()
    }

    async fn search_cost(&self, _: &RequestContext, _: SearchRequest) -> Result<Knowledge<SearchCost>> {
        self.unknown(Capability::SearchCost)
    }

    async fn fields_in_use(&self, _: &RequestContext, _: FieldsInUseRequest) -> Result<Knowledge<Vec<FieldsInUse>>> {
        self.unknown(Capability::FieldUsage)
    }

    async fn terms_enum(&self, _: &RequestContext, _: TermsEnumRequest) -> Result<TermsEnumResponse> {
        self.lacks(Capability::TermsEnum)
    }

    async fn open_point_in_time(&self, _: &RequestContext, _: OpenPointInTime) -> Result<OpenedPointInTime> {
        refusal()
    }

    async fn points_in_time(&self, _: &RequestContext) -> Result<Vec<PointInTimeInfo>> {
        self.lacks(Capability::ContextListing)
    }

    async fn scroll(&self, _: &RequestContext, _: ScrollRequest) -> Result<SearchResponse> {
        refusal()
    }

    async fn close_contexts(
        &self,
        _: &RequestContext,
        _: ContextKind,
        which: CloseContexts,
    ) -> Result<Vec<ClosedContext>> {
        match which {
            CloseContexts::All => self.lacks(Capability::ContextListing),
            CloseContexts::Ids(_) => refusal(),
        }
    }

    async fn refresh(&self, _: &RequestContext, _: IndexTarget) -> Result<ShardsOutcome> {
        refusal()
    }

    async fn checkpoints(&self, _: &RequestContext, _: IndexTarget) -> Result<Knowledge<Vec<ShardCheckpoint>>> {
        self.unknown(Capability::Checkpoints)
    }

    async fn flush(&self, _: &RequestContext, _: IndexTarget) -> Result<ShardsOutcome> {
        refusal()
    }

    async fn clear_cache(&self, _: &RequestContext, _: IndexTarget) -> Result<ShardsOutcome> {
        refusal()
    }

    async fn force_merge(&self, _: &RequestContext, _: ForceMergeRequest) -> Result<ShardsOutcome> {
        refusal()
    }

    async fn purge_tenant(&self, _: &RequestContext, _: PurgeRequest) -> Result<PurgeOutcome> {
        self.lacks(Capability::Erasure)
    }

    async fn drop_unused_of(&self, _: &RequestContext, _: TenantId) -> Result<Knowledge<Vec<String>>> {
        self.unknown(Capability::UnusedIndices)
    }

    async fn stats(&self, _: &RequestContext, _: IndexTarget) -> Result<Vec<IndexStats>> {
        refusal()
    }

    async fn recoveries(&self, _: &RequestContext, _: IndexTarget) -> Result<Knowledge<Vec<ShardRecovery>>> {
        self.unknown(Capability::Recoveries)
    }

    async fn node_stats(&self, _: &RequestContext) -> Result<NodeStats> {
        refusal()
    }

    async fn source_positions(&self, _: &RequestContext, _: &str) -> Result<Knowledge<Vec<SourcePosition>>> {
        self.unknown(Capability::SourcePositions)
    }

    async fn source_position(&self, _: &RequestContext, _: &str, _: &str) -> Result<Knowledge<Option<SourcePosition>>> {
        self.unknown(Capability::SourcePositions)
    }

    async fn forget_source_positions(&self, _: &RequestContext, _: &str, _: &[String]) -> Result<Knowledge<u64>> {
        self.unknown(Capability::SourcePositions)
    }

    async fn tenant_usage(&self, _: &RequestContext) -> Result<Knowledge<Vec<TenantUsage>>> {
        self.unknown(Capability::TenantUsage)
    }

    async fn analyze(&self, _: &RequestContext, _: AnalyzeRequest) -> Result<Vec<AnalyzedToken>> {
        refusal()
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// Runs a case on an engine that never waits.
fn run(case: Case, lie: Option<Lie>) -> Verdict {
    let subject = Subject::new(Arc::new(Refusing { lie }), "case");
    let mut running = std::pin::pin!(case.run(&subject));
    match running.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(verdict) => verdict,
        Poll::Pending => panic!("[{}] waits", case.name),
    }
}

fn first_with(capability: Capability) -> Case {
    let mut cases = CASES.iter().copied();
    cases
        .find(|case| case.needs == [capability] || case.needs.contains(&capability))
        .unwrap_or_else(|| panic!("no case needs [{capability}]"))
}

#[test]
fn names_are_unique_and_cases_are_found_by_name() {
    assert!(CASES.len() > 60, "{}", CASES.len());
    for case in CASES {
        assert_eq!(
            CASES.iter().filter(|other| other.name == case.name).count(),
            1,
            "{case:?}"
        );
        assert_eq!(Case::named(case.name).unwrap().needs, case.needs);
    }
    assert!(Case::named("no_such_case").is_none());
}

#[test]
fn every_missing_capability_is_asserted_and_nothing_else_is_spared() {
    for case in CASES {
        let verdict = run(*case, None);
        let passes = !case.needs.is_empty() || case.name == "capabilities_and_operations_agree";
        assert_eq!(verdict.is_ok(), passes, "[{case:?}]: {verdict:?}");
    }
}

#[test]
fn an_engine_that_answers_without_the_capability_fails() {
    use Capability as C;
    let answered = [
        C::SearchCost,
        C::SearchProgress,
        C::FieldUsage,
        C::TermsEnum,
        C::ContextListing,
        C::TypeConflicts,
        C::Erasure,
        C::UnusedIndices,
        C::TenantUsage,
        C::Recoveries,
        C::Tiers,
    ];
    for capability in answered {
        let failure = run(first_with(capability), Some(Lie::Answers(capability))).unwrap_err();
        assert!(failure.to_string().contains(capability.name()), "{failure}");
    }
    let agreement = Case::named("capabilities_and_operations_agree").unwrap();
    assert!(run(agreement, Some(Lie::Answers(C::Tiers))).is_err());
}

#[test]
fn a_refusal_without_the_name_of_the_capability_fails() {
    use Capability as C;
    for capability in [
        C::SearchCost,
        C::FieldUsage,
        C::TermsEnum,
        C::ContextListing,
        C::Erasure,
        C::TenantUsage,
    ] {
        let failure = run(first_with(capability), Some(Lie::Unnamed(capability))).unwrap_err();
        assert!(failure.to_string().contains("is not named"), "{failure}");
    }
}

#[test]
fn every_capability_has_a_case() {
    for capability in Capability::ALL {
        first_with(capability);
    }
}
