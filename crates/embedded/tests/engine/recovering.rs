//! Tests of shards that are still being opened when the node answers, and of shards on a full disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use firn_engine::document::Refresh;
use firn_engine::{Engine, ErrorKind};
use firn_storage::Disk;
use firn_storage::sim::{Operation, SimDisk};
use serde_json::json;

use crate::disk_full::eventually;
use crate::node::{Node, ctx, index, target};

fn event(name: &str, n: usize) -> firn_engine::document::BulkItem {
    index(name, &n.to_string(), json!({"n": n, "text": "some words"}))
}

/// Returns a node that answers while shards are being opened: their WALs have torn tails, and truncating them waits for
/// the flag.
fn held() -> (Node, SimDisk, Arc<AtomicBool>) {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let disk = crate::catalog_crash::sim_disk(folder.path());
    let node = Node::open(Arc::clone(&folder), Arc::new(disk.clone()), |_| {}).unwrap();
    let mut logs = Vec::new();
    for name in ["logs", "other"] {
        node.create(name, json!({"settings": {"number_of_shards": 1}})).unwrap();
        node.bulk((0..50).map(|n| event(name, n)).collect());
        logs.push(node.shard_dir(name, 0).join("wal"));
    }
    drop(node);
    for dir in logs {
        let file = dir.join(disk.list(&dir).unwrap().pop().unwrap().name);
        disk.damage(&file, |bytes| bytes.extend(b"torn")).unwrap();
    }
    let goes_on = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&goes_on);
    disk.set_hook(Some(Arc::new(move |_, operation| {
        // Opening the catalog truncates files too, on the thread of the test.
        let opens_shard = std::thread::current()
            .name()
            .is_some_and(|name| name.starts_with("recovery-"));
        while opens_shard && operation == Operation::SetLen && !flag.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
    })));
    let node = Node::open(folder, Arc::new(disk.clone()), |config| {
        config.start_patience = Duration::ZERO;
    })
    .unwrap();
    (node, disk, goes_on)
}

#[test]
fn requests_wait_for_a_shard_that_is_being_opened() {
    let (node, _disk, goes_on) = held();
    assert_eq!(node.engine.recovery_report().recovering_count, 2);
    assert_eq!(node.engine.recovery_report().shard_count, 0);
    let stats = node.run(node.engine.stats(&ctx(), target("logs"))).unwrap();
    assert!(stats[0].shards[0].is_recovering && stats[0].shards[0].failure.is_some());
    let stages = |node: &Node| -> Vec<(String, &'static str)> {
        let recoveries = node.run(node.engine.recoveries(&ctx(), target("logs,other"))).unwrap();
        let recoveries = recoveries.known().expect("the embedded engine knows its recoveries");
        let stages = recoveries.iter().map(|shard| (shard.index.clone(), shard.stage()));
        stages.collect()
    };
    assert_eq!(
        stages(&node),
        [("logs".to_owned(), "INDEX"), ("other".to_owned(), "INDEX")]
    );

    // If the request times out, the answer says which shard is missing.
    let answer = node
        .search("logs", json!({"timeout": "50ms", "track_total_hits": true}))
        .unwrap_err();
    assert_eq!(answer.kind(), ErrorKind::ShardNotReady, "{answer}");

    // Metadata requests do not wait.
    node.run(node.engine.metadata(&ctx())).unwrap();
    let waits = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let (node, waits) = (&node, &waits);
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            waits.store(false, Ordering::Release);
            goes_on.store(true, Ordering::Release);
        });
        let written = node.bulk_with(vec![event("logs", 50)], Refresh::Now);
        assert!(!waits.load(Ordering::Acquire), "the write waited for the shard");
        written[0].result.as_ref().unwrap();
    });
    assert_eq!(node.count("logs", json!({"match_all": {}})), 51);
    assert_eq!(node.source("other", "49")["n"], 49);
    eventually("every shard is open", || {
        let stats = node.run(node.engine.stats(&ctx(), target("logs,other"))).unwrap();
        stats.iter().all(|index| !index.shards[0].is_recovering)
    });
    assert_eq!(
        stages(&node),
        [("logs".to_owned(), "DONE"), ("other".to_owned(), "DONE")]
    );
}

#[test]
fn a_node_that_stops_does_not_wait_for_a_replay() {
    let (node, _disk, goes_on) = held();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            goes_on.store(true, Ordering::Release);
        });
        node.run(node.engine.close()).unwrap();
    });
    let node = node.reopen();
    for name in ["logs", "other"] {
        assert_eq!(node.count(name, json!({"match_all": {}})), 50);
    }
}

/// Returns a node on a simulated disk with adjustable free space.
fn on_small_disk() -> (Node, SimDisk, Arc<AtomicU64>) {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let disk = crate::catalog_crash::sim_disk(folder.path());
    let available = Arc::new(AtomicU64::new(1 << 39));
    let node = open_with(&folder, &disk, &available);
    (node, disk, available)
}

fn open_with(folder: &Arc<tempfile::TempDir>, disk: &SimDisk, available: &Arc<AtomicU64>) -> Node {
    let probe = Arc::clone(available);
    Node::open(Arc::clone(folder), Arc::new(disk.clone()), |config| {
        config.space = Some(Arc::new(move || Ok((1 << 40, probe.load(Ordering::Relaxed)))));
        config.flood_stage = firn_embedded::Watermark::FreeBytes(0);
    })
    .unwrap()
}

#[test]
fn a_shard_is_opened_for_reading_on_a_full_disk() {
    let (node, disk, available) = on_small_disk();
    node.create("logs", json!({"settings": {"number_of_shards": 1}}))
        .unwrap();
    node.bulk((0..20).map(|n| event("logs", n)).collect());
    node.flush("logs");
    node.bulk((10..40).map(|n| event("logs", n)).collect());
    node.write(crate::node::delete("logs", "0"));
    let folder = Arc::clone(&node.folder);
    drop(node);

    disk.set_capacity(disk.used_bytes());
    available.store(0, Ordering::Relaxed);
    let operations = disk.operation_count();
    let node = open_with(&folder, &disk, &available);
    assert!(node.engine.recovery_report().damaged.is_empty());
    assert_eq!(node.engine.recovery_report().shard_count, 1);
    assert_eq!(node.count("logs", json!({"match_all": {}})), 39);
    assert_eq!(node.source("logs", "39")["n"], 39);
    assert!(node.get("logs", "0").is_none());
    let error = node.write_error(event("logs", 100));
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    assert!(error.reason().contains("flood-stage watermark"), "{error}");
    node.flush("logs");
    assert_eq!(node.count("logs", json!({"range": {"n": {"gte": 20}}})), 20);
    let written = disk.operation_count() - operations;
    node.run(node.engine.close()).unwrap();
    drop(node);

    // Reopened on the same full disk, and then with space: all documents are there, and writes succeed again.
    let node = open_with(&folder, &disk, &available);
    assert_eq!(
        node.count("logs", json!({"match_all": {}})),
        39,
        "{written} writes before"
    );
    disk.set_capacity(u64::MAX);
    available.store(1 << 39, Ordering::Relaxed);
    eventually("writes go on", || {
        node.bulk(vec![event("logs", 100)]).pop().unwrap().result.is_ok()
    });
    assert_eq!(node.count("logs", json!({"match_all": {}})), 40);
    let node = node.reopen();
    assert_eq!(node.count("logs", json!({"match_all": {}})), 40);
}

#[test]
fn searches_report_missing_events_if_memory_cannot_hold_the_log() {
    let (node, disk, available) = on_small_disk();
    node.create("logs", json!({"settings": {"number_of_shards": 1}}))
        .unwrap();
    node.bulk((0..20).map(|n| event("logs", n)).collect());
    node.flush("logs");
    node.bulk((20..40).map(|n| event("logs", n)).collect());
    let folder = Arc::clone(&node.folder);
    drop(node);
    disk.set_capacity(disk.used_bytes());
    available.store(0, Ordering::Relaxed);
    let probe = Arc::clone(&available);
    let node = Node::open(folder, Arc::new(disk.clone()), |config| {
        config.space = Some(Arc::new(move || Ok((1 << 40, probe.load(Ordering::Relaxed)))));
        config.indexing_buffer_bytes = 1000;
    })
    .unwrap();
    let response = node
        .search("logs", json!({"size": 0, "track_total_hits": true}))
        .unwrap();
    assert_eq!(response.total.unwrap().value, 20);
    let (_, _, error) = &response.shards.failures[0];
    assert_eq!(error.kind(), ErrorKind::ShardNotReady);
    assert!(error.reason().contains("write-ahead log"), "{error}");
    disk.set_capacity(u64::MAX);
    available.store(1 << 39, Ordering::Relaxed);
    eventually("all of it is searched", || {
        let response = node
            .search("logs", json!({"size": 0, "track_total_hits": true}))
            .unwrap();
        response.shards.failures.is_empty() && response.total.unwrap().value == 40
    });
}
