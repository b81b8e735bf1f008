//! `_cat/segments`.

use std::sync::Arc;

use firn_auth::Privilege;
use firn_model::dates::{DateFormat, Zone};
use firn_model::names::IndicesOptions;

use super::table::{CatTable, Cell, Column, help, number, render, text, wants_help};
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(super) const TABLE: CatTable = CatTable {
    endpoint: "cat_segments",
    action: "cluster:monitor/cat/segments",
    privilege: Privilege::MonitorIndices,
    also: None,
    paths: &["/_cat/segments", "/_cat/segments/{index}"],
    handler: |edge, call| Box::pin(segments(edge, call)),
};

const COLUMNS: &[Column] = &[
    text("index", &["i", "idx"], "index name"),
    number("shard", &["s", "sh"], "shard name"),
    text("prirep", &["p", "pr", "primaryOrReplica"], "primary or replica"),
    text("ip", &[], "ip of node where it lives"),
    text("segment", &["seg"], "segment name"),
    number("generation", &["g", "gen"], "segment generation"),
    number("docs.count", &["dc", "docsCount"], "number of docs in segment"),
    number(
        "docs.deleted",
        &["dd", "docsDeleted"],
        "number of deleted docs in segment",
    ),
    number("size", &["si"], "segment size in bytes"),
    text("committed", &["ic", "isCommitted"], "is segment committed"),
    text("searchable", &["is", "isSearchable"], "is segment searched"),
    text("time.min", &[], "earliest @timestamp").hidden(),
    text("time.max", &[], "latest @timestamp").hidden(),
];

async fn segments(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    if wants_help(&call)? {
        return Ok(help(COLUMNS));
    }
    let target = call.target(IndicesOptions {
        expand_hidden: true,
        ..IndicesOptions::default()
    })?;
    let format = DateFormat::default_millis();
    let time = |ms: Option<i64>| ms.map_or(Cell::Empty, |ms| Cell::Text(format.print_ms(ms, &Zone::utc())));
    let mut rows = Vec::new();
    for index in edge.engine.stats(&call.ctx, target).await? {
        for shard in &index.shards {
            for segment in &shard.segments {
                rows.push(vec![
                    index.index.as_str().into(),
                    Cell::Number(shard.shard.into()),
                    "p".into(),
                    edge.host().into(),
                    segment.name.as_str().into(),
                    Cell::Number(segment.generation),
                    Cell::Number(segment.doc_count),
                    Cell::Number(segment.deleted_count),
                    Cell::Bytes(segment.size_bytes),
                    segment.committed.to_string().into(),
                    "true".into(),
                    time(segment.time_range_ms.map(|(first, _)| first)),
                    time(segment.time_range_ms.map(|(_, last)| last)),
                ]);
            }
        }
    }
    render(&call, COLUMNS, rows)
}
