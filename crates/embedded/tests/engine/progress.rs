//! Tests of the progress of snapshots and restores, read while one of their requests is held.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_embedded::EmbeddedConfig;
use firn_engine::admin::ForceMergeRequest;
use firn_engine::recovery::{RecoverySource, ShardRecovery};
use firn_engine::snapshot::{PutRepository, RestoreSnapshot, ShardSnapshotStatus, Snapshots as _};
use firn_engine::{Engine as _, ErrorKind, RequestContext, Result, Scope};
use firn_model::tenant::TenantId;
use firn_query::search::IndexTarget;
use firn_storage::object::{ObjectStores, StoresConfig};
use firn_testkit::{Fault, FaultProxy, Faults, Gateway, Method, Rule};
use serde_json::json;

use crate::node::{Node, ctx, index, target};
use crate::snapshots::{reach, request, restore_request};

/// Timeout of a held request.
const READ_TIMEOUT: &str = "120s";

/// Store with a proxy in front of it.
struct Store {
    _folder: tempfile::TempDir,
    gateway: Gateway,
    proxy: FaultProxy,
}

impl Store {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let gateway = Gateway::start(folder.path(), &["bucket"]).unwrap();
        let proxy = FaultProxy::start(gateway.port(), firn_testkit::seed("progress")).unwrap();
        Self {
            _folder: folder,
            gateway,
            proxy,
        }
    }

    /// Returns a node with a repository `r` in the store.
    fn node(&self) -> Node {
        let node = Node::with(|config: &mut EmbeddedConfig| {
            // For the threads that call object stores.
            reach(std::path::Path::new("/"), config);
            let mut stores = StoresConfig::new(7);
            let secrets = [
                ("s3.client.default.access_key", self.gateway.access_key()),
                ("s3.client.default.secret_key", self.gateway.secret_key()),
            ];
            stores.clients = secrets.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            config.object_stores = Arc::new(ObjectStores::new(stores));
            config.shared_cache_bytes = 16 << 20;
        });
        let settings = json!({
            "bucket": "bucket", "base_path": "backups", "endpoint": self.proxy.endpoint(), "read_timeout": READ_TIMEOUT,
            "buffer_size": "5mb", "max_snapshot_bytes_per_sec": "-1", "max_restore_bytes_per_sec": "-1",
        });
        let put = PutRepository {
            name: "r".to_owned(),
            kind: "s3".to_owned(),
            settings,
            verify: false,
        };
        node.run(node.engine.put_repository(&ctx(), put)).unwrap();
        node
    }

    fn hold(&self, rule: Rule) {
        self.proxy.set(Faults::rules([rule]));
    }

    fn go_on(&self) {
        self.proxy.set(Faults::default());
    }
}

/// Waits until `find` returns a value. No test depends on timing.
fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs work on a separate thread.
fn beside<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> std::thread::JoinHandle<Result<T>> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(work)
    })
}

fn text(random: &mut fastrand::Rng, bytes: usize) -> String {
    (0..bytes).map(|_| random.alphanumeric()).collect()
}

fn status(node: &Node) -> Option<ShardSnapshotStatus> {
    let names = vec!["s".to_owned()];
    let found = node
        .run(node.engine.snapshot_status(&ctx(), Some("r"), &names, true))
        .unwrap();
    Some(found.into_iter().next()?.indices.first()?.shards.first()?.clone())
}

#[test]
fn a_snapshot_reports_the_progress_of_a_large_split() {
    let seed = firn_testkit::seed("progress of a snapshot");
    let mut random = fastrand::Rng::with_seed(seed);
    let store = Store::start();
    let node = store.node();
    let mappings = json!({"properties": {"text": {"type": "keyword", "index": false, "doc_values": false}}});
    node.create(
        "logs",
        json!({"settings": {"number_of_shards": 1}, "mappings": mappings}),
    )
    .unwrap();
    // More than one part when it is compressed.
    let events = (0..90).map(|number| index("logs", &number.to_string(), json!({"text": text(&mut random, 100_000)})));
    assert!(node.bulk(events.collect()).iter().all(|item| item.result.is_ok()));
    let merge = ForceMergeRequest {
        target: target("logs"),
        max_num_segments: Some(1),
        only_expunge_deletes: false,
        flush: true,
    };
    node.run(node.engine.force_merge(&ctx(), merge)).unwrap();
    store.hold(Rule::next(Fault::Hold, 1).of(Method::Put).at("partNumber=2"));
    let engine = Arc::clone(&node.engine);
    let making = beside(async move { engine.create_snapshot(&ctx(), request("s", "logs")).await });
    let held = wait_for("the second part", || {
        let status = status(&node)?;
        (store.proxy.held() == 1 && status.processed.bytes > status.incremental.bytes / 2).then_some(status)
    });
    // The split is built and one part of it is stored.
    assert_eq!((held.incremental.files, held.processed.files), (1, 0));
    assert!(held.processed.bytes < held.incremental.bytes, "{held:?}");
    assert_eq!(held.total.bytes, held.incremental.bytes);
    store.go_on();
    making.join().unwrap().unwrap();
    let done = status(&node).unwrap();
    assert_eq!(done.processed, done.incremental);
    assert_eq!(done.incremental, held.incremental);
}

fn recoveries(node: &Node, ctx: &RequestContext, names: &str) -> Result<Vec<ShardRecovery>> {
    let mut target: IndexTarget = target(names);
    target.options.expand_hidden = true;
    node.run(node.engine.recoveries(ctx, target))?.require()
}

/// Writes an index of several tenants and one without tenants, each of two shards, and takes a snapshot.
fn fill(node: &Node) {
    for (name, settings) in [
        ("shared", json!({"number_of_shards": 2, "index.tenant.field": "tenant"})),
        ("plain", json!({"number_of_shards": 2})),
    ] {
        let body = json!({"settings": settings, "aliases": {format!("{name}-alias"): {}},
            "mappings": {"properties": {"tenant": {"type": "keyword"}}}});
        node.create(name, body).unwrap();
        let events = (0..60).map(|number| {
            let mut item = index(
                name,
                &number.to_string(),
                json!({"tenant": format!("t{}", number % 8), "n": number}),
            );
            item.routing = Some(format!("t{}", number % 8)).filter(|_| name == "shared");
            item
        });
        assert!(node.bulk(events.collect()).iter().all(|item| item.result.is_ok()));
        node.flush(name);
    }
    node.run(node.engine.create_snapshot(&ctx(), request("s", "shared,plain")))
        .unwrap();
}

#[test]
fn a_restore_reports_its_progress_before_its_indices_exist() {
    let store = Store::start();
    fill(&store.node());
    let node = store.node();
    // One split is restored, and the request for the next one is held.
    store.hold(Rule::next(Fault::Hold, 1).of(Method::Get).at("/splits/").after(1));
    let mut restore = restore_request("s", &["shared", "plain"]);
    restore.rename = Some(("(.+)".to_owned(), "back-$1".to_owned()));
    let engine = Arc::clone(&node.engine);
    let restoring = beside(async move { engine.restore_snapshot(&ctx(), restore).await });
    wait_for("the second split", || {
        let came: u64 = recoveries(&node, &ctx(), "*")
            .unwrap()
            .iter()
            .map(|shard| shard.files.recovered)
            .sum();
        (store.proxy.held() == 1 && came == 1).then_some(())
    });
    let check = |names: &str, expect: &[(&str, u32)]| {
        let shards = recoveries(&node, &ctx(), names).unwrap();
        let found: Vec<(&str, u32)> = shards.iter().map(|shard| (shard.index.as_str(), shard.shard)).collect();
        assert_eq!(found, expect, "{names}");
        shards
    };
    let plain = check("back-plain", &[("back-plain", 0), ("back-plain", 1)]);
    let source = RecoverySource::Snapshot {
        repository: "r".to_owned(),
        snapshot: "s".to_owned(),
        index: "plain".to_owned(),
    };
    assert!(plain.iter().all(|shard| shard.source == source));
    // By name, by pattern, by alias: all return the same.
    assert_eq!(check("back-pl*", &[("back-plain", 0), ("back-plain", 1)]), plain);
    assert_eq!(check("plain-alias", &[("back-plain", 0), ("back-plain", 1)]), plain);
    let all = check(
        "*",
        &[
            ("back-plain", 0),
            ("back-plain", 1),
            ("back-shared", 0),
            ("back-shared", 1),
        ],
    );
    let sum = |count: fn(&ShardRecovery) -> u64| all.iter().map(count).sum::<u64>();
    assert_eq!(sum(|shard| shard.files.recovered), 1, "{all:?}");
    assert!(sum(|shard| shard.files.total) >= 4, "{all:?}");
    // The held split has no bytes yet; the previous one is complete.
    let came = sum(|shard| shard.bytes.recovered);
    assert!(came > 0 && came < sum(|shard| shard.bytes.total) / 2, "{all:?}");
    assert!(all.iter().all(|shard| shard.bytes.total > 0));
    let stages = all.iter().map(ShardRecovery::stage);
    assert!(stages.filter(|stage| *stage == "INDEX").count() >= 3, "{all:?}");
    // No other request can see it.
    assert_eq!(
        node.search("back-plain", json!({})).unwrap_err().kind(),
        ErrorKind::IndexNotFound
    );
    assert_eq!(
        recoveries(&node, &ctx(), "back-other").unwrap_err().kind(),
        ErrorKind::IndexNotFound
    );
    // Restores are for operators: other callers learn nothing of them, not even whether a name is being restored.
    let within = Scope::operator().within(vec!["back-*".to_owned()]);
    let tenant = Scope::tenant(TenantId::parse("t1").unwrap());
    for scope in [tenant, within] {
        let limited = RequestContext {
            scope: Arc::new(scope),
            ..ctx()
        };
        let refused = ["*", "back-shared", "back-other"].map(|names| recoveries(&node, &limited, names).unwrap_err());
        assert!(refused.iter().all(|error| error.kind() == ErrorKind::Forbidden));
        assert!(
            refused.iter().all(|error| error.reason() == refused[0].reason()),
            "{refused:?}"
        );
    }
    store.go_on();
    restoring.join().unwrap().unwrap();
    let done = recoveries(&node, &ctx(), "back-*").unwrap();
    assert_eq!(done.len(), 4);
    assert!(
        done.iter()
            .all(|shard| shard.stage() == "DONE" && shard.bytes.recovered == shard.bytes.total),
        "{done:?}"
    );
    assert_eq!(node.count("back-shared", json!({"match_all": {}})), 60);
}

#[test]
fn a_failed_restore_is_not_reported() {
    let store = Store::start();
    fill(&store.node());
    let node = store.node();
    store.hold(Rule::next(Fault::Hold, 1).of(Method::Get).at("/splits/"));
    let cancel = firn_query::Cancel::default();
    let lasting = firn_engine::BackgroundTask::new(cancel.clone(), ());
    let context = RequestContext {
        lasting: Some(lasting),
        ..ctx()
    };
    let engine = Arc::clone(&node.engine);
    let restore = RestoreSnapshot {
        rename: Some(("(.+)".to_owned(), "back-$1".to_owned())),
        ..restore_request("s", &["plain"])
    };
    let restoring = beside(async move { engine.restore_snapshot(&context, restore).await });
    wait_for("the split", || (store.proxy.held() == 1).then_some(()));
    assert_eq!(recoveries(&node, &ctx(), "back-plain").unwrap().len(), 2);
    cancel.cancel();
    store.go_on();
    assert!(restoring.join().unwrap().is_err());
    assert_eq!(
        recoveries(&node, &ctx(), "back-plain").unwrap_err().kind(),
        ErrorKind::IndexNotFound
    );
    assert_eq!(recoveries(&node, &ctx(), "*").unwrap(), []);
}

#[test]
fn names_of_a_running_restore_cannot_be_taken() {
    let store = Store::start();
    fill(&store.node());
    let node = store.node();
    store.hold(Rule::next(Fault::Hold, 1).of(Method::Get).at("/splits/"));
    let restore = RestoreSnapshot {
        rename: Some(("(.+)".to_owned(), "back-$1".to_owned())),
        ..restore_request("s", &["plain"])
    };
    let (engine, again) = (Arc::clone(&node.engine), restore.clone());
    let restoring = beside(async move { engine.restore_snapshot(&ctx(), restore).await });
    wait_for("the split", || (store.proxy.held() == 1).then_some(()));
    let refused = node.create("back-plain", json!({})).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ResourceAlreadyExists, "{refused}");
    let refused = node
        .create("other", json!({"aliases": {"back-plain": {}}}))
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ResourceAlreadyExists, "{refused}");
    // In the other direction: an alias that the restored index will have cannot be the name of a new index.
    let refused = node.create("plain-alias", json!({})).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ResourceAlreadyExists, "{refused}");
    let written = node.bulk(vec![index("back-plain", "new", json!({"n": 1}))]);
    let refused = written[0].result.as_ref().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ShardDamaged, "{refused}");
    let engine = Arc::clone(&node.engine);
    let twice = node.run(async move { engine.restore_snapshot(&ctx(), again).await });
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::SnapshotRestore);
    // Unrelated requests succeed.
    node.create("another", json!({})).unwrap();
    store.go_on();
    restoring.join().unwrap().unwrap();
    assert_eq!(node.count("back-plain", json!({"match_all": {}})), 60);
    let written = node.bulk(vec![index("back-plain", "new", json!({"n": 1}))]);
    assert!(written[0].result.is_ok());
}

#[test]
fn a_failed_restore_releases_its_names() {
    let store = Store::start();
    fill(&store.node());
    let node = store.node();
    store.hold(Rule::next(Fault::Hold, 1).of(Method::Get).at("/splits/"));
    let cancel = firn_query::Cancel::default();
    let context = RequestContext {
        lasting: Some(firn_engine::BackgroundTask::new(cancel.clone(), ())),
        ..ctx()
    };
    let engine = Arc::clone(&node.engine);
    let restore = RestoreSnapshot {
        rename: Some(("(.+)".to_owned(), "back-$1".to_owned())),
        ..restore_request("s", &["plain"])
    };
    let restoring = beside(async move { engine.restore_snapshot(&context, restore).await });
    wait_for("the split", || (store.proxy.held() == 1).then_some(()));
    assert!(node.create("back-plain", json!({})).is_err());
    cancel.cancel();
    store.go_on();
    assert!(restoring.join().unwrap().is_err());
    node.create("back-plain", json!({})).unwrap();
}

/// A snapshot of a pattern takes the remaining indices; a snapshot by name fails.
#[test]
fn an_index_that_is_deleted_before_its_shards_are_held_is_left_out() {
    let store = Store::start();
    fill(&store.node());
    let node = store.node();
    node.create("keep", json!({})).unwrap();
    for (name, indices, expect) in [
        ("of a pattern", "soon-*,keep", Ok(vec!["keep".to_owned()])),
        ("by name", "soon-gone,keep", Err(ErrorKind::IndexNotFound)),
    ] {
        node.create("soon-gone", json!({"settings": {"number_of_shards": 2}}))
            .unwrap();
        // The lease of the snapshot is written before the shards are held.
        store.hold(Rule::next(Fault::Hold, 1).of(Method::Put));
        let engine = Arc::clone(&node.engine);
        let request = request(&name.replace(' ', "-"), indices);
        let making = beside(async move { engine.create_snapshot(&ctx(), request).await });
        wait_for("the mark", || (store.proxy.held() == 1).then_some(()));
        node.execute(firn_model::metadata::Command::DeleteIndices {
            names: vec!["soon-gone".to_owned()],
        })
        .unwrap();
        store.go_on();
        let made = making.join().unwrap();
        assert_eq!(
            made.map(|info| info.indices).map_err(|error| error.kind()),
            expect,
            "{name}"
        );
    }
}
