//! `_firn/session`: signing in and out with a browser, and looking with a tenant's eyes.
//!
//! ```text
//! POST /_firn/session {"username": "ann", "password": "…"}
//! {"security": true, "user": {"username": "ann", "full_name": null, "roles": ["tenant_reader"]}, "tenant": "acme",
//!  "operator": false, "view_as": null, "csrf": "…", "expires_in_s": 28800, "name": "node-1", "version": "0.1.0"}
//! ```

mod sign_in;

use std::sync::Arc;

use firn_auth::{Control, Identity, Principal, Privilege, View};
use firn_engine::Error;
use firn_model::tenant::TenantId;
use http::StatusCode;
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::security::change;
use crate::state::auth::{OfSession, SESSION_PATH};
use crate::state::config::Security;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::json_fields::Fields;
use crate::wire::reply::{Body, Reply};

pub(crate) use sign_in::{BODY_PATIENCE, body_limits, credentials, is_sign_in};

/// `GET /_firn/session`: returns the signed-in user.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    Ok(personal(StatusCode::OK, &print(&edge, &call, call.session.as_ref())))
}

/// `POST /_firn/session`: creates a session; authentication has checked the password before.
pub(crate) async fn create(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let Security::On(control) = &edge.config.security else {
        return get(edge, call).await;
    };
    let (control, identity) = (Arc::clone(control), Arc::clone(&call.identity));
    let replaced = call.session.as_ref().map(|session| session.token.clone());
    let lifespan = control.session_limits().lifespan;
    let (token, signed_in) = change(move || control.open_session(&identity, replaced.as_ref())).await?;
    let cookie = edge.gate.cookies.set(&token, lifespan.as_secs().max(1));
    let session = OfSession { token, signed_in };
    let body = print(&edge, &call, Some(&session)).to_string().into_bytes();
    Ok(Reply {
        status: StatusCode::OK,
        body: Body::Personal(body, cookie),
    })
}

/// `DELETE /_firn/session`: ends the session.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    if let (Security::On(control), Some(session)) = (&edge.config.security, &call.session) {
        let (control, token) = (Arc::clone(control), session.token.clone());
        change(move || control.end_session(&token)).await?;
    }
    Ok(Reply {
        status: StatusCode::NO_CONTENT,
        body: Body::Personal(Vec::new(), edge.gate.cookies.clear()),
    })
}

/// `POST /_firn/session/view`: switches to the view of a tenant, or with `null` back.
pub(crate) async fn view(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let own = call
        .session
        .as_ref()
        .map_or(&call.identity, |session| &session.signed_in.own);
    if !own.is_operator() {
        return Err(own.refusal(call.ctx.action, Privilege::ManageCluster).into());
    }
    let mut fields = Fields::of("view", call.required_json()?)?;
    let tenant = fields.string("tenant")?;
    let reason = fields.string("reason")?.unwrap_or_default();
    fields.finish()?;
    let view = match tenant {
        None => None,
        Some(tenant) => Some(View {
            tenant: TenantId::parse(&tenant)?,
            reason: reason.trim().to_owned(),
        }),
    };
    let (control, session) = session_of(&edge, &call)?;
    let (control, token, taken) = (Arc::clone(control), session.token.clone(), view.clone());
    let signed_in = change(move || control.set_view(&token, taken)).await?;
    if let Some(view) = view {
        call.viewed.set(view);
    }
    let session = OfSession {
        token: session.token.clone(),
        signed_in,
    };
    Ok(personal(StatusCode::OK, &print(&edge, &call, Some(&session))))
}

fn session_of<'a>(edge: &'a Edge, call: &'a Call) -> Result<(&'a Arc<Control>, &'a OfSession), Error> {
    let Security::On(control) = &edge.config.security else {
        return Err(Error::illegal_argument("security is off, so there are no sessions"));
    };
    let session = call.session.as_ref();
    let session = session.ok_or_else(|| {
        Error::illegal_argument(format!(
            "the request has no session: create one with POST {SESSION_PATH}"
        ))
    })?;
    Ok((control, session))
}

fn personal(status: StatusCode, body: &Value) -> Reply {
    Reply {
        status,
        body: Body::Personal(body.to_string().into_bytes(), None),
    }
}

/// Returns the caller and the accessible tenant.
fn print(edge: &Edge, call: &Call, session: Option<&OfSession>) -> Value {
    let own = session.map_or(&call.identity, |session| &session.signed_in.own);
    let view = session.and_then(OfSession::view);
    json!({
        "security": matches!(edge.config.security, Security::On(_)),
        "user": user(own),
        "tenant": own.tenant().map(TenantId::as_str),
        "operator": own.is_operator(),
        "view_as": view.map(|view| view.tenant.as_str()),
        "csrf": session.map(OfSession::csrf),
        "expires_in_s": session.map(|session| session.signed_in.expires_in.as_secs()),
        "name": edge.config.node_name,
        "version": edge.config.version.firn,
    })
}

fn user(identity: &Identity) -> Value {
    match identity.principal() {
        Principal::Open => Value::Null,
        Principal::User(user) => json!({"username": user.name, "full_name": user.full_name, "roles": user.roles}),
        Principal::ApiKey(key) => json!({"username": key.owner, "full_name": null, "roles": []}),
    }
}
