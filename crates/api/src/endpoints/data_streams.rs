//! Data streams.

use std::sync::Arc;

use firn_engine::{Error, ErrorKind};
use firn_model::metadata::{Command, DataStream, Metadata};
use firn_model::names;
use firn_query::search::IndexTarget;
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::stats::{Totals, health, replicas};
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::{all_indices, split_list};
use crate::wire::reply::Reply;

/// `GET /_data_stream[/{name}]`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    if call.params.bool("include_defaults", false)? {
        return Err(Error::not_implemented("the parameter [include_defaults] of [_data_stream]").into());
    }
    let metadata = edge.metadata(&call).await?;
    let streams = select(&call, &metadata)?;
    let mut printed = Vec::with_capacity(streams.len());
    for stream in streams {
        let worst = worst_health(&edge, &call, &metadata, stream).await?;
        printed.push(print(stream, &metadata, worst));
    }
    Ok(Reply::ok(&json!({"data_streams": printed})))
}

/// `PUT /_data_stream/{name}`.
pub(crate) async fn create(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let name = call.capture("name").to_owned();
    edge.engine
        .execute(&call.ctx, Command::CreateDataStream { name })
        .await?;
    Ok(Reply::acknowledged())
}

/// `DELETE /_data_stream/{name}`.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let names: Vec<String> = select(&call, &metadata)?
        .into_iter()
        .map(|stream| stream.name.clone())
        .collect();
    if !names.is_empty() {
        edge.engine
            .execute(&call.ctx, Command::DeleteDataStream { names })
            .await?;
    }
    Ok(Reply::acknowledged())
}

/// `GET /_data_stream/_stats` and `GET /_data_stream/{name}/_stats`.
pub(crate) async fn stats(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let streams = select(&call, &metadata)?;
    let mut printed = Vec::with_capacity(streams.len());
    let (mut shards, mut backing, mut bytes) = (0, 0, 0);
    for stream in &streams {
        let indices = edge.engine.stats(&call.ctx, backing_target(stream)).await?;
        let totals = Totals::of(&indices);
        let newest = indices
            .iter()
            .flat_map(|index| &index.shards)
            .flat_map(|shard| &shard.segments)
            .filter_map(|segment| segment.time_range_ms)
            .map(|(_, last)| last)
            .max();
        shards += totals.shards;
        backing += indices.len();
        bytes += totals.sum.store_size_bytes;
        printed.push(json!({
            "data_stream": stream.name,
            "backing_indices": indices.len(),
            "store_size_bytes": totals.sum.store_size_bytes,
            "maximum_timestamp": newest.unwrap_or(0),
        }));
    }
    Ok(Reply::ok(&json!({
        "_shards": {"total": shards, "successful": shards, "failed": 0},
        "data_stream_count": streams.len(),
        "backing_indices": backing,
        "total_store_size_bytes": bytes,
        "data_streams": printed,
    })))
}

/// Returns the data streams that `{name}` selects; fails if a name without wildcards does not exist.
pub(crate) fn select<'a>(call: &Call, metadata: &'a Metadata) -> Result<Vec<&'a DataStream>, Error> {
    let mut options = names::IndicesOptions::default();
    if let Some(states) = call.params.get("expand_wildcards") {
        crate::wire::params::set_expand_wildcards(&mut options, states.split(','))?;
    }
    let patterns = call.captured("name").map_or_else(|| vec!["*".to_owned()], split_list);
    let mut selected: Vec<&DataStream> = Vec::new();
    for pattern in patterns {
        let wild = pattern.contains('*') || pattern == "_all";
        let before = selected.len();
        for stream in metadata.data_streams.values() {
            let matches = pattern == "_all" || names::matches_pattern(&pattern, &stream.name);
            let seen = selected.iter().any(|other| other.name == stream.name);
            if matches && !(wild && stream.hidden && !options.expand_hidden) && !seen {
                selected.push(stream);
            }
        }
        if !wild && selected.len() == before && !metadata.data_streams.contains_key(&pattern) {
            return Err(Error::new(ErrorKind::IndexNotFound, format!("no such index [{pattern}]")).with_index(pattern));
        }
    }
    Ok(selected)
}

fn backing_target(stream: &DataStream) -> IndexTarget {
    IndexTarget {
        expression: stream.indices.clone(),
        // A lifecycle may have deleted an index since the names were read.
        options: names::IndicesOptions {
            ignore_unavailable: true,
            ..all_indices()
        },
    }
}

async fn worst_health(
    edge: &Edge,
    call: &Call,
    metadata: &Metadata,
    stream: &DataStream,
) -> Result<&'static str, ApiError> {
    let indices = edge.engine.stats(&call.ctx, backing_target(stream)).await?;
    let of = |wanted: &str| {
        indices
            .iter()
            .any(|index| health(index, replicas(metadata, &index.index)) == wanted)
    };
    Ok(if of("red") {
        "RED"
    } else if of("yellow") {
        "YELLOW"
    } else {
        "GREEN"
    })
}

/// Manager of an index that has a policy.
const ILM: &str = "Index Lifecycle Management";

fn print(stream: &DataStream, metadata: &Metadata, status: &str) -> Value {
    let indices: Vec<Value> = stream
        .indices
        .iter()
        .map(|name| {
            let index = metadata.indices.get(name);
            let mut printed = json!({
                "index_name": name,
                "index_uuid": index.map_or("_na_", |index| index.uuid.as_str()),
                "prefer_ilm": true,
                "managed_by": "Unmanaged",
            });
            if let Some(policy) = index.and_then(|index| index.lifecycle_policy()) {
                printed["ilm_policy"] = policy.into();
                printed["managed_by"] = ILM.into();
            }
            printed
        })
        .collect();
    let mut object = json!({
        "name": stream.name,
        "timestamp_field": {"name": "@timestamp"},
        "indices": indices,
        "generation": stream.generation,
        "status": status,
        "template": stream.template,
        "next_generation_managed_by": "Unmanaged",
        "prefer_ilm": true,
        "hidden": stream.hidden,
        "system": false,
        "allow_custom_routing": false,
        "replicated": false,
        "rollover_on_write": false,
    });
    let template = metadata.index_templates.get(&stream.template);
    let content = template.and_then(|template| metadata.compose(template).ok());
    let policy = content.and_then(|content| content.settings.get(firn_model::ilm::NAME).cloned());
    if let Some(policy) = &policy {
        object["ilm_policy"] = policy.clone();
        object["next_generation_managed_by"] = ILM.into();
    }
    if let Some(lifecycle) = &stream.lifecycle {
        object["lifecycle"] = lifecycle.print_effective();
        if lifecycle.enabled {
            let managed: Value = "Data stream lifecycle".into();
            if policy.is_none() {
                object["next_generation_managed_by"] = managed.clone();
            }
            let indices = object["indices"].as_array_mut().into_iter().flatten();
            for index in indices.filter(|index| index["ilm_policy"].is_null()) {
                index["managed_by"] = managed.clone();
            }
        }
    }
    if let Some(meta) = &stream.meta {
        object["_meta"] = meta.clone();
    }
    object
}
