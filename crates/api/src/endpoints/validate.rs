//! `_validate/query`: whether a query parses and fits the mappings.

use std::sync::Arc;

use firn_engine::Error;
use firn_model::names::IndicesOptions;
use firn_query::query::Query;
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::search::query_param;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

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
/// The query is parsed and compiled on every shard, so that errors that depend on the mapping are found too. firn does
/// not rewrite a query before it runs, so `rewrite` does not change the explanation.
pub(crate) async fn validate_query(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let params = &call.params;
    let explain = params.bool("explain", false)? || params.bool("rewrite", false)?;
    let all_shards = params.bool("all_shards", false)?;
    let target = call.target(IndicesOptions::default())?;
    let metadata = edge.metadata(&call).await?;
    edge.resolve_names(&target, &metadata)?;
    let read = || -> Result<Query, ApiError> {
        let body = call.object()?;
        if let Some(name) = body.keys().find(|name| *name != "query") {
            return Err(Error::parsing(format!("request does not support [{name}]")).into());
        }
        match (query_param(params)?, body.get("query")) {
            (Some(query), _) => Ok(query),
            (None, Some(query)) => Ok(Query::parse(query)?),
            (None, None) => Ok(Query::parse(&json!({"match_all": {}}))?),
        }
    };
    let explained = match read() {
        Err(ApiError::Engine(error)) => Err(error),
        Err(other) => return Err(other),
        Ok(query) => edge.engine.explain_query(&call.ctx, target, query).await,
    };
    // Server errors do not make the query invalid.
    let is_fault = |error: &Error| crate::wire::error::status_and_type(error.kind()).0 != http::StatusCode::BAD_REQUEST;
    let mut explanations = match explained {
        Err(error) if is_fault(&error) => return Err(error.into()),
        Err(error) => {
            let mut answer = json!({"_shards": shards(1), "valid": false});
            if explain {
                answer["error"] = sentence(&error).into();
            }
            return Ok(Reply::ok(&answer));
        }
        Ok(explanations) => explanations,
    };
    if !all_shards {
        explanations.dedup_by(|next, first| next.index == first.index);
    }
    let mut valid = true;
    let mut printed = Vec::with_capacity(explanations.len());
    for shard in &explanations {
        let mut entry = json!({"index": shard.index});
        if all_shards {
            entry["shard"] = shard.shard.into();
        }
        match &shard.outcome {
            Ok(explanation) => {
                entry["valid"] = true.into();
                entry["explanation"] = explanation.as_str().into();
            }
            Err(error) if is_fault(error) => return Err(error.clone().into()),
            Err(error) => {
                valid = false;
                entry["valid"] = false.into();
                entry["error"] = sentence(error).into();
            }
        }
        printed.push(entry);
    }
    let count = if all_shards { explanations.len() } else { 1 };
    let mut answer = json!({"_shards": shards(count), "valid": valid});
    if explain {
        answer["explanations"] = printed.into();
    }
    Ok(Reply::ok(&answer))
}

fn shards(count: usize) -> Value {
    json!({"total": count, "successful": count, "failed": 0})
}

fn sentence(error: &Error) -> String {
    let (_, error_type) = crate::wire::error::status_and_type(error.kind());
    format!("{error_type}: {error}")
}
