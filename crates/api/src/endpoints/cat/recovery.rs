//! `_cat/recovery`.

use std::sync::Arc;

use firn_auth::Privilege;
use firn_engine::recovery::{RecoverySource, ShardRecovery};
use firn_model::period::print_instant;

use super::table::{CatTable, Cell, Column, help, number, render, text, wants_help};
use crate::endpoints::call::Call;
use crate::endpoints::recovery::{percent, shards};
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(super) const TABLE: CatTable = CatTable {
    endpoint: "cat_recovery",
    action: "cluster:monitor/cat/recovery",
    privilege: Privilege::Monitor,
    also: None,
    paths: &["/_cat/recovery", "/_cat/recovery/{index}"],
    handler: |edge, call| Box::pin(recovery(edge, call)),
};

const COLUMNS: &[Column] = &[
    text("index", &["i", "idx"], "index name"),
    number("shard", &["s", "sh"], "shard name"),
    text("start_time", &["start"], "recovery start time").hidden(),
    number(
        "start_time_millis",
        &["start_millis"],
        "recovery start time in epoch milliseconds",
    )
    .hidden(),
    text("stop_time", &["stop"], "recovery stop time").hidden(),
    number(
        "stop_time_millis",
        &["stop_millis"],
        "recovery stop time in epoch milliseconds",
    )
    .hidden(),
    number("time", &["t", "ti"], "recovery time"),
    text("type", &["ty"], "recovery type"),
    text("stage", &["st"], "recovery stage"),
    text("source_host", &["shost"], "source host"),
    text("source_node", &["snode"], "source node name"),
    text("target_host", &["thost"], "target host"),
    text("target_node", &["tnode"], "target node name"),
    text("repository", &["rep"], "repository"),
    text("snapshot", &["snap"], "snapshot"),
    number("files", &["f"], "number of files to recover"),
    number("files_recovered", &["fr"], "files recovered"),
    number("files_percent", &["fp"], "percent of files recovered"),
    number("files_total", &["tf"], "total number of files"),
    number("bytes", &["b"], "number of bytes to recover"),
    number("bytes_recovered", &["br"], "bytes recovered"),
    number("bytes_percent", &["bp"], "percent of bytes recovered"),
    number("bytes_total", &["tb"], "total number of bytes"),
    number("translog_ops", &["to"], "number of translog ops to recover"),
    number("translog_ops_recovered", &["tor"], "translog ops recovered"),
    number("translog_ops_percent", &["top"], "percent of translog ops recovered"),
];

/// Placeholder for absent values, as in Elasticsearch.
const NOTHING: &str = "n/a";

async fn recovery(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    if wants_help(&call)? {
        return Ok(help(COLUMNS));
    }
    let shards = shards(&edge, &call).await?;
    let rows = shards.iter().map(|shard| row(&edge, shard));
    render(&call, COLUMNS, rows.collect())
}

fn row(edge: &Edge, shard: &ShardRecovery) -> Vec<Cell> {
    let (repository, snapshot) = match &shard.source {
        RecoverySource::Snapshot {
            repository, snapshot, ..
        } => (repository.as_str(), snapshot.as_str()),
        RecoverySource::EmptyStore | RecoverySource::ExistingStore => (NOTHING, NOTHING),
    };
    let (source_host, source_node) = match &shard.source {
        RecoverySource::ExistingStore => (edge.host(), edge.config.node_name.as_str()),
        RecoverySource::EmptyStore | RecoverySource::Snapshot { .. } => (NOTHING, NOTHING),
    };
    let millis = |ms: i64| Cell::Number(ms.max(0) as u64);
    let stop = shard.stop_ms;
    vec![
        shard.index.as_str().into(),
        Cell::Number(shard.shard.into()),
        print_instant(shard.start_ms).into(),
        millis(shard.start_ms),
        stop.map_or(Cell::Empty, |at| print_instant(at).into()),
        stop.map_or(Cell::Empty, millis),
        Cell::Millis(shard.time_ms(edge.now_ms())),
        shard.source.name().to_lowercase().into(),
        shard.stage().to_lowercase().into(),
        source_host.into(),
        source_node.into(),
        edge.host().into(),
        edge.config.node_name.as_str().into(),
        repository.into(),
        snapshot.into(),
        Cell::Number(shard.files.to_recover()),
        Cell::Number(shard.files.recovered),
        percent(shard.files).into(),
        Cell::Number(shard.files.total),
        Cell::Bytes(shard.bytes.to_recover()),
        Cell::Bytes(shard.bytes.recovered),
        percent(shard.bytes).into(),
        Cell::Bytes(shard.bytes.total),
        Cell::Number(0),
        Cell::Number(0),
        "100.0%".into(),
    ]
}
