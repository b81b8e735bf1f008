//! Indices, aliases, templates, data streams, the cluster.

use serde_json::json;

use crate::fake::Node;

#[tokio::test]
async fn an_index_from_creation_to_deletion() {
    let node = Node::new();
    let created = node
        .ok(
            "PUT",
            "/i",
            r#"{"settings":{"number_of_shards":2},"mappings":{"properties":{"f":{"type":"keyword"}}},"aliases":{"a":{}}}"#,
        )
        .await;
    assert_eq!(
        created,
        json!({"acknowledged": true, "shards_acknowledged": true, "index": "i"})
    );
    let index = node.ok("GET", "/i", "").await;
    assert_eq!(index["i"]["aliases"], json!({"a": {}}));
    assert_eq!(index["i"]["mappings"]["properties"]["f"]["type"], "keyword");
    assert_eq!(index["i"]["settings"]["index"]["number_of_shards"], "2");
    assert_eq!(index["i"]["settings"]["index"]["creation_date"], "1704164645678");
    node.ok("PUT", "/i/_mapping", r#"{"properties":{"g":{"type":"long"}}}"#)
        .await;
    assert_eq!(
        node.ok("GET", "/i/_mapping/field/g", "").await,
        json!({"i": {"mappings": {"g": {"full_name": "g", "mapping": {"g": {"type": "long"}}}}}})
    );
    node.ok("PUT", "/i/_settings", r#"{"index":{"refresh_interval":"5s"}}"#)
        .await;
    let settings = node.ok("GET", "/i/_settings/index.refresh*?flat_settings", "").await;
    assert_eq!(settings, json!({"i": {"settings": {"index.refresh_interval": "5s"}}}));
    assert_eq!(node.send("HEAD", "/a", "").await.status(), 200);
    assert!(
        node.fails("PUT", "/i", "")
            .await
            .starts_with("400 resource_already_exists_exception")
    );
    assert_eq!(
        node.fails("DELETE", "/a", "").await,
        "400 illegal_argument_exception: The provided expression [a] matches an alias, specify the corresponding concrete indices instead."
    );
    assert_eq!(
        node.fails("DELETE", "/*", "").await,
        "400 illegal_argument_exception: Wildcard expressions or all indices are not allowed"
    );
    node.ok("POST", "/i/_close", "").await;
    node.ok("POST", "/i/_open", "").await;
    node.ok("DELETE", "/i", "").await;
    assert_eq!(node.send("HEAD", "/i", "").await.status(), 404);
    assert_eq!(
        node.fails("PUT", "/j", r#"{"mapings":{}}"#).await,
        "400 parse_exception: unknown key [mapings] for create index"
    );
}

#[tokio::test]
async fn aliases_come_and_go() {
    let node = Node::new();
    node.ok("PUT", "/i", "").await;
    node.ok("PUT", "/j", "").await;
    node.ok(
        "POST",
        "/_aliases",
        r#"{"actions":[{"add":{"index":"i","alias":"a","filter":{"term":{"f":1}},"routing":"r"}},{"add":{"indices":["i","j"],"alias":"b"}}]}"#,
    )
    .await;
    assert_eq!(
        node.ok("GET", "/_alias/a", "").await,
        json!({"i": {"aliases": {"a": {"filter": {"term": {"f": 1}}, "index_routing": "r", "search_routing": "r"}}}})
    );
    assert_eq!(node.send("HEAD", "/_alias/a", "").await.status(), 200);
    assert_eq!(node.send("HEAD", "/_alias/zzz", "").await.status(), 404);
    let missing = node.send("GET", "/_alias/zzz", "").await;
    assert_eq!(missing.text(), r#"{"error":"alias [zzz] missing","status":404}"#);
    node.ok("DELETE", "/i/_alias/a", "").await;
    assert_eq!(
        node.fails("DELETE", "/i/_alias/a", "").await,
        "404 aliases_not_found_exception: aliases [a] missing"
    );
    let error = node.fails("PUT", "/i/_alias/c", r#"{"filter":{"nonsense":{}}}"#).await;
    assert!(error.starts_with("400 parsing_exception"), "{error}");
    let rows = node.ok("GET", "/_cat/aliases?format=json", "").await;
    assert_eq!(rows.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn templates_and_data_streams() {
    let node = Node::new();
    node.ok(
        "PUT",
        "/_component_template/c",
        r#"{"template":{"mappings":{"properties":{"f":{"type":"ip"}}}}}"#,
    )
    .await;
    node.ok(
        "PUT",
        "/_index_template/t",
        r#"{"index_patterns":["logs-*"],"data_stream":{},"composed_of":["c"],"priority":200,"template":{"settings":{"number_of_shards":1}}}"#,
    )
    .await;
    let template = node.ok("GET", "/_index_template/t", "").await;
    assert_eq!(template["index_templates"][0]["name"], "t");
    assert_eq!(template["index_templates"][0]["index_template"]["priority"], 200);
    assert_eq!(
        node.fails("GET", "/_index_template/x", "").await,
        "404 resource_not_found_exception: index template matching [x] not found"
    );
    assert_eq!(node.send("HEAD", "/_component_template/c", "").await.status(), 200);
    let simulated = node
        .ok("POST", "/_index_template/_simulate_index/logs-simulated", "")
        .await;
    assert_eq!(simulated["template"]["mappings"]["properties"]["f"]["type"], "ip");
    node.ok("POST", "/logs-x/_doc", r#"{"@timestamp":"2024-01-01"}"#).await;
    let streams = node.ok("GET", "/_data_stream/logs-*", "").await;
    assert_eq!(streams["data_streams"][0]["name"], "logs-x");
    assert_eq!(streams["data_streams"][0]["template"], "t");
    assert_eq!(streams["data_streams"][0]["status"], "GREEN");
    let resolved = node.ok("GET", "/_resolve/index/logs-*", "").await;
    assert_eq!(
        resolved["data_streams"][0]["backing_indices"][0],
        ".ds-logs-x-2024.01.02-000001"
    );
    let rolled = node.ok("POST", "/logs-x/_rollover", "").await;
    assert_eq!(rolled["rolled_over"], true);
    assert_eq!(rolled["new_index"], ".ds-logs-x-2024.01.02-000002");
    node.ok("DELETE", "/_data_stream/logs-x", "").await;
    assert_eq!(
        node.fails("GET", "/_data_stream/logs-x", "").await,
        "404 index_not_found_exception: no such index [logs-x]"
    );
}

#[tokio::test]
async fn the_cluster_is_one_healthy_node() {
    let node = Node::new();
    assert_eq!(node.ok("GET", "/_cluster/health", "").await["status"], "green");
    node.ok("PUT", "/i", r#"{"settings":{"number_of_replicas":1}}"#).await;
    let health = node
        .ok("GET", "/_cluster/health?level=indices&wait_for_status=yellow", "")
        .await;
    assert_eq!(health["status"], "yellow");
    assert_eq!(health["unassigned_shards"], 1);
    assert_eq!(health["indices"]["i"]["status"], "yellow");
    let late = node
        .send("GET", "/_cluster/health?wait_for_status=green&timeout=50ms", "")
        .await;
    assert_eq!((late.status(), late.json()["timed_out"].clone()), (408, json!(true)));
    node.ok(
        "PUT",
        "/_cluster/settings",
        r#"{"persistent":{"action":{"destructive_requires_name":false}}}"#,
    )
    .await;
    assert_eq!(
        node.ok("GET", "/_cluster/settings?flat_settings=true", "").await["persistent"],
        json!({"action.destructive_requires_name": "false"})
    );
    node.ok("DELETE", "/*", "").await;
    let nodes = node.ok("GET", "/_nodes/_all/http", "").await;
    assert_eq!(
        nodes["nodes"]["node-id-00000000000000"]["http"]["publish_address"],
        "127.0.0.1:9200"
    );
    for uri in [
        "/_nodes",
        "/_nodes/stats",
        "/_nodes/_local",
        "/_cluster/stats",
        "/_cluster/state",
        "/_cluster/state/metadata/i*",
        "/_stats",
        "/_stats/docs,store",
        "/_license",
        "/_cat",
    ] {
        assert_eq!(node.send("GET", uri, "").await.status(), 200, "{uri}");
    }
    assert_eq!(
        node.fails("GET", "/_stats/dcs", "").await,
        "400 illegal_argument_exception: request [/_stats/dcs] contains unrecognized metric: [dcs] -> did you mean [docs]?"
    );
}

#[tokio::test]
async fn maintenance_counts_shards() {
    let node = Node::new();
    node.ok("PUT", "/i", "").await;
    for uri in [
        "/_refresh",
        "/i/_flush",
        "/i/_forcemerge?max_num_segments=1",
        "/_cache/clear",
        "/i/_cache/clear?request=true",
        "/i/_cache/clear?fielddata=true",
    ] {
        assert_eq!(
            node.ok("POST", uri, "").await,
            json!({"_shards": {"total": 1, "successful": 1, "failed": 0}})
        );
    }
}
