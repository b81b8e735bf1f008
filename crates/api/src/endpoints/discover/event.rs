//! `_firn/discover/event`: a single event, for links to it.

use std::sync::Arc;

use firn_engine::{Error, ErrorKind};
use firn_model::names::IndicesOptions;
use firn_query::search::{Hit, IndexTarget, SearchRequest, SearchResponse};
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::search;
use crate::state::edge::Edge;
use crate::wire::error::{ApiError, SearchFailure};
use crate::wire::params::split_list;
use crate::wire::reply::Reply;

pub(crate) const PARAMS: &[&str] = &["id", "index", "routing"];

/// `GET /_firn/discover/event`. It uses a search by id, so the data stream finds an event even after a move to another
/// index.
pub(crate) async fn event(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let required = |name: &str| match call.params.get(name) {
        Some(value) if !value.is_empty() => Ok(value),
        _ => Err(Error::illegal_argument(format!("[{name}] is required"))),
    };
    let (index, id) = (required("index")?, required("id")?);
    let target = IndexTarget {
        expression: split_list(index),
        options: IndicesOptions::default(),
    };
    let body = json!({"size": 1, "track_total_hits": false, "sort": ["_doc"], "query": by_id(id)});
    let mut request = SearchRequest::parse(target, Some(&body))?;
    request.routing = call.params.list("routing").unwrap_or_default();
    let response = search::run(&edge, &call.ctx, request, b"").await?;
    let mut hit = only(&edge, response, id, index)?;
    hit.sort.clear();
    let mut output = Vec::new();
    hit.write(&mut output);
    Ok(Reply::raw(output))
}

pub(super) fn by_id(id: &str) -> Value {
    json!({"ids": {"values": [id]}})
}

/// Returns the single event of a response. If some shards failed, the error says that the event may exist all the same.
pub(super) fn only(edge: &Edge, response: SearchResponse, id: &str, index: &str) -> Result<Hit, ApiError> {
    let shards = response.shards;
    match response.hits.into_iter().next() {
        Some(hit) => Ok(hit),
        None if shards.failures.is_empty() => {
            Err(Error::new(ErrorKind::ResourceNotFound, format!("event [{id}] is not in [{index}]")).into())
        }
        None => Err(ApiError::Search(Box::new(SearchFailure {
            reason: "Partial shards failure",
            failures: shards.failures,
            node_id: edge.config.node_id.clone(),
        }))),
    }
}
