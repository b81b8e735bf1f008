//! Policies: stored, listed, removed.

use std::sync::Arc;

use firn_engine::Error;
use firn_model::metadata::{Command, EnrichPolicyCommand, StoredEnrichPolicy};
use firn_model::names::matches_pattern;
use firn_pipeline::tables::EnrichDefinition;
use serde_json::{Value, json};

use super::execute::delete_index;
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::split_list;
use crate::wire::reply::Reply;

/// `PUT /_enrich/policy/{name}`.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let Value::Object(body) = call.required_json()? else {
        return Err(Error::parsing("the body of an enrich policy must be a JSON object").into());
    };
    EnrichDefinition::parse(&body)?;
    let name = call.capture("name").to_owned();
    let command = EnrichPolicyCommand::Put { name, body };
    edge.engine.execute(&call.ctx, Command::EnrichPolicy(command)).await?;
    Ok(Reply::acknowledged())
}

/// `GET /_enrich/policy` and `GET /_enrich/policy/{name}`: names and wildcards, separated by commas.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let patterns = call.captured("name").map(split_list).unwrap_or_default();
    let mut policies = Vec::new();
    for name in metadata.enrich_policies.by_id.keys() {
        if !patterns.is_empty() && !patterns.iter().any(|pattern| matches_pattern(pattern, name)) {
            continue;
        }
        if let Some(stored) = StoredEnrichPolicy::of(&metadata.enrich_policies, name) {
            policies.push(json!({"config": EnrichDefinition::parse(stored.body)?.to_json(name)}));
        }
    }
    Ok(Reply::ok(&json!({ "policies": policies })))
}

/// `DELETE /_enrich/policy/{name}`: with the index of its records.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let name = call.capture("name").to_owned();
    // An execution would leave its index behind.
    let executing = edge.enrich.executing.lock().await;
    let metadata = edge.metadata(&call).await?;
    let stored = StoredEnrichPolicy::of(&metadata.enrich_policies, &name);
    let index = stored.and_then(|stored| stored.index).map(str::to_owned);
    let command = EnrichPolicyCommand::Delete { name };
    edge.engine.execute(&call.ctx, Command::EnrichPolicy(command)).await?;
    drop(executing);
    if let Some(index) = index {
        delete_index(&edge, index).await;
    }
    Ok(Reply::acknowledged())
}

/// `GET /_enrich/_stats`. Look-ups are in memory, so nothing is queued or searched.
pub(crate) async fn stats(edge: Arc<Edge>, _: Call) -> Result<Reply, ApiError> {
    let loaded = edge.enrich.current();
    let records: usize = loaded.by_policy.values().map(|loaded| loaded.table.len()).sum();
    let node_id = &edge.config.node_id;
    Ok(Reply::ok(&json!({
        "executing_policies": [],
        "coordinator_stats": [{
            "node_id": node_id, "queue_size": 0, "remote_requests_current": 0, "remote_requests_total": 0,
            "executed_searches_total": 0,
        }],
        "cache_stats": [{"node_id": node_id, "count": records, "hits": 0, "misses": 0, "evictions": 0}],
    })))
}
