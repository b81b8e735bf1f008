//! Latency of the live tail: from the acknowledgement of a bulk until its event is shown.

use std::io::BufRead;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::asking::times;
use super::report::Times;
use crate::core::Side;

/// Created for the run and deleted after it.
const INDEX: &str = "bench-discover-tail";
/// An event that is not shown by then counts as lost.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two events, so that they meet the server's refreshes at different moments.
const PAUSE: Duration = Duration::from_millis(370);

/// An event that was shown.
type Shown = (String, Instant);

/// Writes events one by one beside an open tail.
pub(super) fn run(firn: &Side, events: usize) -> anyhow::Result<Times> {
    let client = &firn.client;
    let path = format!("/{INDEX}");
    if client.exists(&path)? {
        client.json("DELETE", &path, None)?;
    }
    client.json(
        "PUT",
        &path,
        Some(&json!({"mappings": {"properties": {"@timestamp": {"type": "date"}}}})),
    )?;
    let shown = follow(firn)?;
    let mut seconds = Vec::new();
    // The first event shows that the tail is open; its delay is not measured.
    for number in 0..=events {
        let id = format!("event-{number}");
        let event = json!({"@timestamp": jiff::Timestamp::now().to_string(), "message": id});
        let lines = format!("{}\n{event}\n", json!({"index": {"_id": id}}));
        let answer = (client.send(
            "POST",
            &format!("{path}/_bulk"),
            Some(("application/x-ndjson", lines.as_bytes())),
        ))
        .map_err(|failure| anyhow::anyhow!("{failure}"))?;
        let acknowledged = Instant::now();
        ensure!(answer.status == 200, "a bulk failed: {}", answer.problem());
        let (seen, at) = (shown.recv_timeout(PATIENCE))
            .with_context(|| format!("the tail does not show {id}, which was written {PATIENCE:?} ago"))?;
        ensure!(seen == id, "the tail shows {seen} where {id} is next");
        if number > 0 {
            seconds.push(at.saturating_duration_since(acknowledged).as_secs_f64());
        }
        std::thread::sleep(PAUSE);
    }
    client.json("DELETE", &path, None)?;
    times(&seconds).context("no event was written")
}

/// Reads the tail in a separate thread, which ends with the connection.
fn follow(firn: &Side) -> anyhow::Result<Receiver<Shown>> {
    let body = json!({"index": INDEX, "time": {"field": "@timestamp", "from": "now-15m", "to": "now"}}).to_string();
    let stream = firn.client.stream("/_firn/discover/tail", body.as_bytes())?;
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in stream.lines().map_while(Result::ok) {
            let at = Instant::now();
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            for hit in event["hits"].as_array().into_iter().flatten() {
                let id = hit["_id"].as_str().unwrap_or_default().to_owned();
                if sender.send((id, at)).is_err() {
                    return;
                }
            }
        }
    });
    Ok(receiver)
}
