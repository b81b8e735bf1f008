//! `_cat/nodes`.

use std::sync::Arc;

use firn_auth::Privilege;

use super::table::{CatTable, Cell, Column, help, number, render, text, wants_help};
use crate::endpoints::call::Call;
use crate::endpoints::nodes::role_letters;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

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
    number("port", &["po"], "bound port").hidden(),
    text("http_address", &["http"], "bound http address").hidden(),
    text("version", &["v"], "es version").hidden(),
    text("flavor", &["f"], "es distribution flavor").hidden(),
    text("type", &["t"], "es distribution type").hidden(),
    text("build", &["b"], "es build hash").hidden(),
    number("disk.total", &["dt", "diskTotal"], "total disk space").hidden(),
    number("disk.used", &["du", "diskUsed"], "used disk space").hidden(),
    number("disk.avail", &["d", "da", "disk", "diskAvail"], "available disk space").hidden(),
    number(
        "disk.used_percent",
        &["dup", "diskUsedPercent"],
        "percent used of the disk",
    )
    .hidden(),
    number(
        "heap.current",
        &["hc", "heapCurrent"],
        "process memory without mapped files",
    )
    .hidden(),
    number(
        "heap.percent",
        &["hp", "heapPercent"],
        "the same in percent of the machine's memory",
    ),
    number("heap.max", &["hm", "heapMax"], "the machine's memory").hidden(),
    number("ram.current", &["rc", "ramCurrent"], "used machine memory").hidden(),
    number("ram.percent", &["rp", "ramPercent"], "used machine memory in percent"),
    number("ram.max", &["rm", "ramMax"], "total machine memory").hidden(),
    number(
        "file_desc.current",
        &["fdc", "fileDescriptorCurrent"],
        "used file descriptors",
    )
    .hidden(),
    number("file_desc.max", &["fdm", "fileDescriptorMax"], "max file descriptors").hidden(),
    number("cpu", &[], "recent cpu usage"),
    number("load_1m", &["l"], "1m load avg"),
    number("load_5m", &[], "5m load avg"),
    number("load_15m", &[], "15m load avg"),
    number("uptime", &["u"], "node uptime").hidden(),
    number("search.active", &[], "searches running").hidden(),
    number("write.active", &[], "write tasks running").hidden(),
    text(
        "node.role",
        &["r", "role", "nodeRole"],
        "m:master eligible node, d:data node, f:frozen node, -:coordinating node only",
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
    let host = edge.host_meter.read(edge.now_ms());
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
    let known = |number: i64| u64::try_from(number).map_or(Cell::Empty, Cell::Number);
    let load = |index: usize| host.load.map_or(Cell::Empty, |load| Cell::Float(load[index]));
    let row = vec![
        id.into(),
        Cell::Number(std::process::id().into()),
        edge.host().into(),
        config.http_address.rsplit(':').next().unwrap_or("").into(),
        config.http_address.as_str().into(),
        config.version.number.as_str().into(),
        "default".into(),
        "tar".into(),
        config.version.build_hash.as_str().into(),
        Cell::Bytes(stats.disk_total_bytes),
        Cell::Bytes(used),
        Cell::Bytes(stats.disk_available_bytes),
        used_percent,
        Cell::Bytes(host.heap_bytes),
        Cell::Number(host.percent_of_memory(host.heap_bytes)),
        Cell::Bytes(host.memory_bytes),
        Cell::Bytes(host.memory_used_bytes()),
        Cell::Number(host.percent_of_memory(host.memory_used_bytes())),
        Cell::Bytes(host.memory_bytes),
        known(host.open_files),
        known(host.open_files_max),
        known(host.cpu_percent),
        load(0),
        load(1),
        load(2),
        Cell::Millis((edge.now_ms() - config.started_ms).max(0) as u64),
        Cell::Number(stats.search_active),
        Cell::Number(stats.write_active),
        role_letters(&config.roles).into(),
        "*".into(),
        config.node_name.as_str().into(),
    ];
    render(&call, COLUMNS, vec![row])
}
