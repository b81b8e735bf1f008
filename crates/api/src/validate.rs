//! `_validate/query`: whether a query can be read and fits the mappings.

use std::sync::Arc;

use firn_engine::search::{SearchRequest, TrackTotalHits};
use firn_engine::{Error, ErrorKind};
use firn_model::names::IndicesOptions;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::reply::Reply;
use crate::request::{Call, Edge};
use crate::search::query_param;

pub(crate) const PARAMS: &[&str] = &[
    "all_shards",
    "analyze_wildcard",
    "analyzer",
    "default_operator",
    "df",
    "explain",
    "lenient",
    "q",
    "rewrite",
];

/// `GET /_validate/query` and `GET /{index}/_validate/query`.
///
/// The query is not only read but run on one document of each shard, so that what only shows on
/// the mapping is found too. Unlike Elasticsearch, whose explanation is a Lucene query, firn
/// explains with the query's own JSON.
pub(crate) async fn validate_query(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let params = &call.params;
    for name in ["rewrite", "all_shards"] {
        if params.bool(name, false)? {
            return Err(Error::not_implemented(format!("the parameter [{name}] of [_validate/query]")).into());
        }
    }
    if params.get("analyzer").is_some() {
        return Err(Error::not_implemented("the parameter [analyzer] of [_validate/query]").into());
    }
    let explain = params.bool("explain", false)?;
    let target = call.target(IndicesOptions::default())?;
    let metadata = edge.metadata(&call).await?;
    let names = edge.resolve_names(&target, &metadata)?;
    let read = || -> Result<SearchRequest, ApiError> {
        let body = call.object()?;
        if let Some(name) = body.keys().find(|name| *name != "query") {
            return Err(Error::parsing(format!("request does not support [{name}]")).into());
        }
        let mut request = SearchRequest::parse(target.clone(), Some(&Value::Object(body)))?;
        if let Some(query) = query_param(params)? {
            request.query = query;
        }
        request.size = 0;
        request.terminate_after = 1;
        request.track_total_hits = TrackTotalHits::No;
        Ok(request)
    };
    let mut printed = String::new();
    let problem = match read() {
        Err(ApiError::Engine(error)) => Some(error),
        Err(other) => return Err(other),
        Ok(request) => {
            printed = request.query.print().to_string();
            match edge.engine.search(&call.ctx, request).await {
                Ok(response) => response.shards.failures.into_iter().next().map(|(_, _, error)| error),
                Err(error) => Some(error),
            }
        }
    };
    // What is wrong with the server is not the query's fault.
    if let Some(error) = &problem
        && crate::error::status_and_type(error.kind()).0 != http::StatusCode::BAD_REQUEST
    {
        return Err(error.clone().into());
    }
    let shards = json!({"total": 1, "successful": 1, "failed": 0});
    let mut answer = json!({"_shards": shards, "valid": problem.is_none()});
    match problem {
        None if explain => {
            answer["explanations"] = names
                .iter()
                .map(|index| json!({"index": index, "valid": true, "explanation": printed}))
                .collect();
        }
        Some(error) if explain => {
            let sentence = sentence(&error);
            match error.kind() {
                ErrorKind::QueryShard => {
                    answer["explanations"] = names
                        .iter()
                        .map(|index| json!({"index": index, "valid": false, "error": sentence}))
                        .collect();
                }
                _ => answer["error"] = sentence.into(),
            }
        }
        _ => {}
    }
    Ok(Reply::ok(&answer))
}

fn sentence(error: &Error) -> String {
    let (_, error_type) = crate::error::status_and_type(error.kind());
    format!("{error_type}: {error}")
}
