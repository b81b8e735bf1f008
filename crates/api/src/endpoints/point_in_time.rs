//! Points in time: Elasticsearch's `_pit`, and OpenSearch's `_search/point_in_time`.

use std::sync::Arc;

use firn_engine::Error;
use firn_engine::context::{CloseContexts, ContextKind, OpenPointInTime, OpenedPointInTime};
use firn_model::names::IndicesOptions;
use firn_query::query::Query;
use http::StatusCode;
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::scroll::{close as close_contexts, freed, ids_of_body};
use crate::endpoints::search::{shards_object, whole_failure};
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(crate) const PARAMS: &[&str] = &[
    "allow_partial_search_results",
    "keep_alive",
    "max_concurrent_shard_requests",
    "preference",
    "routing",
];

/// `POST /{index}/_pit`.
pub(crate) async fn open(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mut index_filter = None;
    for (name, value) in call.object()? {
        match name.as_str() {
            "index_filter" => index_filter = Some(Query::parse(&value)?),
            _ => {
                return Err(Error::parsing(format!("[open_point_in_time_request] unknown field [{name}]")).into());
            }
        }
    }
    let allow_partial = call.params.bool("allow_partial_search_results", false)?;
    let opened = open_context(
        &edge,
        &call,
        index_filter,
        allow_partial,
        "[keep_alive] is not specified",
    )
    .await?;
    let metadata = edge.metadata(&call).await?;
    Ok(Reply::ok(&json!({
        "id": opened.id,
        "_shards": shards_object(&opened.shards, &edge.config.node_id, Some(&metadata)),
    })))
}

/// `DELETE /_pit`.
pub(crate) async fn close(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let body = call.object()?;
    let id = match body.get("id") {
        Some(Value::String(id)) if body.len() == 1 && !id.is_empty() => id.clone(),
        Some(Value::String(id)) if id.is_empty() => {
            return Err(ApiError::validation(&["id is empty".to_owned()]));
        }
        None if body.is_empty() => return Err(ApiError::validation(&["id is empty".to_owned()])),
        _ => {
            return Err(Error::parsing("[close_point_in_time_request] takes one field, the string [id]").into());
        }
    };
    let which = CloseContexts::Ids(vec![id]);
    let closed = edge
        .engine
        .close_contexts(&call.ctx, ContextKind::PointInTime, which)
        .await?;
    let freed = freed(&closed);
    Ok(Reply::json(
        if freed > 0 {
            StatusCode::OK
        } else {
            StatusCode::NOT_FOUND
        },
        &json!({"succeeded": freed > 0, "num_freed": freed}),
    ))
}

/// OpenSearch's `POST /{index}/_search/point_in_time`.
pub(crate) async fn create(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    // OpenSearch creates a partial point in time unless the client forbids it.
    let allow_partial = call.params.bool("allow_partial_pit_creation", true)?;
    let opened = open_context(&edge, &call, None, allow_partial, "keep alive not specified").await?;
    let metadata = edge.metadata(&call).await?;
    Ok(Reply::ok(&json!({
        "pit_id": opened.id,
        "_shards": shards_object(&opened.shards, &edge.config.node_id, Some(&metadata)),
        "creation_time": opened.created_ms,
    })))
}

/// OpenSearch's `DELETE /_search/point_in_time`. A point in time that no longer exists counts as deleted.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let ids = ids_of_body(&call.object()?, "pit_id")?;
    if ids.is_empty() {
        return Err(ApiError::validation(&["no pit ids specified".to_owned()]));
    }
    close_and_list(&edge, &call, ids).await
}

/// OpenSearch's `DELETE /_search/point_in_time/_all`.
pub(crate) async fn delete_all(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    close_and_list(&edge, &call, vec!["_all".to_owned()]).await
}

/// OpenSearch's `GET /_search/point_in_time/_all`.
pub(crate) async fn list(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let pits: Vec<Value> = edge
        .engine
        .points_in_time(&call.ctx)
        .await?
        .into_iter()
        .map(|pit| {
            json!({
                "pit_id": pit.id,
                "creation_time": pit.created_ms,
                "keep_alive": pit.keep_alive.as_millis() as u64,
            })
        })
        .collect();
    Ok(Reply::ok(&json!({"pits": pits})))
}

async fn close_and_list(edge: &Edge, call: &Call, ids: Vec<String>) -> Result<Reply, ApiError> {
    let pits: Vec<Value> = close_contexts(edge, call, ContextKind::PointInTime, ids)
        .await?
        .into_iter()
        .map(|closed| json!({"successful": true, "pit_id": closed.id}))
        .collect();
    Ok(Reply::ok(&json!({"pits": pits})))
}

async fn open_context(
    edge: &Edge,
    call: &Call,
    index_filter: Option<Query>,
    allow_partial_results: bool,
    without_keep_alive: &str,
) -> Result<OpenedPointInTime, ApiError> {
    call.params.number::<u32>("max_concurrent_shard_requests")?;
    let Some(keep_alive) = call.params.duration("keep_alive")? else {
        return Err(ApiError::validation(&[without_keep_alive.to_owned()]));
    };
    let target = call.target(IndicesOptions::default())?;
    let expression = target.expression.clone();
    let request = OpenPointInTime {
        target,
        routing: call.params.list("routing").unwrap_or_default(),
        keep_alive,
        index_filter,
        allow_partial_results,
    };
    edge.engine
        .open_point_in_time(&call.ctx, request)
        .await
        .map_err(|error| whole_failure(edge, error, &expression))
}
