//! `_cat/shards`.

use std::sync::Arc;

use firn_auth::Privilege;
use firn_engine::admin::ShardStats;
use firn_model::metadata::Metadata;

use super::table::{CatTable, Cell, Column, help, number, render, text, wants_help};
use crate::endpoints::call::Call;
use crate::endpoints::stats::{ShardState, replicas};
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::all_indices;
use crate::wire::reply::Reply;

pub(super) const TABLE: CatTable = CatTable {
    endpoint: "cat_shards",
    action: "cluster:monitor/cat/shards",
    privilege: Privilege::MonitorIndices,
    also: None,
    paths: &["/_cat/shards", "/_cat/shards/{index}"],
    handler: |edge, call| Box::pin(shards(edge, call)),
};

const COLUMNS: &[Column] = &[
    text("index", &["i", "idx"], "index name"),
    number("shard", &["s", "sh"], "shard name"),
    text("prirep", &["p", "pr", "primaryOrReplica"], "primary or replica"),
    text("state", &["st"], "shard state"),
    number("docs", &["d", "dc"], "number of docs in shard"),
    number("store", &["sto"], "store size of shard (how much disk it uses)"),
    number("dataset", &[], "total size of dataset"),
    text("ip", &[], "ip of node where it lives"),
    text("node", &["n"], "name of node where it lives"),
    text("unassigned.reason", &["ur"], "reason shard became unassigned").hidden(),
    text(
        "unassigned.details",
        &["ud"],
        "additional details as to why the shard became unassigned",
    )
    .hidden(),
    number("segments.count", &["sc", "segmentsCount"], "number of segments").hidden(),
    number("translog.size", &[], "bytes of the write-ahead log").hidden(),
    number(
        "translog.operations",
        &[],
        "operations of the write-ahead log not yet flushed",
    )
    .hidden(),
    number("seq_no.max", &["sqm", "maxSeqNo"], "max sequence number").hidden(),
    // Column of firn only: a tier is a device of the one node, which `node` does not distinguish.
    text("tier", &["t"], "tier of the shard").hidden(),
    text("tier.target", &["tt", "tierTarget"], "tier that the shard moves to").hidden(),
];

async fn shards(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    if wants_help(&call)? {
        return Ok(help(COLUMNS));
    }
    let metadata = edge.metadata(&call).await?;
    let target = call.target(all_indices())?;
    let mut rows = Vec::new();
    let moves = match edge.engine.tiers() {
        Some(tiers) => tiers.moves(&call.ctx, target.clone()).await?,
        None => Vec::new(),
    };
    let move_of = |index: &str, shard: u32| {
        let found = moves.iter().find(|one| one.index == index && one.shard == shard);
        found.map(|one| one.to)
    };
    for index in edge.engine.stats(&call.ctx, target).await? {
        for shard in &index.shards {
            let serving = shard.failure.is_none();
            let measured = |cell: Cell| if serving { cell } else { Cell::Empty };
            rows.push(vec![
                index.index.as_str().into(),
                Cell::Number(shard.shard.into()),
                "p".into(),
                ShardState::of(shard).name().into(),
                measured(Cell::Number(shard.doc_count)),
                measured(Cell::Bytes(shard.store_size_bytes)),
                measured(Cell::Bytes(shard.data_set_size_bytes)),
                measured(edge.host().into()),
                measured(edge.config.node_name.as_str().into()),
                match ShardState::of(shard) {
                    ShardState::Started => Cell::Empty,
                    ShardState::Initializing => "CLUSTER_RECOVERED".into(),
                    ShardState::Unassigned => "ALLOCATION_FAILED".into(),
                },
                shard.failure.clone().map_or(Cell::Empty, Cell::Text),
                measured(Cell::Number(shard.segments.len() as u64)),
                measured(Cell::Bytes(shard.translog_size_bytes)),
                measured(Cell::Number(shard.translog_operations)),
                measured(Cell::Text(shard.max_seq_no.to_string())),
                tier(&metadata, &index.index, shard).into(),
                move_of(&index.index, shard.shard).map_or(Cell::Empty, |tier| tier.name().into()),
            ]);
            // Configured replicas, which one node does not have.
            for _ in 0..replicas(&metadata, &index.index).min(16) {
                let mut row = vec![
                    index.index.as_str().into(),
                    Cell::Number(shard.shard.into()),
                    "r".into(),
                    "UNASSIGNED".into(),
                ];
                row.resize(9, Cell::Empty);
                row.push("INDEX_CREATED".into());
                row.resize(COLUMNS.len(), Cell::Empty);
                rows.push(row);
            }
        }
    }
    render(&call, COLUMNS, rows)
}

/// Returns the tier of a shard by its common name: `frozen` is no separate device, but an index that is read through
/// the region cache.
pub(super) fn tier(metadata: &Metadata, index: &str, shard: &ShardStats) -> &'static str {
    match metadata.indices.get(index) {
        Some(index) if index.settings.is_frozen() => "frozen",
        _ => shard.tier.name(),
    }
}
