//! Creation, cloning and deletion of snapshots.

use std::sync::Arc;

use firn_engine::Error;
use firn_engine::snapshot::{CloneSnapshot, CreateSnapshot};
use firn_model::names::IndicesOptions;
use firn_model::repository::SNAPSHOT_METADATA_BYTES_MAX;
use firn_query::search::IndexTarget;
use serde_json::{Value, json};

use super::body::Fields;
use super::list;
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::{set_expand_wildcards, split_list};
use crate::wire::reply::Reply;

/// Action in `_tasks` while the snapshot is created.
const CREATE_ACTION: &str = "cluster:admin/snapshot/create[n]";

/// `PUT /_snapshot/{repository}/{snapshot}`.
pub(crate) async fn create(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mut body = Fields::new("a snapshot", call.object()?);
    let mut options = IndicesOptions {
        ignore_unavailable: body.flag("ignore_unavailable", false)?,
        expand_closed: true,
        expand_hidden: true,
        ..IndicesOptions::default()
    };
    if let Some(states) = body.list("expand_wildcards")? {
        set_expand_wildcards(&mut options, states.iter().map(String::as_str))?;
    }
    refuse_feature_states(&mut body)?;
    let request = CreateSnapshot {
        repository: call.capture("repository").to_owned(),
        name: call.capture("snapshot").to_owned(),
        target: IndexTarget {
            expression: body.list("indices")?.unwrap_or_default(),
            options,
        },
        include_global_state: body.flag("include_global_state", true)?,
        partial: body.flag("partial", false)?,
        metadata: body.object("metadata")?,
        wait: call.params.bool("wait_for_completion", false)?,
    };
    body.end()?;
    if let Some(metadata) = &request.metadata {
        let bytes = serde_json::to_string(metadata).map_or(0, |text| text.len());
        if bytes > SNAPSHOT_METADATA_BYTES_MAX {
            let problem =
                format!("metadata must be smaller than {SNAPSHOT_METADATA_BYTES_MAX} bytes, but was [{bytes}]");
            return Err(ApiError::validation(&[problem]));
        }
    }
    let wait = request.wait;
    let description = format!("snapshot [{}:{}]", request.repository, request.name);
    let ctx = call.lasting(&edge, CREATE_ACTION, description);
    let info = edge.engine.require_snapshots()?.create_snapshot(&ctx, request).await?;
    Ok(Reply::ok(&match wait {
        true => json!({"snapshot": list::print(&info, list::Detail::default())}),
        false => json!({"accepted": true}),
    }))
}

/// Refuses feature states: firn has no features with system indices, so only an empty list is possible.
pub(super) fn refuse_feature_states(body: &mut Fields) -> Result<(), ApiError> {
    match body.list("feature_states")? {
        None => Ok(()),
        Some(states) if states.is_empty() || states == ["none"] => Ok(()),
        Some(_) => Err(Error::not_implemented("[feature_states] of snapshots").into()),
    }
}

/// `PUT /_snapshot/{repository}/{snapshot}/_clone/{target_snapshot}`.
pub(crate) async fn clone(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let Value::Object(body) = call.required_json()? else {
        return Err(Error::parsing("the body of a clone is not an object").into());
    };
    let mut body = Fields::new("a clone", body);
    let indices = body.list("indices")?;
    body.end()?;
    let request = CloneSnapshot {
        repository: call.capture("repository").to_owned(),
        source: call.capture("snapshot").to_owned(),
        target: call.capture("target_snapshot").to_owned(),
        indices: indices
            .filter(|indices| !indices.is_empty())
            .ok_or_else(|| ApiError::validation(&["indices patterns are missing".to_owned()]))?,
    };
    edge.engine
        .require_snapshots()?
        .clone_snapshot(&call.ctx, request)
        .await?;
    Ok(Reply::acknowledged())
}

/// `DELETE /_snapshot/{repository}/{snapshot}`.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let names = split_list(call.capture("snapshot"));
    edge.engine
        .require_snapshots()?
        .delete_snapshot(&call.ctx, call.capture("repository"), &names)
        .await?;
    Ok(Reply::acknowledged())
}
