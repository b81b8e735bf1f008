//! Crash tests of the catalog: an index exists completely or not at all. The disk is
//! cut at every step of creating and of deleting an index.

use std::io;
use std::path::Path;
use std::sync::Arc;

use firn_engine::{Engine, ErrorKind};
use firn_model::metadata::Command;
use firn_storage::disk::Disk;
use firn_storage::sim::{Failure, SimDisk};
use serde_json::json;

use crate::node::{Node, ctx, index};

/// Returns a simulated disk with the test's folder, which is durable.
pub(crate) fn sim_disk(folder: &Path) -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir_all(folder).unwrap();
    for dir in folder.ancestors() {
        disk.sync_dir(dir).unwrap();
    }
    disk
}

fn open(folder: &Arc<tempfile::TempDir>, disk: &SimDisk) -> Node {
    Node::open(Arc::clone(folder), Arc::new(disk.clone()), |_| {}).unwrap()
}

fn fail_after(disk: &SimDisk, steps: u64) {
    disk.fail(Failure {
        after: steps,
        only: None,
        kind: io::ErrorKind::Other,
        lasting: true,
    });
}

/// Checks that the index is complete, or that there is no trace of it; returns whether it exists.
fn check(node: &Node, disk: &SimDisk, name: &str, step: u64) -> bool {
    let metadata = node.run(node.engine.metadata(&ctx())).unwrap();
    let there = metadata.indices.contains_key(name);
    assert!(
        node.engine.recovery_report().damaged.is_empty(),
        "step {step}: {:?}",
        node.engine.recovery_report().damaged
    );
    let folders = disk.list(&node.path().join("indices")).unwrap();
    assert_eq!(folders.len(), metadata.indices.len(), "step {step}: {folders:?}");
    if there {
        node.write(index(name, "probe", json!({"n": step})));
        assert_eq!(node.source(name, "probe"), json!({"n": step}));
    }
    there
}

#[test]
fn creating_an_index_is_all_or_nothing() {
    let mut outcomes = [0, 0];
    for step in 0.. {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let disk = sim_disk(folder.path());
        let node = open(&folder, &disk);
        fail_after(&disk, step);
        let created = node.create("logs", json!({"settings": {"number_of_shards": 2}}));
        let acknowledged = created.is_ok();
        drop(node);
        let after = disk.crash(step);
        after.heal();
        let node = open(&folder, &after);
        let there = check(&node, &after, "logs", step);
        outcomes[usize::from(there)] += 1;
        assert!(there || !acknowledged, "step {step}: acknowledged but lost");
        if acknowledged {
            break;
        }
    }
    assert!(outcomes[0] > 3 && outcomes[1] > 0, "{outcomes:?}");
}

#[test]
fn deleting_an_index_is_all_or_nothing() {
    for step in 0..40 {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let disk = sim_disk(folder.path());
        let node = open(&folder, &disk);
        node.create("logs", json!({})).unwrap();
        node.write(index("logs", "a", json!({"n": 1})));
        fail_after(&disk, step);
        let deleted = node.execute(Command::DeleteIndices {
            names: vec!["logs".to_owned()],
        });
        drop(node);
        let after = disk.crash(step);
        after.heal();
        let node = open(&folder, &after);
        let there = check(&node, &after, "logs", step);
        assert!(!there || deleted.is_err(), "step {step}: deleted but back");
        if there {
            assert_eq!(node.source("logs", "a"), json!({"n": 1}));
        } else {
            assert_eq!(node.try_get("logs", "a").unwrap_err().kind(), ErrorKind::IndexNotFound);
        }
    }
}

#[test]
fn acknowledged_events_survive_a_crash_at_any_moment() {
    let seed = firn_testkit::seed("acknowledged_events_survive_a_crash_at_any_moment");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..12 {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let disk = sim_disk(folder.path());
        let node = open(&folder, &disk);
        node.create("logs", json!({})).unwrap();
        fail_after(&disk, random.u64(0..60));
        let mut acknowledged = Vec::new();
        for n in 0..30 {
            let id = n.to_string();
            let responses = node.bulk(vec![index("logs", &id, json!({"n": n, format!("f{n}"): true}))]);
            if responses[0].result.is_ok() {
                acknowledged.push(n);
            }
            if random.u8(0..6) == 0 {
                let _ = node.run(node.engine.flush(&ctx(), crate::node::target("logs")));
            }
        }
        let after = disk.crash(random.u64(..));
        after.heal();
        drop(node);
        let node = open(&folder, &after);
        for n in &acknowledged {
            let source = node.source("logs", &n.to_string());
            assert_eq!(source["n"], json!(n), "round {round}");
        }
        let found = node.count("logs", json!({"match_all": {}}));
        assert!(found >= acknowledged.len() as u64, "round {round}");
        assert_eq!(
            node.count("logs", json!({"terms": {"n": acknowledged}})),
            acknowledged.len() as u64,
            "round {round}: each exactly once"
        );
    }
}
