//! A disk that fills up, and gets room again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_engine::{Engine, ErrorKind};
use firn_model::metadata::Command;
use serde_json::json;

use crate::node::{Node, ctx, index};

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
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

    // A lower watermark is one way out, room is the other.
    let watermark = |value| {
        node.execute(Command::PutClusterSettings {
            settings: json!({"persistent": {"cluster.routing.allocation.disk.watermark.flood_stage": value}}),
        })
    };
    assert!(watermark(json!("sometimes")).is_err());
    available.store(50 * GB, Ordering::Relaxed);
    eventually("writes go on", || !blocked());
    node.write(index("logs", "b", json!({"n": 2})));
}
