//! `/app`: the console, as files embedded in the binary.
//!
//! It is the only part that is served without authentication: it holds no data, and the page must load for the user to
//! sign in. Its requests for data use the same endpoints as all clients.
//!
//! An index may be named `app` too. Its endpoints stay reachable: they have a part that begins with `_`, another method
//! than GET, or a client that accepts JSON.

mod policy;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};

use crate::state::config::{ApiConfig, FillRandom};

use crate::state::console_assets::{Asset, Assets};

/// Name in metrics and records.
pub(crate) const ENDPOINT: &str = "console";

/// Path of the console.
const ROOT: &str = "/app";
/// Page that answers every client-side route.
const INDEX: &str = "index.html";
/// Folder of files with content hashes in their names: they never change.
const HASHED: &str = "assets/";
/// Placeholder in the page for the nonce of the answer.
const NONCE: &str = "__FIRN_CSP_NONCE__";
/// Two bytes more than the minimum of CSP 3, 2.3.2, so that base64 needs no padding.
const NONCE_BYTES: usize = 18;

/// A year, the longest useful cache lifetime.
const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// Cached, but revalidated for each request.
const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");
/// Each answer has a fresh nonce, so no answer may be reused.
const NEVER: HeaderValue = HeaderValue::from_static("no-store");

/// Answers a request for the console; `None`: the request is for another endpoint.
pub(crate) fn answer(config: &ApiConfig, parts: &Parts) -> Option<Response<Bytes>> {
    let is_head = match parts.method {
        Method::GET => false,
        Method::HEAD => true,
        _ => return None,
    };
    let mut response = match wanted(parts)? {
        ConsolePath::Root => redirect(),
        ConsolePath::File(path) => match config.console.get(path) {
            Some(asset) if path != INDEX => file(asset, &parts.headers),
            // A page older than the binary may request a removed file; HTML would be an invalid script.
            None if path.starts_with(HASHED) && !config.console.is_empty() => missing(),
            _ => page(config.console, &config.random),
        },
    };
    policy::harden(response.headers_mut());
    if is_head {
        let body = std::mem::take(response.body_mut());
        if !body.is_empty() {
            let length = HeaderValue::from(body.len());
            response.headers_mut().insert(header::CONTENT_LENGTH, length);
        }
    }
    Some(response)
}

/// Target of a path.
#[derive(Debug, PartialEq, Eq)]
enum ConsolePath<'a> {
    /// `/`, requested by a browser.
    Root,
    /// File, or client-side route of the page.
    File(&'a str),
}

fn wanted(parts: &Parts) -> Option<ConsolePath<'_>> {
    let path = parts.uri.path();
    if path == "/" {
        return accepts(&parts.headers, "text/html").then_some(ConsolePath::Root);
    }
    let rest = path.strip_prefix(ROOT)?;
    let rest = match rest.strip_prefix('/') {
        None if rest.is_empty() => rest,
        None => return None,
        Some(rest) => rest,
    };
    let is_of_index = rest.starts_with('_') || accepts(&parts.headers, "json") && !accepts(&parts.headers, "text/html");
    (!is_of_index).then_some(ConsolePath::File(rest))
}

/// Returns whether `Accept` names a type with these words in it; `*/*` does not count.
fn accepts(headers: &HeaderMap, words: &str) -> bool {
    let mut values = headers.get_all(header::ACCEPT).iter();
    values.any(|value| {
        value
            .to_str()
            .is_ok_and(|value| value.to_ascii_lowercase().contains(words))
    })
}

fn redirect() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::FOUND;
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, HeaderValue::from_static(ROOT));
    headers.insert(header::CACHE_CONTROL, NEVER);
    // Other clients get another answer at the same path.
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    response
}

fn file(asset: &Asset, headers: &HeaderMap) -> Response<Bytes> {
    let form = asset.form(headers);
    let etag = asset.etag(form);
    let is_known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|tag| tag.trim() == "*" || tag.trim().trim_start_matches("W/") == etag);
    let mut response = Response::new(match is_known {
        true => Bytes::new(),
        false => Bytes::from_static(form.bytes),
    });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    let caching = match asset.path.starts_with(HASHED) {
        true => FOREVER,
        false => REVALIDATE,
    };
    headers.insert(header::CACHE_CONTROL, caching);
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        headers.insert(header::ETAG, etag);
    }
    if !is_known {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type()));
        if let Some(encoding) = form.encoding {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
    }
    response
}

/// Returns the page, or a page that says why there is no console.
fn page(assets: Assets, random: &FillRandom) -> Response<Bytes> {
    let Some(index) = assets.get(INDEX) else {
        return html(
            StatusCode::NOT_FOUND,
            policy::NOTHING.to_owned(),
            Bytes::from_static(ABSENT.as_bytes()),
        );
    };
    let text = String::from_utf8_lossy(index.plain);
    if !text.contains(NONCE) {
        return html(StatusCode::OK, policy::of(None), Bytes::from_static(index.plain));
    }
    let mut bytes = [0; NONCE_BYTES];
    random(&mut bytes);
    let nonce = STANDARD_NO_PAD.encode(bytes);
    html(
        StatusCode::OK,
        policy::of(Some(&nonce)),
        text.replace(NONCE, &nonce).into(),
    )
}

/// Page of a binary that was built without the console.
const ABSENT: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>firn</title></head>\n<body>\
    <h1>No console in this binary</h1>\n<p>This firn was built without its console. <code>make build</code> builds both; \
    the server itself answers as always.</p></body></html>\n";

fn html(status: StatusCode, policy: String, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(header::CACHE_CONTROL, NEVER);
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(HeaderName::from_static("content-security-policy"), policy);
    }
    response
}

fn missing() -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(b"no such file: reload the page\n"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(header::CACHE_CONTROL, NEVER);
    response
}

#[cfg(test)]
mod tests;
