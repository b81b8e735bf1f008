//! Indices, aliases, templates, data streams and the cluster over HTTP.

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

/// Fields that benchmarks (esrally, opensearch-benchmark) and exporters for Prometheus read by name.
#[tokio::test]
async fn node_stats_have_what_benchmarks_and_exporters_read() {
    let node = Node::new();
    node.ok("PUT", "/i/_doc/1", "{}").await;
    let node_of = |answer: &serde_json::Value| answer["nodes"]["node-id-00000000000000"].clone();
    let stats = node_of(&node.ok("GET", "/_nodes/stats", "").await);
    let numbers = [
        "/jvm/uptime_in_millis",
        "/jvm/mem/heap_used_in_bytes",
        "/jvm/mem/heap_used_percent",
        "/jvm/mem/heap_committed_in_bytes",
        "/jvm/mem/heap_max_in_bytes",
        "/jvm/mem/non_heap_used_in_bytes",
        "/jvm/mem/pools/young/peak_used_in_bytes",
        "/jvm/mem/pools/old/used_in_bytes",
        "/jvm/mem/pools/old/peak_used_in_bytes",
        "/jvm/mem/pools/survivor/max_in_bytes",
        "/jvm/threads/count",
        "/jvm/threads/peak_count",
        "/jvm/gc/collectors/young/collection_count",
        "/jvm/gc/collectors/young/collection_time_in_millis",
        "/jvm/gc/collectors/old/collection_count",
        "/jvm/gc/collectors/old/collection_time_in_millis",
        "/jvm/buffer_pools/mapped/used_in_bytes",
        "/jvm/buffer_pools/direct/count",
        "/jvm/classes/current_loaded_count",
        "/os/cpu/percent",
        "/os/mem/total_in_bytes",
        "/os/mem/used_percent",
        "/os/swap/used_in_bytes",
        "/process/open_file_descriptors",
        "/process/max_file_descriptors",
        "/process/cpu/percent",
        "/process/cpu/total_in_millis",
        "/process/mem/total_virtual_in_bytes",
        "/thread_pool/write/completed",
        "/thread_pool/search/largest",
        "/breakers/parent/overhead",
        "/breakers/fielddata/tripped",
        "/transport/rx_size_in_bytes",
        "/http/current_open",
        "/http/total_opened",
        "/indexing_pressure/memory/current/all_in_bytes",
        "/ingest/total/count",
        "/script/compilations",
        "/indices/indexing/throttle_time_in_millis",
        "/indices/merges/total_throttled_time_in_millis",
        "/indices/refresh/external_total",
        "/indices/search/fetch_total",
        "/indices/query_cache/evictions",
        "/indices/fielddata/memory_size_in_bytes",
        "/indices/segments/terms_memory_in_bytes",
        "/indices/translog/uncommitted_operations",
        "/indices/recovery/throttle_time_in_millis",
    ];
    for path in numbers {
        let value = stats.pointer(path);
        assert!(value.is_some_and(serde_json::Value::is_number), "{path}: {value:?}");
    }
    for path in [
        "/jvm/mem/heap_used_in_bytes",
        "/jvm/mem/heap_max_in_bytes",
        "/jvm/threads/count",
    ] {
        assert!(
            stats.pointer(path).unwrap().as_u64() > Some(0),
            "{path}: the test's own process has some"
        );
    }

    let one = node_of(&node.ok("GET", "/_nodes/stats/indices/docs,merge", "").await);
    let sections: Vec<&String> = one["indices"].as_object().unwrap().keys().collect();
    assert_eq!(sections, ["docs", "merges"]);
    assert_eq!(one.get("jvm"), None);
    let shards = node_of(&node.ok("GET", "/_nodes/stats?level=shards", "").await);
    assert_eq!(shards["indices"]["shards"]["i"][0]["0"]["docs"]["count"], 1);
    assert_eq!(shards["indices"]["shards"]["i"][0]["0"]["routing"]["primary"], true);
    assert_eq!(
        node.fails("GET", "/_nodes/stats?level=cluster", "").await,
        "400 illegal_argument_exception: level parameter must be one of [node] or [indices] or [shards] but was [cluster]"
    );
    assert_eq!(
        node.fails("GET", "/_nodes/stats/jvn", "").await,
        "400 illegal_argument_exception: request [/_nodes/stats/jvn] contains unrecognized metric: [jvn] -> did you mean [jvm]?"
    );

    let info = node_of(&node.ok("GET", "/_nodes", "").await);
    for path in [
        "/jvm/version",
        "/jvm/vm_vendor",
        "/os/name",
        "/os/arch",
        "/transport/publish_address",
    ] {
        assert!(info.pointer(path).is_some_and(serde_json::Value::is_string), "{path}");
    }
    assert_eq!(
        (info["plugins"].clone(), info["modules"].clone()),
        (json!([]), json!([]))
    );
    let cluster = node.ok("GET", "/_cluster/stats", "").await;
    for path in [
        "/nodes/jvm/mem/heap_max_in_bytes",
        "/nodes/count/data",
        "/nodes/os/mem/total_in_bytes",
    ] {
        assert!(
            cluster.pointer(path).is_some_and(serde_json::Value::is_number),
            "{path}"
        );
    }
    let row = node.ok("GET", "/_cat/nodes?format=json", "").await[0].clone();
    let columns: Vec<&String> = row.as_object().unwrap().keys().collect();
    for column in [
        "heap.percent",
        "ram.percent",
        "cpu",
        "load_1m",
        "node.role",
        "master",
        "name",
    ] {
        assert!(columns.iter().any(|name| *name == column), "{column} of {columns:?}");
    }
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
