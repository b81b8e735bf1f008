//! Definitions of event pipelines: stored, removed, simulated.

use std::sync::Arc;

use bytes::Bytes;
use firn_engine::Error;
use firn_model::metadata::{Command, EventPipelineCommand};
use firn_pipeline::definition::Definition;
use firn_pipeline::runner::SimulatedRecord;
use serde_json::{Map, Value, json};

use super::{missing, runner};
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// Maximum records of one simulation.
const SIMULATED_RECORDS_MAX: usize = 1000;
const NANOS_PER_MS: i64 = 1_000_000;

/// `PUT /_firn/pipelines/{id}`. A pipeline whose source cannot start is stored; its state says why.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let Value::Object(body) = call.required_json()? else {
        return Err(Error::parsing("the body of a pipeline must be a JSON object").into());
    };
    let id = call.capture("id").to_owned();
    Definition::parse(&id, &body)?;
    let command = EventPipelineCommand::Put { id, body };
    edge.engine.execute(&call.ctx, Command::EventPipeline(command)).await?;
    Ok(Reply::acknowledged())
}

/// `DELETE /_firn/pipelines/{id}`. What it stored stays, and so do its positions: a pipeline of the same id continues there.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let id = call.capture("id").to_owned();
    let command = EventPipelineCommand::Delete { id };
    edge.engine.execute(&call.ctx, Command::EventPipeline(command)).await?;
    Ok(Reply::acknowledged())
}

/// `GET /_firn/pipelines` and `GET /_firn/pipelines/{id}`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let by_id = &metadata.event_pipelines.by_id;
    let Some(id) = call.captured("id") else {
        return Ok(Reply::ok(&metadata.event_pipelines.to_json()));
    };
    let body = by_id.get(id).ok_or_else(|| missing(id))?;
    Ok(Reply::ok(&json!({ id: &**body })))
}

/// `POST /_firn/pipelines/_simulate` and `POST /_firn/pipelines/{id}/_simulate`: what the steps make of some records. Nothing is
/// written.
pub(crate) async fn simulate(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let (mut definition, mut records) = (None, None);
    for (name, value) in call.object()? {
        match (name.as_str(), value) {
            ("pipeline", Value::Object(body)) => definition = Some(body),
            ("pipeline", _) => return Err(Error::illegal_argument("[pipeline] is not an object").into()),
            ("records", Value::Array(list)) => records = Some(list),
            ("records", _) => return Err(Error::illegal_argument("[records] is not a list").into()),
            _ => return Err(Error::illegal_argument(format!("unknown field [{name}]")).into()),
        }
    }
    let records = records.ok_or_else(|| Error::illegal_argument("[records] is missing"))?;
    if records.len() > SIMULATED_RECORDS_MAX {
        let reason = format!("[records] has at most [{SIMULATED_RECORDS_MAX}] records");
        return Err(Error::illegal_argument(reason).into());
    }
    let records: Vec<Bytes> = records.into_iter().map(record).collect();
    let (id, body): (String, Map<String, Value>) = match (call.captured("id"), definition) {
        (None, Some(body)) => ("_simulate".to_owned(), body),
        (None, None) => return Err(Error::illegal_argument("[pipeline] is missing").into()),
        (Some(_), Some(_)) => {
            let reason = "[pipeline] is given although the path names a pipeline";
            return Err(Error::illegal_argument(reason).into());
        }
        (Some(id), None) => {
            let metadata = edge.metadata(&call).await?;
            let body = metadata.event_pipelines.by_id.get(id).ok_or_else(|| missing(id))?;
            (id.to_owned(), (**body).clone())
        }
    };
    let received_ns = edge.now_ms().saturating_mul(NANOS_PER_MS);
    let simulated = runner(&edge)?.simulate(&id, &body, records, received_ns).await?;
    let records: Vec<Value> = simulated.into_iter().map(print).collect();
    Ok(Reply::ok(&json!({ "records": records })))
}

/// Returns the bytes of a record: those of a string, or the JSON of another value.
fn record(value: Value) -> Bytes {
    match value {
        Value::String(text) => text.into(),
        value => value.to_string().into(),
    }
}

fn print(record: SimulatedRecord) -> Value {
    let mut printed = json!({"index": record.index, "document": record.document});
    if let Some(error) = record.error {
        printed["error"] = error.into();
    }
    printed
}
