//! `_count`: a search without hits.

use std::sync::Arc;

use firn_engine::Error;
use firn_model::names::IndicesOptions;
use firn_query::search::{SearchRequest, TrackTotalHits};
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::search::{query_param, run_plain, shards, terminate_after};
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::preference;
use crate::wire::reply::Reply;

pub(crate) const PARAMS: &[&str] = &[
    "analyze_wildcard",
    "analyzer",
    "default_operator",
    "df",
    "lenient",
    "min_score",
    "preference",
    "q",
    "routing",
    "terminate_after",
];

/// `GET /_count` and `GET /{index}/_count`.
pub(crate) async fn count(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let params = &call.params;
    let body = call.object()?;
    if let Some(name) = body.keys().find(|name| *name != "query") {
        return Err(Error::parsing(format!("request does not support [{name}]")).into());
    }
    let target = call.target(IndicesOptions::default())?;
    let mut request = SearchRequest::parse(target, Some(&Value::Object(body)))?;
    if let Some(query) = query_param(params)? {
        request.query = query;
    }
    request.size = 0;
    request.track_total_hits = TrackTotalHits::Exact;
    request.routing = params.list("routing").unwrap_or_default();
    if let Some(preference) = params.get("preference") {
        request.only_shards = preference::shards(preference)?;
    }
    request.min_score = params.number("min_score")?;
    request.terminate_after = terminate_after(params)?.unwrap_or(0);
    let response = run_plain(&edge, &call.ctx, request).await?;
    let metadata = edge.metadata(&call).await?;
    let mut answer = json!({"count": response.total.map_or(0, |total| total.value)});
    if let Some(early) = response.terminated_early {
        answer["terminated_early"] = early.into();
    }
    answer["_shards"] = shards(&response, &edge, &metadata);
    Ok(Reply::ok(&answer))
}
