//! Lifecycle policies in the real process, with the real clock and kill -9.

mod frozen;
mod hot;
mod places;
mod verifying;

use std::path::Path;
use std::time::{Duration, Instant};

use firn_testkit::{Client, Node, NodeOptions};
use serde_json::{Value, json};

/// Starts a node that runs policies every second.
fn start(folder: &Path) -> Node {
    let options = NodeOptions {
        settings: vec![
            ("indices.lifecycle.poll_interval".into(), "1s".into()),
            ("path.repo".into(), folder.join("repositories").display().to_string()),
            // The disk of the machine that runs the tests may be full.
            (
                "cluster.routing.allocation.disk.watermark.flood_stage".into(),
                "100mb".into(),
            ),
        ],
    };
    let own = folder.join("node");
    std::fs::create_dir_all(&own).unwrap();
    Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), &own, &options).unwrap()
}

/// Sends a request that must succeed; `null` is no body.
fn ask(client: &Client, method: &str, path: &str, body: Value) -> Value {
    let answer = match body {
        Value::Null => client.send(method, path, None, &[]).unwrap(),
        body => client.json(method, path, &body).unwrap(),
    };
    assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
    answer.json()
}

/// Creates a data stream `events` whose indices follow a policy of these phases.
fn put_stream(client: &Client, phases: Value) {
    ask(
        client,
        "PUT",
        "/_ilm/policy/events",
        json!({"policy": {"phases": phases}}),
    );
    let settings = json!({"index.lifecycle.name": "events"});
    let body = json!({"index_patterns": ["events"], "data_stream": {}, "template": {"settings": settings}});
    ask(client, "PUT", "/_index_template/events", body);
    ask(client, "PUT", "/_data_stream/events", Value::Null);
}

/// Writes events numbered from `first` on, searchable when it returns.
fn write(client: &Client, first: u64, count: u64) {
    let mut body = String::new();
    for number in first..first + count {
        let event = json!({"@timestamp": 1_767_225_600_000 + number, "n": number, "text": format!("event {number}")});
        body.push_str(&format!("{{\"create\":{{}}}}\n{event}\n"));
    }
    let answer = client.bulk("/events/_bulk?refresh=true", body.as_bytes()).unwrap();
    assert_eq!(answer.json()["errors"], json!(false), "{}", answer.text());
}

/// Returns how many distinct events a search finds, and how many hits it has.
fn found(client: &Client) -> (u64, u64) {
    let body = json!({
        "size": 0,
        "track_total_hits": true,
        "aggs": {"different": {"cardinality": {"field": "n", "precision_threshold": 40000}}},
    });
    let answer = ask(client, "POST", "/events/_search", body);
    assert_eq!(answer["_shards"]["failed"], json!(0), "{answer}");
    let different = answer["aggregations"]["different"]["value"].as_u64().unwrap();
    (different, answer["hits"]["total"]["value"].as_u64().unwrap())
}

/// Returns the backing indices, oldest first.
fn indices(client: &Client) -> Vec<String> {
    let answer = ask(client, "GET", "/_data_stream/events", Value::Null);
    let indices = answer["data_streams"][0]["indices"].as_array().unwrap().clone();
    indices
        .iter()
        .map(|index| index["index_name"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns phase, action and step of an index.
fn at(client: &Client, index: &str) -> String {
    let answer = ask(client, "GET", &format!("/{index}/_ilm/explain"), Value::Null);
    let explained = &answer["indices"][index];
    let part = |name: &str| explained[name].as_str().unwrap_or("-").to_owned();
    format!("{}/{}/{}", part("phase"), part("action"), part("step"))
}

/// Waits until a condition holds.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(100));
    }
}
