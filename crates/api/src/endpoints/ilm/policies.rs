//! `_ilm/policy`.

use std::sync::Arc;

use firn_engine::{Error, ErrorKind};
use firn_model::ilm::NAME;
use firn_model::metadata::{Command, IlmCommand, Metadata};
use firn_model::names::matches_pattern;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::split_list;
use crate::wire::reply::Reply;

/// `GET /_ilm/policy[/{name}]`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let wanted = call.captured("name").map(split_list).unwrap_or_default();
    let policies = &metadata.ilm.by_name;
    for name in wanted.iter().filter(|name| !name.contains('*')) {
        if !policies.contains_key(name) {
            let reason = format!("Lifecycle policy not found: {name}");
            return Err(Error::new(ErrorKind::ResourceNotFound, reason).into());
        }
    }
    let answer: Map<String, Value> = policies
        .iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|pattern| matches_pattern(pattern, name)))
        .map(|(name, stored)| {
            let printed = json!({
                "version": stored.version,
                "modified_date": stored.modified_date(),
                "policy": stored.policy.print(),
                "in_use_by": in_use_by(&metadata, name),
            });
            (name.clone(), printed)
        })
        .collect();
    Ok(Reply::ok(&Value::Object(answer)))
}

/// Returns the users of a policy: indices, templates, and the data streams of those.
fn in_use_by(metadata: &Metadata, policy: &str) -> Value {
    let indices: Vec<&str> = metadata
        .indices
        .values()
        .filter(|index| index.lifecycle_policy() == Some(policy))
        .map(|index| index.name.as_str())
        .collect();
    let templates: Vec<&str> = metadata
        .index_templates
        .iter()
        .filter(|(_, template)| {
            let settings = metadata.compose(template).map(|content| content.settings);
            settings.is_ok_and(|settings| settings.get(NAME).and_then(Value::as_str) == Some(policy))
        })
        .map(|(name, _)| name.as_str())
        .collect();
    let streams: Vec<&str> = metadata
        .data_streams
        .values()
        .filter(|stream| templates.contains(&stream.template.as_str()))
        .map(|stream| stream.name.as_str())
        .collect();
    json!({"indices": indices, "data_streams": streams, "composable_templates": templates})
}

/// `PUT /_ilm/policy/{name}`.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mut body = call.object()?;
    let policy = body
        .remove("policy")
        .ok_or_else(|| Error::illegal_argument("Required [policy]"))?;
    if let Some(other) = body.keys().next() {
        return Err(Error::parsing(format!("[put_lifecycle_request] unknown field [{other}]")).into());
    }
    let name = call.capture("name").to_owned();
    execute(&edge, &call, IlmCommand::PutPolicy { name, policy }).await?;
    Ok(Reply::acknowledged())
}

/// `DELETE /_ilm/policy/{name}`.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let name = call.capture("name").to_owned();
    execute(&edge, &call, IlmCommand::DeletePolicy { name }).await?;
    Ok(Reply::acknowledged())
}

/// Applies a command of ILM.
pub(super) async fn execute(edge: &Edge, call: &Call, command: IlmCommand) -> Result<(), ApiError> {
    edge.engine.execute(&call.ctx, Command::Ilm(command)).await?;
    Ok(())
}
