//! Index templates and component templates.

use std::sync::Arc;

use firn_engine::{Error, ErrorKind};
use firn_model::metadata::{Command, ComponentTemplate, IndexTemplate, Metadata, TemplateContent};
use firn_model::names;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::endpoints::aliases;
use crate::endpoints::call::Call;
use crate::endpoints::settings::print;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::split_list;
use crate::wire::reply::Reply;

pub(crate) const GET_PARAMS: &[&str] = &["flat_settings", "include_defaults"];
pub(crate) const PUT_PARAMS: &[&str] = &["create", "cause"];
pub(crate) const SIMULATE_PARAMS: &[&str] = &["cause", "create", "include_defaults"];

/// `GET /_index_template[/{name}]`.
pub(crate) async fn get_index_templates(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    refuse_defaults(&call)?;
    let metadata = edge.metadata(&call).await?;
    let flat = call.params.bool("flat_settings", false)?;
    let names = select(call.captured("name"), metadata.index_templates.keys(), "index template")?;
    let templates: Vec<Value> = names
        .iter()
        .filter_map(|name| metadata.index_templates.get(*name).map(|template| (name, template)))
        .map(|(name, template)| json!({"name": name, "index_template": print_index_template(template, flat)}))
        .collect();
    Ok(Reply::ok(&json!({"index_templates": templates})))
}

/// `HEAD /_index_template/{name}`.
pub(crate) async fn index_template_exists(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let found = select(call.captured("name"), metadata.index_templates.keys(), "index template");
    Ok(existence(found.is_ok_and(|names| !names.is_empty())))
}

/// `PUT /_index_template/{name}`.
pub(crate) async fn put_index_template(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let command = Command::PutIndexTemplate {
        name: call.capture("name").to_owned(),
        body: call.required_json()?,
        create: call.params.bool("create", false)?,
    };
    edge.engine.execute(&call.ctx, command).await?;
    Ok(Reply::acknowledged())
}

/// `DELETE /_index_template/{name}`.
pub(crate) async fn delete_index_template(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let names = split_list(call.capture("name"));
    edge.engine
        .execute(&call.ctx, Command::DeleteIndexTemplate { names })
        .await?;
    Ok(Reply::acknowledged())
}

/// `GET /_component_template[/{name}]`.
pub(crate) async fn get_component_templates(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    refuse_defaults(&call)?;
    let metadata = edge.metadata(&call).await?;
    let flat = call.params.bool("flat_settings", false)?;
    let names = select(
        call.captured("name"),
        metadata.component_templates.keys(),
        "component template",
    )?;
    let templates: Vec<Value> = names
        .iter()
        .filter_map(|name| metadata.component_templates.get(*name).map(|template| (name, template)))
        .map(|(name, template)| json!({"name": name, "component_template": print_component_template(template, flat)}))
        .collect();
    Ok(Reply::ok(&json!({"component_templates": templates})))
}

/// `HEAD /_component_template/{name}`.
pub(crate) async fn component_template_exists(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let found = select(
        call.captured("name"),
        metadata.component_templates.keys(),
        "component template",
    );
    Ok(existence(found.is_ok_and(|names| !names.is_empty())))
}

/// `PUT /_component_template/{name}`.
pub(crate) async fn put_component_template(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let command = Command::PutComponentTemplate {
        name: call.capture("name").to_owned(),
        body: call.required_json()?,
        create: call.params.bool("create", false)?,
    };
    edge.engine.execute(&call.ctx, command).await?;
    Ok(Reply::acknowledged())
}

/// `DELETE /_component_template/{name}`.
pub(crate) async fn delete_component_template(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let names = split_list(call.capture("name"));
    edge.engine
        .execute(&call.ctx, Command::DeleteComponentTemplate { names })
        .await?;
    Ok(Reply::acknowledged())
}

/// `POST /_index_template/_simulate_index/{name}`: shows what a new index of this name would get. The index is created
/// in a temporary copy of the metadata.
pub(crate) async fn simulate_index(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    const SIMULATED: &str = "simulated_template";
    if call.params.bool("include_defaults", false)? {
        return Err(Error::not_implemented("the parameter [include_defaults] of [_simulate_index]").into());
    }
    let name = names::resolve_date_math(call.capture("name"), edge.now_ms())?;
    let mut metadata = edge.metadata(&call).await?;
    let apply = |metadata: &Metadata, command: &Command| {
        metadata.apply(command, edge.now_ms(), &mut || "simulated-index-uuid-0".to_owned())
    };
    if let Some(body) = call.json()? {
        let command = Command::PutIndexTemplate {
            name: SIMULATED.to_owned(),
            body,
            create: false,
        };
        metadata = apply(&metadata, &command)?.0;
    }
    let mut matching: Vec<(&String, &Arc<IndexTemplate>)> = metadata
        .index_templates
        .iter()
        .filter(|(_, template)| {
            template
                .index_patterns
                .iter()
                .any(|pattern| names::matches_pattern(pattern, &name))
        })
        .collect();
    matching.sort_by_key(|(_, template)| std::cmp::Reverse(template.priority));
    let overlapping: Vec<Value> = matching
        .iter()
        .skip(1)
        .map(|(name, template)| json!({"name": name, "index_patterns": template.index_patterns}))
        .collect();
    if matching.is_empty() {
        return Ok(Reply::ok(&json!({})));
    }
    // The copy is empty because an existing name would not be created again.
    let mut empty = Metadata::clone(&metadata);
    empty.indices = firn_model::metadata::Indices::default();
    empty.data_streams.clear();
    let (after, _) = apply(&empty, &Command::AutoCreate { name, tenant: None })?;
    let index = after
        .indices
        .values()
        .next()
        .ok_or_else(|| Error::internal("the simulation created no index"))?;
    Ok(Reply::ok(&json!({
        "template": {
            "settings": print(&index.settings.typed, false),
            "mappings": index.mapping.print(),
            "aliases": aliases::print_all(index),
        },
        "overlapping": overlapping,
    })))
}

fn existence(found: bool) -> Reply {
    Reply::empty(if found { StatusCode::OK } else { StatusCode::NOT_FOUND })
}

fn refuse_defaults(call: &Call) -> Result<(), Error> {
    if call.params.bool("include_defaults", false)? {
        return Err(Error::not_implemented("the parameter [include_defaults] of templates"));
    }
    Ok(())
}

/// Returns the names that an expression selects; fails if a name without wildcards does not exist.
fn select<'a>(
    expression: Option<&str>,
    all: impl Iterator<Item = &'a String>,
    what: &str,
) -> Result<Vec<&'a str>, Error> {
    let all: Vec<&str> = all.map(String::as_str).collect();
    let Some(expression) = expression else {
        return Ok(all);
    };
    let mut selected = Vec::new();
    for pattern in split_list(expression) {
        let before = selected.len();
        selected.extend(all.iter().filter(|name| names::matches_pattern(&pattern, name)));
        if selected.len() == before && !pattern.contains('*') {
            return Err(Error::new(
                ErrorKind::ResourceNotFound,
                format!("{what} matching [{pattern}] not found"),
            ));
        }
    }
    selected.sort_unstable();
    selected.dedup();
    Ok(selected)
}

fn print_index_template(template: &IndexTemplate, flat: bool) -> Value {
    let mut object = Map::new();
    object.insert("index_patterns".to_owned(), json!(template.index_patterns));
    let content = print_content(&template.template, flat);
    if !content.is_empty() {
        object.insert("template".to_owned(), Value::Object(content));
    }
    object.insert("composed_of".to_owned(), json!(template.composed_of));
    if template.priority > 0 {
        object.insert("priority".to_owned(), template.priority.into());
    }
    if let Some(version) = template.version {
        object.insert("version".to_owned(), version.into());
    }
    if let Some(meta) = &template.meta {
        object.insert("_meta".to_owned(), meta.clone());
    }
    if let Some(stream) = &template.data_stream {
        let mut stream = stream.clone();
        stream.entry("hidden").or_insert(false.into());
        stream.entry("allow_custom_routing").or_insert(false.into());
        object.insert("data_stream".to_owned(), Value::Object(stream));
    }
    if let Some(allow) = template.allow_auto_create {
        object.insert("allow_auto_create".to_owned(), allow.into());
    }
    if !template.ignore_missing_component_templates.is_empty() {
        object.insert(
            "ignore_missing_component_templates".to_owned(),
            json!(template.ignore_missing_component_templates),
        );
    }
    Value::Object(object)
}

fn print_component_template(template: &ComponentTemplate, flat: bool) -> Value {
    let mut object = Map::new();
    object.insert(
        "template".to_owned(),
        Value::Object(print_content(&template.template, flat)),
    );
    if let Some(version) = template.version {
        object.insert("version".to_owned(), version.into());
    }
    if let Some(meta) = &template.meta {
        object.insert("_meta".to_owned(), meta.clone());
    }
    Value::Object(object)
}

fn print_content(content: &TemplateContent, flat: bool) -> Map<String, Value> {
    let mut object = Map::new();
    if !content.settings.is_empty() {
        object.insert("settings".to_owned(), print(&content.settings, flat));
    }
    if let Some(mappings) = &content.mappings {
        object.insert("mappings".to_owned(), mappings.clone());
    }
    if !content.aliases.is_empty() {
        let aliases: Map<String, Value> = content
            .aliases
            .iter()
            .map(|(name, properties)| (name.clone(), properties.print()))
            .collect();
        object.insert("aliases".to_owned(), Value::Object(aliases));
    }
    if let Some(lifecycle) = &content.lifecycle {
        object.insert("lifecycle".to_owned(), lifecycle.clone());
    }
    object
}
