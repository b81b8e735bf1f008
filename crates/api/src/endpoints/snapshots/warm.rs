//! `_firn/warm`, `_firn/pin`, `_firn/unpin`: control of the shared cache of mounted indices by operators.

use std::sync::Arc;

use firn_engine::{Error, ErrorKind, RequestContext};
use firn_model::names::IndicesOptions;
use firn_model::settings::parse_bytes_setting;
use firn_query::search::SearchRequest;
use serde_json::{Map, Value, json};

use super::searchable::hidden_too;
use crate::endpoints::call::Call;
use crate::endpoints::search;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(crate) const PARAMS: &[&str] = &["max_bytes", "wait_for_completion"];

/// Action in `_tasks` while it runs.
const ACTION: &str = "indices:admin/firn/warm[n]";
/// Maximum concurrent warming searches: each takes bandwidth of the object store from user searches.
const WARMING_MAX: usize = 4;

/// `POST /{index}/_firn/warm`: loads the data of a search into the cache by running it without returning hits. The body
/// is that of `_search`. A search of more than `max_bytes` is refused with the estimate; the default is half of the
/// cache, because a search prefetches no more.
pub(crate) async fn warm(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let body = call.json()?;
    let target = call.target(IndicesOptions::default())?;
    let mut request = SearchRequest::parse(target, body.as_ref())?;
    if request.point_in_time.is_some() {
        return Err(Error::not_implemented("warming the cache with a point in time").into());
    }
    // A cached response would skip the reads.
    request.request_cache = Some(false);
    request.check_context()?;
    let size = edge
        .engine
        .require_mounts()?
        .shared_cache_stats(&call.ctx)
        .await?
        .map_or(0, |stats| stats.size_bytes);
    let max_bytes = match call.params.get("max_bytes") {
        Some(text) => parse_bytes_setting("max_bytes", text)?,
        None => size / 2,
    };
    if edge.tasks.count(ACTION) >= WARMING_MAX {
        let reason = format!("rejected execution of [_firn/warm]: [{WARMING_MAX}] are already running");
        return Err(Error::new(ErrorKind::Rejected, reason).into());
    }
    let ctx = RequestContext {
        repository_bytes_max: Some(max_bytes),
        ..call.lasting(&edge, ACTION, format!("warm {}", call.path))
    };
    // The flag of the task: the search continues if the client goes away.
    let ctx = RequestContext {
        cancel: ctx.lasting.as_ref().map(|task| task.cancel.clone()).unwrap_or_default(),
        work: Arc::default(),
        ..ctx
    };
    let wait = call.params.bool("wait_for_completion", true)?;
    let running = tokio::spawn(run(Arc::clone(&edge), ctx, request));
    if !wait {
        return Ok(Reply::ok(&json!({"accepted": true})));
    }
    let done = running
        .await
        .unwrap_or_else(|_| Err(Error::internal("a bug: warming panicked, see the log").into()))?;
    Ok(Reply::ok(&Value::Object(done)))
}

async fn run(edge: Arc<Edge>, ctx: RequestContext, request: SearchRequest) -> Result<Map<String, Value>, ApiError> {
    let expression = request.target.expression.join(",");
    let outcome = search::run_plain(&edge, &ctx, request).await;
    let response = match outcome {
        Ok(response) => response,
        Err(error) => {
            tracing::info!(indices = expression, error = ?error, "warming the shared cache failed");
            return Err(error);
        }
    };
    let work = ctx.work.done();
    let mut done = Map::new();
    done.insert("took".to_owned(), response.took_ms.into());
    done.insert("timed_out".to_owned(), response.timed_out.into());
    done.insert("requests".to_owned(), work.repository_requests.into());
    done.insert("fetched_in_bytes".to_owned(), work.repository_bytes.into());
    let metadata = edge.engine.metadata(&ctx).await?;
    done.insert("_shards".to_owned(), search::shards(&response, &edge, &metadata));
    Ok(done)
}

/// `POST /{index}/_firn/pin`.
pub(crate) async fn pin(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    set_pinned(&edge, &call, true).await
}

/// `POST /{index}/_firn/unpin`.
pub(crate) async fn unpin(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    set_pinned(&edge, &call, false).await
}

async fn set_pinned(edge: &Edge, call: &Call, pinned: bool) -> Result<Reply, ApiError> {
    let indices = edge
        .engine
        .require_mounts()?
        .pin_shared_cache(&call.ctx, call.target(hidden_too())?, pinned)
        .await?;
    let stats = edge
        .engine
        .require_mounts()?
        .shared_cache_stats(&call.ctx)
        .await?
        .unwrap_or_default();
    let indices: Map<String, Value> = indices
        .into_iter()
        .map(|(name, bytes)| (name, json!({"pinned": pinned, "cached_in_bytes": bytes})))
        .collect();
    Ok(Reply::ok(&json!({
        "acknowledged": true,
        "indices": indices,
        "shared_cache": {
            "pinned_in_bytes": stats.pinned_bytes,
            "used_in_bytes": stats.used_bytes,
            "size_in_bytes": stats.size_bytes,
        },
    })))
}
