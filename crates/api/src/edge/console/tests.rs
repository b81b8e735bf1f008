use std::sync::Arc;

use http::Request;

use super::*;

const FILES: &[Asset] = &[
    Asset {
        path: "assets/index-abc.js",
        tag: "1",
        plain: b"the script",
        gzip: Some(b"zipped"),
        brotli: None,
    },
    Asset {
        path: "favicon.svg",
        tag: "2",
        plain: b"<svg/>",
        gzip: None,
        brotli: None,
    },
    Asset {
        path: "index.html",
        tag: "3",
        plain: b"<meta name=\"csp-nonce\" content=\"__FIRN_CSP_NONCE__\">",
        gzip: None,
        brotli: None,
    },
];

const BARE: &[Asset] = &[Asset {
    path: "index.html",
    tag: "3",
    plain: b"<p>no place for a nonce</p>",
    gzip: None,
    brotli: None,
}];

fn config(files: &'static [Asset]) -> ApiConfig {
    let random: FillRandom = Arc::new(|bytes| bytes.fill(7));
    let mut config = ApiConfig::new("c", "n", "id", "127.0.0.1:9200", Arc::new(|| 0), random);
    config.console = Assets::new(files);
    config
}

/// Returns status, headers as lines and body; `None` if the request is not for the console.
fn ask(files: &'static [Asset], request: &str, headers: &[(&str, &str)]) -> Option<(u16, String, String)> {
    let (method, path) = request.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let response = answer(&config(files), &parts)?;
    let (head, body) = response.into_parts();
    let lines = head
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()));
    Some((
        head.status.as_u16(),
        lines.collect(),
        String::from_utf8(body.to_vec()).unwrap(),
    ))
}

const HTML: (&str, &str) = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");

#[test]
fn what_is_the_console_s_and_what_is_not() {
    let check = |request: &str, headers: &[(&str, &str)], expect: Option<u16>| {
        let found = ask(FILES, request, headers).map(|(status, ..)| status);
        assert_eq!(found, expect, "{request} {headers:?}");
    };
    check("GET /", &[], None);
    check("GET /", &[("accept", "*/*")], None);
    check("GET /", &[("accept", "application/json")], None);
    check("GET /", &[HTML], Some(302));
    check("GET /app", &[("accept", "*/*")], Some(200));
    check("GET /app", &[], Some(200));
    check("GET /app/", &[], Some(200));
    check("GET /app/discover/logs-2026.11", &[HTML], Some(200));
    check("GET /app/assets/index-abc.js", &[], Some(200));
    check("GET /app/assets/index-old.js", &[], Some(404));
    // An index named `app`.
    check("GET /app", &[("accept", "application/json")], None);
    check(
        "HEAD /app",
        &[("accept", "application/vnd.elasticsearch+json;compatible-with=8")],
        None,
    );
    check("PUT /app", &[HTML], None);
    check("GET /app/_search", &[HTML], None);
    check("GET /application", &[HTML], None);
    check("GET /apps/x", &[HTML], None);
}

#[test]
fn no_path_leads_out() {
    for path in [
        "/app/../../etc/passwd",
        "/app/%2e%2e/%2e%2e/etc/passwd",
        "/app//etc/passwd",
        "/app/assets/../index.html",
    ] {
        let (status, _, body) = ask(FILES, &format!("GET {path}"), &[HTML]).unwrap();
        assert!(status == 404 || body.contains("csp-nonce"), "{path}: {status} {body}");
    }
}

#[test]
fn the_page_has_a_nonce_and_a_strict_policy() {
    let (_, headers, body) = ask(FILES, "GET /app/tenants", &[HTML]).unwrap();
    let nonce = STANDARD_NO_PAD.encode([7; NONCE_BYTES]);
    assert_eq!(body, format!("<meta name=\"csp-nonce\" content=\"{nonce}\">"));
    assert!(
        headers.contains(&format!("style-src 'self' 'nonce-{nonce}';")),
        "{headers}"
    );
    for line in [
        "default-src 'none'; script-src 'self';",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
    ] {
        assert!(headers.contains(line), "{line} in {headers}");
    }
    assert!(!headers.contains("unsafe"), "{headers}");
    // A page without a placeholder for the nonce works all the same.
    let (_, headers, body) = ask(BARE, "GET /app", &[]).unwrap();
    assert!(headers.contains("style-src 'self' 'unsafe-inline'") && body.contains("no place"));
}

#[test]
fn files_are_compressed_and_known_by_their_tags() {
    let path = "GET /app/assets/index-abc.js";
    let (status, headers, body) = ask(FILES, path, &[("accept-encoding", "gzip, br")]).unwrap();
    assert_eq!((status, body.as_str()), (200, "zipped"));
    for line in [
        "content-encoding: gzip\n",
        "content-type: text/javascript; charset=utf-8\n",
        "cache-control: public, max-age=31536000, immutable\n",
        "etag: \"1-gzip\"\n",
        "vary: accept-encoding\n",
        "x-content-type-options: nosniff\n",
    ] {
        assert!(headers.contains(line), "{line} in {headers}");
    }
    let again = [("accept-encoding", "gzip"), ("if-none-match", "\"x\", W/\"1-gzip\"")];
    let (status, headers, body) = ask(FILES, path, &again).unwrap();
    assert_eq!((status, body.as_str()), (304, ""));
    assert!(
        headers.contains("etag: \"1-gzip\"\n") && !headers.contains("content-type:"),
        "{headers}"
    );
    // Another form has another tag.
    let (status, _, body) = ask(FILES, path, &[("if-none-match", "\"1-gzip\"")]).unwrap();
    assert_eq!((status, body.as_str()), (200, "the script"));
    let (_, headers, _) = ask(FILES, "GET /app/favicon.svg", &[]).unwrap();
    assert!(
        headers.contains("cache-control: no-cache\n") && headers.contains("image/svg+xml"),
        "{headers}"
    );
}

#[test]
fn head_is_get_without_the_body() {
    let (status, headers, body) = ask(FILES, "HEAD /app/assets/index-abc.js", &[]).unwrap();
    assert_eq!((status, body.as_str()), (200, ""));
    assert!(
        headers.contains("content-length: 10\n") && headers.contains("etag: \"1\"\n"),
        "{headers}"
    );
    let (status, headers, _) = ask(FILES, "HEAD /", &[HTML]).unwrap();
    assert!(status == 302 && headers.contains("location: /app\n"), "{headers}");
}

#[test]
fn a_binary_without_it_says_so() {
    for path in ["GET /app", "GET /app/discover", "GET /app/assets/x.js"] {
        let (status, headers, body) = ask(&[], path, &[]).unwrap();
        assert_eq!(status, 404, "{path}");
        assert!(
            body.contains("make build") && headers.contains("default-src 'none'"),
            "{body}"
        );
    }
}
