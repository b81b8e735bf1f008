//! Tests of shards that are closed, deleted or stopped during other work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use firn_engine::admin::ForceMergeRequest;
use firn_engine::document::Refresh;
use firn_engine::{Engine, ErrorKind};
use firn_model::metadata::Command;
use firn_query::search::SearchRequest;
use firn_storage::sim::Failure;
use serde_json::json;

use crate::disk_full::eventually;
use crate::node::{Node, ctx, index, target};

fn set_closed(node: &Node, closed: bool) {
    node.execute(Command::SetClosed {
        names: vec!["logs".to_owned()],
        closed,
    })
    .unwrap();
}

fn delete(node: &Node) {
    node.execute(Command::DeleteIndices {
        names: vec!["logs".to_owned()],
    })
    .unwrap();
}

/// A bulk waits for a refresh that is an hour away; `end` makes sure that it never happens.
fn check_waiting_bulk(end: impl Fn(&Node)) {
    let node = Node::new();
    node.create("logs", json!({"settings": {"refresh_interval": "1h"}}))
        .unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let node = &node;
        scope.spawn(move || {
            let responses = node.bulk_with(vec![index("logs", "a", json!({"n": 1}))], Refresh::WaitFor);
            sender.send(responses).unwrap();
        });
        assert!(receiver.recv_timeout(Duration::from_millis(200)).is_err(), "it waits");
        end(node);
        let responses = receiver.recv_timeout(Duration::from_secs(10)).expect("an answer");
        responses[0].result.as_ref().expect("the write was already durable");
    });
    assert_eq!(
        node.run(node.engine.node_stats(&ctx())).unwrap().write_bytes_in_flight,
        0
    );
}

#[test]
fn a_bulk_that_waits_for_a_refresh_is_answered_when_its_index_is_deleted() {
    check_waiting_bulk(delete);
}

#[test]
fn a_bulk_that_waits_for_a_refresh_is_answered_when_its_index_is_closed() {
    check_waiting_bulk(|node| set_closed(node, true));
}

#[test]
fn a_bulk_that_waits_for_a_refresh_is_answered_when_the_node_stops() {
    check_waiting_bulk(|node| node.run(node.engine.close()).unwrap());
}

#[test]
fn waiting_bulks_are_answered_whenever_the_index_goes() {
    let node = Node::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let node = &node;
                scope.spawn(move || {
                    for n in 0..30 {
                        let id = format!("{writer}-{n}");
                        node.bulk_with(vec![index("logs", &id, json!({"n": n}))], Refresh::WaitFor);
                    }
                })
            })
            .collect();
        let (node, done) = (&node, &done);
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                let _ = node.execute(Command::DeleteIndices {
                    names: vec!["logs".to_owned()],
                });
                node.advance_ms(300);
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}

fn force_merge(node: &Node) {
    let request = ForceMergeRequest {
        target: target("logs"),
        max_num_segments: Some(1),
        only_expunge_deletes: false,
        flush: true,
    };
    let _ = node.run(node.engine.force_merge(&ctx(), request));
}

#[test]
fn closing_and_opening_under_load_loses_nothing() {
    let node = Node::new();
    node.create("logs", json!({"settings": {"number_of_shards": 2}}))
        .unwrap();
    let done = AtomicBool::new(false);
    let mut acknowledged = std::thread::scope(|scope| {
        let (node, done) = (&node, &done);
        let writer = scope.spawn(move || {
            let mut acknowledged = Vec::new();
            let mut n = 0;
            while !done.load(Ordering::Relaxed) {
                let items = (n..n + 20).map(|n| index("logs", &n.to_string(), json!({"n": n})));
                let responses = node.bulk(items.collect());
                for response in responses {
                    if response.result.is_ok() {
                        acknowledged.push(response.id);
                    }
                }
                n += 20;
                let _ = node.run(node.engine.refresh(&ctx(), target("logs")));
            }
            acknowledged
        });
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                force_merge(node);
            }
        });
        for _ in 0..15 {
            std::thread::sleep(Duration::from_millis(40));
            set_closed(node, true);
            set_closed(node, false);
        }
        done.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    acknowledged.sort_unstable();
    assert!(!acknowledged.is_empty());
    let check = |node: &Node| {
        for id in &acknowledged {
            assert!(node.get("logs", id).is_some(), "{id} was acknowledged");
        }
        let found = node.count("logs", json!({"match_all": {}}));
        assert!(found >= acknowledged.len() as u64, "{found} of {}", acknowledged.len());
    };
    check(&node);
    let node = node.reopen();
    assert!(node.engine.recovery_report().damaged.is_empty());
    check(&node);
}

#[test]
fn an_index_deleted_under_load_leaves_no_folder() {
    let node = Node::new();
    node.execute(Command::PutClusterSettings {
        settings: json!({"action.auto_create_index": "false"}),
    })
    .unwrap();
    for _ in 0..8 {
        node.create("logs", json!({})).unwrap();
        std::thread::scope(|scope| {
            let node = &node;
            scope.spawn(move || {
                for n in 0.. {
                    let items = (0..20).map(|m| index("logs", &format!("{n}-{m}"), json!({"n": n})));
                    if node
                        .bulk(items.collect())
                        .iter()
                        .any(|response| response.result.is_err())
                    {
                        return;
                    }
                    let _ = node.run(node.engine.refresh(&ctx(), target("logs")));
                }
            });
            scope.spawn(move || {
                for _ in 0..5 {
                    force_merge(node);
                }
            });
            std::thread::sleep(Duration::from_millis(60));
            delete(node);
        });
        let folders = std::fs::read_dir(node.path().join("indices")).unwrap().count();
        assert_eq!(folders, 0);
    }
}

#[test]
fn a_stopped_shard_is_named_by_searches() {
    const GB: u64 = 1 << 30;
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let disk = crate::catalog_crash::sim_disk(folder.path());
    let available = Arc::new(AtomicU64::new(50 * GB));
    let probe = Arc::clone(&available);
    let node = Node::open(Arc::clone(&folder), Arc::new(disk.clone()), |config| {
        config.space = Some(Arc::new(move || Ok((100 * GB, probe.load(Ordering::Relaxed)))));
    })
    .unwrap();
    node.create("logs", json!({"settings": {"refresh_interval": "-1"}}))
        .unwrap();
    node.write(index("logs", "seen", json!({"n": 1})));
    node.refresh("logs");
    node.write(index("logs", "unseen", json!({"n": 2})));
    // A full disk prevents the shard from being reopened.
    available.store(0, Ordering::Relaxed);
    eventually("writes stop", || {
        node.run(node.engine.node_stats(&ctx())).unwrap().write_block.is_some()
    });
    let complete = node.search("logs", json!({})).unwrap();
    assert_eq!((complete.shards.successful, complete.shards.failures.len()), (1, 0));
    disk.fail(Failure {
        after: 0,
        only: None,
        kind: std::io::ErrorKind::Other,
        lasting: true,
    });
    let flushed = node.run(node.engine.flush(&ctx(), target("logs"))).unwrap();
    assert_eq!(flushed.failures.len(), 1);

    let partial = node.search("logs", json!({})).unwrap();
    assert_eq!(partial.hits.len(), 1, "what was searchable still is");
    assert_eq!((partial.shards.total, partial.shards.successful), (1, 0));
    assert_eq!(partial.shards.failures[0].0, "logs");
    let mut request = SearchRequest::parse(target("logs"), None).unwrap();
    request.allow_partial_results = false;
    let error = node.run(node.engine.search(&ctx(), request)).unwrap_err();
    assert_ne!(error.kind(), ErrorKind::IndexNotFound);

    disk.heal();
    available.store(50 * GB, Ordering::Relaxed);
    eventually("the shard serves again", || {
        node.search("logs", json!({}))
            .is_ok_and(|response| response.shards.failures.is_empty())
    });
    assert_eq!(node.count("logs", json!({"match_all": {}})), 2);
}
