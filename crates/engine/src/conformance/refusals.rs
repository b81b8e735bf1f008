//! Refusals: what an engine answers to requests for a capability that it lacks.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use firn_model::tenant::TenantId;
use firn_query::search::SearchRequest;
use serde_json::json;

use super::subject::{Subject, index, index_raw, operator, target};
use super::verdict::{Failure, Verdict, ensure};
use crate::admin::PurgeRequest;
use crate::context::{CloseContexts, ContextKind};
use crate::fields::FieldsInUseRequest;
use crate::terms_enum::TermsEnumRequest;
use crate::{Capability, ErrorKind, Knowledge, Progress, RequestContext, Result};

/// Fails unless the engine refuses what needs a capability.
pub(super) async fn check(subject: &Subject, capability: Capability) -> Verdict {
    let engine = subject.engine();
    let ctx = operator();
    let all = || target("*");
    let tenant = || TenantId::parse("acme");
    let names = |result| is_named(result, capability);
    match capability {
        Capability::SearchCost => {
            let request = SearchRequest::new(all());
            is_unknown(engine.search_cost(&ctx, request).await, capability)
        }
        Capability::FieldUsage => {
            let request = FieldsInUseRequest {
                target: all(),
                index_filter: None,
            };
            is_unknown(engine.fields_in_use(&ctx, request).await, capability)
        }
        Capability::UnusedIndices => is_unknown(engine.drop_unused_of(&ctx, tenant()?).await, capability),
        Capability::SourcePositions => {
            is_unknown(engine.source_positions(&ctx, "source").await, capability)?;
            is_unknown(engine.source_position(&ctx, "source", "0").await, capability)?;
            is_unknown(engine.forget_source_positions(&ctx, "source", &[]).await, capability)
        }
        Capability::Checkpoints => is_unknown(engine.checkpoints(&ctx, all()).await, capability),
        Capability::TenantUsage => is_unknown(engine.tenant_usage(&ctx).await, capability),
        Capability::Recoveries => is_unknown(engine.recoveries(&ctx, all()).await, capability),
        Capability::TermsEnum => {
            let request = TermsEnumRequest::parse(all(), &json!({"field": "a"}))?;
            names(engine.terms_enum(&ctx, request).await.map(drop))
        }
        Capability::ContextListing => {
            names(engine.points_in_time(&ctx).await.map(drop))?;
            for kind in [ContextKind::PointInTime, ContextKind::Scroll] {
                let closed = engine.close_contexts(&ctx, kind, CloseContexts::All).await;
                names(closed.map(drop))?;
            }
            Ok(())
        }
        Capability::Erasure => {
            let request = PurgeRequest::all_of(tenant()?);
            names(engine.purge_tenant(&ctx, request).await.map(drop))
        }
        Capability::SearchProgress => publishes_nothing(subject).await,
        Capability::TypeConflicts => refuses_conflicts(subject).await,
        Capability::Snapshots => is_absent(engine.snapshots().is_none(), engine.require_snapshots(), capability),
        Capability::SnapshotErasure => is_absent(
            engine.snapshot_erasure().is_none(),
            engine.require_snapshot_erasure(),
            capability,
        ),
        Capability::SnapshotVerification => is_absent(
            engine.snapshot_verification().is_none(),
            engine.require_snapshot_verification(),
            capability,
        ),
        Capability::Mounts => is_absent(engine.mounts().is_none(), engine.require_mounts(), capability),
        Capability::Tiers => is_absent(engine.tiers().is_none(), engine.require_tiers(), capability),
        Capability::Quarantine => is_absent(engine.quarantine().is_none(), engine.require_quarantine(), capability),
    }
}

/// Fails unless a result is unknown, or is an error, for lack of the capability.
fn is_unknown<T: Debug>(result: Result<Knowledge<T>>, capability: Capability) -> Verdict {
    match result {
        Ok(Knowledge::Unknown(lacking)) if lacking == capability => Ok(()),
        Ok(Knowledge::Unknown(lacking)) => Err(Failure::new(format!("is unknown for lack of [{lacking}]"))),
        Ok(Knowledge::Known(known)) => Err(Failure::new(format!("claims to know {known:?}"))),
        Err(error) => is_named(Err(error), capability),
    }
}

/// Fails unless a result is an error that names the capability.
fn is_named(result: Result<()>, capability: Capability) -> Verdict {
    let Err(error) = result else {
        return Err(Failure::new("was done"));
    };
    let is_named = error.reason().contains(&format!("[{capability}]"));
    ensure!(
        error.kind() == ErrorKind::NotImplemented && is_named,
        "is not named by the error {error:?}"
    );
    Ok(())
}

/// Fails unless operations are absent.
fn is_absent<T: ?Sized>(is_absent: bool, required: Result<&T>, capability: Capability) -> Verdict {
    ensure!(is_absent, "has operations");
    is_named(required.map(drop), capability)
}

/// Fails if a search publishes a partial result. Such an engine ignores a request for progress, so that readers get no
/// result before the final one.
async fn publishes_nothing(subject: &Subject) -> Verdict {
    let progress = Arc::new(Progress::every(Duration::ZERO));
    let ctx = RequestContext {
        progress: Some(Arc::clone(&progress)),
        ..operator()
    };
    // The result of the search does not matter.
    let _ = subject.engine().search(&ctx, SearchRequest::new(target("*"))).await;
    ensure!(progress.latest().is_none(), "published a partial result");
    Ok(())
}

/// Fails if a document is stored although a value does not fit its mapping. The error names the field, as in
/// Elasticsearch, and not the capability.
async fn refuses_conflicts(subject: &Subject) -> Verdict {
    let name = subject.name("conflicts");
    let first = subject.bulk(vec![index(&name, "1", json!({"n": 1}))]).await;
    if first.is_err() {
        // The engine refuses every write.
        return Ok(());
    }
    let mut responses = subject.bulk(vec![index_raw(&name, "2", r#"{"n": "two"}"#)]).await?;
    let refused = responses.pop().is_some_and(|response| response.result.is_err());
    ensure!(refused, "stored a value that does not fit its mapping");
    Ok(())
}
