//! Tests of mounted indices in snapshots: the snapshot contains only the location of the data.

use std::path::Path;

use firn_engine::ErrorKind;
use firn_engine::mounts::{MountSnapshot, SearchableSnapshots, Storage};
use firn_engine::snapshot::{PutRepository, Snapshots};
use firn_model::metadata::Command;
use serde_json::{Value, json};

use crate::mounts::{mount_as, node_of, reopened, shards, use_cache};
use crate::node::{Node, ctx, index};
use crate::snapshots::{check_restored, fill, remove, restore, restore_request, snapshot};

/// Returns a node with an index `frozen` that is mounted from the snapshot `first`, and that index in a snapshot
/// `second`; also the id of a document.
fn with_mounted_in_snapshot(repositories: &Path) -> (Node, String) {
    let node = node_of(repositories);
    let made = fill(&node);
    snapshot(&node, "first", "logs").unwrap();
    mount_as(&node, "frozen", Storage::SharedCache).unwrap();
    let info = snapshot(&node, "second", "frozen").unwrap();
    assert_eq!((info.total_shards, info.successful_shards), (2, 2));
    (node, made)
}

fn delete(node: &Node, name: &str) {
    let names = vec![name.to_owned()];
    node.execute(Command::DeleteIndices { names }).unwrap();
}

#[test]
fn a_mounted_index_is_restored_by_mounting_its_origin() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, made) = with_mounted_in_snapshot(folder.path());
    drop(writer);
    // A node without the original index.
    let node = node_of(folder.path());
    let restored = restore(&node, restore_request("second", &["frozen"])).unwrap();
    assert_eq!((restored.total_shards, restored.successful_shards), (2, 2));
    check_restored(&node, "frozen", &made);
    assert!(
        shards(&node, "frozen")
            .iter()
            .all(|shard| shard.storage == Storage::SharedCache && shard.snapshot_index == "logs")
    );
    let error = node.write_error(index("frozen", "new", json!({"user": "new"})));
    assert_eq!(error.kind(), ErrorKind::IndexBlocked);
    let node = reopened(node, folder.path());
    check_restored(&node, "frozen", &made);
}

#[test]
fn the_origin_is_found_under_another_name_of_its_repository() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, made) = with_mounted_in_snapshot(folder.path());
    drop(writer);
    let node = Node::with(|config| use_cache(folder.path(), config));
    let request = PutRepository {
        name: "elsewhere".to_owned(),
        kind: "fs".to_owned(),
        settings: json!({"location": "backups"}),
        verify: true,
    };
    node.run(node.engine.put_repository(&ctx(), request)).unwrap();
    let mut request = restore_request("second", &["frozen"]);
    request.repository = "elsewhere".to_owned();
    restore(&node, request).unwrap();
    check_restored(&node, "frozen", &made);
}

#[test]
fn a_snapshot_of_a_mounted_index_is_not_mounted_as_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = with_mounted_in_snapshot(folder.path());
    let request = MountSnapshot {
        repository: "r".to_owned(),
        snapshot: "second".to_owned(),
        index: "frozen".to_owned(),
        renamed_index: Some("again".to_owned()),
        storage: Storage::SharedCache,
        index_settings: Value::Null,
        ignore_index_settings: Vec::new(),
    };
    let error = node.run(node.engine.mount_snapshot(&ctx(), request)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IllegalArgument);
    assert!(error.reason().contains("backed by index [logs] in snapshot"), "{error}");
    assert!(
        error.reason().contains("did you mean to restore it instead?"),
        "{error}"
    );
}

#[test]
fn a_mounted_index_whose_origin_is_gone_is_not_restored() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = with_mounted_in_snapshot(folder.path());
    delete(&node, "frozen");
    remove(&node, &["first"]).unwrap();
    // The node that had it mounted, and one that had not.
    for node in [&node, &node_of(folder.path())] {
        let error = restore(node, restore_request("second", &["frozen"])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SnapshotRestore, "{error}");
        assert!(error.reason().contains("which is missing"), "{error}");
        assert_eq!(
            node.search("frozen", json!({})).unwrap_err().kind(),
            ErrorKind::IndexNotFound
        );
    }
}

#[test]
fn a_restore_request_cannot_change_where_the_index_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (node, made) = with_mounted_in_snapshot(folder.path());
    delete(&node, "frozen");
    let mut request = restore_request("second", &["frozen"]);
    request.ignore_index_settings = vec!["index.store.type".to_owned()];
    let error = restore(&node, request.clone()).unwrap_err();
    assert!(
        error.reason().contains("cannot remove setting [index.store.type]"),
        "{error}"
    );
    request.ignore_index_settings = Vec::new();
    request.index_settings = json!({"index.store.type": "fs"});
    let error = restore(&node, request.clone()).unwrap_err();
    assert!(
        error.reason().contains("cannot modify setting [index.store.type]"),
        "{error}"
    );
    request.index_settings = Value::Null;
    request.ignore_index_settings = vec!["index.*".to_owned()];
    restore(&node, request).unwrap();
    check_restored(&node, "frozen", &made);
}
