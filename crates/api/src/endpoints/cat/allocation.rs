//! `_cat/allocation`: data paths and their disk usage. Elasticsearch has a row per node; firn has a row per data path,
//! because each tier has a separate device.

use std::sync::Arc;

use firn_auth::Privilege;

use super::table::{CatTable, Cell, Column, help, number, render, text, wants_help};
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(super) const TABLE: CatTable = CatTable {
    endpoint: "cat_allocation",
    action: "cluster:monitor/cat/allocation",
    privilege: Privilege::Monitor,
    also: None,
    paths: &["/_cat/allocation"],
    handler: |edge, call| Box::pin(allocation(edge, call)),
};

const COLUMNS: &[Column] = &[
    number("shards", &["s"], "number of shards on the data path"),
    number("disk.indices", &["di", "diskIndices"], "disk used by the shards"),
    number(
        "disk.used",
        &["du", "diskUsed"],
        "disk used (total, not just by the shards)",
    ),
    number("disk.avail", &["da", "diskAvail"], "disk available"),
    number("disk.total", &["dt", "diskTotal"], "total capacity of the device"),
    number("disk.percent", &["dp", "diskPercent"], "percent disk used"),
    text("host", &["h"], "host of node"),
    text("ip", &[], "ip of node"),
    text("node", &["n"], "name of node"),
    text("tier", &["t"], "tier that the data path is for").hidden(),
    text("path", &["p"], "the data path").hidden(),
];

async fn allocation(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    if wants_help(&call)? {
        return Ok(help(COLUMNS));
    }
    let devices = edge.engine.require_tiers()?.devices(&call.ctx).await?;
    let rows = devices.into_iter().map(|device| {
        let used = device.total_bytes.saturating_sub(device.available_bytes);
        vec![
            Cell::Number(device.shards),
            Cell::Bytes(device.shard_bytes),
            Cell::Bytes(used),
            Cell::Bytes(device.available_bytes),
            Cell::Bytes(device.total_bytes),
            match used.saturating_mul(100).checked_div(device.total_bytes) {
                Some(percent) => Cell::Number(percent),
                None => Cell::Empty,
            },
            edge.host().into(),
            edge.host().into(),
            edge.config.node_name.as_str().into(),
            device.tier.name().into(),
            device.path.as_str().into(),
        ]
    });
    render(&call, COLUMNS, rows.collect())
}
