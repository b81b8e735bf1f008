//! Benchmark of clustering. Compares a clustered index with a plain one of the same events, and prints
//! figures, which are useful in a release build with more events than a test uses:
//! `FIRN_CLUSTERED_EVENTS=600000 cargo test --release -p firn-embedded --test engine clustering_cost -- --nocapture`.

use std::time::{Duration, Instant};

use firn_engine::Engine;
use firn_engine::admin::ForceMergeRequest;
use serde_json::{Value, json};

use crate::node::{Node, add, ctx, target};

/// Enough for several segments of every tenant.
const EVENTS: u64 = 6_000;
const TENANTS: u64 = 200;
/// Number of segments before the merge: fewer than firn merges automatically.
const FLUSHES: u64 = 4;

/// Returns an event of half a kilobyte; tenants are skewed as in Zipf's law.
fn event(rng: &mut fastrand::Rng, number: u64) -> Value {
    let tenant = (TENANTS as f64).powf(rng.f64()) as u64;
    let user = rng.u32(0..50_000);
    let class = ["login", "logout", "read", "write", "deny"][rng.usize(0..5)];
    let status = [200, 200, 200, 404, 500][rng.usize(0..5)];
    json!({
        "@timestamp": 1_700_000_000_000 + number * 3 + rng.u64(0..2000),
        "tenant": format!("tenant-{tenant:03}"),
        "host": {"name": format!("host-{}", rng.u32(0..2000)), "ip": format!("10.{}.{}.{}", rng.u8(..), rng.u8(..), rng.u8(..))},
        "event": {"class": class, "duration": rng.u32(0..100_000)},
        "user": {"name": format!("user-{user}"), "id": user},
        "http": {"status": status, "bytes": rng.u64(0..1 << 20)},
        "trace": format!("{:032x}", rng.u128(..)),
        "message": format!(
            "request {number} of user-{user} took {} ms and ended with {}", rng.u32(0..9000),
            ["success", "a timeout of the upstream server", "an unexpected end of the connection"][rng.usize(0..3)]
        ),
    })
}

fn fill(node: &Node, name: &str, settings: Value, events: u64) {
    let mapping = json!({"properties": {
        "@timestamp": {"type": "date"}, "tenant": {"type": "keyword"},
        "host": {"properties": {"name": {"type": "keyword"}, "ip": {"type": "ip"}}},
        "event": {"properties": {"class": {"type": "keyword"}, "duration": {"type": "long"}}},
        "user": {"properties": {"name": {"type": "keyword"}, "id": {"type": "long"}}},
        "http": {"properties": {"status": {"type": "integer"}, "bytes": {"type": "long"}}},
        "trace": {"type": "keyword"}, "message": {"type": "text"},
    }});
    node.create(name, json!({"settings": settings, "mappings": mapping}))
        .unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    for part in 0..FLUSHES {
        let (start, end) = (part * events / FLUSHES, (part + 1) * events / FLUSHES);
        for start in (start..end).step_by(2000) {
            let batch = (start..end.min(start + 2000)).map(|number| add(name, event(&mut rng, number)));
            for response in node.bulk(batch.collect()) {
                response.result.unwrap();
            }
        }
        node.refresh(name);
        node.flush(name);
    }
}

/// Returns the number of segments.
fn segments(node: &Node, name: &str) -> usize {
    let stats = node.run(node.engine.stats(&ctx(), target(name))).unwrap();
    stats[0].shards.iter().map(|shard| shard.segments.len()).sum()
}

/// Returns the bytes on disk.
fn bytes(node: &Node, name: &str) -> u64 {
    let stats = node.run(node.engine.stats(&ctx(), target(name))).unwrap();
    stats[0].shards.iter().map(|shard| shard.store_size_bytes).sum()
}

/// Returns the median time of a search.
fn time(node: &Node, name: &str, body: &Value) -> Duration {
    let mut times: Vec<Duration> = (0..41)
        .map(|_| {
            let started = Instant::now();
            node.search(name, body.clone()).unwrap();
            started.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

#[test]
#[expect(clippy::print_stdout, reason = "its figures are what it is for")]
#[expect(
    clippy::disallowed_methods,
    reason = "the size of the test comes from the environment"
)]
fn clustering_cost() {
    let node = Node::new();
    let events = std::env::var("FIRN_CLUSTERED_EVENTS").map_or(EVENTS, |events| events.parse().unwrap());
    fill(&node, "plain", json!({}), events);
    fill(&node, "clustered", json!({"index.tenant.field": "tenant"}), events);
    let mut answers = Vec::new();
    for name in ["plain", "clustered"] {
        let before = bytes(&node, name);
        let segments = segments(&node, name);
        // Without segments to merge, the measurement would be meaningless.
        assert!(segments > 1, "[{name}] is one segment already");
        let cpu = cpu_time::ProcessTime::now();
        let request = ForceMergeRequest {
            target: target(name),
            max_num_segments: Some(1),
            only_expunge_deletes: false,
            flush: true,
        };
        let outcome = node.run(node.engine.force_merge(&ctx(), request)).unwrap();
        assert!(outcome.failures.is_empty(), "{outcome:?}");
        let segments_after = self::segments(&node, name);
        assert!(segments_after < segments, "[{name}] was not merged");
        let seconds = cpu.elapsed().as_secs_f64() * 1e6 / events as f64;
        println!(
            "{name}: {seconds:.1} CPU s per million events; {segments} -> {segments_after} segments, {before} -> {} bytes",
            bytes(&node, name)
        );
        for tenant in ["tenant-001", "tenant-020", "tenant-150"] {
            let filter = json!([{"term": {"tenant": tenant}}]);
            let newest = json!({"query": {"bool": {"filter": filter}}, "size": 100, "sort": [{"@timestamp": "desc"}], "track_total_hits": false});
            let count = json!({"query": {"bool": {"filter": filter}}, "size": 0, "track_total_hits": true});
            // Events of one millisecond come in the order of their documents, and merges that run beside
            // the test change that order; the comparison needs a second sort field.
            let mut ordered = newest.clone();
            ordered["sort"] = json!([{"@timestamp": "desc"}, {"trace": "asc"}]);
            let latest = node.search(name, ordered).unwrap().hits;
            let sources: Vec<_> = latest.into_iter().map(|hit| hit.source).collect();
            let total = node.search(name, count.clone()).unwrap().total.unwrap().value;
            answers.push((tenant, sources, total));
            println!(
                "  {tenant}: top 100 {:?}, count {:?}",
                time(&node, name, &newest),
                time(&node, name, &count)
            );
        }
    }
    let (plain, clustered) = answers.split_at(answers.len() / 2);
    assert_eq!(plain, clustered);
}
