//! `_bulk`: the hot path of writing.

pub mod parse;

mod action;
mod respond;

use std::sync::Arc;

use firn_engine::document::{BulkItemResponse, Refresh};

use crate::document::{check_pipeline, refresh_param, wait_for_active_shards};
use crate::error::ApiError;
use crate::reply::{Body, Reply};
use crate::request::{Call, Edge};

pub(crate) use parse::ID_BYTES_MAX;
pub use parse::{BulkDefaults, OpType, ParsedBulk, Rejected, parse};
pub(crate) use respond::{status as item_status, write_item};

pub(crate) const PARAMS: &[&str] = &[
    "_source",
    "_source_excludes",
    "_source_includes",
    "pipeline",
    "refresh",
    "require_alias",
    "require_data_stream",
    "routing",
    "timeout",
    "wait_for_active_shards",
    "list_executed_pipelines",
    "include_source_on_error",
];

/// `POST /_bulk` and `POST /{index}/_bulk`.
pub(crate) async fn bulk(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let params = &call.params;
    check_pipeline(params.get("pipeline"))?;
    wait_for_active_shards(params)?;
    params.flag("list_executed_pipelines")?;
    params.flag("include_source_on_error")?;
    let defaults = BulkDefaults {
        index: call.captured("index").map(str::to_owned),
        routing: params.get("routing").map(str::to_owned),
        require_alias: params.bool("require_alias", false)?,
        require_data_stream: params.bool("require_data_stream", false)?,
        source: crate::document::source_param(params)?,
        refresh: refresh_param(params)?.unwrap_or(Refresh::No),
        timeout: params.duration("timeout")?,
    };
    let body = call.required_body()?;
    let ParsedBulk {
        request,
        op_types,
        rejected,
    } = parse(&body, &defaults)?;
    drop(body);
    let mut response = edge.write(&call, request).await?;
    // What could not be read takes its place among the answers again.
    for rejected in rejected {
        let item = BulkItemResponse {
            index: rejected.index,
            id: rejected.id.unwrap_or_default(),
            result: Err(rejected.error),
        };
        response.items.insert(rejected.position.min(response.items.len()), item);
    }
    edge.metrics.bulk(&response);
    let metadata = edge.metadata(&call).await?;
    let took_ms = call.ctx.started.elapsed().as_millis() as u64;
    let (bytes, filtered) = respond::write(&response, &op_types, took_ms, call.filter_path.as_ref(), &metadata);
    Ok(Reply {
        status: http::StatusCode::OK,
        body: if filtered {
            Body::FilteredJson(bytes)
        } else {
            Body::Json(bytes)
        },
    })
}
