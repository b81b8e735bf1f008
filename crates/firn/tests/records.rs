//! `.firn-traffic` and `.firn-audit`: records of answered requests in a real process.

mod support;

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_testkit::{Client, Node, NodeOptions};
use serde_json::{Value, json};

fn start(folder: &Path, settings: &[(&str, &str)]) -> Node {
    let settings = settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder, &NodeOptions { settings }).unwrap()
}

const BOTH: &[(&str, &str)] = &[("xpack.security.audit.enabled", "true"), ("traffic.enabled", "true")];

/// Returns the records that a query finds, oldest first; waits until there are `count`.
#[track_caller]
fn records(client: &Client, stream: &str, query: &Value, count: usize) -> Vec<Value> {
    let started = Instant::now();
    let body = json!({"query": query, "size": 1000, "sort": ["@timestamp"]});
    loop {
        client
            .json(
                "POST",
                &format!("/{stream}/_refresh?ignore_unavailable=true"),
                &Value::Null,
            )
            .unwrap();
        let path = format!("/{stream}/_search?ignore_unavailable=true");
        let answer = client.json("POST", &path, &body).unwrap().json();
        let hits = answer["hits"]["hits"].as_array().cloned().unwrap_or_default();
        if hits.len() >= count {
            assert_eq!(hits.len(), count, "{answer}");
            return hits.into_iter().map(|hit| hit["_source"].clone()).collect();
        }
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "{count} records of {query}: {answer}"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn bulk(client: &Client, events: usize) {
    let line = "{\"create\":{}}\n{\"@timestamp\":\"2026-01-01T00:00:00Z\",\"message\":\"something to find\"}\n";
    let answer = client
        .bulk("/events/_bulk?refresh=true", line.repeat(events).as_bytes())
        .unwrap();
    assert_eq!(answer.json()["errors"], false, "{}", answer.text());
}

#[test]
fn each_request_leaves_a_record_of_its_cost() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), BOTH);
    let client = node.client();
    bulk(client, 3);
    bulk(client, 2);
    let search = json!({"query": {"match": {"message": "find"}}, "size": 1});
    assert_eq!(client.json("POST", "/events/_search", &search).unwrap().status, 200);
    assert_eq!(client.get("/missing/_search?q=secret").unwrap().status, 404);

    let of = |name: &str| json!({"bool": {"filter": [{"term": {"request.name": name}}], "must_not": [{"prefix": {"index": "."}}]}});
    let bulks = records(client, ".firn-traffic", &of("bulk"), 2);
    assert_eq!((&bulks[0]["written"], &bulks[1]["written"]), (&json!(3), &json!(2)));
    assert_eq!(
        (&bulks[0]["index"], &bulks[0]["status"]),
        (&json!("events"), &json!(200))
    );
    assert!(bulks[0]["bytes"]["in"].as_u64() > bulks[1]["bytes"]["in"].as_u64());
    assert_ne!(bulks[0]["request"]["id"], bulks[1]["request"]["id"]);
    let searches = records(client, ".firn-traffic", &of("search"), 2);
    let (found, missing) = (&searches[0], &searches[1]);
    assert_eq!((&found["hits"], &found["shards"]), (&json!(5), &json!(1)), "{found}");
    assert!(found["segments"].as_u64() >= Some(1), "{found}");
    assert!(
        found["took_ms"].as_f64() > Some(0.0) && found["bytes"]["out"].as_u64() > Some(10),
        "{found}"
    );
    assert_eq!(
        (&missing["status"], &missing["error"]["type"]),
        (&json!(404), &json!("index_not_found_exception"))
    );
    assert!(!format!("{searches:?}").contains("secret"), "no parameters");

    // Internal writes have no records: all records are of HTTP requests.
    let own = json!({"bool": {"filter": [{"term": {"request.name": "bulk"}}, {"prefix": {"index": "."}}]}});
    assert_eq!(records(client, ".firn-traffic", &own, 0), Vec::<Value>::new());
    let metrics = client.get("/metrics").unwrap().text();
    assert!(
        metrics.contains("firn_records_total{stream=\".firn-traffic\",outcome=\"lost\"} 0"),
        "{metrics}"
    );
}

#[test]
fn changes_are_in_the_audit_log_and_reading_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), BOTH);
    let client = node.client();
    bulk(client, 1);
    assert_eq!(client.json("PUT", "/made", &json!({})).unwrap().status, 200);
    assert_eq!(client.json("PUT", "/made", &json!({})).unwrap().status, 400);
    assert_eq!(client.send("DELETE", "/made", None, b"").unwrap().status, 200);
    assert_eq!(client.get("/events/_search").unwrap().status, 200);

    let events = records(client, ".firn-audit", &json!({"match_all": {}}), 3);
    let what: Vec<_> = events
        .iter()
        .map(|event| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (
                text(&event["event"]["outcome"]),
                text(&event["action"]),
                event["status"].as_u64().unwrap(),
            )
        })
        .collect();
    let entry = |outcome: &str, action: &str, status| (outcome.to_owned(), action.to_owned(), status);
    assert_eq!(
        what,
        [
            entry("success", "indices:admin/create", 200),
            entry("failure", "indices:admin/create", 400),
            entry("success", "indices:admin/delete", 200),
        ]
    );
    let last = &events[2];
    assert_eq!(last["event"]["action"], "access_granted");
    assert_eq!(last["origin"]["address"], "127.0.0.1");
    assert_eq!(last["url"]["path"], "/made");
    assert_eq!(last["indices"], json!(["made"]));
    assert_eq!(last["authentication"]["type"], "ANONYMOUS");
}

#[test]
fn the_streams_are_hidden_have_a_retention_and_are_flushed_at_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), BOTH);
    bulk(node.client(), 1);
    // Stopped at once, while the records are still queued.
    node.stop().unwrap();

    let node = start(folder.path(), BOTH);
    let client = node.client();
    let all = client.get("/_search?size=0").unwrap().json();
    assert_eq!(all["hits"]["total"]["value"], 1, "hidden: {all}");
    let bulks = json!({"term": {"request.name": "bulk"}});
    assert_eq!(records(client, ".firn-traffic", &bulks, 1).len(), 1);
    let streams = client.get("/_data_stream/.firn-*?expand_wildcards=all").unwrap().json();
    let stream = &streams["data_streams"][0];
    assert_eq!(
        (&stream["name"], &stream["hidden"]),
        (&json!(".firn-traffic"), &json!(true)),
        "{streams}"
    );
    let templates = client.get("/_index_template/.firn-traffic").unwrap().json();
    let template = &templates["index_templates"][0]["index_template"]["template"];
    assert_eq!(template["lifecycle"]["data_retention"], "30d", "{templates}");
}

/// The operator's password comes from the keystore, as it may in production.
#[test]
fn sign_ins_and_refusals_are_in_the_audit_log() {
    const PASSWORD: &str = "from the keystore";
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").display().to_string();
    let mut add = support::command(&["keystore", "--data", &data, "add", "-x", "-f", "bootstrap.password"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    add.stdin.take().unwrap().write_all(PASSWORD.as_bytes()).unwrap();
    assert!(add.wait().unwrap().success());

    let node = start(folder.path(), &[("xpack.security.enabled", "true")]);
    let basic = |password: &str| format!("Basic {}", STANDARD.encode(format!("elastic:{password}")));
    let operator = node.client().authorized(basic(PASSWORD));
    assert_eq!(node.client().get("/events/_search").unwrap().status, 401);
    let stranger = node.client().authorized(basic("a guess"));
    assert_eq!(stranger.get("/events/_count").unwrap().status, 401);
    // The console checks whether it has a session; a guess at the same path is recorded all the same.
    assert_eq!(node.client().get("/_firn/session").unwrap().status, 401);
    assert_eq!(stranger.get("/_firn/session").unwrap().status, 401);
    bulk(&operator, 1);
    let key = json!({"name": "reader", "role_descriptors": {"r": {"indices": [{"names": ["events"], "privileges": ["read"]}]}}});
    let key = operator.json("POST", "/_security/api_key", &key).unwrap();
    assert_eq!(key.status, 200, "{}", key.text());
    let key = key.json();
    let reader = node
        .client()
        .authorized(format!("ApiKey {}", key["encoded"].as_str().unwrap()));
    assert_eq!(reader.get("/events/_count").unwrap().status, 200);
    assert_eq!(reader.get("/events/_count").unwrap().status, 200);
    assert_eq!(reader.send("DELETE", "/events", None, b"").unwrap().status, 403);

    let of = |action: &str, path: &str| json!({"bool": {"filter": [{"term": {"event.action": action}}, {"term": {"url.path": path}}]}});
    let one = |action: &str, path: &str| records(&operator, ".firn-audit", &of(action, path), 1).remove(0);
    let noname = one("authentication_failed", "/events/_search");
    assert_eq!(
        (&noname["status"], &noname["user"]),
        (&json!(401), &Value::Null),
        "{noname}"
    );
    let guess = one("authentication_failed", "/events/_count");
    assert_eq!(
        (&guess["user"]["name"], &guess["event"]["outcome"]),
        (&json!("elastic"), &json!("failure"))
    );
    assert_eq!(
        one("authentication_success", "/events/_bulk")["user"]["name"],
        "elastic"
    );
    let signed_in = one("authentication_success", "/events/_count");
    assert_eq!(
        signed_in["apikey"],
        json!({"id": key["id"], "name": "reader"}),
        "once for two requests"
    );
    let denied = one("access_denied", "/events");
    assert_eq!(
        (&denied["apikey"]["id"], &denied["action"]),
        (&key["id"], &json!("indices:admin/delete"))
    );
    assert_eq!(one("access_granted", "/_security/api_key")["user"]["name"], "elastic");

    let probes = records(
        &operator,
        ".firn-audit",
        &json!({"term": {"url.path": "/_firn/session"}}),
        1,
    );
    assert_eq!(probes.len(), 1, "{probes:?}");
    assert_eq!(
        (&probes[0]["event"]["action"], &probes[0]["user"]["name"]),
        (&json!("authentication_failed"), &json!("elastic"))
    );

    // The traffic log has all of them, and neither log has a secret.
    let traffic = records(
        &operator,
        ".firn-traffic",
        &json!({"term": {"apikey.id": key["id"]}}),
        3,
    );
    assert_eq!(traffic[2]["status"], 403);
    let audit = operator.get("/.firn-audit/_search?size=1000").unwrap().text();
    for secret in [
        PASSWORD,
        "a guess",
        key["api_key"].as_str().unwrap(),
        key["encoded"].as_str().unwrap(),
    ] {
        assert!(!audit.contains(secret) && !format!("{traffic:?}").contains(secret));
    }
    // Only operators see them.
    assert_eq!(reader.get("/.firn-audit/_search").unwrap().status, 403);
}

#[test]
fn no_records_are_stored_without_authentication() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    bulk(node.client(), 1);
    node.client().send("DELETE", "/events", None, b"").unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let streams = node.client().get("/_data_stream?expand_wildcards=all").unwrap().json();
    assert_eq!(streams, json!({"data_streams": []}));
}
