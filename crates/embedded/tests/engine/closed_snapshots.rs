//! Tests of closed indices in snapshots: they keep their state, and stay closed.

use std::sync::Arc;

use firn_engine::Engine;
use firn_engine::snapshot::RestoreSnapshot;
use firn_engine::snapshot::Snapshots;
use firn_model::ErrorKind;
use firn_model::metadata::Command;
use serde_json::json;

use crate::node::{Node, ctx, index};
use crate::snapshots::{all, check_restored, fill, reach, request, restore, restore_request, with_repository};

fn set_closed(node: &Node, closed: bool) {
    node.execute(Command::SetClosed {
        names: vec!["logs".to_owned()],
        closed,
    })
    .unwrap();
}

fn taken(node: &Node, name: &str, indices: &str) -> firn_engine::snapshot::SnapshotInfo {
    let mut request = request(name, indices);
    request.target.options.expand_closed = true;
    node.run(node.engine.create_snapshot(&ctx(), request)).unwrap()
}

fn check(node: &Node, name: &str, made: &str) {
    let back = RestoreSnapshot {
        rename: Some(("(.+)".to_owned(), format!("{name}-$1"))),
        ..restore_request(name, &["logs"])
    };
    restore(node, back).unwrap();
    check_restored(node, &format!("{name}-logs"), made);
}

#[test]
fn a_closed_index_is_in_snapshots_and_stays_closed() {
    let repositories = tempfile::tempdir().unwrap();
    let node = with_repository(repositories.path());
    let made = fill(&node);
    node.create("other", json!({})).unwrap();
    set_closed(&node, true);
    for (name, indices) in [("named", "logs"), ("pattern", "l*"), ("all", "*")] {
        let info = taken(&node, name, indices);
        assert!(info.indices.contains(&"logs".to_owned()), "{info:?}");
        assert_eq!(info.failures.len(), 0, "{info:?}");
        check(&node, name, &made);
    }
    assert_eq!(
        node.search("logs", json!({})).unwrap_err().kind(),
        ErrorKind::IndexClosed
    );
    // Its shards are unchanged.
    set_closed(&node, false);
    check_restored(&node, "logs", &made);
    node.write(index("logs", "later", json!({"n": 1})));
    assert_eq!(node.count("logs", all()), 41);
}

#[test]
fn an_index_that_was_closed_before_the_node_started_is_in_snapshots() {
    let repositories = tempfile::tempdir().unwrap();
    let node = with_repository(repositories.path());
    let made = fill(&node);
    set_closed(&node, true);
    node.run(node.engine.close()).unwrap();
    let (folder, disk) = (Arc::clone(&node.folder), Arc::clone(&node.disk));
    drop(node);
    let node = Node::open(folder, disk, |config| reach(repositories.path(), config)).unwrap();
    taken(&node, "s", "logs");
    check(&node, "s", &made);
}

/// Opens, closes and takes snapshots in any order: two shards never use the same files.
#[test]
fn an_index_is_opened_and_closed_during_snapshots() {
    let repositories = tempfile::tempdir().unwrap();
    let node = with_repository(repositories.path());
    let made = fill(&node);
    std::thread::scope(|scope| {
        let toggling = scope.spawn(|| {
            for round in 0..20 {
                set_closed(&node, round % 2 == 0);
            }
        });
        let mut round = 0;
        while !toggling.is_finished() || round == 0 {
            let info = taken(&node, &format!("s{round}"), "logs");
            assert_eq!(info.failures.len(), 0, "{info:?}");
            round += 1;
        }
        toggling.join().unwrap();
    });
    set_closed(&node, false);
    check_restored(&node, "logs", &made);
    check(&node, "s0", &made);
}
