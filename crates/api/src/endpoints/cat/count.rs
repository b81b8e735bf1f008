//! `_cat/count`.

use std::sync::Arc;

use firn_auth::Privilege;
use firn_model::names::IndicesOptions;
use firn_query::search::{SearchRequest, TrackTotalHits};

use super::health::clock;
use super::table::{CatTable, Cell, Column, help, number, render, text, wants_help};
use crate::endpoints::call::Call;
use crate::endpoints::search::run_plain;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(super) const TABLE: CatTable = CatTable {
    endpoint: "cat_count",
    action: "cluster:monitor/cat/count",
    privilege: Privilege::Read,
    also: None,
    paths: &["/_cat/count", "/_cat/count/{index}"],
    handler: |edge, call| Box::pin(count(edge, call)),
};

const COLUMNS: &[Column] = &[
    text("epoch", &["t", "time"], "seconds since 1970-01-01 00:00:00"),
    text("timestamp", &["ts", "hms", "hhmmss"], "time in HH:MM:SS"),
    number("count", &["dc", "docs.count", "docsCount"], "the document count"),
];

async fn count(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    if wants_help(&call)? {
        return Ok(help(COLUMNS));
    }
    let mut request = SearchRequest::new(call.target(IndicesOptions::default())?);
    request.size = 0;
    request.track_total_hits = TrackTotalHits::Exact;
    let response = run_plain(&edge, &call.ctx, request).await?;
    let (epoch, timestamp) = clock(edge.now_ms());
    let total = response.total.map_or(0, |total| total.value);
    render(&call, COLUMNS, vec![vec![epoch, timestamp, Cell::Number(total)]])
}
