//! Indices: create, get, delete, open, close, roll over.

use std::sync::Arc;

use firn_engine::{Error, ErrorKind};
use firn_model::metadata::{Command, IndexMetadata, Metadata};
use firn_model::names::{self, IndicesOptions};
use firn_query::search::IndexTarget;
use http::StatusCode;
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use crate::endpoints::aliases;
use crate::endpoints::call::Call;
use crate::endpoints::document_params::wait_for_active_shards;
use crate::endpoints::settings::{defaults_of, print, settings_of};
use crate::state::disclosure;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::open_and_closed;
use crate::wire::reply::Reply;

/// `PUT /{index}`.
pub(crate) async fn create(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    wait_for_active_shards(&call.params)?;
    let mut settings = json!({});
    let mut mappings = None;
    let mut alias_map = None;
    for (key, value) in call.object()? {
        match key.as_str() {
            "settings" => settings = value,
            "mappings" => mappings = Some(value),
            "aliases" => alias_map = Some(value),
            other => {
                return Err(ApiError::bad_request(
                    "parse_exception",
                    format!("unknown key [{other}] for create index"),
                ));
            }
        }
    }
    let name = names::resolve_date_math(call.capture("index"), edge.now_ms())?;
    let command = Command::CreateIndex {
        name: name.clone(),
        settings,
        mappings,
        aliases: alias_map,
    };
    let outcome = edge.engine.execute(&call.ctx, command).await?;
    let index = outcome.created_index.unwrap_or(name);
    Ok(Reply::ok(&json!({
        "acknowledged": true,
        "shards_acknowledged": true,
        "index": index,
    })))
}

/// `GET /{index}`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata_with_mappings(&call).await?;
    let target = call.target(IndicesOptions {
        expand_hidden: false,
        ..IndicesOptions::default()
    })?;
    let flat = call.params.bool("flat_settings", false)?;
    let defaults = call.params.bool("include_defaults", false)?;
    let features = call.params.list("features");
    if let Some(unknown) = features
        .iter()
        .flatten()
        .find(|feature| !matches!(feature.as_str(), "aliases" | "mappings" | "settings"))
    {
        return Err(Error::illegal_argument(format!("No feature [{unknown}] is known")).into());
    }
    let wants = |name: &str| {
        features
            .as_ref()
            .is_none_or(|features| features.iter().any(|feature| feature == name))
    };
    let mut answer = Map::new();
    for index in edge.resolve(&target, &metadata)? {
        let mut object = Map::new();
        if wants("aliases") {
            object.insert("aliases".to_owned(), aliases::print_all(index));
        }
        if wants("mappings") {
            object.insert("mappings".to_owned(), index.mapping.print());
        }
        if wants("settings") {
            let shown = settings_of(index);
            object.insert("settings".to_owned(), print(&shown, flat));
            if defaults {
                let mut rest = defaults_of(&index.settings);
                rest.retain(|name, _| !shown.contains_key(name));
                object.insert("defaults".to_owned(), print(&rest, flat));
            }
        }
        if let Some(stream) = &index.data_stream {
            object.insert("data_stream".to_owned(), stream.as_str().into());
        }
        answer.insert(index.name.clone(), Value::Object(object));
    }
    Ok(Reply::ok(&Value::Object(answer)))
}

/// `HEAD /{index}`.
pub(crate) async fn exists(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let target = call.target(open_and_closed())?;
    match edge.resolve_names(&target, &metadata) {
        // A wildcard without matches counts as not found.
        Ok(names) if names.is_empty() => Ok(Reply::empty(StatusCode::NOT_FOUND)),
        Ok(_) => Ok(Reply::empty(StatusCode::OK)),
        Err(ApiError::Engine(error)) if error.kind() == ErrorKind::IndexNotFound => {
            Ok(Reply::empty(StatusCode::NOT_FOUND))
        }
        Err(error) => Err(error),
    }
}

/// `DELETE /{index}`.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let target = call.target(open_and_closed())?;
    check_destructive(&target, &metadata)?;
    refuse_aliases(&call, &target, &metadata)?;
    let names = edge.resolve_names(&target, &metadata)?;
    edge.engine.execute(&call.ctx, Command::DeleteIndices { names }).await?;
    Ok(Reply::acknowledged())
}

/// `POST /{index}/_open`.
pub(crate) async fn open(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let names = set_closed(&edge, &call, false).await?;
    drop(names);
    Ok(Reply::ok(&json!({"acknowledged": true, "shards_acknowledged": true})))
}

/// `POST /{index}/_close`.
pub(crate) async fn close(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let names = set_closed(&edge, &call, true).await?;
    let indices: Map<String, Value> = names.into_iter().map(|name| (name, json!({"closed": true}))).collect();
    Ok(Reply::ok(&json!({
        "acknowledged": true,
        "shards_acknowledged": true,
        "indices": indices,
    })))
}

async fn set_closed(edge: &Edge, call: &Call, closed: bool) -> Result<Vec<String>, ApiError> {
    wait_for_active_shards(&call.params)?;
    if call.captured("index").is_none() {
        return Err(ApiError::validation(&["index is missing".to_owned()]));
    }
    let metadata = edge.metadata(call).await?;
    // Wildcards expand to the indices in the other state.
    let target = call.target(IndicesOptions {
        expand_open: closed,
        expand_closed: !closed,
        ..IndicesOptions::default()
    })?;
    check_destructive(&target, &metadata)?;
    let names = edge.resolve_names(&target, &metadata)?;
    let command = Command::SetClosed {
        names: names.clone(),
        closed,
    };
    edge.engine.execute(&call.ctx, command).await?;
    Ok(names)
}

/// Checks `action.destructive_requires_name`, true unless the cluster settings say otherwise.
fn check_destructive(target: &IndexTarget, metadata: &Metadata) -> Result<(), Error> {
    let allowed = metadata
        .cluster_setting("action.destructive_requires_name")
        .is_some_and(|value| *value == json!(false) || *value == json!("false"));
    let wild = target.expression.is_empty()
        || target
            .expression
            .iter()
            .any(|part| part == "_all" || (part.contains('*') && !part.starts_with('-')));
    if wild && !allowed {
        return Err(Error::illegal_argument(
            "Wildcard expressions or all indices are not allowed",
        ));
    }
    Ok(())
}

/// Refuses aliases and data streams: an index is deleted by its own name only.
fn refuse_aliases(call: &Call, target: &IndexTarget, metadata: &Metadata) -> Result<(), Error> {
    let scope = &call.ctx.scope;
    // The name that a tenant uses for an index of its own is only an alias on the node.
    let is_own_name = |index: &IndexMetadata, name: &str| {
        let tenant = scope.tenant_id();
        tenant.is_some_and(|tenant| index.name_of_owner(tenant) == Some(name))
    };
    let refused = |part: &str, kind: &str, instead: &str| {
        let reason = format!("The provided expression [{part}] matches {kind}, {instead} instead.");
        Err(disclosure::disclose_name_error(
            &call.ctx,
            part,
            Error::illegal_argument(reason),
        ))
    };
    for part in &target.expression {
        let mut named = metadata.indices.with_alias(part);
        if named.any(|index| !is_own_name(index, part)) {
            return refused(part, "an alias", "specify the corresponding concrete indices");
        }
        if metadata.data_streams.contains_key(part) {
            return refused(part, "a data stream", "use the data stream delete API");
        }
    }
    Ok(())
}

/// `POST /{index}/_rollover[/{new_index}]`.
pub(crate) async fn rollover(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    wait_for_active_shards(&call.params)?;
    let dry_run = call.params.bool("dry_run", false)?;
    let mut body = call.object()?;
    let conditions: IndexMap<String, Value> = match body.remove("conditions") {
        None | Some(Value::Null) => IndexMap::new(),
        Some(Value::Object(conditions)) => conditions.into_iter().collect(),
        Some(_) => return Err(Error::parsing("[conditions] must be an object").into()),
    };
    if let Some(other) = body
        .keys()
        .find(|key| !matches!(key.as_str(), "settings" | "mappings" | "aliases"))
    {
        return Err(Error::parsing(format!("[rollover] unknown field [{other}]")).into());
    }
    let new_index = call
        .captured("new_index")
        .map(|name| names::resolve_date_math(name, edge.now_ms()))
        .transpose()?;
    let command = Command::Rollover {
        target: call.capture("index").to_owned(),
        new_index,
        conditions,
        body: Value::Object(body),
        dry_run,
        facts: Default::default(),
    };
    let outcome = edge.engine.execute(&call.ctx, command).await?;
    let rollover = outcome
        .rollover
        .ok_or_else(|| Error::internal("the engine returned no result for a rollover"))?;
    let conditions: Map<String, Value> = rollover
        .conditions
        .into_iter()
        .map(|(condition, met)| (condition, met.into()))
        .collect();
    Ok(Reply::ok(&json!({
        "acknowledged": rollover.rolled_over,
        "shards_acknowledged": rollover.rolled_over,
        "old_index": rollover.old_index,
        "new_index": rollover.new_index,
        "rolled_over": rollover.rolled_over,
        "dry_run": dry_run,
        "conditions": conditions,
    })))
}

/// Returns the entry of an index in `_cluster/state`.
pub(crate) fn state_of(index: &IndexMetadata, flat: bool) -> Value {
    json!({
        "state": if index.closed { "close" } else { "open" },
        "settings": print(&settings_of(index), flat),
        "mappings": {"_doc": index.mapping.print()},
        "aliases": index.aliases.keys().collect::<Vec<_>>(),
        "data_stream": index.data_stream,
    })
}
