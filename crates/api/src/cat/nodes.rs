//! `_cat/nodes`.

use std::sync::Arc;

use firn_control::Privilege;

use super::CatTable;
use super::table::{Cell, Column, help, number, render, text, wants_help};
use crate::error::ApiError;
use crate::reply::Reply;
use crate::request::{Call, Edge};

pub(super) const TABLE: CatTable = CatTable {
    endpoint: "cat_nodes",
    action: "cluster:monitor/cat/nodes",
    privilege: Privilege::Monitor,
    also: None,
    paths: &["/_cat/nodes"],
    handler: |edge, call| Box::pin(nodes(edge, call)),
};

const COLUMNS: &[Column] = &[
    text("id", &["nodeId"], "unique node id").hidden(),
    number("pid", &["p"], "process id").hidden(),
    text("ip", &["i"], "ip address"),
    text("http_address", &["http"], "bound http address").hidden(),
    text("version", &["v"], "es version").hidden(),
    number("disk.total", &["dt", "diskTotal"], "total disk space").hidden(),
    number("disk.avail", &["d", "da", "disk", "diskAvail"], "available disk space").hidden(),
    number(
        "disk.used_percent",
        &["dup", "diskUsedPercent"],
        "percent used of the disk",
    ),
    number("uptime", &["u"], "node uptime").hidden(),
    number("search.active", &[], "searches running").hidden(),
    number("write.active", &[], "write tasks running").hidden(),
    text(
        "node.role",
        &["r", "role", "nodeRole"],
        "m:master eligible node, d:data node",
    ),
    text("master", &["m"], "*:current master"),
    text("name", &["n"], "node name"),
];

async fn nodes(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    if wants_help(&call)? {
        return Ok(help(COLUMNS));
    }
    let config = &edge.config;
    let stats = edge.engine.node_stats(&call.ctx).await?;
    let full_id = call.params.bool("full_id", false)?;
    let id = if full_id {
        config.node_id.clone()
    } else {
        config.node_id.chars().take(4).collect()
    };
    let used = stats.disk_total_bytes.saturating_sub(stats.disk_available_bytes);
    let used_percent = if stats.disk_total_bytes == 0 {
        Cell::Empty
    } else {
        Cell::Float(used as f64 * 100.0 / stats.disk_total_bytes as f64)
    };
    let row = vec![
        id.into(),
        Cell::Number(std::process::id().into()),
        edge.host().into(),
        config.http_address.as_str().into(),
        config.version.number.as_str().into(),
        Cell::Bytes(stats.disk_total_bytes),
        Cell::Bytes(stats.disk_available_bytes),
        used_percent,
        Cell::Millis((edge.now_ms() - config.started_ms).max(0) as u64),
        Cell::Number(stats.search_active),
        Cell::Number(stats.write_active),
        "dm".into(),
        "*".into(),
        config.node_name.as_str().into(),
    ];
    render(&call, COLUMNS, vec![row])
}
