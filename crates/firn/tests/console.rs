//! Console files served by the real process, and their access rules.

use std::path::Path;

use firn_testkit::{Answer, Node, NodeOptions};
use serde_json::json;

/// Returns whether this binary includes the console: `build.rs` counts its files.
fn is_built_in() -> bool {
    env!("FIRN_CONSOLE_FILES") != "0"
}

fn start(folder: &Path, settings: &[(&str, &str)]) -> Node {
    let settings = settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder, &NodeOptions { settings }).unwrap()
}

const ON: (&str, &str) = ("xpack.security.enabled", "true");

/// Headers of a browser that opens a page.
const BROWSER: &[(&str, &str)] = &[("accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")];

fn get(node: &Node, path: &str, headers: &[(&str, &str)]) -> Answer {
    node.client().with_headers("GET", path, headers, b"").unwrap()
}

#[test]
fn the_page_needs_no_sign_in_and_everything_else_does() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[ON]);
    let expect = if is_built_in() { 200 } else { 404 };
    for path in ["/app", "/app/", "/app/discover/some-stream?q=x"] {
        let page = get(&node, path, BROWSER);
        assert_eq!(page.status, expect, "{path}: {}", page.text());
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        let policy = page.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none';") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(page.text().contains("make build"), !is_built_in(), "{}", page.text());
    }
    let root = get(&node, "/", BROWSER);
    assert_eq!((root.status, root.header("location")), (302, Some("/app")));
    assert_eq!(get(&node, "/", &[]).status, 401);
    assert_eq!(get(&node, "/_cat/indices", BROWSER).status, 401);
    // Only files are below this path.
    for path in ["/app/_search", "/app/../_cat/indices", "/app/%2e%2e/_cat/indices"] {
        let answer = get(&node, path, &[]);
        assert!(
            matches!(answer.status, 401 | 404) || answer.text().contains("<html"),
            "{path}: {}",
            answer.text()
        );
    }
}

#[test]
fn files_are_cached_by_browsers_and_compressed() {
    if !is_built_in() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let page = get(&node, "/app", BROWSER).text();
    let script = page.split("src=\"").nth(1).and_then(|rest| rest.split('"').next());
    let script = script.expect("a script").to_owned();
    assert!(script.starts_with("/app/assets/"), "{script}");
    let plain = get(&node, &script, &[("accept-encoding", "identity")]);
    assert_eq!(
        plain.header("cache-control"),
        Some("public, max-age=31536000, immutable")
    );
    assert_eq!(plain.header("content-type"), Some("text/javascript; charset=utf-8"));
    for coding in ["gzip", "br"] {
        let packed = get(&node, &script, &[("accept-encoding", coding)]);
        assert_eq!(packed.header("content-encoding"), Some(coding));
        assert!(
            packed.body.len() * 2 < plain.body.len(),
            "{coding}: {}",
            packed.body.len()
        );
        let etag = packed.header("etag").unwrap().to_owned();
        let again = get(&node, &script, &[("accept-encoding", coding), ("if-none-match", &etag)]);
        assert_eq!((again.status, again.body.len()), (304, 0));
    }
    let head = node
        .client()
        .with_headers("HEAD", &script, &[("accept-encoding", "identity")], b"")
        .unwrap();
    assert_eq!(
        head.header("content-length"),
        Some(plain.body.len().to_string().as_str())
    );
    assert_eq!(get(&node, "/app/assets/no-such-0000.js", &[]).status, 404);
}

/// The page carries the nonce of its policy, and has no inline script.
#[test]
fn the_built_page_is_as_strict_as_its_policy() {
    if !is_built_in() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let nonce_of = |page: &Answer| {
        let policy = page.header("content-security-policy").unwrap();
        assert!(!policy.contains("unsafe"), "{policy}");
        let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap();
        assert!(page.text().contains(nonce), "{}", page.text());
        nonce.to_owned()
    };
    let (first, second) = (get(&node, "/app", BROWSER), get(&node, "/app", BROWSER));
    assert_ne!(nonce_of(&first), nonce_of(&second));
    for tag in first.text().split("<script").skip(1) {
        assert!(tag.split('>').next().unwrap().contains("src="), "{tag}");
    }
    let page = first.text();
    let elsewhere = page.split(['"', '\'']).find(|text| text.contains("//"));
    assert_eq!(elsewhere, None, "the page names another host");
}

#[test]
fn an_index_may_be_called_app() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let client = node.client();
    assert_eq!(client.json("PUT", "/app/_doc/1", &json!({"a": 1})).unwrap().status, 201);
    assert_eq!(client.get("/app/_doc/1").unwrap().json()["found"], true);
    let as_json = get(&node, "/app", &[("accept", "application/json")]);
    assert!(as_json.json()["app"]["mappings"].is_object(), "{}", as_json.text());
    assert_eq!(client.send("DELETE", "/app", None, b"").unwrap().status, 200);
}
