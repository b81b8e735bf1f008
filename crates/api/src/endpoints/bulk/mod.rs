//! `_bulk`: the hot path of writes.

pub mod parse;

mod action;
mod op_type;
mod respond;

use std::sync::Arc;

use firn_engine::document::{BulkItemResponse, Refresh};

use crate::endpoints::call::Call;
use crate::endpoints::document_params::{check_pipeline, refresh_param, source_param, wait_for_active_shards};
use crate::state::edge::Edge;
use crate::wire::blocking;
use crate::wire::error::ApiError;
use crate::wire::reply::{Body, Reply};

pub use op_type::OpType;
pub use parse::{BulkDefaults, ParsedBulk, Rejected, parse};
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

/// Printing the results of this many items takes about a millisecond; larger answers move to a blocking thread.
const PRINT_ELSEWHERE_FROM_ITEMS: usize = 2048;

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
        source: source_param(params)?,
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
    let op_types_count = op_types.len();
    let mut response = edge.write(&call.ctx, call.body.len() as u64, request).await?;
    response.items = with_rejected(response.items, rejected);
    edge.metrics.bulk(&response);
    let metadata = edge.metadata(&call).await?;
    let took_ms = call.ctx.started.elapsed().as_millis() as u64;
    let filter = call.filter_path.clone();
    let print = move || respond::write(&response, &op_types, took_ms, filter.as_ref(), &metadata);
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

/// Merges unparsable items, ascending by position, into the results of applied items in the order of the bulk. One
/// pass, because half of a million items may be unparsable.
fn with_rejected(applied: Vec<BulkItemResponse>, rejected: Vec<Rejected>) -> Vec<BulkItemResponse> {
    if rejected.is_empty() {
        return applied;
    }
    let mut items = Vec::with_capacity(applied.len() + rejected.len());
    let mut applied = applied.into_iter();
    for rejected in rejected {
        let before = rejected.position.saturating_sub(items.len());
        items.extend(applied.by_ref().take(before));
        items.push(BulkItemResponse {
            index: rejected.index,
            id: rejected.id.unwrap_or_default(),
            result: Err(rejected.error),
        });
    }
    items.extend(applied);
    items
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use firn_engine::Error;

    use super::*;

    fn applied(number: usize) -> BulkItemResponse {
        BulkItemResponse {
            index: "i".to_owned(),
            id: number.to_string(),
            result: Err(Error::internal("applied")),
        }
    }

    fn rejected(position: usize) -> Rejected {
        Rejected {
            position,
            index: "i".to_owned(),
            id: Some(position.to_string()),
            error: Error::illegal_argument("unreadable"),
        }
    }

    /// The id of every item is its position in the bulk.
    fn check(count: usize, is_rejected: impl Fn(usize) -> bool) {
        let of = |wanted: bool| (0..count).filter(|at| is_rejected(*at) == wanted).collect::<Vec<_>>();
        let items = with_rejected(
            of(false).into_iter().map(applied).collect(),
            of(true).into_iter().map(rejected).collect(),
        );
        assert_eq!(items.len(), count);
        for (at, item) in items.iter().enumerate() {
            assert_eq!(item.id, at.to_string());
            let reason = item.result.as_ref().err().map(Error::reason);
            assert_eq!(reason == Some("unreadable"), is_rejected(at), "{at}");
        }
    }

    #[test]
    fn answers_keep_the_order_of_the_bulk() {
        check(0, |_| false);
        check(9, |_| false);
        check(9, |_| true);
        check(9, |at| at % 2 == 0);
        check(9, |at| at == 0 || at == 8);
        check(100, |at| (30..60).contains(&at));
    }

    /// Inserting each item into the list would move 10^11 items: minutes, in any build.
    #[test]
    fn a_million_items_of_which_half_are_unreadable() {
        const COUNT: usize = 1_000_000;
        let even = (0..COUNT).step_by(2).map(applied).collect();
        let odd = (1..COUNT).step_by(2).map(rejected).collect();
        let started = Instant::now();
        let items = with_rejected(even, odd);
        let took = started.elapsed();
        assert_eq!(items.len(), COUNT);
        assert_eq!((items[1].id.as_str(), items[COUNT - 1].id.as_str()), ("1", "999999"));
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
}
