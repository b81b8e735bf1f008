//! A node with detection rules and event pipelines.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::Path;
use std::time::{Duration, Instant};

use firn_testkit::{Answer, Client, Node, NodeOptions};
use serde_json::{Value, json};

/// Starts a node.
pub(crate) fn start(folder: &Path) -> Node {
    start_with(folder, &[])
}

/// Starts a node with these settings.
pub(crate) fn start_with(folder: &Path, settings: &[(&str, &str)]) -> Node {
    let settings = settings.iter();
    let options = NodeOptions {
        settings: settings
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    };
    Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder, &options).unwrap()
}

#[track_caller]
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come within 60 s");
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// Returns the stats of a pipeline.
pub(crate) fn stats(client: &Client, pipeline: &str) -> Value {
    client
        .get(&format!("/_firn/pipelines/{pipeline}/stats"))
        .unwrap()
        .json()
}

/// Waits until a pipeline runs with this number of rules.
#[track_caller]
pub(crate) fn wait_for_rules(client: &Client, pipeline: &str, count: u64) {
    wait_for("the rules", || {
        let stats = stats(client, pipeline);
        stats["rules"]["evaluated"] == json!(count) && stats["running"] == json!(true)
    });
}

/// Hands events to a pipeline.
pub(crate) fn try_send(client: &Client, pipeline: &str, events: &[Value]) -> Answer {
    let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
    let path = format!("/_firn/pipelines/{pipeline}/_events");
    client
        .send("POST", &path, Some("application/x-ndjson"), lines.as_bytes())
        .unwrap()
}

/// Hands events to a pipeline that takes them, and returns its answer.
#[track_caller]
pub(crate) fn send(client: &Client, pipeline: &str, events: &[Value]) -> Value {
    let answer = try_send(client, pipeline, events);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}
