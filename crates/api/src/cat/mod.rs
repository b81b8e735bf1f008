//! `_cat`: human-readable tables, one file per table.

mod aliases;
mod allocation;
mod count;
mod health;
mod indices;
mod nodeattrs;
mod nodes;
mod recovery;
mod repositories;
mod segments;
mod shards;
mod snapshots;
mod table;
mod templates;

use std::sync::Arc;

use firn_auth::Privilege;

use crate::error::ApiError;
use crate::reply::{Body, Reply};
use crate::request::{Call, Edge};
use crate::router::Handler;

/// Table: its paths, columns and rows.
pub(crate) struct CatTable {
    /// Name in metrics.
    pub(crate) endpoint: &'static str,
    /// Action in `_tasks`.
    pub(crate) action: &'static str,
    /// Privilege that the caller needs.
    pub(crate) privilege: Privilege,
    /// Privilege that suffices as an alternative.
    pub(crate) also: Option<Privilege>,
    pub(crate) paths: &'static [&'static str],
    pub(crate) handler: Handler,
}

/// Tables in the order of `GET /_cat`.
pub(crate) static TABLES: &[CatTable] = &[
    aliases::TABLE,
    allocation::TABLE,
    count::TABLE,
    health::TABLE,
    indices::TABLE,
    nodeattrs::TABLE,
    nodes::TABLE,
    recovery::TABLE,
    repositories::TABLE,
    segments::TABLE,
    shards::TABLE,
    snapshots::TABLE,
    templates::TABLE,
];

pub(crate) const PARAMS: &[&str] = &[
    "active_only",
    "bytes",
    "detailed",
    "full_id",
    "h",
    "health",
    "help",
    "include_unloaded_segments",
    "pri",
    "s",
    "time",
    "ts",
    "v",
];

/// `GET /_cat`: the list of tables.
pub(crate) async fn index(_: Arc<Edge>, _: Call) -> Result<Reply, ApiError> {
    let mut text = String::from("=^.^=\n");
    for path in TABLES.iter().flat_map(|table| table.paths) {
        text.push_str(path);
        text.push('\n');
    }
    Ok(Reply {
        status: http::StatusCode::OK,
        body: Body::Text(text),
    })
}
