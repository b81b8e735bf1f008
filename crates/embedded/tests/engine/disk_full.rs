//! Tests of a disk that fills up and gets space again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_engine::{Engine, ErrorKind};
use firn_model::metadata::Command;
use serde_json::json;

use crate::node::{Node, ctx, index};

pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..100 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("not within five seconds: {what}");
}

#[test]
fn past_the_watermark_writes_wait_and_reads_go_on() {
    const GB: u64 = 1 << 30;
    let available = Arc::new(AtomicU64::new(50 * GB));
    let probe = Arc::clone(&available);
    let node = Node::with(|config| {
        config.space = Some(Arc::new(move || Ok((100 * GB, probe.load(Ordering::Relaxed)))));
    });
    node.write(index("logs", "a", json!({"n": 1})));

    available.store(GB, Ordering::Relaxed);
    let blocked = || node.run(node.engine.node_stats(&ctx())).unwrap().write_block.is_some();
    eventually("writes stop", blocked);
    let error = node.write_error(index("logs", "b", json!({"n": 2})));
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    assert!(error.reason().contains("flood-stage watermark [95%]"), "{error}");
    assert_eq!(
        node.write_error(index("new", "b", json!({}))).kind(),
        ErrorKind::DiskFull
    );
    assert_eq!(node.source("logs", "a"), json!({"n": 1}));
    assert_eq!(node.count("logs", json!({"match_all": {}})), 1);

    // A lower watermark allows writes again, and so does more space.
    let watermark = |value| {
        node.execute(Command::PutClusterSettings {
            settings: json!({"cluster.routing.allocation.disk.watermark.flood_stage": value}),
        })
    };
    assert!(watermark(json!("sometimes")).is_err());
    let error = node
        .execute(Command::PutClusterSettings {
            settings: json!({
                "cluster.routing.allocation.disk.watermark.low": "97%",
                "cluster.routing.allocation.disk.watermark.high": "96%",
            }),
        })
        .unwrap_err();
    assert!(
        error
            .reason()
            .contains("low disk watermark [97%] more than high disk watermark [96%]"),
        "{error}"
    );
    watermark(json!("500mb")).unwrap();
    eventually("writes go on below the watermark", || !blocked());
    watermark(json!(null)).unwrap();
    eventually("writes stop again", blocked);
    available.store(50 * GB, Ordering::Relaxed);
    eventually("writes go on with room", || !blocked());
    node.write(index("logs", "b", json!({"n": 2})));
}

#[test]
fn a_full_disk_loses_nothing_and_recovers() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let disk = crate::catalog_crash::sim_disk(folder.path());
    let node = Node::open(Arc::clone(&folder), Arc::new(disk.clone()), |_| {}).unwrap();
    node.create("logs", json!({})).unwrap();
    let event = |n: usize| index("logs", &n.to_string(), json!({"n": n, "text": "x".repeat(500)}));
    disk.set_capacity(disk.used_bytes() + 200_000);
    let mut acknowledged = Vec::new();
    let mut refused = 0;
    for n in 0..600 {
        match node.bulk(vec![event(n)]).pop().unwrap().result {
            Ok(_) => acknowledged.push(n),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && !acknowledged.is_empty());

    disk.set_capacity(u64::MAX);
    eventually("the shard takes writes again", || {
        node.bulk(vec![event(1000)]).pop().unwrap().result.is_ok()
    });
    for n in &acknowledged {
        assert!(node.get("logs", &n.to_string()).is_some(), "{n} was acknowledged");
    }
    assert_eq!(
        node.count("logs", json!({"terms": {"n": acknowledged}})),
        acknowledged.len() as u64
    );
}
