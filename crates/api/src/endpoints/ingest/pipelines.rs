//! `_ingest/pipeline`: stored pipelines.

use std::sync::Arc;

use firn_engine::Error;
use firn_model::metadata::{Command, IngestCommand};
use firn_model::names::matches_pattern;
use firn_pipeline::processors::{PROCESSORS, Pipeline};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::failure;
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::split_list;
use crate::wire::reply::{Body, Reply};

pub(crate) const GET_PARAMS: &[&str] = &["summary"];
pub(crate) const PUT_PARAMS: &[&str] = &["if_version"];
pub(crate) const DELETE_PARAMS: &[&str] = &[];

/// `PUT /_ingest/pipeline/{id}`.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let Value::Object(body) = call.required_json()? else {
        return Err(Error::parsing("the body of a pipeline must be a JSON object").into());
    };
    let id = call.capture("id").to_owned();
    let if_version = call.params.number("if_version")?;
    Pipeline::parse(&id, &body).map_err(failure::malformed)?;
    let command = IngestCommand::PutPipeline { id, body, if_version };
    edge.engine.execute(&call.ctx, Command::Ingest(command)).await?;
    Ok(Reply::acknowledged())
}

/// `DELETE /_ingest/pipeline/{id}`.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let id = call.capture("id").to_owned();
    let command = IngestCommand::DeletePipelines { id };
    edge.engine.execute(&call.ctx, Command::Ingest(command)).await?;
    Ok(Reply::acknowledged())
}

/// `GET /_ingest/pipeline[/{id}]`: ids and wildcards, separated by commas. 404 with an empty object if nothing matches.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let patterns = call.captured("id").map(split_list).unwrap_or_default();
    let is_summary = call.params.bool("summary", false)?;
    let answer: Map<String, Value> = metadata
        .ingest
        .by_id
        .iter()
        .filter(|(id, _)| patterns.is_empty() || patterns.iter().any(|pattern| matches_pattern(pattern, id)))
        .map(|(id, body)| {
            let body = if is_summary { Map::new() } else { (**body).clone() };
            (id.clone(), Value::Object(body))
        })
        .collect();
    let is_missing = answer.is_empty() && patterns.iter().any(|pattern| pattern != "*");
    Ok(Reply {
        status: match is_missing {
            true => StatusCode::NOT_FOUND,
            false => StatusCode::OK,
        },
        body: Body::Json(Value::Object(answer).to_string().into_bytes()),
    })
}

/// Returns the processors for `_nodes`.
pub(crate) fn processors() -> Vec<Value> {
    PROCESSORS.iter().map(|name| json!({"type": name})).collect()
}
