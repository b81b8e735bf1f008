//! Headers, parameters and errors: behaviour that all endpoints share.

use crate::fake::Node;

#[tokio::test]
async fn greets_as_elasticsearch() {
    let node = Node::new();
    let answer = node.send_with("GET", "/", &[("x-opaque-id", "me")], "").await;
    assert_eq!(answer.header("x-elastic-product"), "Elasticsearch");
    assert_eq!(answer.header("x-opaque-id"), "me");
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.json()["version"]["number"], "8.17.0");
    assert_eq!(answer.json()["cluster_uuid"], "cluster-uuid-000000000");
    let head = node.send("HEAD", "/", "").await;
    assert_eq!((head.status(), head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), answer.body.len().to_string());
}

#[tokio::test]
async fn echoes_vendored_media_types() {
    let node = Node::new();
    for version in ["7", "8", "9"] {
        let media = format!("application/vnd.elasticsearch+json; compatible-with={version}");
        let answer = node
            .send_with(
                "POST",
                "/_search",
                &[("accept", &media), ("content-type", &media)],
                "{}",
            )
            .await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        assert_eq!(
            answer.header("content-type"),
            format!("application/vnd.elasticsearch+json;compatible-with={version}")
        );
    }
    let refused = node
        .send_with("POST", "/_search", &[("content-type", "text/plain")], "{}")
        .await;
    assert_eq!(
        refused.text(),
        r#"{"error":"Content-Type header [text/plain] is not supported","status":406}"#
    );
    let refused = node.send_with("GET", "/", &[("accept", "application/yaml")], "").await;
    assert_eq!(refused.status(), 406);
    assert_eq!(node.send("GET", "/?format=cbor", "").await.status(), 406);
}

#[tokio::test]
async fn refuses_what_is_not_there() {
    let node = Node::new();
    let cases = [
        (
            "GET",
            "/_nonsense",
            "",
            "400 no handler found for uri [/_nonsense] and method [GET]",
        ),
        (
            "POST",
            "/",
            "",
            "405 Incorrect HTTP method for uri [/] and method [POST], allowed: [GET, HEAD]",
        ),
        (
            "POST",
            "/_sql",
            "{}",
            "400 not_implemented_exception: [POST /_sql] is not implemented by firn",
        ),
        (
            "GET",
            "/_search?siez=1",
            "",
            "400 illegal_argument_exception: request [/_search] contains unrecognized parameter: [siez] -> did you mean [size]?",
        ),
        (
            "GET",
            "/_cat/indices",
            "{}",
            "400 illegal_argument_exception: request [GET /_cat/indices] does not support having a body",
        ),
        (
            "GET",
            "/_search?pretty=perhaps",
            "",
            "400 illegal_argument_exception: Failed to parse value [perhaps] as only [true] or [false] are allowed.",
        ),
        (
            "GET",
            "/missing/_search",
            "",
            "404 index_not_found_exception: no such index [missing]",
        ),
        (
            "PUT",
            "/i/_doc/1?pipeline=p",
            "{}",
            "400 illegal_argument_exception: pipeline with id [p] does not exist",
        ),
    ];
    for (method, uri, body, expected) in cases {
        assert_eq!(node.fails(method, uri, body).await, expected);
    }
    assert_eq!(node.send("POST", "/", "").await.header("allow"), "GET,HEAD");
}

#[tokio::test]
async fn errors_have_elasticsearchs_body() {
    let node = Node::new();
    let answer = node.send("GET", "/missing/_search?pretty", "").await;
    insta::assert_snapshot!(answer.text(), @r#"
    {
      "error" : {
        "root_cause" : [
          {
            "type" : "index_not_found_exception",
            "reason" : "no such index [missing]",
            "resource.type" : "index_or_alias",
            "resource.id" : "missing",
            "index_uuid" : "_na_",
            "index" : "missing"
          }
        ],
        "type" : "index_not_found_exception",
        "reason" : "no such index [missing]",
        "resource.type" : "index_or_alias",
        "resource.id" : "missing",
        "index_uuid" : "_na_",
        "index" : "missing"
      },
      "status" : 404
    }
    "#);
    let traced = node.send("GET", "/missing/_search?error_trace", "").await;
    assert!(traced.json()["error"]["stack_trace"].is_string());
}

#[tokio::test]
async fn filters_answers() {
    let node = Node::new();
    node.ok("PUT", "/i/_doc/1", r#"{"a":1.50,"b":2}"#).await;
    let answer = node
        .send("GET", "/i/_search?filter_path=hits.hits._source.a,took", "")
        .await;
    assert_eq!(answer.text(), r#"{"took":1,"hits":{"hits":[{"_source":{"a":1.50}}]}}"#);
    let answer = node.send("GET", "/i/_search?filter_path=-hits,-_shards", "").await;
    assert_eq!(answer.text(), r#"{"took":1,"timed_out":false}"#);
}

#[tokio::test]
async fn malformed_json_is_the_clients_fault() {
    let node = Node::new();
    let error = node.fails("POST", "/_search", r#"{"query": "#).await;
    assert!(error.starts_with("400 x_content_parse_exception: [1:10]"), "{error}");
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let error = node.fails("POST", "/_search", &deep).await;
    assert!(error.contains("recursion limit exceeded"), "{error}");
}

#[tokio::test]
async fn counts_requests() {
    let node = Node::new();
    node.ok("GET", "/_search", "").await;
    let text = node.send("GET", "/metrics", "").await.text();
    assert!(
        text.contains(r#"firn_http_requests_total{endpoint="search",status="200"} 1"#),
        "{text}"
    );
    assert!(text.contains("firn_disk_available_bytes 250"), "{text}");
}

#[tokio::test]
async fn too_many_requests_are_turned_away() {
    let node = Node::with(|config| config.max_concurrent_requests = 1);
    *node.fake.search_delay.lock().unwrap() = std::time::Duration::from_millis(200);
    let (first, second) = tokio::join!(node.send("GET", "/_search", ""), async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        node.send("GET", "/_search", "").await
    });
    assert_eq!((first.status(), second.status()), (200, 429));
    assert_eq!(second.json()["error"]["type"], "es_rejected_execution_exception");
}

#[tokio::test]
async fn tasks_are_listed_and_cancelled() {
    let node = Node::new();
    *node.fake.search_delay.lock().unwrap() = std::time::Duration::from_millis(300);
    let (_, tasks) = tokio::join!(
        node.send_with("GET", "/_search", &[("x-opaque-id", "dash")], ""),
        async {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            let tasks = node
                .ok("GET", "/_tasks?actions=*search&detailed&group_by=none", "")
                .await;
            let id = tasks["tasks"][0]["id"].as_u64().unwrap();
            node.ok("POST", &format!("/_tasks/node-id-00000000000000:{id}/_cancel"), "")
                .await;
            tasks
        }
    );
    assert_eq!(tasks["tasks"][0]["description"], "GET /_search");
    assert_eq!(tasks["tasks"][0]["headers"]["X-Opaque-Id"], "dash");
    assert!(node.fake.contexts.lock().unwrap()[0].cancel.is_cancelled());
    let error = node.fails("GET", "/_tasks/node-id-00000000000000:99999", "").await;
    assert!(error.starts_with("404 resource_not_found_exception"), "{error}");
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_its_search() {
    let node = Node::new();
    *node.fake.search_delay.lock().unwrap() = std::time::Duration::from_secs(60);
    let gone = tokio::time::timeout(std::time::Duration::from_millis(50), node.send("GET", "/_search", ""));
    assert!(gone.await.is_err());
    assert!(node.fake.contexts.lock().unwrap()[0].cancel.is_cancelled());
}
