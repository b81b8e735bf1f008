//! `_restore`: restore of indices from snapshots.

use std::sync::Arc;

use firn_engine::Error;
use firn_engine::snapshot::RestoreSnapshot;
use serde_json::{Value, json};

use super::body::Fields;
use super::create::refuse_feature_states;
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// Action in `_tasks` while indices are restored.
const ACTION: &str = "cluster:admin/snapshot/restore[n]";

/// `POST /_snapshot/{repository}/{snapshot}/_restore`.
pub(crate) async fn restore(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mut body = Fields::new("a restore", call.object()?);
    refuse_feature_states(&mut body)?;
    if body.take("rename_alias_pattern").is_some() || body.take("rename_alias_replacement").is_some() {
        return Err(Error::not_implemented("[rename_alias_pattern] of restores").into());
    }
    let rename = match (body.text("rename_pattern")?, body.text("rename_replacement")?) {
        (Some(pattern), Some(replacement)) => Some((pattern, replacement)),
        _ => None,
    };
    let request = RestoreSnapshot {
        repository: call.capture("repository").to_owned(),
        snapshot: call.capture("snapshot").to_owned(),
        indices: body.list("indices")?.unwrap_or_default(),
        ignore_unavailable: body.flag("ignore_unavailable", false)?,
        include_global_state: body.flag("include_global_state", false)?,
        include_aliases: body.flag("include_aliases", true)?,
        partial: body.flag("partial", false)?,
        rename,
        index_settings: body.take("index_settings").unwrap_or(Value::Null),
        ignore_index_settings: body.list("ignore_index_settings")?.unwrap_or_default(),
        wait: call.params.bool("wait_for_completion", false)?,
    };
    body.end()?;
    let description = format!("restore of snapshot [{}:{}]", request.repository, request.snapshot);
    let ctx = call.lasting(&edge, ACTION, description);
    let restored = edge.engine.require_snapshots()?.restore_snapshot(&ctx, request).await?;
    if !restored.done {
        return Ok(Reply::ok(&json!({"accepted": true})));
    }
    Ok(Reply::ok(&json!({
        "snapshot": {
            "snapshot": restored.snapshot,
            "indices": restored.indices,
            "shards": {
                "total": restored.total_shards,
                "failed": restored.total_shards - restored.successful_shards,
                "successful": restored.successful_shards,
            },
        },
    })))
}
