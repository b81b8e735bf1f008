//! `_mapping`: mappings of indices and of single fields.

use std::sync::Arc;

use firn_engine::Error;
use firn_model::metadata::{self, Command, IndexMetadata, Metadata};
use firn_model::names::{self, IndicesOptions};
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::split_list;
use crate::wire::reply::Reply;

/// `GET /_mapping` and `GET /{index}/_mapping`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata_with_mappings(&call).await?;
    let target = call.target(hidden_too())?;
    let answer: Map<String, Value> = edge
        .resolve(&target, &metadata)?
        .into_iter()
        .map(|index| (index.name.clone(), json!({"mappings": index.mapping.print()})))
        .collect();
    Ok(Reply::ok(&Value::Object(answer)))
}

/// `PUT /{index}/_mapping`.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mapping = call.required_json()?;
    let metadata = edge.metadata(&call).await?;
    let target = call.target(hidden_too())?;
    let mut names = edge.resolve_names(&target, &metadata)?;
    if call.params.bool("write_index_only", false)? {
        names = write_indices(&edge, &target.expression, &metadata)?;
    }
    edge.engine
        .execute(&call.ctx, Command::PutMapping { names, mapping })
        .await?;
    Ok(Reply::acknowledged())
}

fn write_indices(edge: &Edge, expression: &[String], metadata: &Metadata) -> Result<Vec<String>, ApiError> {
    expression
        .iter()
        .map(|name| Ok(metadata::resolve_write(name, metadata, edge.now_ms())?.index))
        .collect()
}

/// `GET /_mapping/field/{fields}` and `GET /{index}/_mapping/field/{fields}`.
pub(crate) async fn get_fields(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    if call.params.bool("include_defaults", false)? {
        return Err(Error::not_implemented("the parameter [include_defaults] of [_mapping/field]").into());
    }
    let metadata = edge.metadata_with_mappings(&call).await?;
    let target = call.target(hidden_too())?;
    let patterns = split_list(call.capture("fields"));
    let answer: Map<String, Value> = edge
        .resolve(&target, &metadata)?
        .into_iter()
        .map(|index| (index.name.clone(), json!({"mappings": fields(index, &patterns)})))
        .collect();
    Ok(Reply::ok(&Value::Object(answer)))
}

/// Returns the matching leaf fields, each with its part of the printed mapping.
fn fields(index: &IndexMetadata, patterns: &[String]) -> Value {
    let printed = index.mapping.print();
    let mut output = Map::new();
    for (path, _) in index.mapping.leaves() {
        if !patterns.iter().any(|pattern| names::matches_pattern(pattern, &path)) {
            continue;
        }
        if let Some(definition) = find(&printed, &path) {
            let last = path.rsplit('.').next().unwrap_or(&path);
            output.insert(path.clone(), json!({"full_name": path, "mapping": {last: definition}}));
        }
    }
    Value::Object(output)
}

/// Finds the definition of a full path in a printed mapping, through `properties` and `fields`.
fn find<'a>(printed: &'a Value, path: &str) -> Option<&'a Value> {
    for children in ["properties", "fields"] {
        let Some(Value::Object(children)) = printed.get(children) else {
            continue;
        };
        // A name may contain dots, so the search tries every way to split the path.
        let ends = path.match_indices('.').map(|(end, _)| end).chain([path.len()]);
        for end in ends {
            if let Some(child) = children.get(&path[..end]) {
                if end == path.len() {
                    return Some(child);
                }
                if let Some(found) = find(child, &path[end + 1..]) {
                    return Some(found);
                }
            }
        }
    }
    None
}

fn hidden_too() -> IndicesOptions {
    IndicesOptions {
        expand_hidden: true,
        ..IndicesOptions::default()
    }
}
