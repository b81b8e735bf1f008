//! Bodies: compressed, too large, too slow.

use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http::Request;
use http_body_util::{Full, StreamBody};
use hyper::body::Frame;
use tower::ServiceExt as _;

use crate::fake::Node;

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn post(uri: &str, encoding: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
    Request::post(uri)
        .header("content-type", "application/x-ndjson")
        .header("content-encoding", encoding)
        .body(Full::new(body.into()))
        .unwrap()
}

#[tokio::test]
async fn inflates_requests() {
    let node = Node::new();
    let body = b"{\"index\":{}}\n{\"a\":1}\n".repeat(10_000);
    let answer = node.send_request(post("/i/_bulk", "gzip", gzip(&body))).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(answer.json()["items"].as_array().unwrap().len(), 10_000);
    let answer = node.send_request(post("/i/_bulk", "gzip", body)).await;
    assert_eq!(answer.json()["error"]["type"], "illegal_argument_exception");
    let answer = node.send_request(post("/i/_bulk", "br", Vec::new())).await;
    assert_eq!(answer.status(), 415);
}

#[tokio::test]
async fn a_small_body_that_inflates_to_a_large_one_is_refused() {
    let node = Node::with(|config| config.max_content_length = 1 << 20);
    let bomb = gzip(&vec![b' '; 50 << 20]);
    assert!(bomb.len() < 100_000);
    let answer = node.send_request(post("/i/_bulk", "gzip", bomb)).await;
    assert_eq!(answer.status(), 413);
    assert_eq!(answer.json()["error"]["type"], "content_too_long_exception");
}

#[tokio::test]
async fn large_bodies_are_refused() {
    let node = Node::with(|config| config.max_content_length = 1000);
    let answer = node.send("POST", "/_bulk", &"x".repeat(1001)).await;
    assert_eq!(answer.status(), 413);
    let node = Node::with(|config| config.body_memory_max = 1000);
    let answer = node.send("POST", "/_bulk", &"x".repeat(1001)).await;
    assert_eq!(answer.status(), 429);
    assert_eq!(answer.json()["error"]["type"], "circuit_breaking_exception");
    // Refused bodies no longer count against the budget.
    node.ok("PUT", "/i/_doc/1", "{}").await;
}

#[tokio::test]
async fn slow_bodies_time_out() {
    let node = Node::with(|config| config.body_idle_timeout = Duration::from_millis(50));
    let frames = futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>();
    let request = Request::post("/_search")
        .header("content-type", "application/json")
        .body(StreamBody::new(frames))
        .unwrap();
    let response = node.api.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 408);
}

#[tokio::test]
async fn answers_are_compressed_if_the_client_accepts_it() {
    let node = Node::new();
    node.ok("PUT", "/i/_doc/1", &format!(r#"{{"a":"{}"}}"#, "x".repeat(4000)))
        .await;
    let plain = node.send("GET", "/i/_search", "").await;
    let answer = node
        .send_with("GET", "/i/_search", &[("accept-encoding", "gzip, deflate")], "")
        .await;
    assert_eq!(answer.header("content-encoding"), "gzip");
    let mut inflated = Vec::new();
    GzDecoder::new(answer.body.as_ref()).read_to_end(&mut inflated).unwrap();
    assert_eq!(inflated, plain.body);
    let small = node
        .send_with("GET", "/_cat/count", &[("accept-encoding", "gzip")], "")
        .await;
    assert_eq!(small.header("content-encoding"), "");
}

/// For all endpoints: the thread that serves connections parses small bodies only.
#[tokio::test]
async fn large_bodies_are_read_elsewhere() {
    let node = Node::new();
    let here = std::thread::current().id();
    node.ok("PUT", "/i", "").await;
    node.fake.threads.lock().unwrap().clear();
    let filling = " ".repeat(100 << 10);
    let search = format!(r#"{{"query":{{"match_all":{{}}}}{filling}}}"#);
    let mapping = format!(r#"{{"properties":{{"a":{{"type":"keyword"}}}}{filling}}}"#);
    let cases = [
        (
            "POST",
            "/i/_search",
            r#"{"query":{"match_all":{}}}"#.to_owned(),
            search.clone(),
        ),
        (
            "POST",
            "/i/_count",
            r#"{"query":{"match_all":{}}}"#.to_owned(),
            search.clone(),
        ),
        ("POST", "/i/_async_search", "{}".to_owned(), search.clone()),
        ("POST", "/_msearch", "{}\n{}\n".to_owned(), format!("{{}}\n{search}\n")),
        (
            "POST",
            "/i/_bulk",
            "{\"index\":{}}\n{}\n".to_owned(),
            "{\"index\":{}}\n{\"a\":1}\n".repeat(10_000),
        ),
        ("PUT", "/i/_mapping", r#"{"properties":{}}"#.to_owned(), mapping),
    ];
    for (method, path, small, large) in cases {
        for (body, is_small) in [(small, true), (large, false)] {
            let answer = node.send(method, path, &body).await;
            assert_eq!(answer.status(), 200, "{path}: {}", answer.text());
            let threads = std::mem::take(&mut *node.fake.threads.lock().unwrap());
            let first = threads.first().expect("the engine was called");
            // Background searches are separate tasks, which start after their body was parsed.
            if !path.ends_with("_async_search") {
                assert_eq!(*first == here, is_small, "{path}");
            }
        }
    }
    // Errors are reported as for small bodies.
    let wrong = format!(r#"{{"query":{{"nothing":{{}}}}{filling}}}"#);
    let answer = node.send("POST", "/i/_search", &wrong).await;
    assert_eq!(answer.status(), 400, "{}", answer.text());
    assert!(answer.text().contains("unknown query [nothing]"), "{}", answer.text());
}
