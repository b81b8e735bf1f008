//! Aggregates at write time of the running server: sums that stay right through kills, late events, and definitions that change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use firn_testkit::{Client, Node, NodeOptions, seed};
use serde_json::{Value, json};

const ID: &str = "flows";
const MINUTE_MS: i64 = 60_000;

fn start(folder: &Path) -> Node {
    Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder, &NodeOptions::default()).unwrap()
}

fn stats(client: &Client) -> Value {
    client.get(&format!("/_firn/pipelines/{ID}/stats")).unwrap().json()
}

#[track_caller]
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come within 60 s");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn wait_until_running(client: &Client) {
    wait_for("the pipeline", || stats(client)["running"] == json!(true));
}

fn now_ms() -> i64 {
    let elapsed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    elapsed.as_millis() as i64
}

fn pipeline(source: Value) -> Value {
    json!({
        "source": source, "index": "flows",
        "aggregates": {"by-host": {"index": "flows-by-host", "every": "1m", "by": ["host.name"], "lateness": "0s",
            "metrics": {"network.bytes": {"sum": "network.bytes"}, "users": {"cardinality": "user.name"}}}},
    })
}

fn flow(time_ms: i64, host: u32, bytes: u64, user: u32) -> Value {
    json!({"@timestamp": time_ms, "host": {"name": format!("h{host}")}, "network": {"bytes": bytes},
        "user": {"name": format!("u{user}")}})
}

/// Number of events and sum of bytes by host and minute, of the aggregates or of the events themselves.
fn sums(client: &Client, index: &str) -> BTreeMap<(String, i64), (u64, u64)> {
    client.ok("POST", &format!("/{index}/_refresh"), &Value::Null);
    let events = match index {
        "flows" => json!({"value_count": {"field": "host.name.keyword"}}),
        _ => json!({"sum": {"field": "firn.aggregate.events"}}),
    };
    let found = client.ok(
        "POST",
        &format!("/{index}/_search"),
        &json!({"size": 0, "aggs": {"rows": {
            "composite": {"size": 10000, "sources": [
                {"host": {"terms": {"field": "host.name.keyword"}}},
                {"minute": {"date_histogram": {"field": "@timestamp", "fixed_interval": "1m"}}},
            ]},
            "aggs": {"events": events, "bytes": {"sum": {"field": "network.bytes"}}},
        }}}),
    );
    let rows = found["aggregations"]["rows"]["buckets"].as_array().unwrap();
    let number = |value: &Value| value["value"].as_f64().unwrap() as u64;
    rows.iter()
        .map(|row| {
            let host = row["key"]["host"].as_str().unwrap().to_owned();
            let minute = row["key"]["minute"].as_i64().unwrap();
            ((host, minute), (number(&row["events"]), number(&row["bytes"])))
        })
        .collect()
}

fn send(client: &Client, events: &[Value]) {
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    let path = format!("/_firn/pipelines/{ID}/_events");
    let sent = client
        .send("POST", &path, Some("application/x-ndjson"), lines.join("\n").as_bytes())
        .unwrap();
    assert_eq!(sent.json()["indexed"], events.len(), "{}", sent.text());
}

#[test]
fn sums_stay_right_through_kills() {
    let seed = seed("aggregates");
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let logs = tempfile::tempdir().unwrap();
    let path = logs.path().join("flows.log");
    let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
    let mut node = start(folder.path());
    node.client().ok(
        "PUT",
        &format!("/_firn/pipelines/{ID}"),
        &pipeline(json!({"type": "file", "paths": [path]})),
    );
    let first_minute = now_ms() / MINUTE_MS - 600;
    let mut lines = 0_u64;
    for round in 0..8 {
        wait_until_running(node.client());
        for step in 0..random.u64(3..12) {
            let mut text = String::new();
            for _ in 0..random.u64(1..2000) {
                // Some come late: their windows are closed, perhaps by a node that was killed since.
                let late = if random.u8(0..20) == 0 { random.i64(0..60) } else { 0 };
                let minute = first_minute + round * 20 + step as i64 - late;
                let time_ms = minute * MINUTE_MS + random.i64(0..MINUTE_MS);
                text += &flow(time_ms, random.u32(0..5), random.u64(0..1500), random.u32(0..50)).to_string();
                text.push('\n');
                lines += 1;
            }
            file.write_all(text.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(random.u64(0..150)));
        }
        node.kill9().unwrap();
        node = start(folder.path());
    }
    // The last event lets all windows end.
    file.write_all(format!("{}\n", flow(now_ms(), 9, 0, 0)).as_bytes())
        .unwrap();
    let client = node.client();
    wait_until_running(client);
    wait_for("the account", || {
        stats(client)["partitions"][0]["indexed"].as_u64() == Some(lines + 1)
    });
    let mut stored = sums(client, "flows");
    stored.retain(|(host, _), _| host != "h9");
    let differences = || {
        let aggregated = sums(client, "flows-by-host");
        let keys: BTreeSet<_> = stored.keys().chain(aggregated.keys()).collect();
        let differ = keys.into_iter().filter(|key| stored.get(*key) != aggregated.get(*key));
        differ
            .map(|key| {
                format!(
                    "{key:?}: stored {:?}, aggregated {:?}",
                    stored.get(key),
                    aggregated.get(key)
                )
            })
            .collect::<Vec<_>>()
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while !differences().is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(200));
    }
    // And nothing comes after.
    std::thread::sleep(Duration::from_secs(1));
    let differences = differences();
    let shown = &differences[..differences.len().min(5)];
    assert!(
        differences.is_empty(),
        "seed {seed}: {} differ, such as {shown:#?}",
        differences.len()
    );
    let total: u64 = stored.values().map(|(events, _)| events).sum();
    assert_eq!(total, lines, "seed {seed}");
    let windows = &stats(client)["windows"];
    assert_eq!(
        (&windows["error"], &windows["rejected"]),
        (&Value::Null, &json!(0)),
        "{windows}"
    );
    // Each of them once: a window has no two events of the same key and revision.
    let twice = client.ok(
        "POST",
        "/flows-by-host/_search",
        &json!({"size": 0, "aggs": {"rows": {"multi_terms": {"size": 5, "min_doc_count": 2, "terms": [
            {"field": "host.name.keyword"}, {"field": "@timestamp"}, {"field": "firn.aggregate.revision", "missing": 0},
        ]}}}}),
    );
    assert_eq!(twice["aggregations"]["rows"]["buckets"], json!([]), "seed {seed}");
}

#[test]
fn events_are_in_their_window_and_late_ones_are_revisions() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let keyword = json!({"properties": {"name": {"type": "keyword"}}});
    client.ok(
        "PUT",
        "/flows",
        &json!({"mappings": {"dynamic": "strict", "properties": {"@timestamp": {"type": "date"}, "host": keyword, "user": keyword,
            "network": {"properties": {"bytes": {"type": "long"}}}}}}),
    );
    client.ok(
        "PUT",
        &format!("/_firn/pipelines/{ID}"),
        &pipeline(json!({"type": "http"})),
    );
    wait_until_running(client);
    let minute = (now_ms() / MINUTE_MS - 10) * MINUTE_MS;
    send(
        client,
        &[
            flow(minute, 1, 100, 1),
            flow(minute + 59_999, 1, 50, 2),
            flow(minute + 1, 2, 7, 1),
        ],
    );
    send(client, &[flow(minute + 2 * MINUTE_MS, 1, 1, 1)]);
    wait_for("the window", || stats(client)["windows"]["events"] == json!(2));
    // Not in the window of a rejected event, which is a dead letter.
    let conflict = json!({"@timestamp": minute, "host": {"name": "h1"}, "not": "mapped"}).to_string();
    let path = format!("/_firn/pipelines/{ID}/_events");
    let sent = client
        .send("POST", &path, Some("application/x-ndjson"), conflict.as_bytes())
        .unwrap();
    assert_eq!(sent.json()["dead_lettered"], 1, "{}", sent.text());
    send(client, &[flow(minute + 5, 1, 3, 3)]);
    wait_for("the revision", || stats(client)["windows"]["events"] == json!(3));
    assert_eq!(stats(client)["windows"]["late_events"], 1);
    client.ok("POST", "/flows-by-host/_refresh", &Value::Null);
    let found = client.ok(
        "POST",
        "/flows-by-host/_search",
        &json!({"query": {"term": {"host.name.keyword": "h1"}}, "sort": [{"firn.aggregate.events": "desc"}]}),
    );
    let of = |place: usize| found["hits"]["hits"][place]["_source"].clone();
    let (first, late) = (of(0), of(1));
    assert_eq!(
        (
            &first["network"]["bytes"],
            &first["users"],
            &first["firn"]["aggregate"]["events"]
        ),
        (&json!(150), &json!(2), &json!(2)),
        "{first}"
    );
    assert_eq!(
        (&late["network"]["bytes"], &late["firn"]["aggregate"]["revision"]),
        (&json!(3), &json!(1)),
        "{late}"
    );

    // Another definition: the open windows of the old one are closed, those of the new one start.
    let mut changed = pipeline(json!({"type": "http"}));
    changed["aggregates"]["by-host"]["every"] = json!("5m");
    client.ok("PUT", &format!("/_firn/pipelines/{ID}"), &changed);
    wait_for("the end of the old windows", || {
        stats(client)["windows"]["events"] == json!(4)
    });
    wait_until_running(client);
    send(client, &[flow(minute + 3 * MINUTE_MS, 1, 1, 1)]);
    wait_for("a new window", || stats(client)["windows"]["open"] == json!(1));
    node.stop().unwrap();
    let node = start(folder.path());
    wait_until_running(node.client());
    let windows = stats(node.client())["windows"].clone();
    wait_for("the same windows", || {
        stats(node.client())["windows"]["open"] == json!(1)
    });
    assert_eq!(windows["error"], Value::Null, "{windows}");
}

#[test]
fn a_journal_that_is_lost_costs_open_windows_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = start(folder.path());
    node.client().ok(
        "PUT",
        &format!("/_firn/pipelines/{ID}"),
        &pipeline(json!({"type": "http"})),
    );
    let minute = (now_ms() / MINUTE_MS - 30) * MINUTE_MS;
    let total = |client: &Client| {
        sums(client, "flows-by-host")
            .values()
            .map(|(events, _)| events)
            .sum::<u64>()
    };
    for round in 0..3 {
        let client = node.client();
        wait_until_running(client);
        // The last event of a round closes the windows of the others, and is lost with its journal.
        let first = minute + round * 5 * MINUTE_MS;
        send(client, &[flow(first, 1, 1, 1), flow(first + MINUTE_MS, 2, 1, 1)]);
        send(client, &[flow(first + 3 * MINUTE_MS, 3, 1, 1)]);
        wait_for("the windows", || {
            stats(client)["windows"]["open"] == json!(1) && total(client) == 2 * (round as u64 + 1)
        });
        client.ok("DELETE", "/.firn-windows", &Value::Null);
        node.kill9().unwrap();
        node = start(folder.path());
    }
}

#[test]
fn bad_definitions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let mut body = pipeline(json!({"type": "http"}));
    body["aggregates"]["by-host"]["every"] = json!("2d");
    let refused = node
        .client()
        .json("PUT", &format!("/_firn/pipelines/{ID}"), &body)
        .unwrap();
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(
        refused.text().contains("aggregate [by-host]: [every] must be 1s to 1d"),
        "{}",
        refused.text()
    );
}
