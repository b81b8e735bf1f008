//! Tenant isolation on the real process: no request of tenant `alpha` to any endpoint returns a byte of `bravo` or
//! changes its data.

mod differential;
mod event_pipelines;
mod expansions;
mod own_indices;
mod pipelines;
mod questions;
#[path = "../support/mod.rs"]
mod support;
mod tasks;

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_testkit::{Answer, Client, Node, NodeOptions};
use serde_json::{Value, json};

use questions::Questions;

/// Mark in every value, field, id and index name of `bravo`, and in nothing else.
const MARK: &str = "zq7x";

/// Access of tenants to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Its answer contains no events.
    Open,
    /// Its answer covers the tenant's data.
    Own,
    /// Only operators may call it.
    Operators,
}

use Class::{Open, Operators, Own};

/// Every endpoint by name. A missing one fails the test.
#[rustfmt::skip]
const CLASSES: &[(Class, &[&str])] = &[
    (Open, &[
        "root", "license", "xpack", "authenticate", "has_privileges", "get_user_privileges", "cat_help", "change_password",
        "get_session", "create_session", "delete_session", "splunk_hec_ack", "splunk_hec_health",
    ]),
    (Own, &[
        "bulk", "index", "create", "update", "delete", "delete_by_query", "get_task", "cancel_task", "get", "get_source", "mget", "search", "scroll", "clear_scroll",
        "open_point_in_time", "close_point_in_time", "create_pit", "delete_pit", "msearch",
        "async_search_submit", "async_search_get", "async_search_status", "async_search_delete", "discover", "discover_get", "discover_delete", "discover_tail",
        "discover_sources", "discover_fields", "discover_suggest", "discover_event", "discover_surrounding", "discover_export", "count", "terms_enum",
        "field_caps", "validate_query", "analyze", "get_index", "index_exists", "resolve_index", "get_mapping",
        "get_field_mapping", "get_settings", "get_alias", "alias_exists", "get_data_stream", "data_stream_stats",
        "get_data_stream_lifecycle", "refresh", "stats", "cluster_health", "cat_aliases", "cat_count", "cat_health",
        "create_index", "delete_index", "put_mapping", "cat_indices", "cat_segments", "cat_shards", "get_api_key",
        "create_api_key", "invalidate_api_key", "get_user", "put_user", "delete_user", "enable_user", "disable_user", "get_tenant", "tenant_usage", "get_tenant_usage",
        "list_saved_objects", "create_saved_object", "get_saved_object", "put_saved_object", "delete_saved_object",
        "set_alert_status", "event_pipeline_events", "otlp_logs", "otlp_grpc_logs", "splunk_hec_event", "splunk_hec_raw",
    ]),
    (Operators, &[
        "view_as_tenant",
        "metrics", "delete_all_pits", "get_all_pits", "open_index", "close_index",
        "rollover", "put_settings", "put_alias", "delete_alias", "update_aliases", "get_index_template",
        "index_template_exists", "put_index_template", "delete_index_template", "simulate_index_template",
        "get_component_template", "component_template_exists", "put_component_template", "delete_component_template",
        "create_data_stream", "delete_data_stream", "put_data_stream_lifecycle", "delete_data_stream_lifecycle",
        "flush", "force_merge", "clear_cache", "list_tasks", "cancel_tasks", "get_placement",
        "put_placement", "delete_placement", "propose_placement", "apply_placement", "delete_tenant",
        "get_tenant_deletion", "list_tenants", "put_tenant", "get_cluster_settings", "put_cluster_settings",
        "cluster_stats", "cluster_state", "pending_tasks", "nodes_info", "nodes_stats", "cat_nodes", "cat_nodeattrs", "cat_allocation",
        "cat_templates",
        "get_role", "put_role", "delete_role",
        "get_lifecycle", "put_lifecycle", "delete_lifecycle", "explain_lifecycle", "get_ilm_status", "start_ilm",
        "get_enrich_policy", "put_enrich_policy", "delete_enrich_policy", "execute_enrich_policy", "enrich_stats",
        "get_pipeline", "put_pipeline", "delete_pipeline", "simulate_pipeline",
        "stop_ilm", "move_lifecycle_to_step", "retry_lifecycle", "remove_lifecycle_policy",
        "get_snapshot_lifecycle", "put_snapshot_lifecycle", "delete_snapshot_lifecycle", "execute_snapshot_lifecycle",
        "execute_snapshot_retention", "get_snapshot_lifecycle_stats", "get_slm_status", "start_slm", "stop_slm",
        "get_repository", "put_repository", "delete_repository",
        "verify_repository", "analyze_repository", "cleanup_repository", "create_snapshot", "get_snapshot",
        "delete_snapshot", "snapshot_status", "clone_snapshot", "restore_snapshot",
        "mount_snapshot", "searchable_snapshots_stats", "searchable_snapshots_cache_stats",
        "clear_searchable_snapshots_cache", "recovery", "cat_recovery", "cat_repositories", "cat_snapshots",
        "resend_alerts", "get_alert_channel", "put_alert_channel", "delete_alert_channel", "alert_channel_stats", "test_alert_channel", "get_maintenance_window", "put_maintenance_window", "delete_maintenance_window", "get_event_pipeline", "get_detection_rule", "put_detection_rule", "delete_detection_rule", "import_detection_rules", "export_detection_rules", "run_detection_rule", "detection_rule_coverage", "test_detection_rule", "validate_detection_rule", "detection_rule_stats", "put_event_pipeline", "delete_event_pipeline", "all_event_pipeline_stats", "event_pipeline_stats",
        "simulate_event_pipeline", "event_pipeline_coverage", "remap_events", "replay_dead_letters", "source_positions", "claim_source_partition", "source_bulk",
        "get_quarantine", "adopt_quarantined", "delete_quarantined", "warm_shared_cache", "pin_shared_cache", "unpin_shared_cache",
    ]),
];

fn class_of(name: &str) -> Option<Class> {
    CLASSES
        .iter()
        .find(|(_, names)| names.contains(&name))
        .map(|(class, _)| *class)
}

/// Endpoint of the router.
struct Route {
    name: String,
    methods: Vec<&'static str>,
    patterns: Vec<String>,
}

/// Parses the table of the router, so that no endpoint is forgotten.
fn routes() -> Vec<Route> {
    let api = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../api/src");
    let router = std::fs::read_to_string(api.join("edge/router.rs")).unwrap();
    let mut routes: Vec<Route> = router
        .lines()
        .filter_map(|line| line.split_once("route!(")?.1.split_once(", [\"/"))
        .map(|(methods, rest)| {
            let (patterns, rest) = rest.split_once("], ").unwrap();
            Route {
                name: rest.split('"').nth(1).unwrap().to_owned(),
                methods: methods_of(methods),
                patterns: quoted(&format!("\"/{patterns}")),
            }
        })
        .collect();
    for file in std::fs::read_dir(api.join("endpoints/cat")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let Some(name) = text
            .split_once("endpoint: \"")
            .and_then(|(_, rest)| rest.split('"').next())
        else {
            continue;
        };
        let paths = text.split_once("paths: &[").unwrap().1.split_once(']').unwrap().0;
        routes.push(Route {
            name: name.to_owned(),
            methods: vec!["GET", "POST"],
            patterns: quoted(paths),
        });
    }
    routes
}

fn methods_of(names: &str) -> Vec<&'static str> {
    match names {
        "GET" => vec!["GET"],
        "HEAD" => vec!["HEAD"],
        "POST" => vec!["POST"],
        "PUT" => vec!["PUT"],
        "DELETE" => vec!["DELETE"],
        "GET_HEAD" => vec!["GET", "HEAD"],
        "GET_POST" => vec!["GET", "POST"],
        "POST_PUT" => vec!["POST", "PUT"],
        other => panic!("methods [{other}]"),
    }
}

fn quoted(text: &str) -> Vec<String> {
    text.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

struct World {
    _folder: tempfile::TempDir,
    node: Node,
    operator: Client,
    alpha: Client,
    bravo: Client,
}

fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, "correct horse\n").unwrap();
    let settings = vec![
        ("xpack.security.enabled".to_owned(), "true".to_owned()),
        ("operator.password_file".to_owned(), password.display().to_string()),
        ("data_streams.lifecycle.poll_interval".to_owned(), "1s".to_owned()),
    ];
    let node = Node::start(
        Path::new(env!("CARGO_BIN_EXE_firn")),
        folder.path(),
        &NodeOptions { settings },
    )
    .unwrap();
    let basic = format!("Basic {}", STANDARD.encode("elastic:correct horse"));
    let operator = node.client().authorized(basic);
    let template = json!({
        "index_patterns": ["events"],
        "data_stream": {},
        "template": {"settings": {"index.tenant.field": "tenant"}, "mappings": {"properties": {"class": {"type": "keyword"}}}},
    });
    operator.ok("PUT", "/_index_template/events", &template);
    operator.ok("PUT", "/_data_stream/events", &Value::Null);
    operator.ok("PUT", "/nonames/_doc/1", &json!({"of": format!("the operator {MARK}")}));
    let client_of = |tenant: &str| {
        operator.ok("PUT", &format!("/_firn/tenants/{tenant}"), &json!({}));
        let body = json!({"name": tenant, "metadata": {"tenant": tenant}});
        let key = operator.ok("POST", "/_security/api_key", &body);
        node.client()
            .authorized(format!("ApiKey {}", key["encoded"].as_str().unwrap()))
    };
    let (alpha, bravo) = (client_of("alpha"), client_of("bravo"));
    fill(&alpha, "al", 5);
    fill(&bravo, MARK, 40);
    for (client, mark, count) in [(&alpha, "al", 2), (&bravo, MARK, 4)] {
        for number in 0..count {
            // With the same names for both tenants.
            let saved = json!({"title": format!("{mark}-{number}"), "description": mark, "state": {"search": mark}});
            client.ok("PUT", &format!("/_firn/saved/search/al-{number}"), &saved);
        }
    }
    World {
        _folder: folder,
        node,
        operator,
        alpha,
        bravo,
    }
}

/// Writes events to the shared stream and to an index of the tenant; every word has the mark.
fn fill(client: &Client, mark: &str, count: usize) {
    let mut body = String::new();
    for number in 0..count {
        let event = json!({
            "@timestamp": format!("2026-01-{:02}T00:00:00Z", 1 + number % 28),
            "class": format!("{mark}-{number}"),
            "message": format!("{mark} says {mark}{number}"),
            format!("{mark}_field"): {"inner": number, "text": format!("{mark} text")},
        });
        body += &format!("{{\"create\":{{\"_index\":\"events\",\"_id\":\"{mark}-{number}\"}}}}\n{event}\n");
        body += &format!("{{\"index\":{{\"_index\":\"{mark}-own\",\"_id\":\"{number}\"}}}}\n{event}\n");
    }
    let answer = client.bulk("/_bulk?refresh=true", body.as_bytes()).unwrap();
    assert_eq!(answer.json()["errors"], false, "{}", answer.text());
}

/// Returns a body for endpoints that need one.
fn body_of(route: &str, index: &str) -> Option<String> {
    let json = |value: Value| Some(value.to_string());
    match route {
        "search" | "async_search_submit" => json(json!({
            "size": 100,
            "query": {"query_string": {"query": "*"}},
            "fields": ["*"],
            "highlight": {"fields": {"*": {}}},
            "profile": true,
            "aggs": {
                "classes": {"terms": {"field": "class", "min_doc_count": 0, "size": 1000}},
                "all": {"global": {}, "aggs": {"t": {"terms": {"field": "class", "size": 1000}}}},
                "odd": {"significant_terms": {"field": "class", "min_doc_count": 1}},
            },
        })),
        "discover" => json(json!({
            "index": "*",
            "time": {"from": "2026-01-01", "to": "2026-12-31"},
            "query": {"language": "lucene", "text": "*"},
            "columns": ["*"],
            "stages": [
                {"stage": "sample", "size": 1000},
                {"stage": "histogram", "split_by": "class", "split_values": 20},
                {"stage": "cardinality"},
                {"stage": "top_values", "field": "class", "size": 1000},
            ],
        })),
        "create_saved_object" | "put_saved_object" => json(json!({"title": "al-saved", "state": {"search": "al"}})),
        "discover_fields" => json(json!({"index": "*"})),
        "discover_suggest" => json(json!({"index": "*", "query": {"text": "class: "}, "size": 50, "timeout": "5s"})),
        "discover_surrounding" => {
            json(json!({"index": "*", "anchor": {"index": "al-own", "id": "1"}, "before": 100, "after": 100}))
        }
        "discover_export" => json(json!({"index": "*", "format": "csv"})),
        "discover_tail" => json(json!({"index": "*", "timeout": "1ms"})),
        // The tenant has one such event in each of two indices.
        "delete_by_query" => json(json!({"query": {"terms": {"class": ["al-4", format!("{MARK}-4")]}}})),
        "validate_query" | "count" => json(json!({"query": {"match_all": {}}})),
        "set_alert_status" => json(json!({"query": {"match_all": {}}, "status": "closed"})),
        "terms_enum" => json(json!({"field": "class", "string": "", "size": 1000})),
        "mget" => json(
            json!({"docs": [{"_index": "events", "_id": format!("{MARK}-1")}, {"_index": "events", "_id": "al-1"}]}),
        ),
        "msearch" => Some(format!(
            "{{\"index\":\"{index}\"}}\n{{\"query\":{{\"match_all\":{{}}}},\"size\":100}}\n"
        )),
        "bulk" => Some(format!(
            "{{\"delete\":{{\"_index\":\"{index}\",\"_id\":\"no such\"}}}}\n"
        )),
        "index" | "create" => json(json!({"@timestamp": "2026-01-01T00:00:00Z", "class": "al-new"})),
        "update" => json(json!({"doc": {"class": "al-changed"}})),
        "analyze" => json(json!({"text": "words"})),
        "field_caps" => json(json!({"fields": ["*"]})),
        "scroll" => json(json!({"scroll_id": format!("firns{}", "a".repeat(44))})),
        "clear_scroll" => json(json!({"scroll_id": "_all"})),
        "close_point_in_time" => json(json!({"id": format!("firnp{}", "a".repeat(44))})),
        "delete_pit" => json(json!({"pit_id": [format!("firnp{}", "a".repeat(44))]})),
        _ => None,
    }
}

fn path_of(pattern: &str, index: &str) -> String {
    let mut path = pattern.replace("{index}", index);
    for (capture, value) in [
        ("{id}", "al-1"),
        ("{type}", "search"),
        ("{name}", "*"),
        ("{fields}", "*"),
        ("{metric}", "_all"),
        ("{index_metric}", "_all"),
        ("{node_id}", "_all"),
        ("{task_id}", "x:1"),
        ("{scroll_id}", "x"),
        ("{new_index}", "new"),
        ("{username}", "noname"),
        ("{repository}", "objects"),
        ("{snapshot}", "nightly"),
        ("{target_snapshot}", "copy"),
        ("{source}", "records"),
    ] {
        path = path.replace(capture, value);
    }
    assert!(!path.contains('{'), "a value for {path}");
    match pattern {
        _ if pattern.contains("_pit") => path + "?keep_alive=1m",
        _ if pattern.contains("point_in_time") && pattern.starts_with("/{index}") => path + "?keep_alive=1m",
        _ if pattern.ends_with("discover/event") => path + "?index=*&id=al-1",
        _ if pattern.ends_with("discover/sources") => path + "?hidden=true",
        _ if pattern.contains("_field_caps") => path + "?fields=*",
        // It would wait for a missing index.
        _ if pattern.contains("health/") => path + "?timeout=0s",
        _ => path,
    }
}

fn ask(client: &Client, route: &str, method: &str, path: &str, index: &str) -> Answer {
    let body = body_of(route, index).unwrap_or_default();
    let content_type = match (body.is_empty(), route) {
        (true, _) => None,
        (false, "bulk" | "msearch") => Some("application/x-ndjson"),
        (false, _) => Some("application/json"),
    };
    client.send(method, path, content_type, body.as_bytes()).unwrap()
}

/// Returns all parts of an answer that a client sees.
pub(crate) fn shown(answer: &Answer) -> String {
    format!("{} {:?} {}", answer.status, answer.headers, answer.text())
}

fn everything_of(world: &World) -> Value {
    let body =
        json!({"size": 1000, "sort": ["_doc"], "version": true, "seq_no_primary_term": true, "track_total_hits": true});
    let mut all = world.bravo.ok("POST", "/*/_search", &body);
    all["took"] = Value::Null;
    // Merges change the position of a document in its shard.
    for hit in all["hits"]["hits"].as_array_mut().unwrap() {
        hit["sort"] = Value::Null;
    }
    let saved = world.bravo.ok("GET", "/_firn/saved", &Value::Null);
    assert_eq!(saved["saved"].as_array().map(Vec::len), Some(4), "{saved}");
    json!({"events": all, "saved": saved})
}

#[test]
fn no_endpoint_gives_away_a_byte() {
    let world = world();
    let before = everything_of(&world);
    assert_eq!(before["events"]["hits"]["total"]["value"], 80);
    let routes = routes();
    assert!(routes.len() > 90, "only {} routes were read", routes.len());
    // Counted, so that the test does not pass because all requests failed.
    let mut answers_with_own = 0;
    for route in &routes {
        let class = class_of(&route.name).unwrap_or_else(|| panic!("no class for [{}]", route.name));
        // These change the tenant's users, which `security.rs` tests.
        if route.name.ends_with("_user") || route.name.contains("api_key") || route.name == "change_password" {
            continue;
        }
        for pattern in &route.patterns {
            for (method, index) in route
                .methods
                .iter()
                .flat_map(|method| ["events", "*", "_all", "*,-al*", "e*,nothing*"].map(|index| (method, index)))
            {
                let path = path_of(pattern, index);
                let answer = ask(&world.alpha, &route.name, method, &path, index);
                let shown = shown(&answer);
                assert!(
                    !shown.replace(&format!("{MARK}-1\""), "").contains(MARK),
                    "{method} {path}: {shown}"
                );
                answers_with_own += usize::from(answer.status == 200 && shown.contains("al-"));
                assert!(answer.status < 500 && answer.status != 401, "{method} {path}: {shown}");
                if class == Operators {
                    assert_eq!(answer.status, 403, "{method} {path}: {shown}");
                }
            }
        }
    }
    assert!(answers_with_own > 60, "only {answers_with_own}");
    assert_eq!(everything_of(&world), before);
}

/// Removes what differs from one request to the next.
fn without_times(text: &str) -> String {
    let mut parts = text.split_inclusive(':');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_time = whole.ends_with("\"took\":") || whole.ends_with("_in_millis\":");
        whole += match is_time {
            true => part.trim_start_matches(|character: char| character.is_ascii_digit()),
            false => part,
        };
    }
    whole
}

#[test]
fn a_foreign_name_is_as_a_missing_one() {
    let world = world();
    let before = everything_of(&world);
    // Same length, so that only the name differs.
    let missing = "qqqq-own";
    let foreign = [format!("{MARK}-own"), "nonames".to_owned(), format!("bravo~{MARK}-own")];
    for route in routes() {
        let writes = matches!(
            route.name.as_str(),
            "index" | "create" | "update" | "bulk" | "create_index"
        );
        for pattern in route
            .patterns
            .iter()
            .filter(|pattern| pattern.contains("{index}") && !writes)
        {
            for method in &route.methods {
                let response_to = |name: &str| {
                    let answer = ask(&world.alpha, &route.name, method, &path_of(pattern, name), name);
                    (answer.status, without_times(&answer.text().replace(name, "NAME")))
                };
                for name in &foreign {
                    assert_eq!(response_to(name), response_to(missing), "{method} {pattern} of {name}");
                }
            }
        }
    }
    assert_eq!(everything_of(&world), before);
}

#[test]
fn writes_reach_only_what_is_the_writer_s() {
    let world = world();
    let before = everything_of(&world);
    let alpha = &world.alpha;
    let event = |extra: Value| {
        let mut event = json!({"@timestamp": "2026-01-01T00:00:00Z", "class": "al"});
        event
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        event
    };
    let post = |path: &str, body: &Value| alpha.json("POST", path, body).unwrap();
    for forged in [
        json!({"tenant": "bravo"}),
        json!({"tenant": ["alpha", "bravo"]}),
        json!({"tenant": null}),
    ] {
        let answer = post("/events/_doc?op_type=create", &event(forged));
        assert_eq!(answer.status, 403, "{}", answer.text());
    }
    assert_eq!(
        post("/events/_doc?op_type=create&routing=bravo", &event(json!({}))).status,
        400
    );
    assert_eq!(alpha.get("/events/_search?routing=bravo").unwrap().status, 400);
    let hits = before["events"]["hits"]["hits"].as_array().unwrap();
    let shared = hits
        .iter()
        .filter(|hit| hit["_index"].as_str().unwrap().starts_with(".ds-"));
    let mut tried = 0;
    for hit in shared {
        let path = |api: &str| {
            format!(
                "/{}/{api}/{}",
                hit["_index"].as_str().unwrap(),
                hit["_id"].as_str().unwrap()
            )
        };
        assert_eq!(alpha.get(&path("_doc")).unwrap().status, 404);
        assert_eq!(alpha.send("DELETE", &path("_doc"), None, b"").unwrap().status, 404);
        assert_eq!(post(&path("_update"), &json!({"doc": {"class": "x"}})).status, 404);
        tried += 1;
    }
    assert_eq!(tried, 40);
    // The names of bravo's indices are free for alpha's own indices.
    for name in [format!("{MARK}-own"), "nonames".to_owned()] {
        let answer = alpha
            .json("PUT", &format!("/{name}/_doc/1?refresh=true"), &event(json!({})))
            .unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
        let found = alpha.ok("POST", &format!("/{name}/_search"), &json!({}));
        assert_eq!(found["hits"]["total"]["value"], 1, "{found}");
    }
    assert_eq!(everything_of(&world), before);
    let nonames = world.operator.ok("GET", "/nonames/_count", &Value::Null);
    assert_eq!(nonames["count"], 1);
}

#[test]
fn a_tenant_deletes_only_its_own_by_query() {
    let world = world();
    let before = everything_of(&world);
    let alpha = &world.alpha;
    let all = json!({"query": {"match_all": {}}});
    let count = |client: &Client| client.ok("POST", "/*/_count", &all)["count"].clone();
    assert_eq!(count(alpha), 10);
    let delete = |path: &str, body: &Value| alpha.json("POST", path, body).unwrap();
    // No query of alpha finds events of others.
    for (path, query) in [
        ("/events/_delete_by_query", json!({"prefix": {"class": MARK}})),
        ("/*/_delete_by_query", json!({"term": {"tenant": "bravo"}})),
        (
            "/_all/_delete_by_query?conflicts=proceed",
            json!({"ids": {"values": [format!("{MARK}-1")]}}),
        ),
        (
            ".ds-events-*/_delete_by_query",
            json!({"query_string": {"query": MARK}}),
        ),
    ] {
        let path = format!("/{}", path.trim_start_matches('/'));
        let answer = delete(&path, &json!({"query": query}));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(
            (&answer.json()["total"], &answer.json()["deleted"]),
            (&json!(0), &json!(0))
        );
    }
    let answer = delete("/events/_delete_by_query?routing=bravo", &all);
    assert_eq!(answer.status, 400, "{}", answer.text());
    for name in [format!("{MARK}-own"), format!("bravo~{MARK}-own"), "nonames".to_owned()] {
        for more in ["", "?wait_for_completion=false"] {
            let answer = delete(&format!("/{name}/_delete_by_query{more}"), &all);
            assert_eq!(answer.status, 403, "{}", answer.text());
        }
    }
    // A background task does not run with the rights of an operator, and other tenants cannot see it.
    let task = alpha.ok(
        "POST",
        "/events/_delete_by_query?wait_for_completion=false&refresh=true",
        &json!({"query": {"prefix": {"class": "al-1"}}}),
    );
    let task = format!("/_tasks/{}", task["task"].as_str().unwrap());
    assert_eq!(world.bravo.get(&task).unwrap().status, 404);
    let done = alpha.ok("GET", &format!("{task}?wait_for_completion=true"), &Value::Null);
    assert_eq!(done["response"]["deleted"], 1, "{done}");
    let rest = alpha.ok("POST", "/*/_delete_by_query?refresh=true", &all);
    assert_eq!((&rest["deleted"], &rest["failures"]), (&json!(9), &json!([])), "{rest}");
    assert_eq!(count(alpha), 0);
    assert_eq!(everything_of(&world), before);
    assert_eq!(world.operator.ok("GET", "/nonames/_count", &Value::Null)["count"], 1);
    // An operator's deletes find the documents of every tenant.
    let answer = world.operator.ok(
        "POST",
        "/events/_delete_by_query?refresh=true",
        &json!({"query": {"term": {"tenant": "bravo"}}}),
    );
    assert_eq!(
        (&answer["deleted"], &answer["failures"]),
        (&json!(40), &json!([])),
        "{answer}"
    );
}

#[test]
fn what_one_tenant_opened_is_not_there_for_another() {
    let world = world();
    let (alpha, bravo) = (&world.alpha, &world.bravo);
    let pit = bravo.ok("POST", "/events/_pit?keep_alive=5m", &Value::Null);
    let by_pit = json!({"pit": {"id": pit["id"]}, "size": 100});
    let scroll = bravo.ok("POST", "/events/_search?scroll=5m", &json!({"size": 1}));
    let by_scroll = json!({"scroll_id": scroll["_scroll_id"]});
    let stored = bravo.ok("POST", "/events/_async_search?keep_on_completion=true", &json!({}));
    let search_id = stored["id"].as_str().unwrap();
    let by_id = [
        ("GET", format!("/_async_search/{search_id}")),
        ("GET", format!("/_async_search/status/{search_id}")),
        ("DELETE", format!("/_async_search/{search_id}")),
    ];
    for (method, path) in &by_id {
        let answer = alpha.send(method, path, None, b"").unwrap();
        assert_eq!(answer.status, 404, "{}", answer.text());
    }
    for (method, path) in &by_id {
        assert_eq!(bravo.send(method, path, None, b"").unwrap().status, 200, "{path}");
    }
    let requests = [("POST", "/_search", &by_pit), ("POST", "/_search/scroll", &by_scroll)];
    for (method, path, body) in requests {
        let answer = alpha.json(method, path, body).unwrap();
        assert_eq!(answer.status, 404, "{}", answer.text());
        assert!(!answer.text().contains(MARK));
    }
    for (path, body) in [
        ("/_pit", &json!({"id": pit["id"]})),
        ("/_search/scroll", &by_scroll),
        ("/_search/scroll", &json!({"scroll_id": "_all"})),
    ] {
        alpha.json("DELETE", path, body).unwrap();
    }
    for (method, path, body) in requests {
        assert_eq!(
            bravo.json(method, path, body).unwrap().status,
            200,
            "still open for bravo"
        );
    }
}

/// Removes the echo of the request from an answer, which may contain the mark.
fn without_echo(answer: &Answer, path: &str, body: &Value) -> String {
    let mut words: Vec<String> = Vec::new();
    let request = format!("{path} {body}");
    for word in request.split(|letter: char| !(letter.is_alphanumeric() || "-_.*".contains(letter))) {
        if word.contains(MARK) {
            words.push(word.to_owned());
        }
    }
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    let mut text = shown(answer);
    for word in words {
        text = text.replace(&word, "");
    }
    text
}

#[test]
fn random_requests_give_nothing_away() {
    let world = world();
    let before = everything_of(&world);
    let mut questions = Questions(fastrand::Rng::with_seed(firn_testkit::seed("isolation")));
    let (mut found, mut requests) = (0, 0);
    for _ in 0..1500 {
        let (method, path, body) = questions.request();
        let answer = match &body {
            Value::Null => world.alpha.send(method, &path, None, b""),
            body => world.alpha.json(method, &path, body),
        };
        let answer = answer.unwrap();
        let shown = without_echo(&answer, &path, &body);
        assert!(!shown.contains(MARK), "{method} {path} {body}: {shown}");
        assert!(answer.status < 500, "{method} {path} {body}: {shown}");
        requests += 1;
        found += usize::from(answer.status < 300 && shown.contains("al-"));
    }
    assert!(found * 10 > requests, "only {found} of {requests} found anything");
    assert_eq!(everything_of(&world), before);
}
