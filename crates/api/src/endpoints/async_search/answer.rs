//! Answers of async search: the results so far, and the status.

use std::sync::Arc;

use firn_model::metadata::Metadata;
use firn_query::search::SearchResponse;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::typed_keys::without_types;
use crate::endpoints::search::{Printing, write_response};
use crate::state::async_search_store::AsyncSearch;
use crate::state::edge::Edge;
use crate::wire::reply::{Body, Reply};

/// Options for printing an answer.
pub(super) struct AnswerForm {
    pub(super) printing: Printing,
    /// Prefix the names of aggregations with their types.
    pub(super) typed_keys: bool,
}

/// Builds the answer of a submit or get request. As in Elasticsearch, its status is that of a failed search.
pub(super) fn answer(
    search: &AsyncSearch,
    has_id: bool,
    looks: &AnswerForm,
    edge: &Edge,
    metadata: &Metadata,
) -> Reply {
    // Read the progress before the completion, because the completion clears it.
    let latest = search.progress().latest();
    let completed = search.completed();
    let mut head = Map::new();
    if has_id {
        head.insert("id".into(), search.id.as_str().into());
    }
    let result = completed.as_ref().map(|completed| &completed.result);
    let (latest, failure) = match result {
        Some(Ok(_)) => (None, None),
        Some(Err(error)) => (latest, Some(error)),
        None => (latest, None),
    };
    let nothing_yet = (completed.is_none() && latest.is_none()).then(|| search.progress().nothing_yet());
    let response = match result {
        Some(Ok(response)) => Some(response),
        _ => latest.as_deref().or(nothing_yet.as_ref()),
    };
    head.insert(
        "is_partial".into(),
        is_partial(result.is_some_and(Result::is_ok), response).into(),
    );
    head.insert("is_running".into(), completed.is_none().into());
    times(search, completed.as_ref().map(|completed| completed.at_ms), &mut head);
    let mut body = Value::Object(head).to_string().into_bytes();
    // Sources are copied unchanged, before the closing brace of the head.
    body.pop();
    if let Some(response) = response {
        body.extend_from_slice(b",\"response\":");
        body.extend_from_slice(&print(response, looks, edge, metadata));
    }
    if let Some(error) = failure {
        let wrapped = error.wrapped("status_exception", "error while executing search", Some(metadata));
        body.extend_from_slice(b",\"error\":");
        body.extend_from_slice(wrapped.to_string().as_bytes());
    }
    body.push(b'}');
    Reply {
        status: failure.map_or(StatusCode::OK, |error| error.status()),
        body: Body::Json(body),
    }
}

/// Builds the answer of `_async_search/status`.
pub(super) fn status(search: &AsyncSearch) -> Value {
    let latest = search.progress().latest();
    let completed = search.completed();
    let result = completed.as_ref().map(|completed| &completed.result);
    let response = match result {
        Some(Ok(response)) => Some(response),
        _ => latest.as_deref(),
    };
    let mut object = Map::new();
    object.insert("id".into(), search.id.as_str().into());
    object.insert("is_running".into(), completed.is_none().into());
    object.insert(
        "is_partial".into(),
        is_partial(result.is_some_and(Result::is_ok), response).into(),
    );
    times(search, completed.as_ref().map(|completed| completed.at_ms), &mut object);
    let shards = response.map(|response| &response.shards);
    object.insert(
        "_shards".into(),
        json!({
            "total": shards.map_or(0, |shards| shards.total),
            "successful": shards.map_or(0, |shards| shards.successful),
            "skipped": shards.map_or(0, |shards| shards.skipped),
            "failed": shards.map_or(0, |shards| shards.failures.len()),
        }),
    );
    if let Some(result) = result {
        let status = result.as_ref().err().map_or(StatusCode::OK, |error| error.status());
        object.insert("completion_status".into(), status.as_u16().into());
    }
    Value::Object(object)
}

/// Returns whether results are missing: the search still runs, or it failed entirely or on some shards.
fn is_partial(is_whole: bool, response: Option<&SearchResponse>) -> bool {
    !is_whole || response.is_none_or(|response| response.timed_out || !response.shards.failures.is_empty())
}

fn times(search: &AsyncSearch, completed_ms: Option<i64>, object: &mut Map<String, Value>) {
    object.insert("start_time_in_millis".into(), search.answer.started_ms.into());
    object.insert("expiration_time_in_millis".into(), search.expires_ms().into());
    if let Some(completed_ms) = completed_ms {
        object.insert("completion_time_in_millis".into(), completed_ms.into());
    }
}

fn print(response: &SearchResponse, looks: &AnswerForm, edge: &Edge, metadata: &Metadata) -> Vec<u8> {
    let node_id = &edge.config.node_id;
    match &response.aggregations {
        Some(typed) if !looks.typed_keys => {
            let untyped = SearchResponse {
                aggregations: Some(Arc::new(without_types(typed))),
                // Texts printed earlier contain the types.
                printed: None,
                ..response.clone()
            };
            write_response(&untyped, &looks.printing, node_id, metadata)
        }
        _ => write_response(response, &looks.printing, node_id, metadata),
    }
}
