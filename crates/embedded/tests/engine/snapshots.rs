//! Tests of snapshots through the engine's interface: create, clone, restore and delete.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use firn_embedded::EmbeddedConfig;
use firn_engine::snapshot::{
    CloneSnapshot, CreateSnapshot, PutRepository, RestoreSnapshot, Restored, ShardStage, SnapshotErasure as _,
    SnapshotInfo, SnapshotState, Snapshots,
};
use firn_engine::{ErrorKind, Result, Scope};
use firn_model::metadata::Command;
use firn_model::tenant::TenantId;
use firn_storage::RealDisk;
use firn_storage::object::{ObjectStores, StoresConfig};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::node::{Node, add, ctx, delete, index, target};

pub(crate) fn reach(folder: &Path, config: &mut EmbeddedConfig) {
    static IO: OnceLock<Runtime> = OnceLock::new();
    let io = IO.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
    });
    let mut stores = StoresConfig::new(7);
    stores.path_repo = vec![folder.to_owned()];
    config.object_stores = Arc::new(ObjectStores::new(stores));
    config.io = Some(io.handle().clone());
}

fn node_with(repositories: &Path) -> Node {
    Node::with(|config| reach(repositories, config))
}

pub(crate) fn register(node: &Node, settings: Value) -> Result<()> {
    put(node, settings, true)
}

/// Registers without a write check: nodes of tests draw the same object names for it, so parallel checks would
/// collide.
pub(crate) fn register_unverified(node: &Node, settings: Value) {
    put(node, settings, false).unwrap();
}

fn put(node: &Node, settings: Value, verify: bool) -> Result<()> {
    let request = PutRepository {
        name: "r".to_owned(),
        kind: "fs".to_owned(),
        settings,
        verify,
    };
    node.run(node.engine.put_repository(&ctx(), request))
}

/// Returns a node with a repository `r` in the folder.
pub(crate) fn with_repository(repositories: &Path) -> Node {
    let node = node_with(repositories);
    register(&node, json!({"location": "backups"})).unwrap();
    node
}

pub(crate) fn request(name: &str, indices: &str) -> CreateSnapshot {
    CreateSnapshot {
        repository: "r".to_owned(),
        name: name.to_owned(),
        target: target(indices),
        include_global_state: true,
        partial: false,
        metadata: None,
        wait: true,
    }
}

pub(crate) fn snapshot(node: &Node, name: &str, indices: &str) -> Result<SnapshotInfo> {
    node.run(node.engine.create_snapshot(&ctx(), request(name, indices)))
}

pub(crate) fn restore_request(snapshot: &str, indices: &[&str]) -> RestoreSnapshot {
    RestoreSnapshot {
        repository: "r".to_owned(),
        snapshot: snapshot.to_owned(),
        indices: indices.iter().map(|name| (*name).to_owned()).collect(),
        ignore_unavailable: false,
        include_global_state: false,
        include_aliases: true,
        partial: false,
        rename: None,
        index_settings: Value::Null,
        ignore_index_settings: Vec::new(),
        wait: true,
    }
}

pub(crate) fn restore(node: &Node, request: RestoreSnapshot) -> Result<Restored> {
    node.run(node.engine.restore_snapshot(&ctx(), request))
}

fn list(node: &Node, names: &[&str]) -> Result<Vec<String>> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let infos = node.run(node.engine.list_snapshots(&ctx(), "r", &names, false))?;
    Ok(infos.into_iter().map(|info| info.name).collect())
}

pub(crate) fn remove(node: &Node, names: &[&str]) -> Result<()> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    node.run(node.engine.delete_snapshot(&ctx(), "r", &names))
}

/// Returns the objects below a folder of the repository.
pub(crate) fn objects(repositories: &Path, folder: &str) -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => walk(&path, found),
                false => found.push(path.file_name().unwrap().to_string_lossy().into_owned()),
            }
        }
    }
    let mut found = Vec::new();
    walk(&repositories.join("backups").join(folder), &mut found);
    found.sort();
    found
}

pub(crate) fn all() -> Value {
    json!({"match_all": {}})
}

/// Writes two shards with user-given and generated ids, an update, a delete, an alias.
pub(crate) fn fill(node: &Node) -> String {
    node.create(
        "logs",
        json!({"settings": {"number_of_shards": 2}, "aliases": {"current": {}},
               "mappings": {"properties": {"user": {"type": "keyword"}, "text": {"type": "text"}}}}),
    )
    .unwrap();
    for number in 0..40 {
        let event =
            json!({"@timestamp": 1000 + number, "user": format!("u{}", number % 4), "text": "some words", "n": number});
        node.write(index("logs", &format!("id-{number}"), event));
    }
    node.flush("logs");
    let (made, _) = node.write(add("logs", json!({"user": "made", "text": "own id"})));
    node.write(index(
        "logs",
        "id-1",
        json!({"user": "again", "text": "second version"}),
    ));
    node.write(delete("logs", "id-2"));
    made
}

/// Checks a restored copy of [`fill`]'s index through every code path.
pub(crate) fn check_restored(node: &Node, name: &str, made: &str) {
    assert_eq!(node.count(name, all()), 40);
    assert_eq!(node.count(name, json!({"term": {"user": "u0"}})), 10);
    assert_eq!(node.count(name, json!({"match_phrase": {"text": "second version"}})), 1);
    assert_eq!(
        node.count(name, json!({"range": {"@timestamp": {"gte": 1010, "lt": 1020}}})),
        10
    );
    assert_eq!(node.source(name, "id-1")["user"], "again");
    assert!(node.get(name, "id-2").is_none());
    assert_eq!(node.source(name, made)["user"], "made");
    let old = node.get(name, "id-1").unwrap();
    assert_eq!(old.version, 2);
}

#[test]
fn a_snapshot_is_made_listed_and_restored_on_another_node() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_repository(folder.path());
    let made = fill(&node);
    let info = snapshot(&node, "first", "logs").unwrap();
    assert_eq!(
        (info.state, info.total_shards, info.successful_shards),
        (SnapshotState::Success, 2, 2)
    );
    assert_eq!(info.indices, ["logs"]);
    let status = node
        .run(
            node.engine
                .snapshot_status(&ctx(), Some("r"), &vec!["first".to_owned()], false),
        )
        .unwrap();
    assert!(
        status[0].indices[0]
            .shards
            .iter()
            .all(|shard| shard.stage == ShardStage::Done)
    );
    let new: u64 = status[0].indices[0]
        .shards
        .iter()
        .map(|shard| shard.incremental.files)
        .sum();
    assert_eq!(new as usize, objects(folder.path(), "splits").len());
    // Later writes are not in it.
    node.write(index("logs", "late", json!({"user": "late"})));

    let other = with_repository(folder.path());
    assert_eq!(list(&other, &["*"]).unwrap(), ["first"]);
    let restored = restore(&other, restore_request("first", &["logs"])).unwrap();
    assert_eq!((restored.total_shards, restored.successful_shards), (2, 2));
    assert_eq!(restored.indices, ["logs"]);
    check_restored(&other, "logs", &made);
    assert_eq!(other.count("current", all()), 40);
    assert_eq!(other.count("logs", json!({"term": {"user": "late"}})), 0);

    // It is an ordinary index: it takes writes, and survives a kill.
    other.write(index("logs", "id-1", json!({"user": "third"})));
    other.write(index("logs", "new", json!({"user": "new"})));
    let other = other.reopen();
    assert_eq!(other.count("logs", all()), 41);
    assert_eq!(other.get("logs", "id-1").unwrap().version, 3);
    let names: Vec<_> = std::fs::read_dir(other.path().join("indices")).unwrap().collect();
    assert_eq!(names.len(), 1);
    assert!(!other.path().join("scratch").exists());
}

#[test]
fn an_index_is_restored_beside_itself_under_another_name_with_other_settings() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_repository(folder.path());
    let made = fill(&node);
    snapshot(&node, "first", "logs").unwrap();
    let error = restore(&node, restore_request("first", &[])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SnapshotRestore);
    assert!(
        error.reason().contains("an open index with same name already exists"),
        "{error}"
    );

    let mut request = restore_request("first", &["lo*"]);
    request.rename = Some(("(.+)".to_owned(), "old_$1".to_owned()));
    request.include_aliases = false;
    request.index_settings = json!({"index": {"refresh_interval": "7s"}});
    restore(&node, request.clone()).unwrap();
    check_restored(&node, "old_logs", &made);
    let metadata = node.run(firn_engine::Engine::metadata(&*node.engine, &ctx())).unwrap();
    let restored = &metadata.indices["old_logs"];
    assert!(restored.aliases.is_empty());
    assert_eq!(restored.settings.refresh_interval_ms, Some(7000));
    assert_ne!(restored.uuid, metadata.indices["logs"].uuid);
    drop(metadata);

    for settings in [json!({"number_of_shards": 3}), json!({"nonsense": 1})] {
        let mut refused = request.clone();
        refused.rename = Some(("(.+)".to_owned(), "x_$1".to_owned()));
        refused.index_settings = settings;
        assert!(restore(&node, refused).is_err());
    }
    let missing = restore(&node, restore_request("first", &["nothing"])).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::IndexNotFound);
    // A failed restore leaves no files.
    assert_eq!(std::fs::read_dir(node.path().join("indices")).unwrap().count(), 2);
}

#[test]
fn splits_of_an_earlier_snapshot_are_not_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_repository(folder.path());
    fill(&node);
    snapshot(&node, "first", "logs").unwrap();
    let before = objects(folder.path(), "splits");
    let second = snapshot(&node, "second", "logs").unwrap();
    assert_eq!(objects(folder.path(), "splits"), before);
    assert_eq!(second.successful_shards, 2);
    node.write(index("logs", "one-more", json!({"user": "x"})));
    snapshot(&node, "third", "logs").unwrap();
    let after = objects(folder.path(), "splits");
    assert_eq!(after.len(), before.len() + 1);
    assert!(before.iter().all(|split| after.contains(split)));

    // A split is removed with the last snapshot that names it.
    remove(&node, &["first", "third"]).unwrap();
    assert_eq!(objects(folder.path(), "splits"), before);
    assert_eq!(list(&node, &[]).unwrap(), ["second"]);
    restore(&with_repository(folder.path()), restore_request("second", &[])).unwrap();
    remove(&node, &["*"]).unwrap();
    for folder_of in ["splits", "deletes", "indices", "snapshots", "pending"] {
        assert_eq!(objects(folder.path(), folder_of), [""; 0], "{folder_of}");
    }
}

#[test]
fn clones_outlive_their_source() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_repository(folder.path());
    let made = fill(&node);
    node.create("other", json!({})).unwrap();
    node.write(index("other", "1", json!({"a": 1})));
    snapshot(&node, "both", "logs,other").unwrap();
    let clone = |target: &str, indices: &[&str]| {
        let request = CloneSnapshot {
            repository: "r".to_owned(),
            source: "both".to_owned(),
            target: target.to_owned(),
            indices: indices.iter().map(|name| (*name).to_owned()).collect(),
        };
        node.run(node.engine.clone_snapshot(&ctx(), request))
    };
    clone("copy", &["lo*"]).unwrap();
    assert_eq!(
        clone("copy", &["*"]).unwrap_err().kind(),
        ErrorKind::InvalidSnapshotName
    );
    assert_eq!(
        clone("none", &["nothing"]).unwrap_err().kind(),
        ErrorKind::IndexNotFound
    );
    remove(&node, &["both"]).unwrap();
    let other = with_repository(folder.path());
    assert_eq!(restore(&other, restore_request("copy", &[])).unwrap().indices, ["logs"]);
    check_restored(&other, "logs", &made);
}

#[test]
fn data_streams_and_templates_are_restored() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_repository(folder.path());
    node.execute(Command::PutIndexTemplate {
        name: "streams".to_owned(),
        body: json!({"index_patterns": ["stream*"], "data_stream": {}}),
        create: false,
    })
    .unwrap();
    node.execute(Command::CreateDataStream {
        name: "stream".to_owned(),
    })
    .unwrap();
    node.write(add("stream", json!({"@timestamp": 5, "a": 1})));
    let info = snapshot(&node, "s", "stream").unwrap();
    assert_eq!(info.data_streams, ["stream"]);

    let other = with_repository(folder.path());
    let mut request = restore_request("s", &["stream"]);
    request.include_global_state = true;
    restore(&other, request).unwrap();
    assert_eq!(other.count("stream", all()), 1);
    let metadata = other
        .run(firn_engine::Engine::metadata(&*other.engine, &ctx()))
        .unwrap();
    assert!(metadata.index_templates.contains_key("streams"));
    assert_eq!(metadata.data_streams["stream"].indices.len(), 1);
    drop(metadata);
    // The stream takes events.
    other.write(add("stream", json!({"@timestamp": 6, "a": 2})));
    assert_eq!(other.count("stream", all()), 2);

    let mut renamed = restore_request("s", &["stream"]);
    renamed.rename = Some(("stream".to_owned(), "stream-old".to_owned()));
    restore(&other, renamed).unwrap();
    assert_eq!(other.count("stream-old", all()), 1);
}

#[test]
fn names_and_places_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_repository(folder.path());
    fill(&node);
    for name in ["Upper", "with space", "_all"] {
        let error = snapshot(&node, name, "logs").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSnapshotName, "{name}");
    }
    snapshot(&node, "taken", "logs").unwrap();
    let error = snapshot(&node, "taken", "logs").unwrap_err();
    assert_eq!(
        error.reason(),
        "[r:taken] Invalid snapshot name [taken], snapshot with the same name already exists"
    );
    assert_eq!(
        list(&node, &["nothing"]).unwrap_err().kind(),
        ErrorKind::SnapshotMissing
    );
    assert_eq!(
        remove(&node, &["nothing"]).unwrap_err().kind(),
        ErrorKind::SnapshotMissing
    );
    assert_eq!(
        snapshot(&node, "s", "nothing").unwrap_err().kind(),
        ErrorKind::IndexNotFound
    );
    let elsewhere = register(&node, json!({"location": "/etc"})).unwrap_err();
    assert!(elsewhere.to_string().contains("path.repo"), "{elsewhere}");
    assert_eq!(node.run(node.engine.repositories(&ctx(), &[])).unwrap().len(), 1);
    node.run(node.engine.delete_repository(&ctx(), &["r".to_owned()]))
        .unwrap();
    assert_eq!(list(&node, &[]).unwrap_err().kind(), ErrorKind::RepositoryMissing);
    // The existing snapshots are found when the repository is registered again, also read-only.
    register(&node, json!({"location": "backups", "readonly": true})).unwrap();
    assert_eq!(list(&node, &[]).unwrap(), ["taken"]);
    assert_eq!(
        snapshot(&node, "more", "logs").unwrap_err().reason(),
        "[r] cannot create snapshot in a readonly repository"
    );
}

#[test]
fn snapshots_are_for_operators() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_repository(folder.path());
    fill(&node);
    snapshot(&node, "s", "logs").unwrap();
    let mut tenant = ctx();
    tenant.scope = Arc::new(Scope::tenant(TenantId::parse("acme").unwrap()));
    let engine = &node.engine;
    let none: Vec<String> = Vec::new();
    let refused = [
        node.run(engine.list_snapshots(&tenant, "r", &none, false)).unwrap_err(),
        node.run(engine.repositories(&tenant, &none)).unwrap_err(),
        node.run(engine.create_snapshot(&tenant, request("t", "logs")))
            .unwrap_err(),
        node.run(engine.restore_snapshot(&tenant, restore_request("s", &[])))
            .unwrap_err(),
        node.run(engine.delete_snapshot(&tenant, "r", &vec!["s".to_owned()]))
            .unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    }
    assert_eq!(list(&node, &[]).unwrap(), ["s"]);
}

#[test]
fn a_node_killed_while_it_wrote_leaves_nothing_visible() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_repository(folder.path());
    fill(&node);
    snapshot(&node, "committed", "logs").unwrap();
    let splits_before = objects(folder.path(), "splits");
    // A process that is killed before it commits leaves its lease, a split and a manifest.
    let mark = objects(folder.path(), "log").len();
    assert!(mark > 0);
    let backups = folder.path().join("backups");
    std::fs::create_dir_all(backups.join("splits/ab")).unwrap();
    std::fs::write(
        backups.join(format!("splits/ab/ab{}.split", "0".repeat(62))),
        b"half a split",
    )
    .unwrap();
    std::fs::write(
        backups.join(format!("indices/{}.json", "0".repeat(64))),
        b"half a manifest",
    )
    .unwrap();
    assert_eq!(list(&node, &[]).unwrap(), ["committed"]);
    let outcome = node.run(node.engine.cleanup_repository(&ctx(), "r")).unwrap();
    assert_eq!((outcome.deleted_objects, outcome.deleted_bytes), (2, 27));
    assert_eq!(objects(folder.path(), "splits"), splits_before);
    restore(&with_repository(folder.path()), restore_request("committed", &[])).unwrap();
}

#[test]
fn a_damaged_split_is_reported_and_never_restored() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_repository(folder.path());
    fill(&node);
    snapshot(&node, "s", "logs").unwrap();
    let splits = folder.path().join("backups/splits");
    let mut files = Vec::new();
    for folder in std::fs::read_dir(splits).unwrap() {
        files.extend(
            std::fs::read_dir(folder.unwrap().path())
                .unwrap()
                .map(|file| file.unwrap().path()),
        );
    }
    let other = with_repository(folder.path());
    for file in files {
        let intact = std::fs::read(&file).unwrap();
        for place in [0, intact.len() / 2, intact.len() - 1] {
            let mut damaged = intact.clone();
            damaged[place] ^= 1;
            std::fs::write(&file, damaged).unwrap();
            let error = restore(&other, restore_request("s", &[])).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Repository, "{error}");
        }
        std::fs::write(&file, intact).unwrap();
    }
    assert_eq!(std::fs::read_dir(other.path().join("indices")).unwrap().count(), 0);
    restore(&other, restore_request("s", &[])).unwrap();
}

#[test]
fn a_background_snapshot_is_listed_and_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_repository(folder.path());
    fill(&node);
    let mut background = request("later", "logs");
    background.wait = false;
    let begun = node.run(node.engine.create_snapshot(&ctx(), background)).unwrap();
    assert_eq!(begun.state, SnapshotState::InProgress);
    // Whether it has ended or not, it is one snapshot, and its deletion leaves no objects.
    assert_eq!(list(&node, &["later"]).unwrap(), ["later"]);
    remove(&node, &["later"]).unwrap();
    assert_eq!(list(&node, &[]).unwrap(), [""; 0]);
    assert_eq!(objects(folder.path(), "splits"), [""; 0]);
    assert_eq!(objects(folder.path(), "pending"), [""; 0]);
}

#[test]
fn a_node_without_object_stores_says_so() {
    let node = Node::new();
    assert_eq!(
        register(&node, json!({"location": "x"})).unwrap_err().kind(),
        ErrorKind::NotImplemented
    );
    let reopened = Node::open(Arc::clone(&node.folder), Arc::new(RealDisk), |_| {});
    assert!(reopened.is_err(), "the folder is locked by the first");
}

#[test]
fn snapshots_with_events_of_a_tenant_are_listed() {
    let repositories = tempfile::tempdir().unwrap();
    let node = with_repository(repositories.path());
    let by_tenant = json!({
        "settings": {"tenant.field": "tenant"},
        "mappings": {"properties": {"tenant": {"type": "keyword"}}},
    });
    node.create("logs", by_tenant).unwrap();
    node.create("plain", json!({})).unwrap();
    let write = |tenant: &str, count: u64| {
        for number in 0..count {
            node.write(add("logs", json!({"tenant": tenant, "n": number})));
        }
        node.write(add("plain", json!({"tenant": tenant})));
    };
    write("acme", 3);
    snapshot(&node, "first", "*").unwrap();
    write("globex", 2);
    snapshot(&node, "second", "*").unwrap();
    snapshot(&node, "third", "plain").unwrap();
    let held = |tenant: &str| {
        let tenant = TenantId::parse(tenant).unwrap();
        let found = node.run(node.engine.snapshots_of_tenant(&ctx(), &tenant)).unwrap();
        assert!(found.unread.is_empty(), "{found:?}");
        let holding = found.holding.into_iter();
        holding
            .map(|held| (held.snapshot, held.indices.join(","), held.documents))
            .collect::<Vec<_>>()
    };
    let entry = |name: &str, documents| (name.to_owned(), "logs".to_owned(), documents);
    assert_eq!(held("acme"), [entry("first", 3), entry("second", 3)]);
    assert_eq!(held("globex"), [entry("second", 2)]);
    assert_eq!(held("initech"), []);

    // The event stays in a snapshot when it is removed from the index, until that snapshot is deleted.
    let request = firn_engine::admin::PurgeRequest::all_of(TenantId::parse("acme").unwrap());
    assert!(
        node.run(firn_engine::Engine::purge_tenant(&*node.engine, &ctx(), request))
            .unwrap()
            .is_complete()
    );
    snapshot(&node, "fourth", "logs").unwrap();
    assert_eq!(held("acme"), [entry("first", 3), entry("second", 3)]);
    remove(&node, &["first", "second"]).unwrap();
    assert_eq!(held("acme"), []);
    assert_eq!(held("globex"), [entry("fourth", 2)]);

    // Snapshots that cannot be read are listed too.
    std::fs::remove_dir_all(repositories.path().join("backups/snapshots")).unwrap();
    let tenant = TenantId::parse("globex").unwrap();
    let found = node.run(node.engine.snapshots_of_tenant(&ctx(), &tenant)).unwrap();
    assert!(found.holding.is_empty() && !found.unread.is_empty(), "{found:?}");
}

#[test]
fn missing_splits_of_an_older_snapshot_are_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_repository(folder.path());
    let made = fill(&node);
    snapshot(&node, "first", "logs").unwrap();
    let splits = objects(folder.path(), "splits");
    let path = |name: &str| folder.path().join("backups/splits").join(&name[..2]).join(name);
    std::fs::remove_file(path(&splits[0])).unwrap();
    if let Some(cut) = splits.get(1) {
        let file = std::fs::OpenOptions::new().write(true).open(path(cut)).unwrap();
        file.set_len(100).unwrap();
    }
    snapshot(&node, "second", "logs").unwrap();
    assert_eq!(objects(folder.path(), "splits"), splits);
    let other = with_repository(folder.path());
    restore(&other, restore_request("second", &[])).unwrap();
    check_restored(&other, "logs", &made);
}

#[test]
fn a_partial_snapshot_saves_undamaged_shards() {
    let folder = tempfile::tempdir().unwrap();
    let node = node_with(folder.path());
    register_unverified(&node, json!({"location": "backups"}));
    for name in ["bad", "good"] {
        node.create(name, json!({})).unwrap();
        node.write(index(name, "1", json!({"text": "some words"})));
        node.flush(name);
        if name == "bad" {
            for path in crate::mount_damage::files_below(node.path()) {
                if path.extension().is_some_and(|extension| extension == "store") {
                    let mut bytes = std::fs::read(&path).unwrap();
                    bytes[3] ^= 1;
                    std::fs::write(&path, bytes).unwrap();
                }
            }
        }
    }
    let whole = snapshot(&node, "whole", "*").unwrap_err();
    assert_eq!(whole.kind(), ErrorKind::ShardDamaged);
    assert_eq!(whole.index(), Some("bad"));
    // The failed snapshot is visible until it is deleted or replaced by a successful one.
    let seen = |name: &str| node.run(node.engine.list_snapshots(&ctx(), "r", &vec![name.to_owned()], false));
    let failed = seen("whole").unwrap().remove(0);
    assert_eq!((failed.state, failed.successful_shards), (SnapshotState::Failed, 0));
    let failures: Vec<(&str, bool)> = failed
        .failures
        .iter()
        .map(|shard| (&*shard.index, shard.reason.is_empty()))
        .collect();
    assert_eq!(failures, [("bad", false)]);
    assert_eq!(list(&node, &["_all"]).unwrap(), ["whole"]);
    assert_eq!(snapshot(&node, "whole", "good").unwrap().state, SnapshotState::Success);
    assert_eq!(seen("whole").unwrap()[0].state, SnapshotState::Success);
    snapshot(&node, "again", "*").unwrap_err();
    remove(&node, &["again"]).unwrap();
    assert_eq!(seen("again").unwrap_err().kind(), ErrorKind::SnapshotMissing);
    let partial = CreateSnapshot {
        partial: true,
        ..request("partial", "*")
    };
    let made = node.run(node.engine.create_snapshot(&ctx(), partial)).unwrap();
    assert_eq!(made.state, SnapshotState::Partial);
    assert_eq!((made.total_shards, made.successful_shards), (2, 1));
    assert_eq!((made.failures.len(), made.failures[0].index.as_str()), (1, "bad"));
    let mut restore = restore_request("partial", &["good"]);
    restore.rename = Some(("good".to_owned(), "again".to_owned()));
    node.run(node.engine.restore_snapshot(&ctx(), restore)).unwrap();
    assert_eq!(node.count("again", all()), 1);
}
