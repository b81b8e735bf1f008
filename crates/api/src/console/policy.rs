//! What a browser may do with the console: nothing but run its own scripts and ask its own server.

use http::{HeaderMap, HeaderName, HeaderValue};

/// For a page that needs nothing.
pub(super) const NOTHING: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The policy of the page. Styles that its libraries make while it runs carry the nonce; a page that has no place for
/// one may make any.
pub(super) fn of(nonce: Option<&str>) -> String {
    let styles = match nonce {
        Some(nonce) => format!("'nonce-{nonce}'"),
        None => "'unsafe-inline'".to_owned(),
    };
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self' {styles}; img-src 'self' data:; font-src 'self'; \
         connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
}

/// What holds for every answer of the console.
pub(super) fn harden(headers: &mut HeaderMap) {
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}
