//! `_data_stream/{name}/_lifecycle`: how long data streams keep their events.

use std::sync::Arc;

use firn_model::lifecycle::Lifecycle;
use firn_model::metadata::Command;
use serde_json::{Map, Value, json};

use crate::data_streams::select;
use crate::error::ApiError;
use crate::reply::Reply;
use crate::request::{Call, Edge};

/// `GET /_data_stream/{name}/_lifecycle`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    // Nothing is left out: firn rolls over by Elasticsearch's own defaults and says so in its pages.
    call.params.bool("include_defaults", false)?;
    let metadata = edge.metadata(&call).await?;
    let streams: Vec<Value> = select(&call, &metadata)?
        .into_iter()
        .map(|stream| {
            let mut printed = Map::new();
            printed.insert("name".to_owned(), stream.name.as_str().into());
            if let Some(lifecycle) = &stream.lifecycle {
                printed.insert("lifecycle".to_owned(), lifecycle.print_effective());
            }
            Value::Object(printed)
        })
        .collect();
    Ok(Reply::ok(&json!({"data_streams": streams, "global_retention": {}})))
}

/// `PUT /_data_stream/{name}/_lifecycle`; without a body events are kept for ever.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let lifecycle = Lifecycle::parse(&Value::Object(call.object()?))?;
    set(&edge, &call, Some(lifecycle)).await
}

/// `DELETE /_data_stream/{name}/_lifecycle`.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    set(&edge, &call, None).await
}

async fn set(edge: &Edge, call: &Call, lifecycle: Option<Lifecycle>) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(call).await?;
    let names: Vec<String> = select(call, &metadata)?
        .into_iter()
        .map(|stream| stream.name.clone())
        .collect();
    if !names.is_empty() {
        edge.engine
            .execute(&call.ctx, Command::PutDataStreamLifecycle { names, lifecycle })
            .await?;
    }
    Ok(Reply::acknowledged())
}
