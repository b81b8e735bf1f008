//! `/app`: the console, as files that the binary carries.
//!
//! It is the one thing that is answered before anybody says who he is: it holds no data, and the page has to be
//! there to sign in with. What it asks for goes through the endpoints that everybody uses.
//!
//! An index may be called `app` too. Its endpoints stay where they are: they have a part that begins with `_`, another
//! method than GET, or a client that asks for JSON.

mod assets;
mod policy;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};

use crate::config::{ApiConfig, FillRandom};

pub use assets::{Asset, Assets};

/// Its name in metrics and records.
pub(crate) const ENDPOINT: &str = "console";

/// Where it is.
const ROOT: &str = "/app";
/// What every path of a client's route answers with.
const INDEX: &str = "index.html";
/// Files whose names say what is in them: they never change.
const HASHED: &str = "assets/";
/// Stands in the page where the nonce of this answer belongs.
const NONCE: &str = "__FIRN_CSP_NONCE__";
/// As many as a nonce should have at least (CSP 3, 2.3.2), and two more, so that base64 needs no padding.
const NONCE_BYTES: usize = 18;

/// A year, as long as anybody keeps anything.
const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// Kept, but asked for each time.
const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");
/// Each answer has a nonce of its own, so none may be used again.
const NEVER: HeaderValue = HeaderValue::from_static("no-store");

/// Answers a request for the console; `None`: it is for somebody else.
pub(crate) fn answer(config: &ApiConfig, parts: &Parts) -> Option<Response<Bytes>> {
    let is_head = match parts.method {
        Method::GET => false,
        Method::HEAD => true,
        _ => return None,
    };
    let mut response = match wanted(parts)? {
        Wanted::Root => redirect(),
        Wanted::File(path) => match config.console.get(path) {
            Some(asset) if path != INDEX => file(asset, &parts.headers),
            // A page that is older than the binary asks for what is no more: HTML would be no script.
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

/// What a path is about.
#[derive(Debug, PartialEq, Eq)]
enum Wanted<'a> {
    /// `/`, asked for by a browser.
    Root,
    /// A file, or a route of the page.
    File(&'a str),
}

fn wanted(parts: &Parts) -> Option<Wanted<'_>> {
    let path = parts.uri.path();
    if path == "/" {
        return accepts(&parts.headers, "text/html").then_some(Wanted::Root);
    }
    let rest = path.strip_prefix(ROOT)?;
    let rest = match rest.strip_prefix('/') {
        None if rest.is_empty() => rest,
        None => return None,
        Some(rest) => rest,
    };
    let is_of_index = rest.starts_with('_') || accepts(&parts.headers, "json") && !accepts(&parts.headers, "text/html");
    (!is_of_index).then_some(Wanted::File(rest))
}

/// Whether `Accept` names a type with these words in it; `*/*` names none.
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
    // Others get something else at the same place.
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

/// The page itself, or one that says why there is none.
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

/// What a binary says that was built without the console.
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
