//! `_security`: who one is, users, roles and API keys, in Elasticsearch's shapes.

pub(crate) mod authenticate;

use std::sync::Arc;

use firn_control::Control;
use firn_engine::Error;

use crate::config::Security;
use crate::error::ApiError;
use crate::request::Edge;

/// What these endpoints work on. Where security is off there is nobody to give rights to.
fn control(edge: &Edge) -> Result<&Arc<Control>, ApiError> {
    match &edge.config.security {
        Security::On(control) => Ok(control),
        Security::Off(_) => Err(Error::illegal_argument(
            "security is off: set [xpack.security.enabled] to true and start firn again to have users and API keys",
        )
        .into()),
    }
}
