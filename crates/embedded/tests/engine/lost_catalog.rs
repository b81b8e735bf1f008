//! Tests of a lost, old or damaged catalog: nothing is deleted, the start is refused, and the catalog can be rebuilt.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_embedded::{Embedded, RebuildReport, TierPaths, rebuild_catalog};
use firn_engine::quarantine::QuarantinedFolders as _;
use firn_engine::{Engine as _, ErrorKind, RequestContext, Scope};
use firn_model::metadata::Command;
use firn_model::tenant::TenantId;
use firn_storage::disk::RealDisk;
use firn_testkit::copy_folder;
use serde_json::json;

use crate::node::{Node, add, ctx, index};

/// Returns a copy of a running node's data folder, as after a kill.
fn killed(node: &Node) -> Arc<tempfile::TempDir> {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    copy_folder(node.path(), folder.path());
    folder
}

fn open(folder: &Arc<tempfile::TempDir>) -> firn_engine::Result<Node> {
    Node::open(Arc::clone(folder), Arc::new(RealDisk), |_| {})
}

/// Returns every file below a folder with its bytes, except the lock.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false if entry.file_name() == "node.lock" => {}
            false => found.push((entry.path(), fs::read(entry.path()).unwrap())),
        }
    }
    found.sort();
    found
}

/// Creates two indices with flushed and unflushed events, and a template.
fn two_indices() -> Node {
    let node = Node::new();
    node.execute(Command::PutIndexTemplate {
        name: "of-streams".to_owned(),
        body: json!({"index_patterns": ["events-*"], "data_stream": {}}),
        create: false,
    })
    .unwrap();
    for name in ["one", "two"] {
        node.create(name, json!({"mappings": {"properties": {"n": {"type": "long"}}}}))
            .unwrap();
        node.write(index(name, "flushed", json!({"n": 1})));
        node.flush(name);
        node.write(index(name, "in the log", json!({"n": 2})));
    }
    node
}

/// Returns a node that draws other uuids.
fn another_node() -> Node {
    Node::with(|config| config.seed = 8)
}

fn check_whole(node: &Node, why: &str) {
    for name in ["one", "two"] {
        for id in ["flushed", "in the log"] {
            assert!(node.get(name, id).is_some(), "{why}: [{name}] lacks [{id}]");
        }
    }
    assert_eq!(node.engine.quarantined_count(&ctx()), 0, "{why}");
}

#[test]
fn a_start_without_its_catalog_is_refused_and_changes_nothing() {
    let node = two_indices();
    node.run(node.engine.close()).unwrap();
    for (what, replace) in [("missing", None), ("empty", Some(&b""[..]))] {
        let folder = killed(&node);
        let catalog = folder.path().join("catalog.redb");
        fs::remove_file(&catalog).unwrap();
        if let Some(bytes) = replace {
            fs::write(&catalog, bytes).unwrap();
        }
        let before = files(folder.path());
        let error = open(&folder).err().expect(what);
        let reason = error.reason();
        assert!(reason.contains("catalog.redb") && reason.contains(what), "{reason}");
        assert!(reason.contains("2 index folders"), "{reason}");
        assert_eq!(before, files(folder.path()), "{what}: a refused start changes nothing");
        // Nor with a catalog copied from another node.
        fs::remove_file(&catalog).ok();
        let other = another_node();
        other.run(other.engine.close()).unwrap();
        fs::copy(other.path().join("catalog.redb"), &catalog).unwrap();
        let error = open(&folder).err().expect("another node's catalog");
        assert!(error.reason().contains("cluster uuid"), "{error}");
    }
}

#[test]
fn an_older_catalog_is_refused() {
    let node = two_indices();
    let old = fs::read(node.path().join("catalog.redb")).unwrap();
    node.create("three", json!({})).unwrap();
    let folder = killed(&node);
    fs::write(folder.path().join("catalog.redb"), &old).unwrap();
    let error = open(&folder).err().expect("the catalog is old");
    assert!(error.reason().contains("lost its newest changes"), "{error}");
    // Also if only the index folders have the newer version.
    node.run(node.engine.close()).unwrap();
    let folder = killed(&node);
    fs::write(folder.path().join("catalog.redb"), &old).unwrap();
    for file in ["catalog.version", "catalog.copy"] {
        fs::remove_file(folder.path().join(file)).unwrap();
    }
    let error = open(&folder).err().expect("the catalog is old");
    assert!(error.reason().contains("lost its newest changes"), "{error}");
}

#[test]
fn no_flipped_bit_of_the_catalog_loses_an_index() {
    let node = two_indices();
    let (mut refused, mut opened) = (0, 0);
    // The first positions are those of the two roots.
    let places = (60..=198).map(|place| (place, 0));
    let others = (0..4096).step_by(53).map(|place| (place, place % 8));
    for (place, bit) in places.chain(others) {
        let folder = killed(&node);
        let catalog = folder.path().join("catalog.redb");
        let mut bytes = fs::read(&catalog).unwrap();
        bytes[place] ^= 1 << bit;
        fs::write(&catalog, bytes).unwrap();
        let before = files(&folder.path().join("indices"));
        match open(&folder) {
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("catalog"), "byte {place}: {error}");
                assert_eq!(before, files(&folder.path().join("indices")), "byte {place}");
            }
            Ok(node) => {
                opened += 1;
                check_whole(&node, &format!("byte {place}"));
            }
        }
    }
    assert!(refused > 5 && opened > 20, "{refused} refused, {opened} opened");
}

#[test]
fn a_folder_that_the_catalog_does_not_name_is_set_aside_and_can_be_adopted() {
    let (node, other) = (two_indices(), another_node());
    other.create("three", json!({})).unwrap();
    for id in ["a", "b"] {
        other.write(index("three", id, json!({"v": id})));
    }
    other.flush("three");
    other.write(index("three", "in the log", json!({})));
    other.run(other.engine.close()).unwrap();
    let dir = other.shard_dir("three", 0).parent().unwrap().to_owned();
    let uuid = dir.file_name().unwrap().to_str().unwrap().to_owned();
    copy_folder(&dir, &node.path().join("indices").join(&uuid));
    let unknown = node.path().join("indices/not-an-index");
    fs::create_dir_all(&unknown).unwrap();
    fs::write(unknown.join("notes.txt"), "mine").unwrap();

    let node = node.reopen();
    let engine = &node.engine;
    assert_eq!(engine.recovery_report().quarantined_folder_count, 2);
    assert_eq!(engine.quarantined_count(&ctx()), 2);
    let folders = node.run(engine.quarantined_folders(&ctx())).unwrap();
    let found: Vec<_> = folders
        .iter()
        .map(|one| (one.id.as_str(), one.index.as_deref()))
        .collect();
    assert!(found.contains(&(uuid.as_str(), Some("three"))), "{found:?}");
    assert!(found.contains(&("not-an-index", None)), "{found:?}");
    assert!(folders.iter().all(|one| one.size_bytes > 0 && !one.reason.is_empty()));
    assert_eq!(
        fs::read(node.path().join("quarantine/not-an-index/files/notes.txt")).unwrap(),
        b"mine"
    );

    // Only operators may adopt, and only folders with a record.
    let tenant = RequestContext {
        scope: Arc::new(Scope::tenant(TenantId::parse("acme").unwrap())),
        ..ctx()
    };
    assert_eq!(node.disclosed().quarantined_count(&tenant), 0);
    let kinds = [
        node.run(engine.quarantined_folders(&tenant)).unwrap_err().kind(),
        node.run(engine.adopt_quarantined(&tenant, &uuid, None))
            .unwrap_err()
            .kind(),
        node.run(engine.remove_quarantined(&tenant, &uuid)).unwrap_err().kind(),
    ];
    assert_eq!(kinds, [ErrorKind::Forbidden; 3]);
    let adopt = |id: &str, name: Option<&str>| node.run(engine.adopt_quarantined(&ctx(), id, name.map(str::to_owned)));
    assert_eq!(adopt("nothing", None).unwrap_err().kind(), ErrorKind::ResourceNotFound);
    assert_eq!(
        adopt("not-an-index", None).unwrap_err().kind(),
        ErrorKind::IllegalArgument
    );
    // If the name is taken, nothing is moved.
    assert_eq!(
        adopt(&uuid, Some("one")).unwrap_err().kind(),
        ErrorKind::ResourceAlreadyExists
    );
    assert_eq!(engine.quarantined_count(&ctx()), 2);

    assert_eq!(adopt(&uuid, Some("adopted")).unwrap(), "adopted");
    for id in ["a", "b", "in the log"] {
        assert!(node.get("adopted", id).is_some(), "{id}");
    }
    node.write(index("adopted", "new", json!({})));
    node.run(engine.remove_quarantined(&ctx(), "not-an-index")).unwrap();
    assert_eq!(engine.quarantined_count(&ctx()), 0);
    let node = node.reopen();
    assert_eq!(node.engine.recovery_report().quarantined_folder_count, 0);
    assert!(node.get("adopted", "new").is_some() && node.get("adopted", "in the log").is_some());
}

#[test]
fn the_files_of_a_deleted_index_go_with_the_next_start() {
    let node = two_indices();
    let dir = node.shard_dir("two", 0).parent().unwrap().to_owned();
    let copy = tempfile::tempdir().unwrap();
    copy_folder(&dir, copy.path());
    node.execute(Command::DeleteIndices {
        names: vec!["two".to_owned()],
    })
    .unwrap();
    assert!(!dir.exists());
    // As if the process had ended before it removed the files.
    copy_folder(copy.path(), &dir);
    let node = node.reopen();
    let report = node.engine.recovery_report();
    assert_eq!((report.removed_folder_count, report.quarantined_folder_count), (1, 0));
    assert!(!dir.exists());
    assert!(node.get("one", "in the log").is_some());
}

fn rebuild(folder: &Path, apply: bool) -> RebuildReport {
    rebuild_catalog(Arc::new(RealDisk), folder, &TierPaths::default(), apply).unwrap()
}

#[test]
fn a_lost_catalog_is_rebuilt() {
    let node = two_indices();
    for n in 0..3 {
        node.write(add("events-a", json!({"@timestamp": "2026-01-01T00:00:00Z", "n": n})));
    }
    node.run(node.engine.close()).unwrap();
    for lost in [
        &["catalog.redb"][..],
        &["catalog.redb", "catalog.copy", "catalog.version"],
    ] {
        let folder = killed(&node);
        for file in lost {
            fs::remove_file(folder.path().join(file)).unwrap();
        }
        let before = files(folder.path());
        let dry = rebuild(folder.path(), false);
        assert_eq!(before, files(folder.path()), "a dry run changes nothing");
        assert_eq!(dry.index_count, 3, "{dry:?}");
        let report = rebuild(folder.path(), true);
        assert_eq!((&report.found, &report.problems), (&dry.found, &dry.problems));
        assert!(
            report.problems.iter().any(|line| line.contains("catalog.redb")),
            "{report:?}"
        );

        let again = open(&folder).unwrap();
        check_whole(&again, "rebuilt");
        again.refresh("events-a");
        assert_eq!(again.count("events-a", json!({"match_all": {}})), 3);
        let metadata = again.run(again.engine.metadata(&ctx())).unwrap();
        let has_template = metadata.index_templates.contains_key("of-streams");
        assert_eq!(has_template, lost.len() == 1, "templates are in the copy alone");
        assert_eq!(metadata.data_streams["events-a"].indices.len(), 1);
        assert_eq!(
            metadata.cluster_uuid,
            node.run(node.engine.metadata(&ctx()))
                .map_or(metadata.cluster_uuid.clone(), |own| own.cluster_uuid.clone())
        );
        again.create("new", json!({})).unwrap();
    }
}

#[test]
fn a_rebuild_needs_exclusive_access_and_a_source() {
    let node = two_indices();
    let rebuild = |path: &Path| rebuild_catalog(Arc::new(RealDisk), path, &TierPaths::default(), true).unwrap_err();
    assert!(rebuild(node.path()).reason().contains("in use by another firn"));
    let empty = tempfile::tempdir().unwrap();
    assert!(rebuild(empty.path()).reason().contains("to rebuild a catalog from"));
    assert!(!empty.path().join("catalog.redb").exists());
    assert!(rebuild(&empty.path().join("none")).reason().contains("no data folder"));
}

/// An earlier build wrote none of the files beside the catalog.
#[test]
fn a_data_folder_of_an_earlier_build_is_opened_and_gets_its_records() {
    let node = two_indices();
    node.run(node.engine.close()).unwrap();
    let folder = killed(&node);
    let records = || -> Vec<PathBuf> {
        let indices = fs::read_dir(folder.path().join("indices")).unwrap();
        indices.map(|entry| entry.unwrap().path().join("index.json")).collect()
    };
    for file in records() {
        fs::remove_file(file).unwrap();
    }
    for file in ["catalog.version", "catalog.copy"] {
        fs::remove_file(folder.path().join(file)).unwrap();
    }
    let node: Node = open(&folder).unwrap();
    check_whole(&node, "opened");
    let engine: &Embedded = &node.engine;
    node.run(engine.close()).unwrap();
    assert!(records().iter().all(|file| file.exists()));
    assert!(folder.path().join("catalog.copy").exists());
}
