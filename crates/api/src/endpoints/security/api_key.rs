//! `_security/api_key`: creation, listing and invalidation of API keys.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_auth::{ApiKey, Identity, KeyFilter, NewApiKey};
use firn_engine::Error;
use firn_model::dates::parse_duration_ms;
use http::StatusCode;
use serde_json::{Value, json};

use super::{body, change, control};
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::json_fields::Fields;
use crate::wire::reply::Reply;

pub(crate) const GET_PARAMS: &[&str] = &[
    "active_only",
    "id",
    "name",
    "owner",
    "realm_name",
    "username",
    "with_limited_by",
    "with_profile_uid",
];

/// `POST /_security/api_key`. The key belongs to the tenant of its creator; an operator names one in `metadata.tenant`.
pub(crate) async fn create(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let control = Arc::clone(control(&edge)?);
    let mut fields = Fields::of("api key", call.required_json()?)?;
    let new = NewApiKey {
        name: fields.string("name")?.unwrap_or_default(),
        expires_in_ms: fields
            .string("expiration")?
            .map(|text| parse_duration_ms(&text))
            .transpose()?,
        role_descriptors: match fields.object("role_descriptors")? {
            Some(roles) => body::roles(roles)?,
            None => Default::default(),
        },
        metadata: fields.object("metadata")?.unwrap_or_default(),
    };
    fields.finish()?;
    let identity = Arc::clone(&call.identity);
    let created = change(move || control.create_api_key(&identity, new)).await?;
    let key = &created.key;
    let mut answer = json!({"id": key.id, "name": key.name});
    if let Some(expires_ms) = key.expires_ms {
        answer["expiration"] = expires_ms.into();
    }
    answer["api_key"] = created.secret.as_str().into();
    answer["encoded"] = STANDARD.encode(format!("{}:{}", key.id, created.secret)).into();
    Ok(Reply::ok(&answer))
}

/// `GET /_security/api_key`: lists the visible keys that the parameters select.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let control = control(&edge)?;
    let params = &call.params;
    check_realm(params.get("realm_name"))?;
    if params.bool("with_profile_uid", false)? {
        return Err(Error::not_implemented("[with_profile_uid]").into());
    }
    let text = |name: &str| params.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
    let filter = KeyFilter {
        ids: text("id").into_iter().collect(),
        name: text("name"),
        owner: owner(&call.identity, params.bool("owner", false)?, text("username"))?,
        active_only: params.bool("active_only", false)?,
    };
    let with_limited_by = params.bool("with_limited_by", false)?;
    let keys = control.api_keys(&call.identity, &filter);
    let status = match keys.is_empty() && !filter.ids.is_empty() {
        true => StatusCode::NOT_FOUND,
        false => StatusCode::OK,
    };
    let keys: Vec<Value> = keys.iter().map(|key| print(key, with_limited_by)).collect();
    Ok(Reply::json(status, &json!({"api_keys": keys})))
}

/// `DELETE /_security/api_key`: invalidates keys at once.
pub(crate) async fn invalidate(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let control = Arc::clone(control(&edge)?);
    let mut fields = Fields::of("api key invalidation", call.required_json()?)?;
    check_realm(fields.string("realm_name")?.as_deref())?;
    let mut ids = fields.strings("ids")?.unwrap_or_default();
    ids.extend(fields.string("id")?);
    let is_own = fields.bool("owner")?.unwrap_or(false);
    let filter = KeyFilter {
        ids,
        name: fields.string("name")?,
        owner: owner(&call.identity, is_own, fields.string("username")?)?,
        active_only: false,
    };
    fields.finish()?;
    if filter.ids.is_empty() && filter.name.is_none() && filter.owner.is_none() {
        return Err(ApiError::validation(&[
            "One of [api key id(s), api key name, username, realm name] must be specified if [owner] flag is false"
                .to_owned(),
        ]));
    }
    let identity = Arc::clone(&call.identity);
    let (now, before) = change(move || control.invalidate_api_keys(&identity, &filter)).await?;
    Ok(Reply::ok(&json!({
        "invalidated_api_keys": now,
        "previously_invalidated_api_keys": before,
        "error_count": 0,
    })))
}

/// Returns the owner whose keys are selected.
fn owner(identity: &Identity, is_own: bool, named: Option<String>) -> Result<Option<String>, ApiError> {
    match (is_own, named) {
        (true, Some(_)) => Err(ApiError::validation(&[
            "neither username nor realm-name may be specified when retrieving owned API keys".to_owned(),
        ])),
        (true, None) => Ok(identity.user_name().map(str::to_owned)),
        (false, named) => Ok(named),
    }
}

fn check_realm(name: Option<&str>) -> Result<(), ApiError> {
    match name {
        Some(name) => Err(Error::not_implemented(format!("narrowing to a realm ([{name}])")).into()),
        None => Ok(()),
    }
}

/// Prints a key. Only firn has `last_used`.
fn print(key: &ApiKey, with_limited_by: bool) -> Value {
    let mut answer = json!({
        "id": key.id,
        "name": key.name,
        "type": "rest",
        "creation": key.created_ms,
    });
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            answer[name] = value;
        }
    };
    set("expiration", key.expires_ms.map(Value::from));
    set("invalidated", Some(key.invalidated_ms.is_some().into()));
    set("invalidation", key.invalidated_ms.map(Value::from));
    set("last_used", key.last_used_ms().map(Value::from));
    set("username", Some(key.owner.as_str().into()));
    set("realm", Some("default_native".into()));
    set("realm_type", Some("native".into()));
    set("metadata", Some(key.metadata.clone().into()));
    set(
        "role_descriptors",
        Some(body::print_roles(&key.role_descriptors).into()),
    );
    if with_limited_by {
        set("limited_by", Some(json!([body::print_roles(&key.limited_by)])));
    }
    answer
}
