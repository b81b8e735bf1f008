//! Tests of snapshot verification, which reads objects back from the store, through the engine's interface.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use firn_engine::mounts::Storage;
use firn_engine::snapshot::{
    DamagedObject, SnapshotVerification as _, Verification, VerificationState, VerifySnapshot,
};
use firn_engine::{BackgroundTask, ErrorKind, RequestContext, Result, Scope};
use firn_model::tenant::TenantId;
use firn_query::Cancel;
use serde_json::json;

use crate::mounts::{mount_as, node_of, reopened};
use crate::node::{Node, ctx, index};
use crate::snapshots::{all, fill, register_unverified, remove, restore, restore_request, snapshot};

/// So slow that a table of filters alone takes many minutes; a file of deletes, which comes first, takes less than a
/// second.
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

/// Polls until the verification meets the condition.
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

/// Verifies a snapshot to its end.
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

/// Returns the objects of a folder of the repository, by key.
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

/// Returns a node with a repository and the snapshot `first` of an index with deletes, in two shards.
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
    assert_eq!(look(&node, "first").unwrap(), None, "none was started");
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
    // The result is available until it is discarded, or the snapshot is deleted.
    begin(&node, "first");
    assert_eq!(look(&node, "first").unwrap().unwrap().state, VerificationState::Whole);
    remove(&node, &["first"]).unwrap();
    assert_eq!(
        look(&node, "first").unwrap(),
        None,
        "the snapshot does not exist any more"
    );
}

/// One bit of each kind of object, one after the other: each is found and reported, though a mount has cached all
/// objects.
#[test]
fn damage_of_any_object_is_found_despite_caches() {
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
            // The result is returned once; the next verification finds the damage again.
            assert_eq!(look(&node, "first").unwrap(), None, "{how} {key}");
            assert_eq!(damaged(&node, "first")[0].key, key, "{how}");
            fs::write(&path, &whole).unwrap();
            check_whole(&node, "first");
            end(&node, "first");
        }
    }
}

#[test]
fn all_damaged_objects_are_reported_together() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_snapshot(folder.path());
    let splits = objects(folder.path(), "splits");
    assert!(splits.len() > 2);
    splits.iter().for_each(|(_, path)| flip(path));
    let found: Vec<String> = damaged(&node, "first").into_iter().map(|object| object.key).collect();
    let keys: Vec<String> = splits.into_iter().map(|(key, _)| key).collect();
    assert_eq!(found, keys);
}

/// A snapshot reuses the splits of the previous one, except those that verification found damaged: they are written
/// again under the same key, which also repairs the older snapshot.
#[test]
fn the_next_snapshot_replaces_damaged_objects() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_snapshot(folder.path());
    let splits = objects(folder.path(), "splits");
    let (key, path) = &splits[0];
    let whole = fs::read(path).unwrap();
    flip(path);
    // The damage is unknown, and the length is right: the split is reused.
    snapshot(&node, "second", "logs").unwrap();
    assert_ne!(fs::read(path).unwrap(), whole);
    assert_eq!(&damaged(&node, "second")[0].key, key);
    snapshot(&node, "third", "logs").unwrap();
    assert_eq!(fs::read(path).unwrap(), whole, "the same name, and the same bytes");
    assert_eq!(objects(folder.path(), "splits"), splits, "and no other object");
    for name in ["third", "second", "first"] {
        check_whole(&node, name);
    }
    // The old result is returned until it is discarded.
    end(&node, "first");
    // The same for a table of filters.
    let (table, path) = &objects(folder.path(), "filters")[0];
    flip(path);
    assert_eq!(&damaged(&node, "first")[0].key, table);
    snapshot(&node, "fourth", "logs").unwrap();
    check_whole(&node, "fourth");
    let restored = node_of(folder.path());
    restore(&restored, restore_request("first", &["logs"])).unwrap();
    assert_eq!(restored.count("logs", all()), 40);
}

/// After a restart, or in another process, a verification starts from the beginning.
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
fn a_cancelled_verification_ends() {
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
        lasting: Some(BackgroundTask::new(cancel.clone(), std::sync::Arc::clone(&listed))),
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
    // Two slow verifications free their places for a third once they are ended.
    for name in ["second", "third", "fourth"] {
        snapshot(&node, name, "logs").unwrap();
        begin(&node, name);
    }
    for name in ["second", "third"] {
        end(&node, name);
    }
    until(&node, "fourth", |now| now.objects_total > 0).unwrap();
}

/// A verified object is not read again for another snapshot while the store reports the same object version.
#[test]
fn verified_objects_are_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_snapshot(folder.path());
    check_whole(&node, "first");
    at_pace(&node, HARDLY);
    snapshot(&node, "second", "logs").unwrap();
    check_whole(&node, "second");
    // A changed object is read; the last one, as they are read in order of their names.
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
fn missing_objects_are_reported() {
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
