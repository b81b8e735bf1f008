//! `_resolve/index`: the indices, aliases and data streams that an expression matches.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_model::names;
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::split_list;
use crate::wire::reply::Reply;

/// `GET /_resolve/index/{name}`.
pub(crate) async fn resolve_index(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let expression = split_list(call.capture("name"))
        .iter()
        .map(|part| names::resolve_date_math(part, edge.now_ms()))
        .collect::<Result<Vec<_>, _>>()?;
    let target = call.params.target(Some(call.capture("name")), Default::default())?;
    // Fails if a name that must exist does not.
    let resolved = edge.resolve_names(&target, &metadata)?;
    let all = expression.is_empty() || expression.iter().any(|part| part == "_all");
    let named = |name: &str, hidden: bool| {
        let mut included = all && (!hidden || target.options.expand_hidden);
        for part in &expression {
            let (pattern, include) = match part.strip_prefix('-') {
                Some(pattern) => (pattern, false),
                None => (part.as_str(), true),
            };
            let exact = pattern == name;
            if exact || (pattern.contains('*') && names::matches_pattern(pattern, name)) {
                included = include && (exact || !hidden || target.options.expand_hidden);
            }
        }
        included
    };
    let indices: Vec<Value> = resolved
        .iter()
        .filter_map(|name| metadata.indices.get(name))
        .filter(|index| named(&index.name, index.settings.hidden || index.data_stream.is_some()))
        .map(|index| {
            let mut attributes = vec![if index.closed { "closed" } else { "open" }];
            if index.settings.hidden {
                attributes.push("hidden");
            }
            let mut object = json!({"name": index.name});
            let aliases: Vec<&String> = index.aliases.keys().collect();
            if !aliases.is_empty() {
                object["aliases"] = json!(aliases);
            }
            object["attributes"] = attributes.into();
            if let Some(stream) = &index.data_stream {
                object["data_stream"] = stream.as_str().into();
            }
            object
        })
        .collect();
    let mut aliases: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for index in metadata.indices.values() {
        for (alias, properties) in &index.aliases {
            if named(alias, properties.is_hidden == Some(true)) {
                aliases.entry(alias).or_default().push(&index.name);
            }
        }
    }
    let aliases: Vec<Value> = aliases
        .into_iter()
        .map(|(name, indices)| json!({"name": name, "indices": indices}))
        .collect();
    let streams: Vec<Value> = metadata
        .data_streams
        .values()
        .filter(|stream| named(&stream.name, stream.hidden))
        .map(|stream| {
            json!({
                "name": stream.name,
                "backing_indices": stream.indices,
                "timestamp_field": "@timestamp",
            })
        })
        .collect();
    Ok(Reply::ok(&json!({
        "indices": indices,
        "aliases": aliases,
        "data_streams": streams,
    })))
}
