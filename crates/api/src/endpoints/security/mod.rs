//! `_security`: authentication, users, roles and API keys, in Elasticsearch's shapes.

pub(crate) mod api_key;
pub(crate) mod authenticate;
mod body;
pub(crate) mod privileges;
pub(crate) mod role;
pub(crate) mod user;

use std::sync::Arc;

use firn_auth::Control;
use firn_engine::{Error, Result};
use http::StatusCode;
use serde_json::json;

use crate::state::config::Security;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// Returns the store of users; fails while security is off, because then there are no users to grant rights to.
fn control(edge: &Edge) -> Result<&Arc<Control>, ApiError> {
    match &edge.config.security {
        Security::On(control) => Ok(control),
        Security::Off(_) => Err(Error::illegal_argument(
            "security is off: set [xpack.security.enabled] to true and restart firn to use users and API keys",
        )
        .into()),
    }
}

/// Changes the store on a blocking thread, because the change waits for the disk.
pub(crate) async fn change<T: Send + 'static>(
    change: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T, ApiError> {
    let changed = tokio::task::spawn_blocking(change).await;
    Ok(changed.map_err(|error| Error::internal(format!("a bug: a change of the record panicked: {error}")))??)
}

/// Builds the answer of a deletion, which says whether the object existed.
fn found(found: bool) -> Reply {
    let status = match found {
        true => StatusCode::OK,
        false => StatusCode::NOT_FOUND,
    };
    Reply::json(status, &json!({"found": found}))
}
