//! `_delete_by_query`: deletion of all documents that match a query.
//!
//! The run finds matches in a point in time and deletes them by id in batches, each document only if it is unchanged: a
//! document changed since then is a version conflict. Every batch is durable before the next one starts. So if the
//! client goes away or the process ends, whole batches are deleted, and a repeated request deletes the rest.
//!
//! The run sees only documents that the caller may both read and write.

mod request;
mod run;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use firn_auth::Privilege;
use firn_engine::{Error, ErrorKind, RequestContext, Scope};
use firn_query::Cancel;
use futures_util::FutureExt as _;
use serde_json::json;

use crate::endpoints::call::Call;
pub(crate) use crate::state::by_query_progress::Progress;
use crate::state::disclosure::disclose_error;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;
use request::ByQueryRequest;
use run::Run;

pub(crate) use request::PARAMS;

/// Action of the whole request in `_tasks`.
pub(crate) const ACTION: &str = "indices:data/write/delete/byquery";

/// Action of its searches in refusals and quotas.
const SEARCH_ACTION: &str = "indices:data/read/search";

/// Maximum concurrent background runs: each holds a point in time and a page of ids.
pub(crate) const BACKGROUND_MAX: u64 = 64;

/// `POST /{index}/_delete_by_query`.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let request = ByQueryRequest::read(&call)?;
    let waits = call.params.bool("wait_for_completion", true)?;
    let mut ctx = RequestContext {
        scope: Arc::new(scope(&call)?),
        ..call.ctx.clone()
    };
    // The run counts as a search of its tenant until it ends, which may be after this request.
    let permit = edge.admit(&ctx.scope, SEARCH_ACTION)?;
    let progress = Arc::new(Progress::new(request.requests_per_second));
    if waits {
        edge.tasks.report(call.task, &progress);
        let run = Run::open(&edge, ctx, request, progress).await?;
        let outcome = run.run().await?;
        let metadata = edge.metadata(&call).await?;
        return Ok(outcome.reply(&metadata));
    }
    let tenant = ctx.scope.tenant_id().cloned();
    let share = edge.by_queries.take(tenant, 1).map_err(|running| {
        Error::new(
            ErrorKind::Rejected,
            format!("rejected execution of [{ACTION}]: [{running}] deletes by query already run in the background"),
        )
    })?;
    ctx.cancel = Cancel::default();
    let run = Run::open(&edge, ctx.clone(), request, Arc::clone(&progress)).await?;
    let task = edge
        .tasks
        .start(ACTION, format!("POST {}", call.path), edge.now_ms(), &ctx);
    edge.tasks.report(task.id(), &progress);
    let name = json!({"task": format!("{}:{}", edge.config.node_id, task.id())});
    tokio::spawn(async move {
        let result = AssertUnwindSafe(run.run())
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(Error::internal("a bug: a delete by query panicked, see the log").into()))
            .map_err(|error| disclose_error(&ctx, error));
        let metadata = edge.engine.metadata(&ctx).await.ok();
        let result = match result {
            Ok(outcome) => ("response", outcome.response(metadata.as_deref())),
            Err(error) => ("error", error.body(metadata.as_deref(), false)["error"].take()),
        };
        edge.tasks.finish(task, &edge.config.node_id, result);
        drop((permit, share));
    });
    Ok(Reply::ok(&name))
}

/// Returns the scope that the caller may both read and write.
fn scope(call: &Call) -> Result<Scope, Error> {
    let reads = call.identity.scope(Privilege::Read);
    let reads = reads.ok_or_else(|| call.identity.refusal(SEARCH_ACTION, Privilege::Read))?;
    let writes = call.ctx.scope.names().iter();
    Ok(writes.fold(reads, |scope, names| scope.within(Arc::clone(names))))
}
