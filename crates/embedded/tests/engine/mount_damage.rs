//! Tests of damaged, lost or too small local files of mounted indices: answers stay correct, and files are repaired.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use firn_engine::context::OpenPointInTime;
use firn_engine::mounts::{SearchableSnapshots, SharedCacheStats, Storage};
use firn_engine::{Engine, ErrorKind, Result};
use firn_query::query::Query;
use firn_query::search::SearchResponse;
use serde_json::{Value, json};

use crate::isolation::of;
use crate::mounts::{mount_as, node_of, reopened, shards, use_cache};
use crate::node::{Node, ctx, index, target};
use crate::snapshots::{reach, register_unverified, snapshot};

/// Enough that the splits are far larger than the smallest caches here.
const EVENTS: usize = 6000;
/// Events per segment.
const SEGMENT: usize = 2000;
/// More than the maximum delay of a copy.
const REPAIR_TIME_MAX: Duration = Duration::from_secs(60);

/// Returns an event with unique terms, so that splits do not shrink to nothing.
fn event(number: usize) -> Value {
    let mut random = fastrand::Rng::with_seed(number as u64);
    let text: String = (0..120).map(|_| random.alphanumeric()).collect();
    json!({"n": number, "user": format!("user-{number}"), "text": text})
}

/// Returns a repository with the snapshot `first` of an index `logs`.
fn repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let writer = node_of(folder.path());
    let mapping = json!({"mappings": {"properties": {"user": {"type": "keyword"}, "text": {"type": "keyword"}}}});
    writer.create("logs", mapping).unwrap();
    for start in (0..EVENTS).step_by(SEGMENT) {
        let events = start..start + SEGMENT;
        let written = writer.bulk(events.map(|n| index("logs", &n.to_string(), event(n))).collect());
        assert!(written.iter().all(|item| item.result.is_ok()));
        writer.flush("logs");
    }
    snapshot(&writer, "first", "logs").unwrap();
    folder
}

/// Returns a node that knows the repository, with a cache of this size.
fn node_with_cache(repositories: &Path, bytes: u64) -> Node {
    let node = Node::with(|config| {
        reach(repositories, config);
        config.shared_cache_bytes = bytes;
    });
    register_unverified(&node, json!({"location": "backups"}));
    node
}

fn ask_for(node: &Node, name: &str, number: usize) -> Result<SearchResponse> {
    let sum = json!({"sum": {"sum": {"field": "n"}}});
    node.search(
        name,
        json!({"query": {"term": {"user": format!("user-{number}")}}, "aggs": sum}),
    )
}

/// Checks some events; different ones in each round, so that no answer is cached.
#[track_caller]
fn check_events(node: &Node, name: &str, round: usize) {
    for number in (round..EVENTS).step_by(631) {
        let found = ask_for(node, name, number).unwrap();
        assert!(found.shards.failures.is_empty(), "{:?}", found.shards.failures);
        assert_eq!(found.hits.len(), 1, "{number}");
        let source = found.hits[0].source.as_ref().expect("a source");
        assert_eq!(serde_json::from_slice::<Value>(source).unwrap(), event(number));
        assert_eq!(found.aggregations.unwrap()["sum"]["value"], number as f64);
    }
}

fn cache_stats(node: &Node) -> SharedCacheStats {
    let stats = node.run(node.engine.shared_cache_stats(&ctx())).unwrap();
    stats.expect("a cache")
}

pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => found.extend(files_below(&path)),
            false => found.push(path),
        }
    }
    found
}

/// Returns the copies of splits on the node, with their bytes.
fn copies(node: &Node) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = files_below(&node.path().join("indices")).into_iter();
    let copies = files.filter(|path| path.extension().is_some_and(|extension| extension == "split"));
    copies
        .map(|path| (path.clone(), fs::read(&path).unwrap_or_default()))
        .collect()
}

#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < REPAIR_TIME_MAX, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn is_here(node: &Node, name: &str) -> bool {
    let shards = shards(node, name);
    shards
        .iter()
        .all(|shard| shard.splits.is_some_and(|splits| splits.local_bytes == splits.bytes))
}

/// Returns a node with a full copy, and the files of the copy.
fn with_copy(repositories: &Path) -> (Node, BTreeMap<PathBuf, Vec<u8>>) {
    let node = node_of(repositories);
    mount_as(&node, "cold", Storage::FullCopy).unwrap();
    eventually("the copy", || is_here(&node, "cold"));
    let copies = copies(&node);
    assert!(!copies.is_empty());
    (node, copies)
}

/// Name of a kind of damage, and the function that applies it to a file.
type Damage = (&'static str, fn(&Path));

/// Kinds of damage of a copied file.
const DAMAGES: [Damage; 4] = [
    ("every page has another bit", flip_pages),
    ("cut to half", |path| {
        let len = fs::metadata(path).unwrap().len();
        fs::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(len / 2)
            .unwrap();
    }),
    ("empty", |path| fs::write(path, b"").unwrap()),
    ("gone", |path| fs::remove_file(path).unwrap()),
];

/// Written in place: processes with the file open see the damage.
fn flip_pages(path: &Path) {
    use std::os::unix::fs::FileExt;
    let bytes = fs::read(path).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    for page in (0..bytes.len()).step_by(4096) {
        file.write_all_at(&[bytes[page] ^ 1], page as u64).unwrap();
    }
}

/// Checks that a copy is repaired that is damaged while its node runs, before or after its splits were opened.
fn is_made_again(repositories: &Path, how: &str, damage: fn(&Path), is_open: bool) {
    let (node, copies_before) = with_copy(repositories);
    // Mounting reads filters.
    let mounted = cache_stats(&node).store_requests;
    if is_open {
        check_events(&node, "cold", 0);
    }
    assert_eq!(cache_stats(&node).store_requests, mounted, "the copy is read");
    copies_before.keys().for_each(|path| damage(path));
    check_events(&node, "cold", 1);
    assert!(
        cache_stats(&node).store_requests > mounted,
        "{how}: the damage was not read"
    );
    eventually("the repair", || copies(&node) == copies_before);
    eventually("the copy", || is_here(&node, "cold"));
    let requests = cache_stats(&node).store_requests;
    check_events(&node, "cold", 2);
    assert_eq!(
        cache_stats(&node).store_requests,
        requests,
        "{how}: the new copy is read"
    );
}

/// Checks the same with the damage between two runs of a node.
fn is_made_again_by_the_next(repositories: &Path, how: &str, damage: fn(&Path)) {
    let (node, copies_before) = with_copy(repositories);
    node.run(firn_engine::Engine::close(&*node.engine)).unwrap();
    copies_before.keys().for_each(|path| damage(path));
    let node = reopened(node, repositories);
    check_events(&node, "cold", 0);
    assert!(cache_stats(&node).store_requests > 0, "{how}: the damage was not read");
    eventually("the repair", || copies(&node) == copies_before);
}

#[test]
fn a_damaged_or_lost_copy_is_repaired() {
    let repositories = repository();
    let folder = repositories.path();
    // In parallel: the tests mostly wait for the clock of their nodes.
    std::thread::scope(|scope| {
        for (how, damage) in DAMAGES {
            scope.spawn(move || is_made_again(folder, how, damage, false));
            scope.spawn(move || is_made_again(folder, how, damage, true));
            scope.spawn(move || is_made_again_by_the_next(folder, how, damage));
        }
    });
}

#[test]
fn data_missing_in_the_copy_and_the_repository_is_reported() {
    let repositories = repository();
    let (node, copies) = with_copy(repositories.path());
    fs::remove_dir_all(repositories.path().join("backups/splits")).unwrap();
    copies.keys().for_each(|path| flip_pages(path));
    for number in [0, SEGMENT, EVENTS - 1] {
        match ask_for(&node, "cold", number) {
            Ok(found) => {
                assert!(found.hits.is_empty(), "{:?}", found.hits);
                assert!(!found.shards.failures.is_empty());
            }
            Err(error) => assert!(error.to_string().contains("splits/"), "{error}"),
        }
    }
}

#[test]
fn a_cache_file_that_is_damaged_under_a_running_node_changes_no_answer() {
    let repositories = repository();
    let node = node_of(repositories.path());
    mount_as(&node, "frozen", Storage::SharedCache).unwrap();
    check_events(&node, "frozen", 0);
    let file = node.path().join("regions/regions.data");
    let before = cache_stats(&node);
    assert!(before.used_bytes > 0);

    flip_pages(&file);
    check_events(&node, "frozen", 1);
    let flipped = cache_stats(&node);
    assert!(flipped.damaged_pages > before.damaged_pages, "the damage was not read");
    assert!(flipped.store_requests > before.store_requests);

    fs::File::options().write(true).open(&file).unwrap().set_len(0).unwrap();
    check_events(&node, "frozen", 2);
    assert!(cache_stats(&node).store_requests > flipped.store_requests);

    // The file was removed under this process: it continues with the open file, the next process starts anew.
    fs::remove_file(&file).unwrap();
    check_events(&node, "frozen", 3);
    let node = reopened(node, repositories.path());
    check_events(&node, "frozen", 4);
    fs::write(node.path().join("regions/regions.journal"), b"FIRN-REGnonsense").unwrap();
    let node = reopened(node, repositories.path());
    check_events(&node, "frozen", 5);
}

#[test]
fn a_manifest_that_is_damaged_or_lost_is_read_from_the_repository() {
    let repositories = repository();
    let node = node_of(repositories.path());
    mount_as(&node, "frozen", Storage::SharedCache).unwrap();
    let folder = node.path().join("mounts");
    let manifests = || -> Vec<PathBuf> {
        let entries = fs::read_dir(&folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let files = manifests();
    assert_eq!(files.len(), 1);
    let whole = fs::read(&files[0]).unwrap();
    assert_eq!(
        crc32c::crc32c(&whole[4..]).to_le_bytes(),
        whole[..4],
        "as docs/formats/mounts.md says"
    );
    let mut node = node;
    for (round, damage) in ["", "x", "another manifest altogether"].into_iter().enumerate() {
        fs::write(&files[0], damage).unwrap();
        node = reopened(node, repositories.path());
        check_events(&node, "frozen", round);
        assert_eq!(fs::read(&files[0]).unwrap(), whole, "it is replaced");
    }
    let mut flipped = whole.clone();
    let last = flipped.len() / 2;
    flipped[last] ^= 1;
    fs::write(&files[0], flipped).unwrap();
    node = reopened(node, repositories.path());
    check_events(&node, "frozen", 3);
    assert_eq!(fs::read(&files[0]).unwrap(), whole, "it is replaced");
    fs::remove_file(&files[0]).unwrap();
    node = reopened(node, repositories.path());
    check_events(&node, "frozen", 4);
    assert_eq!(fs::read(&files[0]).unwrap(), whole, "it is stored again");
    drop(node);
}

#[test]
fn a_search_that_needs_more_than_the_cache_succeeds() {
    let repositories = repository();
    for bytes in [0, 64 << 10, 192 << 10] {
        let node = node_with_cache(repositories.path(), bytes);
        mount_as(&node, "frozen", Storage::SharedCache).unwrap();
        for round in 0..2 {
            // All documents, and all values of a column with as many values.
            let body = json!({
                "size": EVENTS,
                "sort": ["n"],
                "query": {"range": {"n": {"gte": round}}},
                "aggs": {"users": {"cardinality": {"field": "user", "precision_threshold": 40000}}},
            });
            let found = node.search("frozen", body).unwrap();
            assert!(found.shards.failures.is_empty(), "{:?}", found.shards.failures);
            assert_eq!(found.hits.len(), EVENTS - round);
            assert_eq!(found.aggregations.unwrap()["users"]["value"], EVENTS - round);
            for (hit, number) in found.hits.iter().zip(round..) {
                let source = hit.source.as_ref().expect("a source");
                assert_eq!(serde_json::from_slice::<Value>(source).unwrap(), event(number));
            }
        }
        check_events(&node, "frozen", 0);
        let stats = cache_stats(&node);
        assert!(stats.used_bytes <= bytes, "{} of {bytes}", stats.used_bytes);
        let all: u64 = stats.kinds.iter().map(|(_, kind)| kind.fetched_bytes).sum();
        assert!(all > 4 * bytes, "only {all} bytes were fetched");
    }
}

#[test]
fn a_split_missing_in_the_store_is_not_a_missing_document() {
    let repositories = repository();
    let node = node_with_cache(repositories.path(), 0);
    mount_as(&node, "frozen", Storage::SharedCache).unwrap();
    fs::remove_dir_all(repositories.path().join("backups").join("splits")).unwrap();
    let error = node.try_get("frozen", "17").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Repository, "{error}");
    assert!(
        error.reason().contains("a split is missing in its repository"),
        "{error}"
    );
    let error = ask_for(&node, "frozen", 17).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Repository, "{error}");
}

/// No tenant may see the names and paths of objects in the repository.
#[test]
fn errors_for_tenants_do_not_name_lost_objects() {
    let repositories = tempfile::tempdir().unwrap();
    let node = node_of(repositories.path());
    node.create("logs", json!({"settings": {"index.tenant.field": "tenant"}}))
        .unwrap();
    let tenant = of(&node, "acme");
    tenant.write(index("logs", "1", json!({"user": "ann"}))).unwrap();
    tenant.write(index("logs", "2", json!({"user": "bob"}))).unwrap();
    snapshot(&node, "first", "logs").unwrap();
    // A node that has not read the splits yet.
    let node = node_with_cache(repositories.path(), 0);
    mount_as(&node, "frozen", Storage::SharedCache).unwrap();
    fs::remove_dir_all(repositories.path().join("backups").join("splits")).unwrap();
    node.create("now", json!({"settings": {"index.tenant.field": "tenant"}}))
        .unwrap();
    let tenant = of(&node, "acme");
    tenant.write(index("now", "3", json!({"user": "cat"}))).unwrap();

    let opened = OpenPointInTime {
        target: target("frozen,now"),
        routing: Vec::new(),
        keep_alive: Duration::from_secs(60),
        index_filter: None,
        allow_partial_results: true,
    };
    let opened = node
        .run(node.disclosed().open_point_in_time(&tenant.ctx, opened))
        .unwrap();
    let query = Query::parse(&json!({"term": {"user": "ann"}})).unwrap();
    let explained = node
        .run(node.disclosed().explain_query(&tenant.ctx, target("frozen"), query))
        .unwrap();
    let failures = opened.shards.failures.iter().map(|(_, _, error)| error);
    let errors: Vec<_> = failures
        .chain(
            explained
                .iter()
                .filter_map(|explained| explained.outcome.as_ref().err()),
        )
        .collect();
    assert_eq!(errors.len(), 2);
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Repository);
        assert_eq!(error.reason(), "the snapshot repository is damaged or incomplete");
        assert!(error.cause().is_none());
    }
}

/// Copies wait for disk space, and leave no files if there is none.
#[test]
fn a_copy_starts_when_there_is_disk_space() {
    const GB: u64 = 1 << 30;
    let repositories = repository();
    // One byte more than the watermark requires.
    let available = Arc::new(AtomicU64::new(5 * GB + 1));
    let probe = Arc::clone(&available);
    let node = Node::with(|config| {
        use_cache(repositories.path(), config);
        config.space = Some(Arc::new(move || Ok((100 * GB, probe.load(Ordering::Relaxed)))));
    });
    register_unverified(&node, json!({"location": "backups"}));
    mount_as(&node, "cold", Storage::FullCopy).unwrap();
    // Copies are checked every five seconds.
    std::thread::sleep(Duration::from_secs(7));
    assert_eq!(files_below(&node.path().join("indices")), Vec::<PathBuf>::new());
    check_events(&node, "cold", 0);
    available.store(50 * GB, Ordering::Relaxed);
    eventually("the copy", || is_here(&node, "cold"));
    check_events(&node, "cold", 1);
}
