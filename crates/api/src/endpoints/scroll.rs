//! `_search/scroll`: further pages of a search, and closing of scrolls.

use std::sync::Arc;

use firn_engine::Error;
use firn_engine::context::{CloseContexts, ClosedContext, ContextKind, ScrollRequest, parse_keep_alive};
use firn_query::json::token;
use http::StatusCode;
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::search::{Printing, print_response, whole_failure};
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::split_list;
use crate::wire::reply::Reply;

pub(crate) const PARAMS: &[&str] = &["rest_total_hits_as_int", "scroll", "scroll_id"];

/// Maximum contexts that one request may close.
const IDS_MAX: usize = 10_000;

/// `GET /_search/scroll` and `POST /_search/scroll`, with the id in the path, the URL or the body.
pub(crate) async fn scroll(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let printing = Printing::param(&call.params)?;
    let mut id = id_of_url(&call).map(str::to_owned);
    let mut keep_alive = call.params.duration("scroll")?;
    for (name, value) in call.object()? {
        match (name.as_str(), &value) {
            ("scroll_id", Value::String(text)) => id = Some(text.clone()),
            ("scroll", Value::String(text)) => keep_alive = Some(parse_keep_alive(text)?),
            _ => return Err(unknown(&name, &value).into()),
        }
    }
    let Some(id) = id.filter(|id| !id.is_empty()) else {
        return Err(ApiError::validation(&["scrollId is missing".to_owned()]));
    };
    let request = ScrollRequest { id, keep_alive };
    let response = edge
        .engine
        .scroll(&call.ctx, request)
        .await
        .map_err(|error| context_failure(&edge, error))?;
    let metadata = edge.metadata(&call).await?;
    let printed = print_response(response, &printing, &edge.config.node_id, metadata).await?;
    Ok(Reply::raw(printed))
}

/// `DELETE /_search/scroll`: ids in the path, the URL or the body; `_all`: every scroll.
pub(crate) async fn clear(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mut ids = id_of_url(&call).map(split_list).unwrap_or_default();
    let body = call.object()?;
    if !body.is_empty() {
        ids = ids_of_body(&body, "scroll_id")?;
    }
    if ids.is_empty() {
        return Err(ApiError::validation(&["no scroll ids specified".to_owned()]));
    }
    let closed = close(&edge, &call, ContextKind::Scroll, ids).await?;
    let freed = freed(&closed);
    Ok(Reply::json(
        if freed > 0 {
            StatusCode::OK
        } else {
            StatusCode::NOT_FOUND
        },
        &json!({"succeeded": true, "num_freed": freed}),
    ))
}

fn id_of_url(call: &Call) -> Option<&str> {
    call.captured("scroll_id").or_else(|| call.params.get("scroll_id"))
}

fn unknown(name: &str, value: &Value) -> Error {
    Error::illegal_argument(format!(
        "Unknown parameter [{name}] in request body or parameter is of the wrong type[{}] ",
        token(value)
    ))
}

/// Returns the ids of a body that has no other fields: one id, or a list.
pub(crate) fn ids_of_body(body: &serde_json::Map<String, Value>, key: &str) -> Result<Vec<String>, Error> {
    let mut ids = Vec::new();
    for (name, value) in body {
        match value {
            Value::String(id) if name == key => ids.push(id.clone()),
            Value::Array(values) if name == key => {
                if values.len() > IDS_MAX {
                    return Err(Error::illegal_argument(format!(
                        "[{key}] has [{}] entries, more than the allowed maximum of [{IDS_MAX}]",
                        values.len()
                    )));
                }
                for value in values {
                    ids.push(value.as_str().ok_or_else(|| unknown(name, value))?.to_owned());
                }
            }
            _ => return Err(unknown(name, value)),
        }
    }
    Ok(ids)
}

/// Closes contexts; `_all` among the ids means all of the kind.
pub(crate) async fn close(
    edge: &Edge,
    call: &Call,
    kind: ContextKind,
    ids: Vec<String>,
) -> Result<Vec<ClosedContext>, ApiError> {
    let which = match ids.iter().any(|id| id == "_all") {
        true => CloseContexts::All,
        false => CloseContexts::Ids(ids),
    };
    Ok(edge.engine.close_contexts(&call.ctx, kind, which).await?)
}

/// Returns the number of closed shard contexts.
pub(crate) fn freed(closed: &[ClosedContext]) -> u32 {
    closed.iter().map(|context| context.shard_count).sum()
}

/// Converts the error of a context to the shape of a search failure; only an unparsable id is a plain error.
fn context_failure(edge: &Edge, error: Error) -> ApiError {
    if error.reason() == "Cannot parse scroll id" {
        return error.into();
    }
    whole_failure(edge, error, &[])
}
