//! `_cluster`: health, settings, statistics and state.

pub(crate) mod health;
pub(crate) mod settings;
pub(crate) mod state;
pub(crate) mod stats;

use std::sync::Arc;

use serde_json::json;

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(crate) const HEALTH_PARAMS: &[&str] = &[
    "expand_wildcards",
    "level",
    "wait_for_active_shards",
    "wait_for_events",
    "wait_for_no_initializing_shards",
    "wait_for_no_relocating_shards",
    "wait_for_nodes",
    "wait_for_status",
];

/// `GET /_cluster/pending_tasks`: metadata changes are applied at once, so none is ever pending.
pub(crate) async fn pending_tasks(_: Arc<Edge>, _: Call) -> Result<Reply, ApiError> {
    Ok(Reply::ok(&json!({"tasks": []})))
}
