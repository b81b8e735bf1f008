//! `_firn/saved`: searches and dashboards that people of one tenant keep for each other.
//!
//! ```text
//! PUT /_firn/saved/search/errors?version=3
//! {"title": "Errors of the last hour", "description": "", "state": {"search": "t=now-1h,now&q=level:error"}}
//! ```

use std::sync::Arc;

use firn_auth::{Control, DamagedSaved, NewSaved, Saved, SavedKind};
use firn_engine::Error;
use firn_model::tenant::TenantId;
use http::StatusCode;
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::security::change;
use crate::state::config::Security;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::json_fields::Fields;
use crate::wire::reply::Reply;

pub(crate) const LIST_PARAMS: &[&str] = &["type"];
pub(crate) const WRITE_PARAMS: &[&str] = &["version"];

/// `GET /_firn/saved?type=search`: lists saved objects without their states. Objects that cannot be read are listed in
/// `damaged`, which is present only if there are any.
pub(crate) async fn list(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let control = control(&edge)?;
    let kind = call.params.get("type").map(SavedKind::parse).transpose()?;
    let identity = Arc::clone(&call.identity);
    let look = move || {
        let found = control.saved_objects(&identity, kind);
        Ok((found, control.damaged_saved_objects(&identity, kind)))
    };
    let (found, damaged) = change(look).await?;
    let found: Vec<Value> = found.iter().map(|saved| print(saved)).collect();
    let mut answer = json!({"saved": found});
    if !damaged.is_empty() {
        answer["damaged"] = damaged.iter().map(print_damaged).collect();
    }
    Ok(Reply::ok(&answer))
}

/// `GET /_firn/saved/{type}/{id}`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let (control, kind, id) = named(&edge, &call)?;
    let identity = Arc::clone(&call.identity);
    let (saved, state) = change(move || control.saved_object(&identity, kind, &id)).await?;
    let mut answer = print(&saved);
    answer["state"] = state;
    Ok(Reply::ok(&answer))
}

/// `POST /_firn/saved/{type}`: creates an object and assigns an id.
pub(crate) async fn create(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    put_as(&edge, &call, None).await
}

/// `PUT /_firn/saved/{type}/{id}`: creates or replaces an object; `version` must equal the current version if it is
/// given.
pub(crate) async fn put(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    put_as(&edge, &call, Some(call.capture("id").to_owned())).await
}

/// `DELETE /_firn/saved/{type}/{id}`.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let (control, kind, id) = named(&edge, &call)?;
    let version = call.params.number("version")?;
    let identity = Arc::clone(&call.identity);
    change(move || control.delete_saved_object(&identity, kind, &id, version)).await?;
    Ok(Reply::acknowledged())
}

async fn put_as(edge: &Edge, call: &Call, id: Option<String>) -> Result<Reply, ApiError> {
    let (control, kind, _) = named(edge, call)?;
    let version = call.params.number("version")?;
    let mut fields = Fields::of("saved object", call.required_json()?)?;
    let new = NewSaved {
        title: fields.string("title")?.unwrap_or_default(),
        description: fields.string("description")?.unwrap_or_default(),
        state: fields
            .take("state")
            .ok_or_else(|| ApiError::validation(&["[state] is missing".to_owned()]))?,
    };
    fields.finish()?;
    let identity = Arc::clone(&call.identity);
    let put = move || control.put_saved_object(&identity, kind, id.as_deref(), version, new);
    let (saved, is_new) = change(put).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(Reply::json(status, &print(&saved)))
}

fn named(edge: &Edge, call: &Call) -> Result<(Arc<Control>, SavedKind, String), ApiError> {
    let kind = SavedKind::parse(call.capture("type"))?;
    Ok((control(edge)?, kind, call.capture("id").to_owned()))
}

fn control(edge: &Edge) -> Result<Arc<Control>, Error> {
    match &edge.config.security {
        Security::On(control) | Security::Off(Some(control)) => Ok(Arc::clone(control)),
        Security::Off(None) => Err(Error::not_implemented("saved objects without a data folder")),
    }
}

fn print_damaged(damaged: &DamagedSaved) -> Value {
    json!({"type": damaged.kind.name(), "id": damaged.id, "reason": damaged.reason})
}

fn print(saved: &Saved) -> Value {
    json!({
        "type": saved.kind.name(),
        "id": saved.id,
        "title": saved.title,
        "description": saved.description,
        "created_ms": saved.created_ms,
        "updated_ms": saved.updated_ms,
        "updated_by": saved.updated_by,
        "version": saved.version,
        "tenant": saved.tenant.as_ref().map(TenantId::as_str),
    })
}
