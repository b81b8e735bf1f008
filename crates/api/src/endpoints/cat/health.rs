//! `_cat/health`.

use std::sync::Arc;

use firn_auth::Privilege;
use firn_query::search::IndexTarget;

use super::table::{CatTable, Cell, Column, help, number, render, text, wants_help};
use crate::endpoints::call::Call;
use crate::endpoints::cluster::health::{active_percent, look};
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::all_indices;
use crate::wire::reply::Reply;

pub(super) const TABLE: CatTable = CatTable {
    endpoint: "cat_health",
    action: "cluster:monitor/cat/health",
    privilege: Privilege::Monitor,
    also: Some(Privilege::MonitorIndices),
    paths: &["/_cat/health"],
    handler: |edge, call| Box::pin(health(edge, call)),
};

const COLUMNS: &[Column] = &[
    text("epoch", &["t", "time"], "seconds since 1970-01-01 00:00:00"),
    text("timestamp", &["ts", "hms", "hhmmss"], "time in HH:MM:SS"),
    text("cluster", &["cl"], "cluster name"),
    text("status", &["st"], "health status"),
    number("node.total", &["nt", "nodeTotal"], "total number of nodes"),
    number("node.data", &["nd", "nodeData"], "number of nodes that can store data"),
    number(
        "shards",
        &["t", "sh", "shards.total", "shardsTotal"],
        "total number of shards",
    ),
    number(
        "pri",
        &["p", "shards.primary", "shardsPrimary"],
        "number of primary shards",
    ),
    number(
        "relo",
        &["r", "shards.relocating", "shardsRelocating"],
        "number of relocating nodes",
    ),
    number(
        "init",
        &["i", "shards.initializing", "shardsInitializing"],
        "number of initializing nodes",
    ),
    number(
        "unassign",
        &["u", "shards.unassigned", "shardsUnassigned"],
        "number of unassigned shards",
    ),
    number("pending_tasks", &["pt", "pendingTasks"], "number of pending tasks"),
    number(
        "max_task_wait_time",
        &["mtwt", "maxTaskWaitTime"],
        "wait time of longest task pending",
    ),
    number(
        "active_shards_percent",
        &["asp", "activeShardsPercent"],
        "active number of shards in percent",
    ),
];

/// Returns the seconds since the epoch, and the time of day in UTC.
pub(super) fn clock(now_ms: i64) -> (Cell, Cell) {
    let seconds = now_ms.max(0) as u64 / 1000;
    let of_day = seconds % 86_400;
    let time = format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60);
    (Cell::Number(seconds), Cell::Text(time))
}

async fn health(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    if wants_help(&call)? {
        return Ok(help(COLUMNS));
    }
    let metadata = edge.metadata(&call).await?;
    let target = IndexTarget {
        expression: Vec::new(),
        options: all_indices(),
    };
    let health = look(&edge, &call.ctx, target, &metadata).await?;
    let (epoch, timestamp) = clock(edge.now_ms());
    let mut row = vec![
        edge.config.cluster_name.as_str().into(),
        health.status.name().into(),
        Cell::Number(1),
        Cell::Number(1),
        Cell::Number(health.active),
        Cell::Number(health.active),
        Cell::Number(0),
        Cell::Number(health.initializing),
        Cell::Number(health.unassigned),
        Cell::Number(0),
        "-".into(),
        Cell::Text(format!("{:.1}%", active_percent(&health))),
    ];
    let mut columns = COLUMNS;
    if call.params.bool("ts", true)? {
        row.insert(0, timestamp);
        row.insert(0, epoch);
    } else {
        columns = &COLUMNS[2..];
    }
    render(&call, columns, vec![row])
}
