//! `_cat/repositories`.

use std::sync::Arc;

use firn_auth::Privilege;

use super::table::{CatTable, Column, help, render, text, wants_help};
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(super) const TABLE: CatTable = CatTable {
    endpoint: "cat_repositories",
    action: "cluster:admin/repository/get",
    privilege: Privilege::MonitorSnapshot,
    also: None,
    paths: &["/_cat/repositories"],
    handler: |edge, call| Box::pin(repositories(edge, call)),
};

const COLUMNS: &[Column] = &[
    text("id", &["repoId"], "unique repository id"),
    text("type", &["t"], "repository type"),
];

async fn repositories(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    if wants_help(&call)? {
        return Ok(help(COLUMNS));
    }
    let repositories = edge.engine.require_snapshots()?.repositories(&call.ctx, &[]).await?;
    let rows = repositories
        .into_iter()
        .map(|repository| vec![repository.name.into(), repository.kind.into()]);
    render(&call, COLUMNS, rows.collect())
}
