//! Events of a run: written into one index with many shards, merged to one segment per shard, and put into a snapshot.

use std::time::Instant;

use anyhow::{Context, ensure};
use firn_tools::client::Client;
use firn_tools::generate::{Generator, GeneratorConfig, Kind, Span, WeblogShape, index_template};
use serde::Serialize;
use serde_json::{Value, json};

use super::node::{Node, REPOSITORY};
use crate::writing::{Batch, send_round};

/// 2026-01-01T00:00:00Z.
pub(super) const START_MS: i64 = 1_767_225_600_000;
/// Time span of the events.
pub(super) const SPAN_MS: i64 = 28 * 24 * 60 * 60 * 1000;
/// Bytes of a bulk.
const BATCH_BYTES: usize = 4 << 20;
/// Concurrent bulks.
const PARALLEL: usize = 2;
/// One in this many events is a candidate for a client that no other event has.
const CANDIDATE_EVERY: u64 = 97;

/// Amount of data to write.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Amount {
    pub(super) events: u64,
    pub(super) shards: u32,
    pub(super) seed: u64,
}

/// Result of the loading.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Loaded {
    pub(super) index: String,
    pub(super) snapshot: String,
    pub(super) amount: Amount,
    pub(super) ndjson_bytes: u64,
    /// Of the merged index on local disk.
    pub(super) stored_bytes: u64,
    pub(super) load_seconds: f64,
    pub(super) merge_seconds: f64,
    pub(super) snapshot_seconds: f64,
    /// Clients with exactly one event.
    #[serde(skip)]
    pub(super) needles: Vec<String>,
}

/// Writes the events into a new index of any server. Returns the bytes of NDJSON, and clients that may be needles.
/// `own` are settings that only firn has.
pub(super) fn write(client: &Client, index: &str, amount: Amount, own: &Value) -> anyhow::Result<(u64, Vec<String>)> {
    let (_, mut template) = index_template(Kind::Weblog)?;
    let mut settings = json!({"index.number_of_shards": amount.shards, "index.number_of_replicas": 0});
    if let (Some(settings), Some(own)) = (settings.as_object_mut(), own.as_object()) {
        settings.extend(own.clone());
    }
    let body = json!({
        "settings": settings,
        "mappings": template["template"]["mappings"].take(),
    });
    client.json("PUT", &format!("/{index}"), Some(&body))?;
    let span = Span::Range {
        start_ms: START_MS,
        end_ms: START_MS + SPAN_MS,
        events: amount.events,
    };
    let mut generator = Generator::new(&GeneratorConfig::weblog(amount.seed, WeblogShape::default(), span))?;
    let (mut ndjson_bytes, mut number, mut candidates) = (0, 0u64, Vec::new());
    let mut event = Vec::new();
    loop {
        let mut batches = Vec::new();
        while batches.len() < PARALLEL {
            let mut batch = Batch {
                body: Vec::with_capacity(BATCH_BYTES + (64 << 10)),
                events: 0,
            };
            while batch.body.len() < BATCH_BYTES {
                event.clear();
                if generator.fill(&mut event, 1, 0) == 0 {
                    break;
                }
                if number.is_multiple_of(CANDIDATE_EVERY) {
                    candidates.extend(client_of(&event));
                }
                number += 1;
                ndjson_bytes += event.len() as u64;
                batch.body.extend_from_slice(b"{\"create\":{}}\n");
                batch.body.extend_from_slice(&event);
                batch.events += 1;
            }
            if batch.events == 0 {
                break;
            }
            batches.push(batch);
        }
        if batches.is_empty() {
            break;
        }
        for sent in send_round(client, &format!("/{index}/_bulk"), &batches) {
            sent?;
        }
    }
    client.json("POST", &format!("/{index}/_refresh"), None)?;
    let count = client.json("GET", &format!("/{index}/_count"), None)?;
    ensure!(
        count["count"] == amount.events,
        "{index} has {} events after loading {}",
        count["count"],
        amount.events
    );
    Ok((ndjson_bytes, candidates))
}

/// Merges every shard to one segment.
pub(super) fn merge(client: &Client, index: &str) -> anyhow::Result<()> {
    client.json("POST", &format!("/{index}/_flush"), None)?;
    client.json("POST", &format!("/{index}/_forcemerge?max_num_segments=1"), None)?;
    client.json("POST", &format!("/{index}/_refresh"), None)?;
    client.json("POST", &format!("/{index}/_flush"), None).map(drop)
}

/// Creates a snapshot of one index.
pub(super) fn snapshot(client: &Client, index: &str, snapshot: &str) -> anyhow::Result<()> {
    let path = format!("/_snapshot/{REPOSITORY}/{snapshot}?wait_for_completion=true");
    let body = json!({"indices": index, "include_global_state": false});
    let made = client.json("PUT", &path, Some(&body))?;
    let state = &made["snapshot"]["state"];
    ensure!(state == "SUCCESS", "the snapshot ended as {state}: {made}");
    Ok(())
}

/// Writes and merges the events on a node, puts them into a snapshot, and finds needles among them.
pub(super) fn load(node: &Node, index: &str, amount: Amount) -> anyhow::Result<Loaded> {
    let client = &node.client;
    let started = Instant::now();
    // The setting says that tenants share the index, so that merges order documents by tenant.
    let own = json!({"index.tenant.field": "tenant"});
    let (ndjson_bytes, candidates) = write(client, index, amount, &own)?;
    let load_seconds = started.elapsed().as_secs_f64();
    let started = Instant::now();
    merge(client, index)?;
    let merge_seconds = started.elapsed().as_secs_f64();
    let name = format!("{index}-1");
    let started = Instant::now();
    snapshot(client, index, &name)?;
    Ok(Loaded {
        snapshot_seconds: started.elapsed().as_secs_f64(),
        index: index.to_owned(),
        snapshot: name,
        amount,
        ndjson_bytes,
        stored_bytes: stored_bytes(client, index)?,
        load_seconds,
        merge_seconds,
        needles: needles(client, index, &candidates)?,
    })
}

/// Returns the bytes of an index on its node.
pub(super) fn stored_bytes(client: &Client, index: &str) -> anyhow::Result<u64> {
    let stats = client.json("GET", &format!("/{index}/_stats/store"), None)?;
    let bytes = &stats["_all"]["primaries"]["store"]["size_in_bytes"];
    bytes.as_u64().context("_stats returned no size")
}

/// Returns those of the clients that have exactly one event.
fn needles(client: &Client, index: &str, candidates: &[String]) -> anyhow::Result<Vec<String>> {
    /// Clients in one query.
    const AT_A_TIME: usize = 500;
    /// Number of needles that a run may need.
    const ENOUGH: usize = 200;
    let mut found = Vec::new();
    for some in candidates.chunks(AT_A_TIME) {
        let body = json!({
            "size": 0,
            "query": {"terms": {"client_ip": some}},
            "aggs": {"clients": {"terms": {"field": "client_ip", "size": AT_A_TIME, "order": {"_count": "asc"}}}},
        });
        let answer = client.json("POST", &format!("/{index}/_search"), Some(&body))?;
        let buckets = answer["aggregations"]["clients"]["buckets"].as_array();
        let buckets = buckets.context("no buckets of clients")?;
        found.extend(
            buckets
                .iter()
                .filter(|bucket| bucket["doc_count"] == 1)
                .filter_map(|bucket| bucket["key"].as_str().map(str::to_owned)),
        );
        if found.len() >= ENOUGH {
            break;
        }
    }
    ensure!(
        !found.is_empty(),
        "no client has exactly one event: there are too few events"
    );
    // Adjacent entries of the list are adjacent in time; spread, they are in different shards.
    Ok(spread(found))
}

/// Puts every other value first, so that consecutive values are unrelated.
fn spread(values: Vec<String>) -> Vec<String> {
    let (even, odd): (Vec<_>, Vec<_>) = (0..).zip(values).partition(|(number, _): &(usize, _)| number % 2 == 0);
    even.into_iter().chain(odd).map(|(_, value)| value).collect()
}

/// Returns the client of an event.
fn client_of(event: &[u8]) -> Option<String> {
    let event: Value = serde_json::from_slice(event).ok()?;
    event["client_ip"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_tells_its_client() {
        assert_eq!(client_of(br#"{"client_ip":"1.2.3.4"}"#).as_deref(), Some("1.2.3.4"));
        assert_eq!(client_of(b"{}"), None);
        assert_eq!(client_of(b"no event"), None);
        let names = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
        assert_eq!(spread(names("abcde")), names("acebd"));
    }
}
