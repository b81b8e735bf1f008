//! Security headers of the console: a page may only run scripts of this server and connect to it.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Content security policy of a page that needs no resources.
pub(super) const NOTHING: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the content security policy of the page. Styles that its libraries create at runtime carry the nonce.
/// Without a nonce placeholder the page may create any style.
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

/// Sets the headers of every answer of the console.
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
