//! What a snapshot has of an index is read back from the store, through the engine's interface.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use firn_engine::mounts::Storage;
use firn_engine::snapshot::{DamagedObject, Snapshots, Verification, VerificationState, VerifySnapshot};
use firn_engine::{Cancel, ErrorKind, Lasting, RequestContext, Result, Scope};
use firn_model::tenant::TenantId;
use serde_json::json;

use crate::mounts::{mount_as, node_of, reopened};
use crate::node::{Node, ctx, index};
use crate::snapshots::{all, fill, register_unverified, remove, restore, restore_request, snapshot};

/// So slow that a table of filters alone takes many minutes, and a file of deletes, which comes first, no second.
const HARDLY: &str = "10b";
const PATIENCE: Duration = Duration::from_secs(120);

fn request(snapshot: &str) -> VerifySnapshot {
    VerifySnapshot {
        repository: "r".to_owned(),
        snapshot: snapshot.to_owned(),
        index: "logs".to_owned(),
    }
}

fn look(node: &Node, snapshot: &str) -> Result<Option<Verification>> {
    node.run(node.engine.verification(&ctx(), &request(snapshot)))
}

fn begin(node: &Node, snapshot: &str) {
    node.run(node.engine.begin_verification(&ctx(), request(snapshot)))
        .unwrap();
}

fn end(node: &Node, snapshot: &str) {
    node.run(node.engine.end_verification(&ctx(), &request(snapshot)))
        .unwrap();
}

/// Looks until it is as it should be.
fn until(node: &Node, snapshot: &str, is_so: impl Fn(&Verification) -> bool) -> Result<Verification> {
    let started = Instant::now();
    loop {
        match look(node, snapshot)? {
            Some(now) if is_so(&now) => return Ok(now),
            now => assert!(started.elapsed() < PATIENCE, "{now:?}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Reads a snapshot back to its end.
fn read_back(node: &Node, snapshot: &str) -> Result<Verification> {
    begin(node, snapshot);
    until(node, snapshot, |now| now.state != VerificationState::Running)
}

fn damaged(node: &Node, snapshot: &str) -> Vec<DamagedObject> {
    match read_back(node, snapshot).unwrap().state {
        VerificationState::Damaged(objects) => objects,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn check_whole(node: &Node, snapshot: &str) -> Verification {
    let read = read_back(node, snapshot).unwrap();
    assert_eq!(read.state, VerificationState::Whole);
    assert!(read.bytes_total > 0 && read.objects_total > 0);
    assert_eq!(
        (read.bytes_verified, read.objects_verified),
        (read.bytes_total, read.objects_total)
    );
    read
}

/// Objects of a folder of the repository, by key.
fn objects(repositories: &Path, folder: &str) -> Vec<(String, PathBuf)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => walk(&path, found),
                path => found.push(path),
            }
        }
    }
    let root = repositories.join("backups");
    let mut found = Vec::new();
    walk(&root.join(folder), &mut found);
    found.sort();
    let key = |path: PathBuf| (path.strip_prefix(&root).unwrap().display().to_string(), path);
    found.into_iter().map(key).collect()
}

fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let place = bytes.len() / 2;
    bytes[place] ^= 4;
    fs::write(path, bytes).unwrap();
}

/// A node with a repository and the snapshot `first` of an index with deletes, in two shards.
fn with_snapshot(repositories: &Path) -> Node {
    let node = node_of(repositories);
    fill(&node);
    snapshot(&node, "first", "logs").unwrap();
    node
}

fn at_pace(node: &Node, pace: &str) {
    register_unverified(node, json!({"location": "backups", "max_restore_bytes_per_sec": pace}));
}

#[test]
fn every_object_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_snapshot(folder.path());
    assert_eq!(look(&node, "first").unwrap(), None, "nobody began");
    let read = check_whole(&node, "first");
    let named: Vec<_> = ["splits", "deletes", "filters"]
        .into_iter()
        .flat_map(|kind| {
            let found = objects(folder.path(), kind);
            assert!(!found.is_empty(), "{kind}");
            found
        })
        .collect();
    let bytes: u64 = named.iter().map(|(_, path)| fs::metadata(path).unwrap().len()).sum();
    assert_eq!((read.objects_total, read.bytes_total), (named.len() as u64, bytes));
    // What was read is known until it is forgotten, or another.
    begin(&node, "first");
    assert_eq!(look(&node, "first").unwrap().unwrap().state, VerificationState::Whole);
    remove(&node, &["first"]).unwrap();
    assert_eq!(
        look(&node, "first").unwrap(),
        None,
        "there is no such snapshot any more"
    );
}

/// A bit of each kind of object, one after the other: each is found and named, though a mount has all of it in its cache.
#[test]
fn damage_of_any_object_is_found_past_every_cache() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_snapshot(folder.path());
    mount_as(&node, "frozen", Storage::SharedCache).unwrap();
    assert_eq!(node.count("frozen", all()), 40);
    type Damage = (&'static str, fn(&Path));
    let kinds = ["splits", "deletes", "filters", "indices", "snapshots"];
    for (key, path) in kinds.into_iter().flat_map(|kind| objects(folder.path(), kind)) {
        let whole = fs::read(&path).unwrap();
        let damages: [Damage; 3] = [
            ("flipped", flip),
            ("missing", |path| fs::remove_file(path).unwrap()),
            ("cut", |path| {
                let file = fs::File::options().write(true).open(path).unwrap();
                file.set_len(file.metadata().unwrap().len() / 2).unwrap();
            }),
        ];
        for (how, damage) in damages {
            damage(&path);
            let found = damaged(&node, "first");
            assert_eq!(found.len(), 1, "{how} {key}: {found:?}");
            assert_eq!(found[0].key, key, "{how}: {}", found[0].reason);
            // It is told once, and found again by whoever asks again.
            assert_eq!(look(&node, "first").unwrap(), None, "{how} {key}");
            assert_eq!(damaged(&node, "first")[0].key, key, "{how}");
            fs::write(&path, &whole).unwrap();
            check_whole(&node, "first");
            end(&node, "first");
        }
    }
}

#[test]
fn all_that_is_damaged_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_snapshot(folder.path());
    let splits = objects(folder.path(), "splits");
    assert!(splits.len() > 2);
    splits.iter().for_each(|(_, path)| flip(path));
    let found: Vec<String> = damaged(&node, "first").into_iter().map(|object| object.key).collect();
    let keys: Vec<String> = splits.into_iter().map(|(key, _)| key).collect();
    assert_eq!(found, keys);
}

/// A snapshot takes over the splits of the one before. Not those that were found damaged: they are written again, in the
/// same place, and the older snapshot is whole again too.
#[test]
fn the_next_snapshot_replaces_what_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_snapshot(folder.path());
    let splits = objects(folder.path(), "splits");
    let (key, path) = &splits[0];
    let whole = fs::read(path).unwrap();
    flip(path);
    // Nobody has read it, and it has its length: it is taken over.
    snapshot(&node, "second", "logs").unwrap();
    assert_ne!(fs::read(path).unwrap(), whole);
    assert_eq!(&damaged(&node, "second")[0].key, key);
    snapshot(&node, "third", "logs").unwrap();
    assert_eq!(fs::read(path).unwrap(), whole, "the same name, and the same bytes");
    assert_eq!(objects(folder.path(), "splits"), splits, "and no other object");
    for name in ["third", "second", "first"] {
        check_whole(&node, name);
    }
    // Whoever asks again is told what was found, until he forgets it.
    end(&node, "first");
    // A table of filters goes the same way.
    let (table, path) = &objects(folder.path(), "filters")[0];
    flip(path);
    assert_eq!(&damaged(&node, "first")[0].key, table);
    snapshot(&node, "fourth", "logs").unwrap();
    check_whole(&node, "fourth");
    let restored = node_of(folder.path());
    restore(&restored, restore_request("first", &["logs"])).unwrap();
    assert_eq!(restored.count("logs", all()), 40);
}

/// Of a snapshot of another process, and after a restart, nothing is known but what is read.
#[test]
fn a_restart_in_the_middle_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_snapshot(folder.path());
    at_pace(&node, HARDLY);
    begin(&node, "first");
    let now = until(&node, "first", |now| now.bytes_verified > 0).unwrap();
    assert_eq!(now.state, VerificationState::Running);
    assert!(now.bytes_verified < now.bytes_total, "{now:?}");
    assert!(now.objects_verified < now.objects_total, "{now:?}");
    let node = reopened(node, folder.path());
    assert_eq!(look(&node, "first").unwrap(), None);
    register_unverified(&node, json!({"location": "backups"}));
    let (key, path) = &objects(folder.path(), "splits")[0];
    flip(path);
    assert_eq!(&damaged(&node, "first")[0].key, key);
    flip(path);
    check_whole(&node, "first");
}

#[test]
fn it_ends_when_nobody_wants_it_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_snapshot(folder.path());
    at_pace(&node, HARDLY);
    begin(&node, "first");
    until(&node, "first", |now| now.bytes_verified > 0).unwrap();
    end(&node, "first");
    assert_eq!(look(&node, "first").unwrap(), None);

    // As a task that an operator cancels.
    let cancel = Cancel::default();
    let (listed, is_listed) = (std::sync::Arc::new(()), |listed: &std::sync::Arc<()>| {
        std::sync::Arc::strong_count(listed) > 1
    });
    let ctx_of_task = RequestContext {
        lasting: Some(Lasting::new(cancel.clone(), std::sync::Arc::clone(&listed))),
        ..ctx()
    };
    node.run(node.engine.begin_verification(&ctx_of_task, request("first")))
        .unwrap();
    drop(ctx_of_task);
    until(&node, "first", |now| now.objects_total > 0).unwrap();
    assert!(is_listed(&listed));
    cancel.cancel();
    let error = until(&node, "first", |now| now.state != VerificationState::Running).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    assert!(error.to_string().contains("[r:first]"), "{error}");
    let started = Instant::now();
    while is_listed(&listed) {
        assert!(started.elapsed() < PATIENCE, "it stays in the list");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Two that hang leave a third its turn once they are ended.
    for name in ["second", "third", "fourth"] {
        snapshot(&node, name, "logs").unwrap();
        begin(&node, name);
    }
    for name in ["second", "third"] {
        end(&node, name);
    }
    until(&node, "fourth", |now| now.objects_total > 0).unwrap();
}

/// What proved right is not read again for another snapshot as long as the store says that it is the same object.
#[test]
fn what_was_read_need_not_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_snapshot(folder.path());
    check_whole(&node, "first");
    at_pace(&node, HARDLY);
    snapshot(&node, "second", "logs").unwrap();
    check_whole(&node, "second");
    // One that was touched is read; the last, as they are read by their names.
    let (_, path) = &objects(folder.path(), "splits").pop().unwrap();
    let now = fs::metadata(path).unwrap().modified().unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(now + Duration::from_secs(7)).unwrap();
    snapshot(&node, "third", "logs").unwrap();
    begin(&node, "third");
    let total = until(&node, "third", |now| now.objects_total > 0).unwrap();
    let all_others = total.objects_total - 1;
    let last = until(&node, "third", |now| now.objects_verified == all_others).unwrap();
    assert_eq!(last.state, VerificationState::Running);
}

#[test]
fn what_is_not_there_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_snapshot(folder.path());
    let error = read_back(&node, "none").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SnapshotMissing);
    let other = VerifySnapshot {
        repository: "none".to_owned(),
        ..request("first")
    };
    let error = node.run(node.engine.begin_verification(&ctx(), other)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RepositoryMissing);
    node.create("other", json!({})).unwrap();
    node.write(index("other", "1", json!({"n": 1})));
    snapshot(&node, "second", "other").unwrap();
    let error = read_back(&node, "second").unwrap_err();
    assert_eq!(error.to_string(), "snapshot [r:second] has no index [logs]");
    let tenant = RequestContext {
        scope: std::sync::Arc::new(Scope::tenant(TenantId::parse("acme").unwrap())),
        ..ctx()
    };
    let error = node
        .run(node.engine.begin_verification(&tenant, request("first")))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden);
}
