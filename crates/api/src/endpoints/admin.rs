//! `_refresh`, `_flush`, `_forcemerge`.

use std::sync::Arc;

use firn_engine::Error;
use firn_engine::admin::{ForceMergeRequest, ShardsOutcome};
use firn_model::metadata::Metadata;
use firn_model::names::IndicesOptions;
use firn_query::search::IndexTarget;
use http::StatusCode;
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::{ApiError, shard_failure, status_and_type};
use crate::wire::reply::Reply;

pub(crate) const FORCE_MERGE_PARAMS: &[&str] = &[
    "flush",
    "max_num_segments",
    "only_expunge_deletes",
    "wait_for_completion",
];

/// `POST /_refresh` and `POST /{index}/_refresh`.
pub(crate) async fn refresh(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let target = call.target(hidden_too())?;
    let outcome = edge.engine.refresh(&call.ctx, target).await?;
    answer(&edge, &call, &outcome).await
}

/// `POST /_flush` and `POST /{index}/_flush`.
pub(crate) async fn flush(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let force = call.params.bool("force", false)?;
    let wait = call.params.bool("wait_if_ongoing", true)?;
    if force && !wait {
        return Err(ApiError::validation(&[
            "wait_if_ongoing must be true for a force flush".to_owned(),
        ]));
    }
    let target = call.target(hidden_too())?;
    let outcome = edge.engine.flush(&call.ctx, target).await?;
    answer(&edge, &call, &outcome).await
}

/// Caches that a request may name. A request without names clears all.
pub(crate) const CLEAR_CACHE_PARAMS: &[&str] = &["fielddata", "fields", "file", "index", "query", "request"];

/// `POST /_cache/clear` and `POST /{index}/_cache/clear`. Of Elasticsearch's caches firn has only the request cache.
pub(crate) async fn clear_cache(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let params = &call.params;
    let mut others_only = false;
    for name in ["fielddata", "query", "file"] {
        others_only |= params.bool(name, false)?;
    }
    let request_cache = params.flag("request")?;
    let mut target = call.target(hidden_too())?;
    if let Some(names) = params.list("index").filter(|_| target.expression.is_empty()) {
        target.expression = names;
    }
    let outcome = match request_cache.unwrap_or(!others_only) {
        true => edge.engine.clear_cache(&call.ctx, target).await?,
        // Clearing a cache that does not exist only checks the target and the rights of the caller.
        false => untouched(&edge, &call, target).await?,
    };
    answer(&edge, &call, &outcome).await
}

/// Returns the shards of a target as successful.
async fn untouched(edge: &Edge, call: &Call, target: IndexTarget) -> Result<ShardsOutcome, Error> {
    let indices = edge.engine.stats(&call.ctx, target).await?;
    let total = indices.iter().map(|index| index.shards.len() as u32).sum();
    Ok(ShardsOutcome {
        total,
        successful: total,
        failures: Vec::new(),
    })
}

/// `POST /_forcemerge` and `POST /{index}/_forcemerge`.
pub(crate) async fn force_merge(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let params = &call.params;
    if !params.bool("wait_for_completion", true)? {
        return Err(Error::not_implemented("[wait_for_completion=false] of [_forcemerge]").into());
    }
    let request = ForceMergeRequest {
        target: call.target(hidden_too())?,
        max_num_segments: match params.number::<i64>("max_num_segments")? {
            None | Some(-1) => None,
            Some(count) => Some(usize::try_from(count).ok().filter(|count| *count > 0).ok_or_else(|| {
                Error::illegal_argument(format!("max_num_segments must be positive, found [{count}]"))
            })?),
        },
        only_expunge_deletes: params.bool("only_expunge_deletes", false)?,
        flush: params.bool("flush", true)?,
    };
    if request.only_expunge_deletes && request.max_num_segments.is_some() {
        return Err(ApiError::validation(&[
            "cannot set only_expunge_deletes and max_num_segments at the same time, those two parameters are mutually exclusive"
                .to_owned(),
        ]));
    }
    let outcome = edge.engine.force_merge(&call.ctx, request).await?;
    answer(&edge, &call, &outcome).await
}

/// Maintenance reaches hidden indices too: the backing indices of data streams are among them.
fn hidden_too() -> IndicesOptions {
    IndicesOptions {
        expand_hidden: true,
        ..IndicesOptions::default()
    }
}

async fn answer(edge: &Edge, call: &Call, outcome: &ShardsOutcome) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(call).await?;
    let status = outcome
        .failures
        .iter()
        .map(|(_, _, error)| status_and_type(error.kind()).0)
        .max()
        .filter(|_| outcome.successful == 0)
        .unwrap_or(StatusCode::OK);
    let shards = shards(outcome, &edge.config.node_id, &metadata);
    Ok(Reply::json(status, &json!({"_shards": shards})))
}

fn shards(outcome: &ShardsOutcome, node_id: &str, metadata: &Metadata) -> Value {
    let mut object = json!({
        "total": outcome.total,
        "successful": outcome.successful,
        "failed": outcome.failures.len(),
    });
    if !outcome.failures.is_empty() {
        object["failures"] = outcome
            .failures
            .iter()
            .map(|(index, shard, error)| shard_failure(index, *shard, error, node_id, Some(metadata)))
            .collect();
    }
    object
}
