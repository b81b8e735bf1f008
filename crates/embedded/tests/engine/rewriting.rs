//! Tests of removing a tenant's events from snapshots: others lose none, mounts follow, no trace of the tenant stays.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use firn_engine::admin::PurgeRequest;
use firn_engine::document::BulkItem;
use firn_engine::mounts::{MountSnapshot, SearchableSnapshots, Storage};
use firn_engine::snapshot::{RewrittenSnapshot, SnapshotErasure as _};
use firn_engine::{Engine, ErrorKind, Result};
use firn_model::tenant::TenantId;
use firn_storage::disk::RealDisk;
use serde_json::{Value, json};

use crate::mounts::{node_of, reopened, shards, use_cache};
use crate::node::{Node, ctx, delete, index};
use crate::snapshots::{all, objects, register_unverified, remove, restore, restore_request, snapshot};

/// Documents by tenant and id.
type Model = BTreeMap<(String, String), Value>;

const TENANTS: [&str; 3] = ["acme", "globex", "initech"];

fn of(tenant: &str, item: BulkItem) -> BulkItem {
    BulkItem {
        routing: Some(tenant.to_owned()),
        ..item
    }
}

fn by_tenant(node: &Node, name: &str, shards: u32) {
    let settings = json!({"number_of_shards": shards, "tenant.field": "tenant"});
    let mappings = json!({"properties": {"tenant": {"type": "keyword"}, "word": {"type": "keyword"}}});
    node.create(name, json!({"settings": settings, "mappings": mappings}))
        .unwrap();
}

/// Writes, replaces, deletes and flushes at random.
fn change(node: &Node, random: &mut fastrand::Rng, model: &mut Model) {
    for _ in 0..random.usize(20..60) {
        let tenant = TENANTS[random.usize(..3)];
        let id = random.u32(..40).to_string();
        let key = (tenant.to_owned(), id.clone());
        match random.u32(..10) {
            0..=1 if model.remove(&key).is_some() => {
                node.write(of(tenant, delete("logs", &id)));
            }
            2 => node.flush("logs"),
            _ => {
                let event = json!({
                    "@timestamp": random.i64(1_000_000..2_000_000), "tenant": tenant, "n": random.u32(..1000),
                    "word": format!("{tenant}-{}", random.u32(..30)), "text": format!("{tenant} said so"),
                });
                node.write(of(tenant, index("logs", &id, event.clone())));
                model.insert(key, event);
            }
        }
    }
    node.flush("logs");
}

/// Returns all documents of an index, read in several ways.
fn content(node: &Node, name: &str) -> Model {
    node.refresh(name);
    let page = json!({"size": 1000, "query": all(), "track_total_hits": true});
    let response = node.search(name, page).unwrap();
    assert!(response.shards.failures.is_empty(), "{:?}", response.shards.failures);
    let mut found = Model::new();
    for hit in &response.hits {
        let source: Value = serde_json::from_slice(hit.source.as_ref().unwrap()).unwrap();
        let tenant = source["tenant"].as_str().unwrap().to_owned();
        assert!(found.insert((tenant, hit.id.clone()), source).is_none(), "{}", hit.id);
    }
    for tenant in TENANTS {
        let own = found.keys().filter(|(own, _)| own == tenant).count() as u64;
        assert_eq!(node.count(name, json!({"term": {"tenant": tenant}})), own, "{tenant}");
        let said = json!({"match_phrase": {"text": format!("{tenant} said so")}});
        assert_eq!(node.count(name, said), own, "{tenant}");
    }
    for ((_, id), source) in found.iter().take(5) {
        let word = json!({"bool": {"filter": [{"term": {"word": source["word"]}}, {"ids": {"values": [id]}}]}});
        assert!(node.count(name, word) >= 1);
    }
    found
}

fn without(model: &Model, tenant: &str) -> Model {
    let others = model.iter().filter(|((own, _), _)| own != tenant);
    others.map(|(key, source)| (key.clone(), source.clone())).collect()
}

fn mount(node: &Node, name: &str, snapshot: &str, storage: Storage) -> Result<()> {
    let request = MountSnapshot {
        repository: "r".to_owned(),
        snapshot: snapshot.to_owned(),
        index: "logs".to_owned(),
        renamed_index: Some(name.to_owned()),
        storage,
        index_settings: Value::Null,
        ignore_index_settings: Vec::new(),
    };
    node.run(node.engine.mount_snapshot(&ctx(), request)).map(|_| ())
}

fn holding(node: &Node, tenant: &str) -> Vec<(String, u64)> {
    let tenant = TenantId::parse(tenant).unwrap();
    let found = node.run(node.engine.snapshots_of_tenant(&ctx(), &tenant)).unwrap();
    assert!(found.unread.is_empty() && found.running.is_empty(), "{found:?}");
    let holding = found.holding.into_iter();
    holding.map(|held| (held.snapshot, held.documents)).collect()
}

fn take_out(node: &Node, tenant: &str, snapshot: &str) -> Result<RewrittenSnapshot> {
    let tenant = TenantId::parse(tenant).unwrap();
    node.run(node.engine.remove_tenant_from_snapshot(&ctx(), &tenant, "r", snapshot))
}

/// Returns the names of files below a folder that are full copies of splits.
fn copies(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path().is_dir() {
                true => folders.push(entry.path()),
                false => drop(found.insert(entry.file_name().to_string_lossy().into_owned())),
            }
        }
    }
    found.retain(|name| name.ends_with(".split"));
    found
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60), "no {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn other_tenants_lose_nothing_and_mounts_follow() {
    let seed = firn_testkit::seed("rewriting snapshots");
    for round in 0..2 {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(round));
        let folder = tempfile::tempdir().unwrap();
        let node = node_of(folder.path());
        by_tenant(&node, "logs", 2);
        let (mut model, mut models) = (Model::new(), BTreeMap::new());
        for name in ["s0", "s1", "s2"] {
            change(&node, &mut random, &mut model);
            snapshot(&node, name, "logs").unwrap();
            models.insert(name, model.clone());
        }
        mount(&node, "frozen", "s1", Storage::SharedCache).unwrap();
        mount(&node, "cold", "s1", Storage::FullCopy).unwrap();
        // Another node, which continues with its cached state of the repository.
        let other = node_of(folder.path());
        mount(&other, "frozen", "s1", Storage::SharedCache).unwrap();
        for (node, name) in [(&node, "frozen"), (&node, "cold"), (&other, "frozen")] {
            assert_eq!(content(node, name), models["s1"], "{name}");
        }
        let splits: BTreeSet<String> = objects(folder.path(), "splits").into_iter().collect();
        eventually("copy", || !copies(&node.path().join("indices")).is_empty());

        // Searches run all the time: answers are complete, with the tenant's events or without.
        let (is_over, answers) = (AtomicBool::new(false), AtomicU64::new(0));
        let done = std::thread::scope(|scope| {
            for name in ["frozen", "cold"] {
                let (node, expected, is_over, answers) = (&node, &models["s1"], &is_over, &answers);
                scope.spawn(move || {
                    let others = without(expected, "acme").len() as u64;
                    while !is_over.load(Ordering::Relaxed) {
                        let page =
                            json!({"query": all(), "size": 1000, "aggs": {"by": {"terms": {"field": "tenant"}}}});
                        let response = node.search(name, page).unwrap();
                        assert!(response.shards.failures.is_empty(), "{:?}", response.shards.failures);
                        let found = response.hits.len() as u64;
                        assert!(found == others || found == expected.len() as u64, "{found}");
                        answers.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let mut done = RewrittenSnapshot::default();
            for (name, documents) in holding(&node, "acme") {
                let one = take_out(&node, "acme", &name).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(one.documents, documents, "{name}");
                assert_eq!(one.indices, ["logs"]);
                done.splits_rewritten += one.splits_rewritten;
                done.splits_dropped += one.splits_dropped;
                done.removed_bytes += one.removed_bytes;
            }
            is_over.store(true, Ordering::Relaxed);
            done
        });
        assert!(done.splits_rewritten > 0 && done.removed_bytes > 0, "{done:?}");
        assert!(answers.load(Ordering::Relaxed) > 2);
        assert_eq!(holding(&node, "acme"), []);
        assert_eq!(take_out(&node, "acme", "s0").unwrap(), RewrittenSnapshot::default());
        for (name, mount) in [("frozen", "frozen"), ("cold", "cold")] {
            assert_eq!(content(&node, name), without(&models["s1"], "acme"), "{mount}");
        }
        let after: BTreeSet<String> = objects(folder.path(), "splits").into_iter().collect();
        let gone: BTreeSet<String> = splits.difference(&after).cloned().collect();
        assert!(!gone.is_empty());
        let is_left = |name: &String| copies(&node.path().join("indices")).contains(name);
        assert!(!gone.iter().any(is_left), "copies of removed splits remain");

        // The same from the repository alone, and after a restart.
        let fresh = node_of(folder.path());
        for (name, model) in &models {
            let others = without(model, "acme");
            for (storage, kind) in [(Storage::SharedCache, "frozen"), (Storage::FullCopy, "cold")] {
                let mounted = format!("{kind}-{name}");
                mount(&fresh, &mounted, name, storage).unwrap();
                assert_eq!(content(&fresh, &mounted), others, "{mounted}");
            }
            let renamed = firn_engine::snapshot::RestoreSnapshot {
                rename: Some(("logs".to_owned(), format!("restored-{name}"))),
                ..restore_request(name, &["logs"])
            };
            restore(&fresh, renamed).unwrap();
            assert_eq!(content(&fresh, &format!("restored-{name}")), others, "{name}");
        }
        // A new mount beside an older one shows the current content, under both names.
        mount(&other, "again", "s1", Storage::SharedCache).unwrap();
        for name in ["again", "frozen"] {
            assert_eq!(content(&other, name), without(&models["s1"], "acme"), "{name}");
        }
        let node = reopened(node, folder.path());
        for name in ["frozen", "cold"] {
            assert_eq!(content(&node, name), without(&models["s1"], "acme"), "{name}");
        }
        // The next snapshot and the next tenant.
        assert_eq!(content(&node, "logs"), model);
        for (name, _) in holding(&node, "globex") {
            take_out(&node, "globex", &name).unwrap();
        }
        assert_eq!(
            content(&node, "cold"),
            without(&without(&models["s1"], "acme"), "globex")
        );
        snapshot(&node, "s3", "logs").unwrap();
        assert_eq!(holding(&node, "initech").len(), 4);
        remove(&node, &["s0", "s2", "s3"]).unwrap();
        assert_eq!(content(&node, "frozen"), content(&node, "cold"));
    }
}

/// If a process ends after the commit and before its mounts follow, they follow at the next purge.
#[test]
fn a_mount_that_did_not_follow_does_so_at_the_next_purge() {
    let folder = tempfile::tempdir().unwrap();
    let node = node_of(folder.path());
    by_tenant(&node, "logs", 1);
    let mut random = fastrand::Rng::with_seed(firn_testkit::seed("a mount that lags behind"));
    let mut model = Model::new();
    change(&node, &mut random, &mut model);
    snapshot(&node, "s", "logs").unwrap();
    let late = node_of(folder.path());
    for (name, storage) in [("frozen", Storage::SharedCache), ("cold", Storage::FullCopy)] {
        mount(&late, name, "s", storage).unwrap();
        assert_eq!(content(&late, name), model);
    }
    eventually("copy", || !copies(late.path()).is_empty());
    let splits = || -> BTreeSet<String> { objects(folder.path(), "splits").into_iter().collect() };
    let before = splits();
    take_out(&node, "acme", "s").unwrap();
    let gone: BTreeSet<String> = before.difference(&splits()).cloned().collect();
    assert!(!gone.is_empty());
    let late = reopened(late, folder.path());
    for name in ["frozen", "cold"] {
        let request = PurgeRequest {
            index: Some(name.to_owned()),
            ..PurgeRequest::all_of(TenantId::parse("acme").unwrap())
        };
        let purged = late.run(Engine::purge_tenant(&*late.engine, &ctx(), request)).unwrap();
        assert!(purged.is_complete(), "{purged:?}");
        assert_eq!(content(&late, name), without(&model, "acme"), "{name}");
    }
    assert!(copies(late.path()).is_disjoint(&gone));
    eventually("new copy", || !copies(late.path()).is_empty());
    let late = reopened(late, folder.path());
    assert_eq!(content(&late, "cold"), without(&model, "acme"));
}

/// Checks the content of a mounted index, after which all of its data is local.
fn learned(node: &Node, name: &str, expected: &Model) {
    assert_eq!(&content(node, name), expected, "{name}");
    if name == "cold" {
        eventually("whole copy", || {
            let shards = shards(node, name);
            shards.iter().all(|shard| {
                let splits = shard.splits.as_ref();
                splits.is_some_and(|splits| splits.local_bytes == splits.bytes)
            })
        });
    }
}

/// Whether mounts answer completely, and have no documents of a tenant.
fn is_without(node: &Node, tenant: &str) -> bool {
    let body = json!({"track_total_hits": true, "query": {"term": {"tenant": tenant}}});
    ["frozen", "cold"].iter().all(|name| {
        let found = node.search(name, body.clone());
        found.is_ok_and(|found| found.shards.failures.is_empty() && found.total.unwrap().value == 0)
    })
}

/// A node without notification, which needs nothing from the repository to answer from its local data.
#[test]
fn another_node_follows_within_a_minute_although_it_lacks_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let node = node_of(folder.path());
    by_tenant(&node, "logs", 2);
    let mut random = fastrand::Rng::with_seed(firn_testkit::seed("another node follows"));
    let mut model = Model::new();
    change(&node, &mut random, &mut model);
    snapshot(&node, "s", "logs").unwrap();
    let other = node_of(folder.path());
    mount(&other, "frozen", "s", Storage::SharedCache).unwrap();
    mount(&other, "cold", "s", Storage::FullCopy).unwrap();
    for name in ["frozen", "cold"] {
        learned(&other, name, &model);
    }
    let before: BTreeSet<String> = objects(folder.path(), "splits").into_iter().collect();
    let cached = || {
        other
            .run(other.engine.shared_cache_stats(&ctx()))
            .unwrap()
            .unwrap()
            .used_bytes
    };
    let cached_before = cached();
    take_out(&node, "acme", "s").unwrap();
    let gone = &before - &objects(folder.path(), "splits").into_iter().collect();
    assert!(!gone.is_empty());
    // Its clock stands still, so no check is due.
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(content(&other, "cold"), model);
    other.advance_ms(60_000);
    let others = without(&model, "acme");
    eventually("look", || is_without(&other, "acme"));
    // No file of the old snapshot stays on its disks.
    eventually("end of it", || copies(other.path()).is_disjoint(&gone));
    assert!(cached() < cached_before, "{} of {cached_before}", cached());
    for name in ["frozen", "cold"] {
        learned(&other, name, &others);
    }

    // The next rewrite happens while it is stopped: copies of the previous process are checked when they are used.
    let folder_of_other = Arc::clone(&other.folder);
    drop(other);
    take_out(&node, "globex", "s").unwrap();
    let others = without(&others, "globex");
    let open = || {
        Node::open(Arc::clone(&folder_of_other), Arc::new(RealDisk), |config| {
            use_cache(folder.path(), config)
        })
    };
    let other = open().unwrap();
    // It may find a split missing.
    let _ = other.search("frozen", json!({"size": 0}));
    eventually("look after a start", || is_without(&other, "globex"));
    for name in ["frozen", "cold"] {
        learned(&other, name, &others);
    }
}

/// Mounts without reads follow too, so that no event of the tenant stays in a cache for ever.
#[test]
fn a_mount_without_reads_follows() {
    let folder = tempfile::tempdir().unwrap();
    let node = node_of(folder.path());
    by_tenant(&node, "logs", 1);
    let mut random = fastrand::Rng::with_seed(firn_testkit::seed("a mount that noname reads"));
    let mut model = Model::new();
    change(&node, &mut random, &mut model);
    snapshot(&node, "s", "logs").unwrap();
    let other = node_of(folder.path());
    mount(&other, "frozen", "s", Storage::SharedCache).unwrap();
    learned(&other, "frozen", &model);
    take_out(&node, "acme", "s").unwrap();
    let other = reopened(other, folder.path());
    let cached = || {
        other
            .run(other.engine.shared_cache_stats(&ctx()))
            .unwrap()
            .unwrap()
            .used_bytes
    };
    let before = cached();
    other.advance_ms(60_000);
    eventually("look", || cached() < before);
    learned(&other, "frozen", &without(&model, "acme"));
}

/// The deletes of a split are a separate object, which is read whenever the split is opened.
#[test]
fn a_missing_object_of_deletes_makes_a_node_check_the_repository() {
    let folder = tempfile::tempdir().unwrap();
    let node = node_of(folder.path());
    by_tenant(&node, "logs", 1);
    let event = |tenant: &str, id: u32| {
        let event = json!({"@timestamp": id, "tenant": tenant, "word": "w", "text": format!("{tenant} said so")});
        of(tenant, index("logs", &id.to_string(), event))
    };
    node.bulk(
        (0..20)
            .flat_map(|id| [event("acme", id), event("globex", id)])
            .collect(),
    );
    node.flush("logs");
    node.write(of("globex", delete("logs", "3")));
    node.flush("logs");
    snapshot(&node, "s", "logs").unwrap();
    let other = node_of(folder.path());
    mount(&other, "cold", "s", Storage::FullCopy).unwrap();
    eventually("whole copy", || !copies(other.path()).is_empty());
    // No part of it is open, and no check is due for a minute.
    take_out(&node, "acme", "s").unwrap();
    eventually("search that finds what is there", || {
        let found = other.search("cold", json!({"track_total_hits": true}));
        found.is_ok_and(|found| found.shards.failures.is_empty() && found.total.unwrap().value == 19)
    });
}

/// The remembered result of a rewritten split does not guarantee that the split still exists.
#[test]
fn a_split_removed_with_another_snapshot_is_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let node = node_of(folder.path());
    by_tenant(&node, "logs", 1);
    let mut random = fastrand::Rng::with_seed(firn_testkit::seed("a split that went meanwhile"));
    let mut model = Model::new();
    change(&node, &mut random, &mut model);
    for name in ["s0", "s1"] {
        snapshot(&node, name, "logs").unwrap();
    }
    take_out(&node, "acme", "s0").unwrap();
    remove(&node, &["s0"]).unwrap();
    take_out(&node, "acme", "s1").unwrap();
    let fresh = node_of(folder.path());
    mount(&fresh, "frozen", "s1", Storage::SharedCache).unwrap();
    assert_eq!(content(&fresh, "frozen"), without(&model, "acme"));
}

#[test]
fn a_split_of_one_tenant_is_removed_whole_and_its_empty_shard_stays() {
    let folder = tempfile::tempdir().unwrap();
    let node = node_of(folder.path());
    by_tenant(&node, "logs", 2);
    for number in 0..5 {
        let event = json!({"@timestamp": number, "tenant": "acme", "word": "w", "text": "acme said so"});
        node.write(of("acme", index("logs", &number.to_string(), event)));
    }
    node.flush("logs");
    snapshot(&node, "s", "logs").unwrap();
    mount(&node, "frozen", "s", Storage::SharedCache).unwrap();
    let done = take_out(&node, "acme", "s").unwrap();
    assert_eq!((done.splits_rewritten, done.splits_dropped, done.documents), (0, 1, 5));
    assert_eq!(done.written_bytes, 0);
    assert!(objects(folder.path(), "splits").is_empty());
    assert_eq!(content(&node, "frozen"), Model::new());
    let fresh = node_of(folder.path());
    mount(&fresh, "frozen", "s", Storage::SharedCache).unwrap();
    mount(&fresh, "cold", "s", Storage::FullCopy).unwrap();
    restore(&fresh, restore_request("s", &["logs"])).unwrap();
    for name in ["frozen", "cold", "logs"] {
        assert_eq!(content(&fresh, name), Model::new(), "{name}");
    }
    let event = json!({"@timestamp": 1, "tenant": "globex", "word": "w", "text": "globex said so"});
    fresh.write(of("globex", index("logs", "1", event)));
    assert_eq!(content(&fresh, "logs").len(), 1);
}

/// A manifest lists no tenants of a split that has very many.
#[test]
fn splits_without_a_tenant_list_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let node = node_of(folder.path());
    by_tenant(&node, "logs", 1);
    let event = |number: u32| {
        let tenant = format!("t{number}");
        let event = json!({"@timestamp": number, "tenant": tenant, "word": "w", "text": "x"});
        of(&tenant, index("logs", "1", event))
    };
    let written = node.bulk((0..4200).map(event).collect());
    assert!(written.iter().all(|item| item.result.is_ok()));
    node.flush("logs");
    snapshot(&node, "s", "logs").unwrap();
    assert_eq!(holding(&node, "t7"), [("s".to_owned(), 0)], "not in the manifest");
    let splits = objects(folder.path(), "splits");
    assert_eq!(take_out(&node, "noname", "s").unwrap(), RewrittenSnapshot::default());
    assert_eq!(holding(&node, "noname"), []);
    assert_eq!(objects(folder.path(), "splits"), splits);
    assert_eq!(take_out(&node, "t7", "s").unwrap().documents, 1);
    assert_eq!(holding(&node, "t7"), [], "the rewritten split need not be read");
    assert_eq!(take_out(&node, "t7", "s").unwrap().documents, 0);
    assert_eq!(holding(&node, "t7"), []);
    let fresh = node_of(folder.path());
    mount(&fresh, "frozen", "s", Storage::SharedCache).unwrap();
    assert_eq!(fresh.count("frozen", all()), 4199);
    assert_eq!(fresh.count("frozen", json!({"term": {"tenant": "t7"}})), 0);
}

#[test]
fn a_readonly_repository_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let node = node_of(folder.path());
    by_tenant(&node, "logs", 1);
    let event = json!({"@timestamp": 1, "tenant": "acme", "word": "w", "text": "acme said so"});
    node.write(of("acme", index("logs", "1", event)));
    snapshot(&node, "s", "logs").unwrap();
    assert_eq!(
        take_out(&node, "acme", "none").unwrap_err().kind(),
        ErrorKind::SnapshotMissing
    );
    let reader = node_of(folder.path());
    register_unverified(&reader, json!({"location": "backups", "readonly": true}));
    let before = objects(folder.path(), "");
    assert_eq!(
        take_out(&reader, "acme", "s").unwrap_err().kind(),
        ErrorKind::Repository
    );
    assert_eq!(objects(folder.path(), ""), before);
    assert_eq!(holding(&reader, "acme"), [("s".to_owned(), 1)]);
}
