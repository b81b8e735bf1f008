//! `_bulk`: the hot path of writes.

pub mod parse;

mod action;
mod op_type;
mod respond;
mod settled;

use std::sync::Arc;

use firn_engine::document::Refresh;

use crate::endpoints::call::Call;
use crate::endpoints::document_params::{refresh_param, source_param, wait_for_active_shards};
use crate::endpoints::ingest;
use crate::state::edge::Edge;
use crate::state::quotas::events_of;
use crate::wire::blocking;
use crate::wire::error::ApiError;
use crate::wire::reply::{Body, Reply};

pub use op_type::OpType;
pub(crate) use parse::{ACTION_BYTES_MAX, begins_with_event};
pub use parse::{BulkDefaults, ParsedBulk, Rejected, parse};
pub(crate) use respond::{status as item_status, write_dropped_item, write_item};
pub(crate) use settled::dropped_response;

use settled::Settled;

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

/// Printing the results of this many items takes about a millisecond; larger answers move to a blocking thread.
const PRINT_ELSEWHERE_FROM_ITEMS: usize = 2048;

/// `POST /_bulk` and `POST /{index}/_bulk`.
pub(crate) async fn bulk(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let params = &call.params;
    wait_for_active_shards(params)?;
    let list_executed = params.flag("list_executed_pipelines")?.unwrap_or(false);
    params.flag("include_source_on_error")?;
    let defaults = BulkDefaults {
        index: call.captured("index").map(str::to_owned),
        routing: params.get("routing").map(str::to_owned),
        pipeline: params.get("pipeline").map(str::to_owned),
        require_alias: params.bool("require_alias", false)?,
        require_data_stream: params.bool("require_data_stream", false)?,
        source: source_param(params)?,
        refresh: refresh_param(params)?.unwrap_or(Refresh::No),
        timeout: params.duration("timeout")?,
    };
    if let Some(over_quota) = &call.over_quota {
        return Err(over_quota.clone().into());
    }
    let body = call.required_body()?;
    let ParsedBulk {
        mut request,
        op_types,
        pipelines,
        rejected,
    } = parse(&body, &defaults)?;
    drop(body);
    let op_types_count = op_types.len();
    let mut settled = Settled::of_rejected(rejected);
    if events_of(&request.items) > 0 {
        edge.check_events(&call).await?;
    }
    request.items = match ingest::run(&edge, &call, request.items, pipelines).await? {
        ingest::Outcomes::Unchanged(items) => items,
        ingest::Outcomes::Planned(plans) => settled.add(plans),
    };
    let mut response = edge.write(&call.ctx, call.body.len() as u64, request).await?;
    let notes = settled.merge_into(&mut response, list_executed);
    edge.metrics.bulk(&response);
    let metadata = edge.metadata(&call).await?;
    let took_ms = call.ctx.started.elapsed().as_millis() as u64;
    let filter = call.filter_path.clone();
    let print = move || respond::write(&response, &op_types, &notes, took_ms, filter.as_ref(), &metadata);
    let (bytes, filtered) = match op_types_count >= PRINT_ELSEWHERE_FROM_ITEMS {
        true => blocking::print(print).await?,
        false => print(),
    };
    Ok(Reply {
        status: http::StatusCode::OK,
        body: if filtered {
            Body::FilteredJson(bytes)
        } else {
            Body::Json(bytes)
        },
    })
}
