//! `_security/user`: users and their passwords.

use std::sync::Arc;

use firn_auth::{NewUser, Password, User};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{change, control};
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::json_fields::Fields;
use crate::wire::params::split_list;
use crate::wire::reply::Reply;

/// Changes take effect at once, so there is nothing to refresh.
pub(crate) const PARAMS: &[&str] = &["refresh"];

/// `GET /_security/user[/{username}]`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let wanted = call.captured("username").map(split_list);
    let users: Map<String, Value> = control(&edge)?
        .users(&call.identity)
        .into_iter()
        .filter(|user| wanted.as_ref().is_none_or(|names| names.contains(&user.name)))
        .map(|user| (user.name.clone(), print(&user)))
        .collect();
    let status = match users.is_empty() && wanted.is_some() {
        true => StatusCode::NOT_FOUND,
        false => StatusCode::OK,
    };
    Ok(Reply::json(status, &Value::Object(users)))
}

/// `PUT /_security/user/{username}`. `metadata.tenant` binds the user to a tenant.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let control = Arc::clone(control(&edge)?);
    let name = call.capture("username").to_owned();
    let mut fields = Fields::of("user", call.required_json()?)?;
    fields.refuse(&["password_hash"])?;
    if let Some(other) = fields.string("username")?.filter(|other| *other != name) {
        return Err(ApiError::bad_request(
            "illegal_argument_exception",
            format!("expected username [{name}] in the body but found [{other}]"),
        ));
    }
    let new = NewUser {
        password: fields.string("password")?.map(Password),
        roles: fields
            .strings("roles")?
            .ok_or_else(|| ApiError::validation(&["roles are missing".to_owned()]))?,
        full_name: fields.string("full_name")?,
        email: fields.string("email")?,
        metadata: fields.object("metadata")?.unwrap_or_default(),
        enabled: fields.bool("enabled")?.unwrap_or(true),
    };
    fields.finish()?;
    let identity = Arc::clone(&call.identity);
    let created = change(move || control.put_user(&identity, &name, new)).await?;
    Ok(Reply::ok(&json!({"created": created})))
}

/// `DELETE /_security/user/{username}`.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let control = Arc::clone(control(&edge)?);
    let name = call.capture("username").to_owned();
    let identity = Arc::clone(&call.identity);
    let found = change(move || control.delete_user(&identity, &name)).await?;
    Ok(super::found(found))
}

/// `PUT /_security/user[/{username}]/_password`: sets the password of another user or of the caller.
pub(crate) async fn set_password(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let control = Arc::clone(control(&edge)?);
    let mut fields = Fields::of("password", call.required_json()?)?;
    fields.refuse(&["password_hash"])?;
    let password = fields.string("password")?.map(Password);
    let password = password.ok_or_else(|| ApiError::validation(&["password is missing".to_owned()]))?;
    fields.finish()?;
    let identity = Arc::clone(&call.identity);
    let own = identity.user_name().unwrap_or_default();
    let name = call.captured("username").unwrap_or(own).to_owned();
    change(move || control.set_password(&identity, &name, &password)).await?;
    Ok(Reply::ok(&json!({})))
}

/// `PUT /_security/user/{username}/_enable`.
pub(crate) async fn enable(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    set_enabled(&edge, &call, true).await
}

/// `PUT /_security/user/{username}/_disable`.
pub(crate) async fn disable(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    set_enabled(&edge, &call, false).await
}

async fn set_enabled(edge: &Edge, call: &Call, enabled: bool) -> Result<Reply, ApiError> {
    let control = Arc::clone(control(edge)?);
    let name = call.capture("username").to_owned();
    let identity = Arc::clone(&call.identity);
    change(move || control.set_enabled(&identity, &name, enabled)).await?;
    Ok(Reply::ok(&json!({})))
}

fn print(user: &User) -> Value {
    json!({
        "username": user.name,
        "roles": user.roles,
        "full_name": user.full_name,
        "email": user.email,
        "metadata": user.metadata,
        "enabled": user.enabled,
    })
}
