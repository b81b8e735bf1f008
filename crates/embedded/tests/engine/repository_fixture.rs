//! Compatibility tests: a repository written by an earlier build is restored and mounted.
//!
//! `fixtures/` has one folder for each format of a repository or a split that was ever written. A new one is created
//! once by `FIRN_WRITE_FIXTURES=1 cargo test -p firn-embedded --test engine repository_fixture`, and never changed:
//! data in stores stays as it was written. If a format changes within a version, its folder gets a new name in
//! [`NAMES`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_engine::mounts::{MountSnapshot, SearchableSnapshots as _, Storage};
use firn_engine::snapshot::{SnapshotState, Snapshots as _};
use firn_engine::{Engine as _, RequestContext, Scope};
use firn_model::metadata::Command;
use firn_model::tenant::TenantId;
use firn_query::search::SearchRequest;
use firn_testkit::copy_folder;
use serde_json::{Value, json};

use crate::mounts::use_cache;
use crate::node::{Node, add, ctx, delete, index, target};
use crate::snapshots::{all, register_unverified, restore, restore_request, snapshot};

/// Repositories that must be readable; this build writes the last one.
const NAMES: [&str; 1] = ["repository-1"];
/// Maximum bytes of one: it is part of every checkout.
const BYTES_MAX: u64 = 200 << 10;
const TENANTS: u64 = 3;
/// Events of the shared index, and of the data stream: the second snapshot reuses their splits from the first.
const SHARED: u64 = 20;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/engine/fixtures")
        .join(name)
}

fn node(repositories: &Path, settings: Value) -> Node {
    let node = Node::with(|config| use_cache(repositories, config));
    register_unverified(&node, settings);
    node
}

fn plain(number: u64) -> Value {
    json!({
        "@timestamp": 1_700_000_000_000 + number * 60_000, "host": format!("h{}", number % 3), "n": number,
        "text": format!("request {number} took a while"),
    })
}

/// Writes two snapshots of an index with user-given ids, a shared one and a data stream; the second after changes of
/// each kind.
fn write(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let node = node(folder.path(), json!({"location": "backups"}));
    let mappings =
        json!({"properties": {"@timestamp": {"type": "date"}, "host": {"type": "keyword"}, "text": {"type": "text"}}});
    let settings = json!({"number_of_shards": 1});
    node.create(
        "plain",
        json!({"settings": settings, "mappings": mappings, "aliases": {"current": {}}}),
    )
    .unwrap();
    let settings = json!({"number_of_shards": 1, "index.tenant.field": "tenant"});
    node.create(
        "shared",
        json!({"settings": settings, "mappings": {"properties": {"tenant": {"type": "keyword"}}}}),
    )
    .unwrap();
    node.execute(Command::PutIndexTemplate {
        name: "streams".to_owned(),
        body: json!({"index_patterns": ["stream*"], "data_stream": {}, "template": {"settings": {"number_of_shards": 1}}}),
        create: false,
    })
    .unwrap();
    let write = |range: std::ops::Range<u64>| {
        for number in range {
            node.write(index("plain", &format!("p-{number}"), plain(number)));
        }
    };
    let write_once = || {
        for number in 0..SHARED {
            let tenant = format!("t{}", number % TENANTS);
            let mut event = add(
                "shared",
                json!({"@timestamp": 1000 + number, "tenant": tenant, "n": number}),
            );
            event.routing = Some(tenant);
            node.write(event);
            node.write(add(
                "stream",
                json!({"@timestamp": 1_700_000_000_000 + number, "n": number}),
            ));
        }
    };
    write(0..20);
    write_once();
    ["plain", "shared", "stream"].iter().for_each(|index| node.flush(index));
    node.write(delete("plain", "p-3"));
    snapshot(&node, "first", "*").unwrap();
    write(20..30);
    node.write(delete("plain", "p-5"));
    node.write(index("plain", "p-1", json!({"host": "changed", "n": 1000})));
    snapshot(&node, "second", "*").unwrap();
    let bytes = copy_folder(&folder.path().join("backups"), &fixture(name));
    assert!(bytes < BYTES_MAX, "{bytes}");
}

fn of_tenant(tenant: &str) -> RequestContext {
    RequestContext {
        scope: Arc::new(Scope::tenant(TenantId::parse(tenant).unwrap())),
        ..ctx()
    }
}

fn count(node: &Node, ctx: &RequestContext, name: &str) -> u64 {
    let body = json!({"size": 0, "track_total_hits": true});
    let request = SearchRequest::parse(target(name), Some(&body)).unwrap();
    node.run(node.engine.search(ctx, request)).unwrap().total.unwrap().value
}

fn aggregations(node: &Node, name: &str, aggs: Value) -> Value {
    let found = node.search(name, json!({"size": 0, "aggs": aggs})).unwrap();
    found.aggregations.map(|found| Value::clone(&found)).unwrap()
}

/// Checks the content of a snapshot; `first` is the one before the changes.
fn check(node: &Node, is_first: bool, (own, shared, stream): (&str, &str, Option<&str>)) {
    let written: u64 = if is_first { 20 } else { 30 };
    let gone: &[u64] = if is_first { &[3] } else { &[3, 5] };
    let remaining = written - gone.len() as u64;
    assert_eq!(node.count(own, all()), remaining);
    for number in gone {
        assert!(node.get(own, &format!("p-{number}")).is_none(), "{own}: {number}");
        assert_eq!(node.count(own, json!({"term": {"n": number}})), 0, "{own}: {number}");
    }
    for number in (0..written).filter(|number| !gone.contains(number) && *number != 1) {
        assert_eq!(node.source(own, &format!("p-{number}")), plain(number), "{own}");
    }
    let changed = node.get(own, "p-1").unwrap();
    assert_eq!(changed.version, if is_first { 1 } else { 2 });
    let words = json!({"match_phrase": {"text": "request 7 took"}});
    let found = node.search(own, json!({"query": words})).unwrap();
    assert_eq!(
        found.hits.iter().map(|hit| hit.id.as_str()).collect::<Vec<_>>(),
        ["p-7"]
    );
    let newest = node
        .search(own, json!({"sort": [{"@timestamp": "desc"}], "size": 1}))
        .unwrap();
    assert_eq!(newest.hits[0].id, format!("p-{}", written - 1));
    let aggs = json!({"hosts": {"terms": {"field": "host", "order": {"_key": "asc"}}}, "n": {"sum": {"field": "n"}}});
    let found = aggregations(node, own, aggs);
    let buckets: Vec<(&str, u64)> = found["hosts"]["buckets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bucket| (bucket["key"].as_str().unwrap(), bucket["doc_count"].as_u64().unwrap()))
        .collect();
    let (sum, hosts): (u64, &[(&str, u64)]) = match is_first {
        true => (190 - 3, &[("h0", 6), ("h1", 7), ("h2", 6)]),
        false => (435 - 8 - 1 + 1000, &[("changed", 1), ("h0", 9), ("h1", 9), ("h2", 9)]),
    };
    assert_eq!(
        (found["n"]["value"].as_f64(), buckets.as_slice()),
        (Some(sum as f64), hosts),
        "{own}"
    );
    assert_eq!(count(node, &ctx(), shared), SHARED);
    for tenant in 0..TENANTS {
        let of = |number: &u64| number % TENANTS == tenant;
        let own = (0..SHARED).filter(of).count() as u64;
        assert_eq!(
            count(node, &of_tenant(&format!("t{tenant}")), shared),
            own,
            "{shared}: t{tenant}"
        );
    }
    if let Some(stream) = stream {
        assert_eq!(count(node, &ctx(), stream), SHARED);
        let found = aggregations(node, stream, json!({"m": {"max": {"field": "n"}}}));
        assert_eq!(found["m"]["value"].as_f64(), Some((SHARED - 1) as f64));
    }
}

fn restored(node: &Node, name: &str) {
    let mut request = restore_request(name, &["plain", "shared", "stream"]);
    request.rename = Some(("(plain|shared|stream)".to_owned(), format!("{name}-$1")));
    request.include_aliases = false;
    restore(node, request).unwrap();
    let (own, shared, stream) = (
        format!("{name}-plain"),
        format!("{name}-shared"),
        format!("{name}-stream"),
    );
    check(node, name == "first", (&own, &shared, Some(&stream)));
    let metadata = node.run(node.engine.metadata(&ctx())).unwrap();
    assert_eq!(metadata.data_streams[&stream].indices.len(), 1);
    // The restored index takes writes.
    node.write(index(&own, "p-3", json!({"n": 5})));
    node.write(delete(&own, "p-2"));
    let (_, written) = node.write(index(&own, "p-4", json!({"n": 6})));
    assert_eq!(written.version, 2);
    assert_eq!(node.count(&own, all()), if name == "first" { 19 } else { 28 });
}

fn mounted(node: &Node, name: &str, storage: Storage, prefix: &str) {
    let mount = |index: &str| {
        let renamed = format!("{prefix}-{index}");
        let request = MountSnapshot {
            repository: "r".to_owned(),
            snapshot: name.to_owned(),
            index: index.to_owned(),
            renamed_index: Some(renamed.clone()),
            storage,
            index_settings: Value::Null,
            ignore_index_settings: Vec::new(),
        };
        node.run(node.engine.mount_snapshot(&ctx(), request)).unwrap();
        renamed
    };
    check(node, name == "first", (&mount("plain"), &mount("shared"), None));
}

fn is_read(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let bytes = copy_folder(&fixture(name), &folder.path().join("backups"));
    assert!(bytes > 0 && bytes < BYTES_MAX, "{name}: {bytes}");
    let node = node(folder.path(), json!({"location": "backups", "readonly": true}));
    let infos = node
        .run(node.engine.list_snapshots(&ctx(), "r", &vec!["*".to_owned()], false))
        .unwrap();
    let names: Vec<_> = infos
        .iter()
        .map(|info| (info.name.as_str(), info.state, info.total_shards))
        .collect();
    let whole = SnapshotState::Success;
    assert_eq!(names, [("first", whole, 3), ("second", whole, 3)]);
    assert!(
        infos
            .iter()
            .all(|info| info.data_streams == ["stream"] && info.include_global_state)
    );
    let statuses = node
        .run(
            node.engine
                .snapshot_status(&ctx(), Some("r"), &vec!["second".to_owned()], false),
        )
        .unwrap();
    let shards: Vec<_> = statuses[0].indices.iter().flat_map(|index| &index.shards).collect();
    let sum =
        |of: fn(&firn_engine::snapshot::ShardSnapshotStatus) -> u64| shards.iter().map(|shard| of(shard)).sum::<u64>();
    // It reuses the splits that the first one already had.
    assert!(
        (1..sum(|shard| shard.total.files)).contains(&sum(|shard| shard.incremental.files)),
        "{shards:?}"
    );
    for snapshot in ["first", "second"] {
        restored(&node, snapshot);
        mounted(&node, snapshot, Storage::SharedCache, &format!("frozen-{snapshot}"));
        mounted(&node, snapshot, Storage::FullCopy, &format!("cold-{snapshot}"));
    }
    // With aliases and templates, on an empty node.
    let other = self::node(folder.path(), json!({"location": "backups", "readonly": true}));
    let mut request = restore_request("second", &[]);
    request.include_global_state = true;
    restore(&other, request).unwrap();
    check(&other, false, ("current", "shared", Some("stream")));
    let metadata = other.run(other.engine.metadata(&ctx())).unwrap();
    assert!(metadata.index_templates.contains_key("streams"));
    other.write(add("stream", json!({"@timestamp": 6, "n": 2})));
    assert_eq!(other.count("stream", all()), SHARED + 1);
}

/// Includes what this build writes.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "an order from the command line to write fixtures"
)]
fn every_repository_is_still_read() {
    let newest = NAMES[NAMES.len() - 1];
    if std::env::var_os("FIRN_WRITE_FIXTURES").is_some() && !fixture(newest).exists() {
        write(newest);
    }
    for name in NAMES {
        is_read(name);
    }
}
