//! Bad input: a typed 4xx with Elasticsearch's body. The rest of a bulk is applied, and the server survives within its
//! memory.

use std::path::Path;

use firn_testkit::{Answer, Client, Node, NodeOptions};
use serde_json::{Value, json};

fn start() -> (tempfile::TempDir, Node) {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(
        Path::new(env!("CARGO_BIN_EXE_firn")),
        folder.path(),
        &NodeOptions::default(),
    )
    .unwrap();
    (folder, node)
}

fn resident_peak_mb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// Checks that the answer is an error of Elasticsearch's shape with this status, type and words.
#[track_caller]
fn refused(answer: &Answer, status: u16, error_type: &str, words: &str) {
    let body = answer.json();
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(body["status"], status, "{body}");
    assert_eq!(body["error"]["type"], error_type, "{body}");
    assert!(body["error"]["root_cause"].is_array(), "{body}");
    assert!(body.to_string().contains(words), "{body} lacks `{words}`");
    assert_eq!(answer.header("x-elastic-product"), Some("Elasticsearch"));
}

/// Indexes one document and returns its bulk item.
fn index(client: &Client, index: &str, source: &[u8]) -> Value {
    let mut body = b"{\"index\":{}}\n".to_vec();
    body.extend_from_slice(source);
    body.push(b'\n');
    let answer = client.bulk(&format!("/{index}/_bulk"), &body).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["items"][0]["index"].clone()
}

#[test]
fn a_bad_document_fails_alone() {
    let (_folder, node) = start();
    let client = node.client();
    let body = [
        &b"{\"index\":{\"_id\":\"1\"}}\n{\"ok\":1}\n{\"index\":{\"_id\":\"2\"}}\n{\"broken\":\n"[..],
        b"{\"index\":{\"_id\":\"3\"}}\n{\"text\":\"\xff\xfe\"}\n{\"index\":{\"_id\":\"4\"}}\n[1]\n",
        b"{\"index\":{\"_id\":\"5\"}}\n{\"ok\":2}\n",
    ]
    .concat();
    let answer = client.bulk("/mixed/_bulk?refresh=true", &body).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    assert_eq!(answer["errors"], true);
    let statuses: Vec<_> = answer["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["index"]["status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [201, 400, 400, 400, 201], "{answer}");
    assert_eq!(
        answer["items"][1]["index"]["error"]["type"], "document_parsing_exception",
        "{answer}"
    );
    assert_eq!(client.get("/mixed/_count").unwrap().json()["count"], 2);
}

#[test]
fn a_bad_bulk_is_refused_before_anything_is_applied() {
    let (_folder, node) = start();
    let client = node.client();
    let bulk = |body: &str| client.bulk("/never/_bulk", body.as_bytes()).unwrap();
    refused(
        &bulk("{\"index\":{}}\n{\"a\":1}\n\"text\"\n"),
        400,
        "illegal_argument_exception",
        "[3]",
    );
    refused(
        &bulk("{\"index\":{}}\n{\"a\":1}"),
        400,
        "illegal_argument_exception",
        "newline",
    );
    refused(
        &bulk("{\"grow\":{}}\n{\"a\":1}\n"),
        400,
        "illegal_argument_exception",
        "grow",
    );
    refused(
        &bulk("{\"index\":{\"_colour\":1}}\n{\"a\":1}\n"),
        400,
        "illegal_argument_exception",
        "_colour",
    );
    assert!(
        matches!(bulk("{\"index\":{}}\n").status, 400),
        "an action without its source line"
    );
    refused(&bulk(""), 400, "parse_exception", "request body is required");
    assert_eq!(client.get("/never/_count").unwrap().status, 404, "nothing was applied");
}

#[test]
fn huge_and_deep_bodies_are_bounded() {
    let (_folder, node) = start();
    let client = node.client();
    let before = resident_peak_mb(node.pid());
    // 300 MB in one request: refused by its announced length, or while it streams in.
    let mut huge = b"{\"index\":{}}\n{\"a\":\"".to_vec();
    huge.resize(300 << 20, b'x');
    match client.bulk("/huge/_bulk", &huge) {
        Ok(answer) => refused(&answer, 413, "content_too_long_exception", "configured limit"),
        // The server may close the connection on a client that is still sending.
        Err(error) => assert!(format!("{error:#}").contains("/huge/_bulk"), "{error:#}"),
    }
    drop(huge);
    assert!(resident_peak_mb(node.pid()) < before + 300, "the body was read whole");

    let deep = format!("{}1{}", "{\"a\":".repeat(5000), "}".repeat(5000));
    let item = index(client, "deep", deep.as_bytes());
    assert_eq!(item["status"], 400, "{item}");
    let arrays = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let item = index(client, "deep", arrays.as_bytes());
    assert_eq!(item["status"], 400, "{item}");
    let answer = client
        .send("POST", "/deep/_search", Some("application/json"), deep.as_bytes())
        .unwrap();
    assert_eq!(answer.status, 400, "{}", answer.text());

    let fields: Vec<String> = (0..100_000).map(|number| format!("\"f{number}\":{number}")).collect();
    let item = index(client, "wide", format!("{{{}}}", fields.join(",")).as_bytes());
    assert!(matches!(item["status"].as_u64(), Some(400 | 201)), "{item}");
    let mapping = client.get("/wide/_mapping").unwrap().json();
    let mapped = mapping["wide"]["mappings"]["properties"]
        .as_object()
        .map_or(0, |properties| properties.len());
    assert!(mapped <= 1000, "{mapped} fields were mapped: past the limit");

    assert_eq!(
        index(client, "after", b"{\"a\":1}")["status"],
        201,
        "the server goes on"
    );
    assert!(
        resident_peak_mb(node.pid()) < 800,
        "peak {} MB",
        resident_peak_mb(node.pid())
    );
}

#[test]
fn values_that_do_not_fit_are_stored_and_named() {
    let (_folder, node) = start();
    let client = node.client();
    let mappings = json!({"mappings": {"properties": {
        "when": {"type": "date"}, "n": {"type": "integer"}, "l": {"type": "long"}, "ip": {"type": "ip"},
        "b": {"type": "boolean"}, "o": {"properties": {"x": {"type": "long"}}}
    }}});
    assert_eq!(client.json("PUT", "/kept", &mappings).unwrap().status, 200);
    for source in [
        r#"{"when":"2026-02-30"}"#,
        r#"{"when":"yesterday"}"#,
        r#"{"n":99999999999}"#,
        r#"{"l":123456789012345678901234567890}"#,
        r#"{"l":1e400}"#,
        r#"{"ip":"10.0.0.256"}"#,
        r#"{"b":"maybe"}"#,
        r#"{"n":{"an":"object"}}"#,
        r#"{"o":7}"#,
    ] {
        let item = index(client, "kept", source.as_bytes());
        assert_eq!(item["status"], 201, "{source}: {item}");
        let id = item["_id"].as_str().unwrap();
        let stored = client.get(&format!("/kept/_doc/{id}/")).unwrap();
        let stored = if stored.status == 200 {
            stored
        } else {
            client.get(&format!("/kept/_doc/{id}")).unwrap()
        };
        let text = stored.text();
        assert!(text.contains(source), "{source} is not kept byte for byte: {text}");
        assert!(text.contains("_ignored"), "{source}: {text}");
    }
    client.send("POST", "/kept/_refresh", None, b"").unwrap();
    assert_eq!(client.get("/kept/_count").unwrap().json()["count"], 9);
    assert_eq!(
        client.get("/kept/_count?q=when:yesterday").unwrap().json()["count"],
        1,
        "found as text"
    );

    let strict = json!({"settings": {"index.mapping.ignore_malformed": false},
                        "mappings": {"dynamic": "strict", "properties": {"n": {"type": "integer"}}}});
    assert_eq!(client.json("PUT", "/strict", &strict).unwrap().status, 200);
    let item = index(client, "strict", br#"{"n":"x"}"#);
    assert_eq!(
        (&item["status"], &item["error"]["type"]),
        (&json!(400), &json!("document_parsing_exception"))
    );
    let item = index(client, "strict", br#"{"m":1}"#);
    assert_eq!(
        (&item["status"], &item["error"]["type"]),
        (&json!(400), &json!("strict_dynamic_mapping_exception"))
    );
}

#[test]
fn unknown_things_are_refused_by_name() {
    let (_folder, node) = start();
    let client = node.client();
    client.json("PUT", "/there", &json!({})).unwrap();
    let search = |body: Value| client.json("POST", "/there/_search", &body).unwrap();
    refused(
        &client.get("/there/_search?colour=red").unwrap(),
        400,
        "illegal_argument_exception",
        "colour",
    );
    refused(
        &client.get("/nowhere/_search").unwrap(),
        404,
        "index_not_found_exception",
        "no such index [nowhere]",
    );
    refused(
        &search(json!({"query": {"guess": {}}})),
        400,
        "parsing_exception",
        "guess",
    );
    refused(&search(json!({"size": -1})), 400, "illegal_argument_exception", "size");
    refused(
        &search(json!({"size": 1_000_000_000})),
        400,
        "search_phase_execution_exception",
        "10000",
    );
    refused(
        &client.json("PUT", "/UPPER", &json!({})).unwrap(),
        400,
        "invalid_index_name_exception",
        "lowercase",
    );
    refused(
        &client.json("PUT", "/there", &json!({})).unwrap(),
        400,
        "resource_already_exists_exception",
        "there",
    );
    let mapping = json!({"properties": {"a": {"type": "picture"}}});
    refused(
        &client.json("PUT", "/there/_mapping", &mapping).unwrap(),
        400,
        "mapper_parsing_exception",
        "picture",
    );
    let bulk = b"{\"index\":{}}\n{}\n";
    let answer = client
        .send("POST", "/there/_bulk?pipeline=p", Some("application/x-ndjson"), bulk)
        .unwrap();
    let item = &answer.json()["items"][0]["index"];
    assert_eq!(item["status"], 400, "{}", answer.text());
    assert_eq!(item["error"]["reason"], "pipeline with id [p] does not exist");
    let answer = client.send("POST", "/there/_doc", Some("text/plain"), b"{}").unwrap();
    assert!(matches!(answer.status, 406 | 415), "{}", answer.text());
    for path in [
        "/_ml/anomaly_detectors",
        "/_security/user",
        "/there/_explain/1",
        "/_sql",
    ] {
        let answer = client.get(path).unwrap();
        assert!((400..500).contains(&answer.status), "{path}: {}", answer.text());
    }
}
