//! `_cat/snapshots`.

use std::sync::Arc;

use firn_auth::Privilege;
use firn_engine::snapshot::SnapshotInfo;

use super::health::clock;
use super::table::{CatTable, Cell, Column, help, number, render, text, wants_help};
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::split_list;
use crate::wire::reply::Reply;

pub(super) const TABLE: CatTable = CatTable {
    endpoint: "cat_snapshots",
    action: "cluster:admin/snapshot/get",
    privilege: Privilege::MonitorSnapshot,
    also: None,
    paths: &["/_cat/snapshots", "/_cat/snapshots/{repository}"],
    handler: |edge, call| Box::pin(snapshots(edge, call)),
};

const COLUMNS: &[Column] = &[
    text("id", &["snapshot"], "unique snapshot"),
    text("repository", &["re", "repo"], "repository name"),
    text("status", &["s"], "snapshot status"),
    number(
        "start_epoch",
        &["ste", "startEpoch"],
        "start time in seconds since 1970-01-01 00:00:00",
    ),
    text("start_time", &["sti", "startTime"], "start time in HH:MM:SS"),
    number(
        "end_epoch",
        &["ete", "endEpoch"],
        "end time in seconds since 1970-01-01 00:00:00",
    ),
    text("end_time", &["eti", "endTime"], "end time in HH:MM:SS"),
    number("duration", &["dur"], "duration"),
    number("indices", &["i"], "number of indices"),
    number("successful_shards", &["ss"], "number of successful shards"),
    number("failed_shards", &["fs"], "number of failed shards"),
    number("total_shards", &["ts"], "number of total shards"),
    text("reason", &["r"], "reason for failures").hidden(),
];

/// Lists the snapshots of a repository, or of all repositories.
async fn snapshots(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    if wants_help(&call)? {
        return Ok(help(COLUMNS));
    }
    let ignore_unavailable = call.params.bool("ignore_unavailable", false)?;
    let names = call.captured("repository").map(split_list).unwrap_or_default();
    let all = ["*".to_owned()].to_vec();
    let mut rows = Vec::new();
    for repository in edge.engine.require_snapshots()?.repositories(&call.ctx, &names).await? {
        let found = edge
            .engine
            .require_snapshots()?
            .list_snapshots(&call.ctx, &repository.name, &all, ignore_unavailable)
            .await;
        match found {
            Ok(found) => rows.extend(found.iter().map(row)),
            // For example a repository with an unreachable store.
            Err(_) if ignore_unavailable => {}
            Err(error) => return Err(error.into()),
        }
    }
    render(&call, COLUMNS, rows)
}

fn row(info: &SnapshotInfo) -> Vec<Cell> {
    let (start_epoch, start_time) = clock(info.start_ms);
    let (end_epoch, end_time) = info.end_ms.map_or((Cell::Empty, Cell::Empty), clock);
    let duration = info.end_ms.map(|end_ms| (end_ms - info.start_ms).max(0) as u64);
    let reasons: Vec<&str> = info.failures.iter().map(|failure| failure.reason.as_str()).collect();
    vec![
        info.name.as_str().into(),
        info.repository.as_str().into(),
        info.state.name().into(),
        start_epoch,
        start_time,
        end_epoch,
        end_time,
        duration.map_or(Cell::Empty, Cell::Millis),
        Cell::Number(info.indices.len() as u64),
        Cell::Number(info.successful_shards.into()),
        Cell::Number(info.failures.len() as u64),
        Cell::Number(info.total_shards.into()),
        if reasons.is_empty() {
            Cell::Empty
        } else {
            reasons.join("; ").into()
        },
    ]
}
