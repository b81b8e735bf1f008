//! `_firn/channels`: the channels that deliver alerts. They belong to operators.

use std::sync::Arc;

use firn_engine::{Error, ErrorKind};
use firn_model::metadata::{Command, DetectionCommand};
use firn_notify::{Channel, Notifier};
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// Returns the notifier of the server.
pub(super) fn notifier(edge: &Edge) -> Result<&Arc<Notifier>, Error> {
    let notifier = edge.config.notifier.as_ref();
    notifier.ok_or_else(|| Error::new(ErrorKind::Unavailable, "this server delivers no alerts"))
}

fn missing(id: &str) -> Error {
    Error::new(ErrorKind::ResourceNotFound, format!("alert channel [{id}] is missing"))
}

/// `PUT /_firn/channels/{id}`.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let Value::Object(body) = call.required_json()? else {
        return Err(Error::parsing("the body of a channel must be a JSON object").into());
    };
    let id = call.capture("id").to_owned();
    let channel = Channel::parse(&id, &body)?;
    if let Some(notifier) = &edge.config.notifier {
        notifier.check(&channel)?;
    }
    let command = Command::Detection(DetectionCommand::PutChannel { id, body });
    edge.engine.execute(&call.ctx, command).await?;
    Ok(Reply::acknowledged())
}

/// `DELETE /_firn/channels/{id}`. Alerts that it has not delivered list it as failed.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let id = call.capture("id").to_owned();
    let command = Command::Detection(DetectionCommand::DeleteChannel { id });
    edge.engine.execute(&call.ctx, command).await?;
    Ok(Reply::acknowledged())
}

/// `GET /_firn/channels` and `GET /_firn/channels/{id}`: the definitions, which can be stored again as they are.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let Some(id) = call.captured("id") else {
        return Ok(Reply::ok(&metadata.alert_channels.to_json()));
    };
    let body = metadata.alert_channels.by_id.get(id).ok_or_else(|| missing(id))?;
    Ok(Reply::ok(&json!({ id: &**body })))
}

/// `GET /_firn/channels/_stats`.
pub(crate) async fn stats(edge: Arc<Edge>, _: Call) -> Result<Reply, ApiError> {
    let states = notifier(&edge)?.status().into_iter().map(|(id, status)| {
        let state = json!({
            "pending": status.pending, "delivered": status.delivered, "messages": status.messages, "failed": status.failed,
            "last_error": status.last_error, "next_attempt": status.next_attempt,
        });
        (id, state)
    });
    Ok(Reply::ok(&Value::Object(states.collect::<Map<_, _>>())))
}

/// `POST /_firn/channels/{id}/_test`: sends a message that no event raised. A body is a definition that is tested in the place of the
/// stored one.
pub(crate) async fn test(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let id = call.capture("id");
    let channel = match call.json()? {
        None => {
            let metadata = edge.metadata(&call).await?;
            let body = metadata.alert_channels.by_id.get(id).ok_or_else(|| missing(id))?;
            Channel::parse(id, body)?
        }
        Some(Value::Object(body)) => Channel::parse(id, &body)?,
        Some(_) => return Err(Error::parsing("the body of a channel must be a JSON object").into()),
    };
    notifier(&edge)?.test(&channel).await?;
    Ok(Reply::ok(&json!({"delivered": true})))
}
