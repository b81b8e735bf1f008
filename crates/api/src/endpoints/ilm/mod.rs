//! `_ilm`: lifecycle policies, the state of ILM, and the progress of indices.

mod explain;
mod policies;

use std::sync::Arc;

use firn_engine::Error;
use firn_model::ilm::{OperationMode, StepKey};
use firn_model::metadata::IlmCommand;
use serde_json::{Value, json};

pub(crate) use explain::explain;
pub(crate) use policies::{delete as delete_policy, get as get_policy, put as put_policy};

use self::explain::options;
use self::policies::execute;
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// `GET /_ilm/status`.
pub(crate) async fn status(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    Ok(Reply::ok(&json!({"operation_mode": metadata.ilm.mode.as_str()})))
}

/// `POST /_ilm/start`.
pub(crate) async fn start(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mode = OperationMode::Running;
    execute(&edge, &call, IlmCommand::SetMode { mode }).await?;
    Ok(Reply::acknowledged())
}

/// `POST /_ilm/stop`: running steps complete first.
pub(crate) async fn stop(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    if metadata.ilm.mode == OperationMode::Running {
        let mode = OperationMode::Stopping;
        execute(&edge, &call, IlmCommand::SetMode { mode }).await?;
    }
    Ok(Reply::acknowledged())
}

/// `POST /_ilm/move/{index}`.
pub(crate) async fn move_to_step(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let body = call.required_json()?;
    let fields = body.as_object().cloned().unwrap_or_default();
    if let Some(other) = fields
        .keys()
        .find(|key| !matches!(key.as_str(), "current_step" | "next_step"))
    {
        return Err(Error::parsing(format!("[move_to_step_request] unknown field [{other}]")).into());
    }
    let part = |name: &str| {
        let missing = || Error::illegal_argument(format!("Required [{name}]"));
        fields.get(name).ok_or_else(missing)
    };
    let current = StepKey::parse(part("current_step")?)?;
    let next = part("next_step")?;
    if let Some(other) = next.as_object().and_then(|next| {
        next.keys()
            .find(|key| !matches!(key.as_str(), "phase" | "action" | "name"))
    }) {
        return Err(Error::parsing(format!("[next_step] unknown field [{other}]")).into());
    }
    let text = |name: &str| next[name].as_str().map(str::to_owned);
    let phase = text("phase").ok_or_else(|| Error::illegal_argument("Required [phase] of [next_step]"))?;
    if text("name").is_some() && text("action").is_none() {
        let reason = "phase; phase and action; or phase, action, and step must be provided, but a step name was \
                      provided without a corresponding action";
        return Err(Error::illegal_argument(reason).into());
    }
    let command = IlmCommand::Move {
        index: call.capture("index").to_owned(),
        current,
        phase,
        action: text("action"),
        step: text("name"),
    };
    execute(&edge, &call, command).await?;
    Ok(Reply::acknowledged())
}

/// `POST /{index}/_ilm/retry`.
pub(crate) async fn retry(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let names = named(&edge, &call).await?;
    execute(&edge, &call, IlmCommand::Retry { names }).await?;
    Ok(Reply::acknowledged())
}

/// `POST /{index}/_ilm/remove`.
pub(crate) async fn remove(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let names = named(&edge, &call).await?;
    execute(&edge, &call, IlmCommand::Remove { names }).await?;
    Ok(Reply::ok(
        &json!({"has_failures": false, "failed_indexes": Value::Array(Vec::new())}),
    ))
}

async fn named(edge: &Edge, call: &Call) -> Result<Vec<String>, ApiError> {
    let metadata = edge.metadata(call).await?;
    let target = call.target(options())?;
    edge.resolve_names(&target, &metadata)
}
