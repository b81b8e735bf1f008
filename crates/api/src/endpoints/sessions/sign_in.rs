//! Sign-in request, the only one with credentials in its body.
//!
//! The client is not authenticated yet, so its body must be short and arrive soon.

use std::time::Duration;

use firn_auth::Credentials;
use http::Method;
use http::request::Parts;

use crate::state::auth::SESSION_PATH;
use crate::state::config::ApiConfig;
use crate::wire::body::BodyLimits;
use crate::wire::error::ApiError;
use crate::wire::json_body::{missing_body, parse_json};
use crate::wire::json_fields::Fields;
use crate::wire::media_type;
use crate::wire::media_type::Format;
use crate::wire::params::decode;

/// Maximum bytes of the body: longer than any name and password with every character escaped.
const BODY_BYTES_MAX: u64 = 16 << 10;
/// Timeout of the body.
pub(crate) const BODY_PATIENCE: Duration = Duration::from_secs(10);

/// Returns whether a request is a sign-in.
pub(crate) fn is_sign_in(parts: &Parts) -> bool {
    // The path is normalized as in the router: another spelling must not be able to use a session as its credentials.
    let segments = parts.uri.path().split('/').filter(|segment| !segment.is_empty());
    let segments: Result<Vec<String>, _> = segments.map(|segment| decode(segment, false)).collect();
    parts.method == Method::POST && segments.is_ok_and(|segments| segments.iter().eq(SESSION_PATH[1..].split('/')))
}

/// Returns the limits of the body.
pub(crate) fn body_limits(config: &ApiConfig) -> BodyLimits {
    let all = config.body_limits();
    BodyLimits {
        max_bytes: all.max_bytes.min(BODY_BYTES_MAX),
        idle: all.idle.min(BODY_PATIENCE),
    }
}

/// Parses the credentials of the body. The request must have a JSON content type, which pages of other sites cannot
/// make a browser send without permission.
pub(crate) fn credentials(parts: &Parts, body: &[u8]) -> Result<Credentials, ApiError> {
    if body.is_empty() {
        return Err(missing_body());
    }
    if media_type::content_type(&parts.headers, None)? != Format::Json {
        return Err(ApiError::bad_request(
            "media_type_header_exception",
            "credentials are one JSON object",
        ));
    }
    let mut fields = Fields::of("sign-in", parse_json(body)?)?;
    let name = fields.string("username")?;
    let password = fields.string("password")?;
    fields.finish()?;
    match (name, password) {
        (Some(name), Some(password)) => Ok(Credentials::Password { name, password }),
        _ => Err(ApiError::validation(&[
            "[username] and [password] must be given".to_owned()
        ])),
    }
}
