//! `_mount`: mounting of an index from a snapshot.

use std::sync::Arc;

use firn_engine::Error;
use firn_engine::mounts::{MountSnapshot, Storage};
use serde_json::{Value, json};

use super::body::Fields;
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(crate) const PARAMS: &[&str] = &["storage", "wait_for_completion"];

/// `POST /_snapshot/{repository}/{snapshot}/_mount`. The index is searchable when the request is answered, for any
/// `wait_for_completion`: the parameter affects only the form of the answer.
pub(crate) async fn mount(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mut body = Fields::new("a mount", call.object()?);
    let Some(index) = body.text("index")? else {
        return Err(ApiError::validation(&["index name is missing".to_owned()]));
    };
    let storage = match call.params.get("storage") {
        None | Some("full_copy") => Storage::FullCopy,
        Some("shared_cache") => Storage::SharedCache,
        Some(other) => {
            return Err(Error::illegal_argument(format!("unknown searchable snapshot storage [{other}]")).into());
        }
    };
    let request = MountSnapshot {
        repository: call.capture("repository").to_owned(),
        snapshot: call.capture("snapshot").to_owned(),
        index,
        renamed_index: body.text("renamed_index")?,
        storage,
        index_settings: body.take("index_settings").unwrap_or(Value::Null),
        ignore_index_settings: body.list("ignore_index_settings")?.unwrap_or_default(),
    };
    body.end()?;
    let wait = call.params.bool("wait_for_completion", false)?;
    let mounted = edge.engine.require_mounts()?.mount_snapshot(&call.ctx, request).await?;
    if !wait {
        return Ok(Reply::ok(&json!({"accepted": true})));
    }
    Ok(Reply::ok(&json!({
        "snapshot": {
            "snapshot": mounted.snapshot,
            "indices": [mounted.index],
            "shards": {
                "total": mounted.total_shards,
                "failed": mounted.total_shards - mounted.successful_shards,
                "successful": mounted.successful_shards,
            },
        },
    })))
}
