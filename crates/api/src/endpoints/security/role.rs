//! `_security/role`: roles.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{body, change, control};
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::split_list;
use crate::wire::reply::Reply;

/// `GET /_security/role[/{name}]`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let wanted = call.captured("name").map(split_list);
    let roles: Map<String, Value> = control(&edge)?
        .roles()
        .into_iter()
        .filter(|role| wanted.as_ref().is_none_or(|names| names.contains(&role.name)))
        .map(|role| (role.name.clone(), body::print_role(&role.descriptor)))
        .collect();
    let status = match roles.is_empty() && wanted.is_some() {
        true => StatusCode::NOT_FOUND,
        false => StatusCode::OK,
    };
    Ok(Reply::json(status, &Value::Object(roles)))
}

/// `PUT /_security/role/{name}`.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let control = Arc::clone(control(&edge)?);
    let name = call.capture("name").to_owned();
    let descriptor = body::role(call.required_json()?)?;
    let identity = Arc::clone(&call.identity);
    let created = change(move || control.put_role(&identity, &name, descriptor)).await?;
    Ok(Reply::ok(&json!({"role": {"created": created}})))
}

/// `DELETE /_security/role/{name}`.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let control = Arc::clone(control(&edge)?);
    let name = call.capture("name").to_owned();
    let identity = Arc::clone(&call.identity);
    let found = change(move || control.delete_role(&identity, &name)).await?;
    Ok(super::found(found))
}
