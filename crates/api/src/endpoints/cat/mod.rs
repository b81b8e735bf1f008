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

use self::table::CatTable;
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::{Body, Reply};

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
