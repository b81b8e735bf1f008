//! Tests of the lifecycle of indices and of the data folder.

use std::sync::Arc;

use firn_embedded::{Embedded, EmbeddedConfig};
use firn_engine::admin::ForceMergeRequest;
use firn_engine::{Engine, ErrorKind};
use firn_model::metadata::Command;
use firn_storage::disk::RealDisk;
use serde_json::json;

use crate::node::{Node, add, ctx, index, target};

#[test]
fn everything_survives_a_restart_and_a_kill() {
    let node = Node::new();
    node.create(
        "logs",
        json!({"settings": {"number_of_shards": 2}, "mappings": {"properties": {"k": {"type": "keyword"}}},
               "aliases": {"all": {}}}),
    )
    .unwrap();
    node.bulk(
        (0..300)
            .map(|n| index("logs", &n.to_string(), json!({"n": n, "k": "v"})))
            .collect(),
    );
    let before = node.run(node.engine.metadata(&ctx())).unwrap();
    let node = node.restart();
    assert_eq!(*node.run(node.engine.metadata(&ctx())).unwrap(), *before);
    assert_eq!(node.count("all", json!({"term": {"k": "v"}})), 300);
    node.bulk(
        (300..400)
            .map(|n| index("logs", &n.to_string(), json!({"n": n, "k": "v"})))
            .collect(),
    );
    let node = node.reopen();
    assert_eq!(node.count("all", json!({"term": {"k": "v"}})), 400);
    assert_eq!(node.engine.recovery_report().shard_count, 2);
}

#[test]
fn a_second_process_gets_an_error() {
    let node = Node::new();
    let config = EmbeddedConfig::new(node.path(), Arc::new(RealDisk), Arc::new(|| 0), 1);
    let error = Embedded::open(config).err().unwrap();
    assert!(error.reason().contains("in use by another firn"), "{error}");
}

#[test]
fn the_error_names_a_damaged_catalog() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("catalog.redb"), vec![7; 10_000]).unwrap();
    let config = EmbeddedConfig::new(folder.path(), Arc::new(RealDisk), Arc::new(|| 0), 1);
    let error = Embedded::open(config).err().unwrap();
    assert!(error.to_string().contains("catalog.redb"), "{error}");
}

#[test]
fn closing_is_final_and_idempotent() {
    let node = Node::new();
    node.write(index("logs", "a", json!({"n": 1})));
    node.run(node.engine.close()).unwrap();
    node.run(node.engine.close()).unwrap();
    let error = node.create("more", json!({})).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    let node = node.reopen();
    assert_eq!(node.source("logs", "a"), json!({"n": 1}));
}

#[test]
fn deleted_indices_leave_nothing_behind() {
    let node = Node::new();
    node.write(index("logs", "a", json!({"n": 1})));
    let dir = node.shard_dir("logs", 0);
    assert!(dir.exists());
    node.execute(Command::DeleteIndices {
        names: vec!["logs".to_owned()],
    })
    .unwrap();
    assert!(!dir.parent().unwrap().exists());
    assert_eq!(node.try_get("logs", "a").unwrap_err().kind(), ErrorKind::IndexNotFound);
    // A new index may have the same name.
    node.write(index("logs", "b", json!({"n": "text"})));
    assert_eq!(node.count("logs", json!({"match_all": {}})), 1);
}

#[test]
fn indices_come_and_go_under_load() {
    let node = Node::new();
    let engine = Arc::clone(&node.engine);
    let writer = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for n in 0..40 {
            let request = firn_engine::document::BulkRequest {
                items: (0..20).map(|m| add("churn", json!({"n": n, "m": m}))).collect(),
                ..Default::default()
            };
            let response = runtime.block_on(engine.bulk(&ctx(), request)).unwrap();
            for item in response.items {
                if let Err(error) = item.result {
                    assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
                }
            }
        }
    });
    while !writer.is_finished() {
        let _ = node.search("churn", json!({}));
        let _ = node.execute(Command::DeleteIndices {
            names: vec!["churn".to_owned()],
        });
    }
    writer.join().unwrap();
}

#[test]
fn a_closed_index_answers_nothing_until_it_is_opened() {
    let node = Node::new();
    node.write(index("logs", "a", json!({"n": 1})));
    let set = |closed| {
        node.execute(Command::SetClosed {
            names: vec!["logs".to_owned()],
            closed,
        })
        .unwrap()
    };
    set(true);
    assert_eq!(
        node.write_error(index("logs", "b", json!({}))).kind(),
        ErrorKind::IndexClosed
    );
    set(false);
    assert_eq!(node.source("logs", "a"), json!({"n": 1}));
    node.write(index("logs", "b", json!({"n": 2})));
    set(true);
    let node = node.reopen();
    assert!(node.engine.recovery_report().damaged.is_empty());
    node.execute(Command::SetClosed {
        names: vec!["logs".to_owned()],
        closed: false,
    })
    .unwrap();
    assert_eq!(node.count("logs", json!({"match_all": {}})), 2);
}

#[test]
fn a_damaged_shard_refuses_alone() {
    let node = Node::new();
    node.create("good", json!({})).unwrap();
    node.create("bad", json!({"settings": {"number_of_shards": 2}}))
        .unwrap();
    for name in ["good", "bad"] {
        node.bulk((0..200).map(|n| index(name, &n.to_string(), json!({"n": n}))).collect());
    }
    node.flush("*");
    let dir = node.shard_dir("bad", 1);
    let (folder, good_hits) = (Arc::clone(&node.folder), node.count("good", json!({"match_all": {}})));
    drop(node);
    std::fs::remove_dir_all(&dir).unwrap();

    let node = Node::open(folder, Arc::new(RealDisk), |_| {}).unwrap();
    let report = node.engine.recovery_report();
    assert_eq!((report.shard_count, report.damaged.len()), (2, 1));
    assert_eq!((report.damaged[0].index.as_str(), report.damaged[0].shard), ("bad", 1));
    assert_eq!(node.count("good", json!({"match_all": {}})), good_hits);
    let mut effects = [0, 0];
    for response in node.bulk((0..50).map(|n| index("bad", &n.to_string(), json!({"n": n}))).collect()) {
        match response.result {
            Ok(_) => effects[0] += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ShardDamaged, "{error}");
                effects[1] += 1;
            }
        }
    }
    assert!(effects[0] > 0 && effects[1] > 0, "{effects:?}");
    let body = json!({"size": 0, "track_total_hits": true});
    let response = node.search("bad", body).unwrap();
    assert_eq!((response.shards.total, response.shards.failures.len()), (2, 1));
    assert!(response.total.unwrap().value > 0);
    let stats = node.run(node.engine.stats(&ctx(), target("bad"))).unwrap();
    assert!(stats[0].shards[1].failure.as_ref().unwrap().contains("missing"));
}

#[test]
fn folders_without_an_index_are_removed() {
    let node = Node::new();
    node.write(index("logs", "a", json!({})));
    let orphan = node.path().join("indices").join("abcdefghijklmnopqrstuv").join("0");
    std::fs::create_dir_all(&orphan).unwrap();
    let node = node.reopen();
    assert!(!orphan.exists());
    assert_eq!(node.engine.recovery_report().removed_folder_count, 1);
    assert!(node.get("logs", "a").is_some());
}

#[test]
fn force_merge_leaves_one_segment() {
    let node = Node::new();
    for round in 0..4 {
        node.bulk(
            (0..50)
                .map(|n| index("logs", &format!("{n}"), json!({"n": n, "r": round})))
                .collect(),
        );
        node.refresh("logs");
    }
    let request = ForceMergeRequest {
        target: target("logs"),
        max_num_segments: Some(1),
        only_expunge_deletes: false,
        flush: true,
    };
    let outcome = node.run(node.engine.force_merge(&ctx(), request)).unwrap();
    assert_eq!((outcome.total, outcome.successful), (1, 1));
    let stats = node.run(node.engine.stats(&ctx(), target("logs"))).unwrap();
    let shard = &stats[0].shards[0];
    assert_eq!((shard.segments.len(), shard.doc_count, shard.deleted_count), (1, 50, 0));
    assert_eq!(node.count("logs", json!({"term": {"r": 3}})), 50);
}

#[test]
fn an_idle_shard_is_flushed() {
    let node = Node::new();
    node.write(index("logs", "a", json!({"n": 1})));
    node.advance_ms(11_000);
    for _ in 0..100 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let stats = node.run(node.engine.stats(&ctx(), target("logs"))).unwrap();
        if stats[0].shards[0].translog_operations == 0 {
            return;
        }
    }
    panic!("nothing was flushed in five seconds");
}
