//! `_cat/nodeattrs`: the `node.attr.*` of the node.

use std::sync::Arc;

use firn_auth::Privilege;

use super::table::{CatTable, Cell, Column, help, number, render, text, wants_help};
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(super) const TABLE: CatTable = CatTable {
    endpoint: "cat_nodeattrs",
    action: "cluster:monitor/cat/nodeattrs",
    privilege: Privilege::Monitor,
    also: None,
    paths: &["/_cat/nodeattrs"],
    handler: |edge, call| Box::pin(attributes(edge, call)),
};

const COLUMNS: &[Column] = &[
    text("node", &["name"], "node name"),
    text("id", &["nodeId"], "unique node id").hidden(),
    number("pid", &["p"], "process id").hidden(),
    text("host", &["h"], "host name"),
    text("ip", &["i"], "ip address"),
    number("port", &["po"], "bound port").hidden(),
    text("attr", &["attr.name"], "attribute description"),
    text("value", &["attr.value"], "attribute value"),
];

async fn attributes(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    if wants_help(&call)? {
        return Ok(help(COLUMNS));
    }
    let config = &edge.config;
    let rows = config.attributes.iter().map(|(name, value)| {
        vec![
            config.node_name.as_str().into(),
            config.node_id.chars().take(4).collect::<String>().into(),
            Cell::Number(std::process::id().into()),
            edge.host().into(),
            edge.host().into(),
            config.http_address.rsplit(':').next().unwrap_or("").into(),
            name.as_str().into(),
            value.as_str().into(),
        ]
    });
    render(&call, COLUMNS, rows.collect())
}
