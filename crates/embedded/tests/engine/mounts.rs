//! Tests of mounted indices through the engine's interface.

use std::path::Path;
use std::sync::Arc;

use firn_embedded::EmbeddedConfig;
use firn_engine::Engine as _;
use firn_engine::mounts::{MountSnapshot, Mounted, MountedShardStats, SearchableSnapshots, Storage};
use firn_engine::{ErrorKind, Result};
use firn_model::metadata::Command;
use firn_query::search::SearchRequest;
use firn_storage::RealDisk;
use serde_json::{Value, json};

use crate::node::{Node, ctx, index, target};
use crate::snapshots::{all, check_restored, fill, reach, register_unverified, snapshot};

pub(crate) fn use_cache(repositories: &Path, config: &mut EmbeddedConfig) {
    reach(repositories, config);
    config.shared_cache_bytes = 16 << 20;
}

/// Returns a node with a repository `r` in the folder and a cache.
pub(crate) fn node_of(repositories: &Path) -> Node {
    let node = Node::with(|config| use_cache(repositories, config));
    register_unverified(&node, json!({"location": "backups"}));
    node
}

/// Returns the node after a kill.
pub(crate) fn reopened(node: Node, repositories: &Path) -> Node {
    let folder = Arc::clone(&node.folder);
    drop(node);
    Node::open(folder, Arc::new(RealDisk), |config| use_cache(repositories, config)).unwrap()
}

pub(crate) fn mount_as(node: &Node, name: &str, storage: Storage) -> Result<Mounted> {
    let request = MountSnapshot {
        repository: "r".to_owned(),
        snapshot: "first".to_owned(),
        index: "logs".to_owned(),
        renamed_index: Some(name.to_owned()),
        storage,
        index_settings: Value::Null,
        ignore_index_settings: Vec::new(),
    };
    node.run(node.engine.mount_snapshot(&ctx(), request))
}

pub(crate) fn shards(node: &Node, name: &str) -> Vec<MountedShardStats> {
    node.run(node.engine.mounted_shards(&ctx(), target(name))).unwrap()
}

/// Returns the number of requests to object stores so far.
pub(crate) fn requests(node: &Node) -> u64 {
    let stats = node.run(node.engine.shared_cache_stats(&ctx())).unwrap();
    stats.expect("a cache").store_requests
}

#[test]
fn a_mounted_index_answers_like_the_original() {
    let folder = tempfile::tempdir().unwrap();
    let writer = node_of(folder.path());
    let made = fill(&writer);
    snapshot(&writer, "first", "logs").unwrap();
    // Another node, which knows only the repository.
    let node = node_of(folder.path());
    for (name, storage) in [("frozen", Storage::SharedCache), ("cold", Storage::FullCopy)] {
        let mounted = mount_as(&node, name, storage).unwrap();
        assert_eq!((mounted.total_shards, mounted.successful_shards), (2, 2));
        check_restored(&node, name, &made);
    }
    // Together and after a restart they give the same answers.
    assert_eq!(node.count("frozen,cold", all()), 80);
    let node = reopened(node, folder.path());
    check_restored(&node, "frozen", &made);
    check_restored(&node, "cold", &made);
    let stats = node
        .run(firn_engine::Engine::stats(&*node.engine, &ctx(), target("frozen")))
        .unwrap();
    let docs: u64 = stats[0].shards.iter().map(|shard| shard.doc_count).sum();
    assert_eq!(docs, 40);
    assert!(
        stats[0]
            .shards
            .iter()
            .all(|shard| shard.failure.is_none() && shard.store_size_bytes == 0)
    );
}

#[test]
fn a_mounted_index_takes_no_writes() {
    let folder = tempfile::tempdir().unwrap();
    let node = node_of(folder.path());
    fill(&node);
    snapshot(&node, "first", "logs").unwrap();
    mount_as(&node, "frozen", Storage::SharedCache).unwrap();
    let error = node.write_error(index("frozen", "new", json!({"user": "new"})));
    assert_eq!(error.kind(), ErrorKind::IndexBlocked);
    assert!(error.reason().contains("FORBIDDEN/8/index write"), "{error}");
    // Maintenance requests do no harm.
    node.refresh("frozen");
    node.flush("frozen");
    assert_eq!(node.count("frozen", all()), 40);
    assert_eq!(
        mount_as(&node, "frozen", Storage::SharedCache).unwrap_err().kind(),
        ErrorKind::ResourceAlreadyExists
    );
}

#[test]
fn cached_data_is_not_fetched_again() {
    let folder = tempfile::tempdir().unwrap();
    let writer = node_of(folder.path());
    fill(&writer);
    snapshot(&writer, "first", "logs").unwrap();
    let node = node_of(folder.path());
    mount_as(&node, "one", Storage::SharedCache).unwrap();
    // Its filters, and the footers of a few splits.
    let mounted = requests(&node);
    assert!(mounted > 0);
    let question = || json!({"term": {"user": "u0"}});
    let hits = |node: &Node, name: &str| {
        let page = json!({"query": question(), "sort": ["_doc"]});
        node.search(name, page).unwrap().hits.len()
    };
    assert_eq!(hits(&node, "one"), 10);
    let first = requests(&node);
    assert!(first > mounted);
    assert_eq!(node.count("one", question()), 10);
    // Another mount of the same snapshot shares open splits and cached data.
    mount_as(&node, "two", Storage::SharedCache).unwrap();
    assert_eq!(hits(&node, "two"), 10);
    assert_eq!(requests(&node), first);
    // Another process with the same disk reads from the cache; cleared data is fetched again.
    let node = reopened(node, folder.path());
    assert_eq!(hits(&node, "one"), 10);
    assert_eq!(requests(&node), 0);
    node.run(node.engine.clear_shared_cache(&ctx(), target("*"))).unwrap();
    assert_eq!(
        shards(&node, "one")
            .iter()
            .filter_map(|shard| shard.splits)
            .map(|splits| splits.local_bytes)
            .sum::<u64>(),
        0
    );
}

#[test]
fn splits_of_another_time_cost_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let writer = node_of(folder.path());
    let mapping = json!({"mappings": {"properties": {"@timestamp": {"type": "date"}}}});
    writer.create("logs", mapping).unwrap();
    writer.write(index("logs", "one", json!({"@timestamp": "2019-05-05"})));
    snapshot(&writer, "first", "logs").unwrap();
    let node = node_of(folder.path());
    mount_as(&node, "frozen", Storage::SharedCache).unwrap();
    let mounted = requests(&node);
    let late = json!({"range": {"@timestamp": {"gte": "2020-01-01"}}});
    assert_eq!(node.count("frozen", late), 0);
    assert_eq!(requests(&node), mounted);
    assert_eq!(
        shards(&node, "frozen")
            .iter()
            .filter_map(|shard| shard.splits)
            .map(|splits| splits.open)
            .sum::<u64>(),
        0
    );
}

#[test]
fn a_full_copy_is_made_in_the_background_and_outlives_the_repository() {
    let folder = tempfile::tempdir().unwrap();
    let writer = node_of(folder.path());
    let made = fill(&writer);
    snapshot(&writer, "first", "logs").unwrap();
    let node = node_of(folder.path());
    mount_as(&node, "cold", Storage::FullCopy).unwrap();
    let is_here = |node: &Node| {
        shards(node, "cold")
            .iter()
            .all(|shard| shard.splits.is_some_and(|splits| splits.local_bytes == splits.bytes))
    };
    for _ in 0..600 {
        if is_here(&node) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(is_here(&node));
    std::fs::remove_dir_all(folder.path().join("backups").join("splits")).unwrap();
    let node = reopened(node, folder.path());
    check_restored(&node, "cold", &made);
    assert_eq!(requests(&node), 0);
    // The copy is removed with the index.
    node.execute(Command::DeleteIndices {
        names: vec!["cold".to_owned()],
    })
    .unwrap();
    assert_eq!(std::fs::read_dir(node.path().join("indices")).unwrap().count(), 0);
}

#[test]
fn an_answer_over_mounted_indices_is_cached_until_it_is_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let writer = node_of(folder.path());
    fill(&writer);
    snapshot(&writer, "first", "logs").unwrap();
    let node = node_of(folder.path());
    mount_as(&node, "frozen", Storage::SharedCache).unwrap();
    let ask = || {
        let body = json!({"size": 0, "aggs": {"users": {"terms": {"field": "user"}}}});
        let request = SearchRequest::parse(target("frozen"), Some(&body)).unwrap();
        let response = node.run(node.engine.search(&ctx(), request)).unwrap();
        response.aggregations.expect("the requested aggregations")
    };
    let first = ask();
    assert!(Arc::ptr_eq(&first, &ask()));
    node.run(node.engine.clear_cache(&ctx(), target("frozen"))).unwrap();
    let second = ask();
    assert!(!Arc::ptr_eq(&first, &second));
    assert_eq!(first, second);
    // Another snapshot under the same name has other cache keys.
    node.execute(Command::DeleteIndices {
        names: vec!["frozen".to_owned()],
    })
    .unwrap();
    mount_as(&node, "frozen", Storage::SharedCache).unwrap();
    assert!(!Arc::ptr_eq(&second, &ask()));
}
