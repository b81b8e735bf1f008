//! `_cat/indices`.

use std::sync::Arc;

use firn_auth::Privilege;
use firn_engine::Error;
use firn_engine::admin::{IndexStats, ShardStats};
use firn_model::dates::{DateFormat, Zone};
use firn_model::metadata::{IndexMetadata, Metadata};
use firn_query::search::IndexTarget;

use super::shards::tier;
use super::table::{CatTable, Cell, Column, help, number, render, text, wants_help};
use crate::endpoints::call::Call;
use crate::endpoints::stats::{Totals, health};
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::all_indices;
use crate::wire::reply::Reply;

pub(super) const TABLE: CatTable = CatTable {
    endpoint: "cat_indices",
    action: "cluster:monitor/cat/indices",
    privilege: Privilege::MonitorIndices,
    also: None,
    paths: &["/_cat/indices", "/_cat/indices/{index}"],
    handler: |edge, call| Box::pin(indices(edge, call)),
};

const COLUMNS: &[Column] = &[
    text("health", &["h"], "current health status"),
    text("status", &["s"], "open/close status"),
    text("index", &["i", "idx"], "index name"),
    text("uuid", &["id"], "index uuid"),
    number(
        "pri",
        &["p", "shards.primary", "shardsPrimary"],
        "number of primary shards",
    ),
    number(
        "rep",
        &["r", "shards.replica", "shardsReplica"],
        "number of replica shards",
    ),
    number("docs.count", &["dc", "docsCount"], "available docs"),
    number("docs.deleted", &["dd", "docsDeleted"], "deleted docs"),
    number("creation.date", &["cd"], "index creation date (millisecond value)").hidden(),
    text("creation.date.string", &["cds"], "index creation date (as string)").hidden(),
    number("store.size", &["ss", "storeSize"], "store size of primaries & replicas"),
    number("pri.store.size", &[], "store size of primaries"),
    number("dataset.size", &[], "total size of dataset"),
    number(
        "indexing.index_total",
        &["iito", "indexingIndexTotal"],
        "number of indexing ops",
    )
    .hidden(),
    number(
        "indexing.index_time",
        &["iiti", "indexingIndexTime"],
        "time spent in indexing",
    )
    .hidden(),
    number(
        "search.query_total",
        &["sqto", "searchQueryTotal"],
        "total query phase ops",
    )
    .hidden(),
    number(
        "search.query_time",
        &["sqti", "searchQueryTime"],
        "time spent in query phase",
    )
    .hidden(),
    number("get.total", &["gto", "getTotal"], "number of get ops").hidden(),
    number("refresh.total", &["rto", "refreshTotal"], "total refreshes").hidden(),
    number("refresh.time", &["rti", "refreshTime"], "time spent in refreshes").hidden(),
    number("flush.total", &["ft", "flushTotal"], "number of flushes").hidden(),
    number("flush.total_time", &["ftt", "flushTotalTime"], "time spent in flush").hidden(),
    number("merges.current", &["mc", "mergesCurrent"], "number of current merges").hidden(),
    number("merges.total", &["mt", "mergesTotal"], "number of completed merge ops").hidden(),
    number("merges.total_time", &["mtt", "mergesTotalTime"], "time spent in merges").hidden(),
    number("segments.count", &["sc", "segmentsCount"], "number of segments").hidden(),
    // Column of firn only, as in `_cat/shards`.
    text("tier", &["t"], "tiers of its shards").hidden(),
];

async fn indices(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    if wants_help(&call)? {
        return Ok(help(COLUMNS));
    }
    // Each shard has one copy, so all are primaries.
    call.params.flag("pri")?;
    let wanted_health = call.params.get("health").map(str::to_ascii_lowercase);
    if let Some(health) = &wanted_health
        && !matches!(health.as_str(), "green" | "yellow" | "red")
    {
        return Err(Error::illegal_argument(format!("unknown cluster health status [{health}]")).into());
    }
    let metadata = edge.metadata(&call).await?;
    let target = call.target(all_indices())?;
    let chosen = edge.resolve(&target, &metadata)?;
    let open: Vec<String> = chosen
        .iter()
        .filter(|index| !index.closed)
        .map(|index| index.name.clone())
        .collect();
    let stats = if open.is_empty() {
        Vec::new()
    } else {
        let mut options = all_indices();
        // An index may be deleted between the two reads.
        options.ignore_unavailable = true;
        edge.engine
            .stats(
                &call.ctx,
                IndexTarget {
                    expression: open,
                    options,
                },
            )
            .await?
    };
    let mut rows = Vec::with_capacity(chosen.len());
    for index in chosen {
        let place = stats.binary_search_by(|stats| stats.index.cmp(&index.name));
        let stats = place.ok().map(|place| &stats[place]);
        let mut row = row(index, stats)?;
        row.push(stats.map_or(Cell::Empty, |stats| Cell::Text(tiers(&metadata, stats))));
        if wanted_health
            .as_ref()
            .is_none_or(|health| row[0] == Cell::Text(health.clone()))
        {
            rows.push(row);
        }
    }
    render(&call, COLUMNS, rows)
}

fn row(index: &IndexMetadata, stats: Option<&IndexStats>) -> Result<Vec<Cell>, ApiError> {
    let replicas = index.settings.number_of_replicas;
    let created = DateFormat::default_millis().print_ms(index.created_ms, &Zone::utc());
    let mut row = vec![
        stats.map_or("green", |stats| health(stats, replicas)).into(),
        if index.closed { "close" } else { "open" }.into(),
        index.name.as_str().into(),
        index.uuid.as_str().into(),
        Cell::Number(index.settings.number_of_shards.into()),
        Cell::Number(replicas.into()),
    ];
    let totals = stats.map(|stats| Totals::of([stats]));
    let cell = |make: &dyn Fn(&Totals) -> Cell| totals.as_ref().map_or(Cell::Empty, make);
    row.extend([
        cell(&|totals| Cell::Number(totals.sum.doc_count)),
        cell(&|totals| Cell::Number(totals.sum.deleted_count)),
        Cell::Number(index.created_ms.max(0) as u64),
        Cell::Text(created),
        cell(&|totals| Cell::Bytes(totals.sum.store_size_bytes)),
        cell(&|totals| Cell::Bytes(totals.sum.store_size_bytes)),
        cell(&|totals| Cell::Bytes(totals.sum.data_set_size_bytes)),
        cell(&|totals| Cell::Number(totals.sum.indexing_total)),
        cell(&|totals| Cell::Millis(totals.sum.indexing_time_ms)),
        cell(&|totals| Cell::Number(totals.sum.search_total)),
        cell(&|totals| Cell::Millis(totals.sum.search_time_ms)),
        cell(&|totals| Cell::Number(totals.sum.get_total)),
        cell(&|totals| Cell::Number(totals.sum.refresh_total)),
        cell(&|totals| Cell::Millis(totals.sum.refresh_time_ms)),
        cell(&|totals| Cell::Number(totals.sum.flush_total)),
        cell(&|totals| Cell::Millis(totals.sum.flush_time_ms)),
        cell(&|totals| Cell::Number(totals.sum.merge_current)),
        cell(&|totals| Cell::Number(totals.sum.merge_total)),
        cell(&|totals| Cell::Millis(totals.sum.merge_time_ms)),
        cell(&|totals| Cell::Number(totals.segments)),
    ]);
    Ok(row)
}

/// Returns the distinct tiers of an index's shards, fastest first: several while the index moves.
fn tiers(metadata: &Metadata, stats: &IndexStats) -> String {
    let mut shards: Vec<&ShardStats> = stats.shards.iter().collect();
    shards.sort_by_key(|shard| shard.tier);
    let mut tiers: Vec<&str> = shards
        .into_iter()
        .map(|shard| tier(metadata, &stats.index, shard))
        .collect();
    tiers.dedup();
    tiers.join(",")
}
