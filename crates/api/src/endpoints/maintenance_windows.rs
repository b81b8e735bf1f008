//! `_firn/maintenance_windows`: times in which alerts are stored and not delivered. They belong to operators.

use std::sync::Arc;

use firn_detect::MaintenanceWindow;
use firn_engine::{Error, ErrorKind};
use firn_model::metadata::{Command, DetectionCommand};
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// Member of answers that is no part of a definition.
const STATUS: &str = "status";

/// `PUT /_firn/maintenance_windows/{id}`.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let Value::Object(mut body) = call.required_json()? else {
        return Err(Error::parsing("the body of a maintenance window must be a JSON object").into());
    };
    // What `GET` answers can be stored again.
    body.remove(STATUS);
    let id = call.capture("id").to_owned();
    MaintenanceWindow::parse(&id, &body)?;
    let command = Command::Detection(DetectionCommand::PutMaintenanceWindow { id, body });
    edge.engine.execute(&call.ctx, command).await?;
    Ok(Reply::acknowledged())
}

/// `DELETE /_firn/maintenance_windows/{id}`. Alerts that it has suppressed stay so.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let id = call.capture("id").to_owned();
    let command = Command::Detection(DetectionCommand::DeleteMaintenanceWindow { id });
    edge.engine.execute(&call.ctx, command).await?;
    Ok(Reply::acknowledged())
}

/// `GET /_firn/maintenance_windows` and `GET /_firn/maintenance_windows/{id}`: the definitions, each with its `status`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let stored = &metadata.maintenance_windows.by_id;
    let now_ms = edge.now_ms();
    let shown = |id: &str, body: &Map<String, Value>| {
        let status = match MaintenanceWindow::parse(id, body) {
            Ok(window) => window.status(now_ms),
            // It was stored by another build.
            Err(error) => json!({"active": false, "error": error.reason()}),
        };
        let mut body = body.clone();
        body.insert(STATUS.to_owned(), status);
        Value::Object(body)
    };
    let Some(id) = call.captured("id") else {
        let all = stored.iter().map(|(id, body)| (id.clone(), shown(id, body)));
        return Ok(Reply::ok(&Value::Object(all.collect())));
    };
    let body = stored.get(id).ok_or_else(|| {
        let reason = format!("maintenance window [{id}] is missing");
        Error::new(ErrorKind::ResourceNotFound, reason)
    })?;
    Ok(Reply::ok(&json!({ id: shown(id, body) })))
}
