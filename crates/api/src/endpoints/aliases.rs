//! Aliases.

use std::sync::Arc;

use firn_engine::{Error, ErrorKind};
use firn_model::metadata::{AliasAction, AliasMetadata, Command, IndexMetadata, Metadata};
use firn_model::names::{self, IndicesOptions};
use firn_query::query::Query;
use firn_query::search::IndexTarget;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::{all_indices, split_list};
use crate::wire::reply::Reply;

/// Maximum actions of one `POST /_aliases`, after wildcards are expanded.
const MAX_ACTIONS: usize = 100_000;

/// `GET /_alias` in its six forms.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let (found, missing) = find(&edge, &call, &metadata)?;
    if missing.is_empty() {
        return Ok(Reply::ok(&Value::Object(found)));
    }
    // This answer of Elasticsearch mixes an error with a result.
    let mut answer = json!({
        "error": format!("alias{} [{}] missing", if missing.len() == 1 { "" } else { "es" }, missing.join(",")),
        "status": 404,
    });
    if let Value::Object(object) = &mut answer {
        object.extend(found);
    }
    Ok(Reply::json(StatusCode::NOT_FOUND, &answer))
}

/// `HEAD /_alias/{name}`.
pub(crate) async fn exists(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let status = match find(&edge, &call, &metadata) {
        Ok((found, missing)) if missing.is_empty() && !found.is_empty() => StatusCode::OK,
        Ok(_) => StatusCode::NOT_FOUND,
        Err(ApiError::Engine(error)) if error.kind() == ErrorKind::IndexNotFound => StatusCode::NOT_FOUND,
        Err(error) => return Err(error),
    };
    Ok(Reply::empty(status))
}

/// Returns aliases by index, and the requested names that no index has.
fn find(edge: &Edge, call: &Call, metadata: &Metadata) -> Result<(Map<String, Value>, Vec<String>), ApiError> {
    let target = call.target(all_indices())?;
    let patterns = call.captured("name").map(split_list);
    let mut found = Map::new();
    for index in edge.resolve(&target, metadata)? {
        let matching: Map<String, Value> = index
            .aliases
            .iter()
            .filter(|(name, _)| patterns.as_ref().is_none_or(|patterns| selects(patterns, name)))
            .map(|(name, properties)| (name.clone(), properties.print()))
            .collect();
        // If the request has no names, an index without aliases is listed with an empty object.
        if !matching.is_empty() || patterns.is_none() {
            found.insert(index.name.clone(), json!({"aliases": matching}));
        }
    }
    let exists = |name: &String| {
        found.values().any(|index| {
            index["aliases"]
                .as_object()
                .is_some_and(|aliases| aliases.contains_key(name))
        })
    };
    let missing = patterns
        .unwrap_or_default()
        .into_iter()
        .filter(|pattern| !pattern.contains('*') && !pattern.starts_with('-') && pattern != "_all")
        .filter(|name| !exists(name))
        .collect();
    Ok((found, missing))
}

fn selects(patterns: &[String], name: &str) -> bool {
    let mut selected = false;
    for pattern in patterns {
        match pattern.strip_prefix('-') {
            Some(excluded) if names::matches_pattern(excluded, name) => selected = false,
            None if pattern == "_all" || names::matches_pattern(pattern, name) => selected = true,
            _ => {}
        }
    }
    selected
}

/// `PUT /{index}/_alias/{name}`, or with both in the body.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mut body = call.object()?;
    let indices = match (body.remove("index"), call.captured("index")) {
        (None, Some(text)) => split_list(text),
        (Some(value), None) => strings("index", &value)?,
        (None, None) => Vec::new(),
        (Some(_), Some(_)) => {
            return Err(Error::illegal_argument("[index] is in the path and in the body").into());
        }
    };
    let alias = match (body.remove("alias"), call.captured("name")) {
        (None, Some(name)) => name.to_owned(),
        (Some(Value::String(name)), None) => name,
        _ => return Err(ApiError::validation(&["alias name is missing".to_owned()])),
    };
    if indices.is_empty() {
        return Err(ApiError::validation(&["[index] can't be empty string".to_owned()]));
    }
    let metadata = parse(&body)?;
    let action = Action {
        kind: Kind::Add(metadata),
        indices,
        aliases: vec![alias],
        must_exist: None,
    };
    execute(&edge, &call, vec![action]).await
}

/// `DELETE /{index}/_alias/{name}`.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let action = Action {
        kind: Kind::Remove,
        indices: split_list(call.capture("index")),
        aliases: split_list(call.capture("name")),
        must_exist: None,
    };
    execute(&edge, &call, vec![action]).await
}

/// `POST /_aliases`.
pub(crate) async fn update(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let Value::Object(body) = call.required_json()? else {
        return Err(Error::parsing("expected a JSON object as the body of [_aliases]").into());
    };
    let mut actions = Vec::new();
    for (key, value) in body {
        match (key.as_str(), value) {
            ("actions", Value::Array(list)) => {
                for action in &list {
                    actions.push(parse_action(action)?);
                }
            }
            ("actions", _) => return Err(Error::parsing("[actions] must be an array").into()),
            (other, _) => return Err(Error::parsing(format!("[aliases] unknown field [{other}]")).into()),
        }
    }
    if actions.is_empty() {
        return Err(Error::illegal_argument("No action specified").into());
    }
    execute(&edge, &call, actions).await
}

struct Action {
    kind: Kind,
    indices: Vec<String>,
    aliases: Vec<String>,
    must_exist: Option<bool>,
}

enum Kind {
    Add(AliasMetadata),
    Remove,
    RemoveIndex,
}

fn parse_action(value: &Value) -> Result<Action, Error> {
    let Some((name, Value::Object(body))) = value
        .as_object()
        .filter(|object| object.len() == 1)
        .and_then(|object| object.iter().next())
    else {
        return Err(Error::parsing(
            "[alias_action] an entry of [actions] must be an object with one of [add], [remove], [remove_index]",
        ));
    };
    let mut body = body.clone();
    let mut indices = Vec::new();
    let mut aliases = Vec::new();
    for key in ["index", "indices"] {
        if let Some(value) = body.remove(key) {
            indices.extend(strings(key, &value)?);
        }
    }
    for key in ["alias", "aliases"] {
        if let Some(value) = body.remove(key) {
            aliases.extend(strings(key, &value)?);
        }
    }
    let must_exist = body
        .remove("must_exist")
        .map(|value| {
            value
                .as_bool()
                .ok_or_else(|| Error::parsing("[must_exist] must be [true] or [false]"))
        })
        .transpose()?;
    if indices.is_empty() {
        return Err(Error::illegal_argument("One of [index] or [indices] is required"));
    }
    let kind = match name.as_str() {
        "add" => {
            if must_exist.is_some() {
                return Err(Error::parsing("[must_exist] is unsupported for [ADD]"));
            }
            Kind::Add(parse(&body)?)
        }
        "remove" | "remove_index" => {
            if let Some(other) = body.keys().next() {
                return Err(Error::parsing(format!("[{name}] unknown field [{other}]")));
            }
            if name == "remove" {
                Kind::Remove
            } else {
                Kind::RemoveIndex
            }
        }
        other => return Err(Error::parsing(format!("[alias_action] unknown field [{other}]"))),
    };
    match kind {
        Kind::RemoveIndex if !aliases.is_empty() => {
            return Err(Error::parsing("[alias] is unsupported for [REMOVE_INDEX]"));
        }
        Kind::Add(_) | Kind::Remove if aliases.is_empty() => {
            return Err(Error::illegal_argument("One of [alias] or [aliases] is required"));
        }
        _ => {}
    }
    Ok(Action {
        kind,
        indices,
        aliases,
        must_exist,
    })
}

async fn execute(edge: &Edge, call: &Call, actions: Vec<Action>) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(call).await?;
    let mut resolved = Vec::new();
    for action in actions {
        let target = IndexTarget {
            expression: action.indices,
            options: IndicesOptions {
                allow_no_indices: false,
                expand_closed: true,
                ..IndicesOptions::default()
            },
        };
        for index in edge.resolve_names(&target, &metadata)? {
            match &action.kind {
                Kind::RemoveIndex => resolved.push(AliasAction::RemoveIndex { index }),
                Kind::Add(properties) => resolved.extend(action.aliases.iter().map(|alias| AliasAction::Add {
                    index: index.clone(),
                    alias: alias.clone(),
                    metadata: properties.clone(),
                })),
                Kind::Remove => resolved.extend(action.aliases.iter().map(|alias| AliasAction::Remove {
                    index: index.clone(),
                    alias: alias.clone(),
                    // The request fails only if none of several indices has the alias, see below.
                    must_exist: false,
                })),
            }
            if resolved.len() > MAX_ACTIONS {
                return Err(
                    Error::illegal_argument(format!("alias actions expand to more than [{MAX_ACTIONS}]")).into(),
                );
            }
        }
        if matches!(action.kind, Kind::Remove) && action.must_exist != Some(false) {
            check_some_exist(&resolved, &action.aliases, &metadata)?;
        }
    }
    edge.engine
        .execute(&call.ctx, Command::UpdateAliases { actions: resolved })
        .await?;
    Ok(Reply::acknowledged())
}

/// Fails unless each alias exists on one of its indices, or the same request adds it.
fn check_some_exist(actions: &[AliasAction], aliases: &[String], metadata: &Metadata) -> Result<(), Error> {
    let missing: Vec<&str> = aliases
        .iter()
        .filter(|pattern| {
            !actions.iter().any(|action| match action {
                AliasAction::Remove { index, alias, .. } if alias == *pattern => metadata
                    .indices
                    .get(index)
                    .is_some_and(|index| index.aliases.keys().any(|name| names::matches_pattern(pattern, name))),
                AliasAction::Add { alias, .. } => alias == *pattern,
                _ => false,
            })
        })
        .map(String::as_str)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::AliasNotFound,
        format!("aliases [{}] missing", missing.join(", ")),
    ))
}

fn strings(name: &str, value: &Value) -> Result<Vec<String>, Error> {
    match value {
        Value::String(text) => Ok(split_list(text)),
        Value::Array(values) => values
            .iter()
            .map(|value| value.as_str().map(str::to_owned))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| Error::parsing(format!("[{name}] must hold strings"))),
        _ => Err(Error::parsing(format!("[{name}] must be a string or an array"))),
    }
}

/// Parses the properties of an alias.
fn parse(body: &Map<String, Value>) -> Result<AliasMetadata, Error> {
    let mut alias = AliasMetadata::default();
    for (name, value) in body {
        let text = || match value {
            Value::String(text) => Ok(Some(text.clone())),
            Value::Number(number) => Ok(Some(number.to_string())),
            Value::Null => Ok(None),
            _ => Err(Error::parsing(format!("[{name}] of an alias must be a string"))),
        };
        let flag = || match value {
            Value::Bool(flag) => Ok(Some(*flag)),
            Value::Null => Ok(None),
            _ => Err(Error::parsing(format!(
                "[{name}] of an alias must be [true] or [false]"
            ))),
        };
        match name.as_str() {
            "filter" if value.is_null() => {}
            "filter" => {
                // A filter that no search could use is refused now.
                Query::parse(value)?;
                alias.filter = Some(value.clone());
            }
            "routing" => {
                let routing = text()?;
                alias.index_routing = alias.index_routing.or_else(|| routing.clone());
                alias.search_routing = alias.search_routing.or(routing);
            }
            "index_routing" | "indexRouting" | "index-routing" => alias.index_routing = text()?,
            "search_routing" | "searchRouting" | "search-routing" => alias.search_routing = text()?,
            "is_write_index" => alias.is_write_index = flag()?,
            "is_hidden" => alias.is_hidden = flag()?,
            other => return Err(Error::parsing(format!("[alias] unknown field [{other}]"))),
        }
    }
    Ok(alias)
}

/// Returns all aliases of an index as JSON.
pub(crate) fn print_all(index: &IndexMetadata) -> Value {
    let aliases: Map<String, Value> = index
        .aliases
        .iter()
        .map(|(name, properties)| (name.clone(), properties.print()))
        .collect();
    Value::Object(aliases)
}
