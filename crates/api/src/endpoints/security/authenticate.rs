//! `GET /_security/_authenticate`: the identity of the caller.

use std::sync::Arc;

use firn_auth::Principal;
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(crate) async fn authenticate(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    super::control(&edge)?;
    let identity = &call.identity;
    let answer = match identity.principal() {
        Principal::Open => Value::Null,
        Principal::User(user) => {
            let realm = match user.is_reserved() {
                true => json!({"name": "reserved", "type": "reserved"}),
                false => json!({"name": "default_native", "type": "native"}),
            };
            json!({
                "username": user.name,
                "roles": user.roles,
                "full_name": user.full_name,
                "email": user.email,
                "metadata": user.metadata,
                "enabled": user.enabled,
                "authentication_realm": realm,
                "lookup_realm": realm,
                "authentication_type": "realm",
            })
        }
        Principal::ApiKey(key) => {
            let realm = json!({"name": "_es_api_key", "type": "_es_api_key"});
            json!({
                "username": key.owner,
                "roles": [],
                "full_name": null,
                "email": null,
                "metadata": key.metadata,
                "enabled": true,
                "authentication_realm": realm,
                "lookup_realm": realm,
                "authentication_type": "api_key",
                "api_key": {"id": key.id, "name": key.name},
            })
        }
    };
    Ok(Reply::ok(&answer))
}
