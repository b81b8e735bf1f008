//! `_data_stream/{name}/_lifecycle`: retention of data streams.

use std::sync::Arc;

use firn_model::lifecycle::Lifecycle;
use firn_model::metadata::Command;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::data_streams::select;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// `GET /_data_stream/{name}/_lifecycle`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    // The answer is complete without it: firn rolls over by Elasticsearch's defaults and documents them.
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

/// `PUT /_data_stream/{name}/_lifecycle`; without a body the retention is unlimited.
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
