//! Requests that need a capability that the engine lacks.

use crate::fake::Node;

#[tokio::test]
async fn a_request_that_the_engine_cannot_answer_is_refused_by_name() {
    let node = Node::new();
    node.ok("PUT", "/logs", "").await;
    let mount = r#"{"index": "logs"}"#;
    for (method, uri, body, capability) in [
        ("GET", "/_snapshot", "", "snapshots"),
        ("PUT", "/_snapshot/r", r#"{"type": "fs", "settings": {}}"#, "snapshots"),
        ("GET", "/_snapshot/r/*", "", "snapshots"),
        ("PUT", "/_snapshot/r/s", "", "snapshots"),
        ("DELETE", "/_snapshot/r/s", "", "snapshots"),
        ("POST", "/_snapshot/r/s/_restore", "", "snapshots"),
        ("GET", "/_snapshot/_status", "", "snapshots"),
        ("GET", "/_cat/repositories", "", "snapshots"),
        ("GET", "/_cat/snapshots", "", "snapshots"),
        ("POST", "/_snapshot/r/s/_mount", mount, "mounts"),
        ("GET", "/_searchable_snapshots/stats", "", "mounts"),
        ("GET", "/_searchable_snapshots/cache/stats", "", "mounts"),
        ("POST", "/logs/_firn/pin", "", "mounts"),
        ("GET", "/_cat/allocation", "", "tiers"),
        ("GET", "/_firn/quarantine", "", "quarantine"),
        ("GET", "/_recovery", "", "recoveries"),
        ("GET", "/_cat/recovery", "", "recoveries"),
        ("GET", "/logs/_search?explain_cost=true", "", "search_cost"),
    ] {
        let error = node.fails(method, uri, body).await;
        assert!(error.starts_with("400 not_implemented_exception: "), "{uri}: {error}");
        assert!(
            error.ends_with(&format!("it lacks the capability [{capability}]")),
            "{uri}: {error}"
        );
    }
}

#[tokio::test]
async fn answers_that_need_no_capability_leave_out_what_is_unknown() {
    let node = Node::new();
    node.ok("PUT", "/logs", "").await;
    let health = node.ok("GET", "/_cluster/health", "").await;
    assert_ne!(health["status"], "red");
    let stats = node.ok("GET", "/_nodes/stats/fs", "").await;
    let data = stats.pointer("/nodes/node-id-00000000000000/fs/data").unwrap();
    assert_eq!(*data, serde_json::json!([]));
    let shards = node.send("GET", "/_cat/shards?h=index,tier.target", "").await;
    assert_eq!(shards.text().trim(), "logs");
}
