//! Tests of split pruning by filters, through the engine's interface.

use std::path::Path;

use firn_engine::mounts::Storage;
use firn_engine::{Engine, RequestContext, Scope};
use firn_model::tenant::TenantId;
use firn_query::search::{SearchRequest, SearchResponse};
use serde_json::{Value, json};

use crate::mounts::{mount_as, node_of, requests, shards};
use crate::node::{Node, add, ctx, index, target};
use crate::snapshots::{objects, remove, snapshot};

const SHARDS: u64 = 8;
const EVENTS: usize = 160;

fn address(number: usize) -> String {
    format!("10.0.{}.{}", number / 100, number % 100)
}

/// Writes events with a unique address each, and one of three kinds.
fn write(node: &Node, numbers: std::ops::Range<usize>) {
    let event = |number: usize| {
        let kind = ["login", "logout", "failure"][number % 3];
        index(
            "logs",
            &format!("id-{number}"),
            json!({"ip": address(number), "kind": kind, "tenant": "big"}),
        )
    };
    node.bulk(numbers.map(event).collect());
    node.flush("logs");
}

fn create(node: &Node, settings: &Value) {
    let mut all = json!({"number_of_shards": SHARDS});
    all.as_object_mut()
        .unwrap()
        .extend(settings.as_object().unwrap().clone());
    let properties = json!({"ip": {"type": "ip"}, "kind": {"type": "keyword"}, "tenant": {"type": "keyword"}});
    node.create("logs", json!({"settings": all, "mappings": {"properties": properties}}))
        .unwrap();
}

/// Returns another node with a mounted snapshot, which knows only the repository.
fn mounted(folder: &Path) -> Node {
    let writer = node_of(folder);
    create(&writer, &json!({}));
    write(&writer, 0..EVENTS);
    snapshot(&writer, "first", "logs").unwrap();
    let node = node_of(folder);
    mount_as(&node, "frozen", Storage::SharedCache).unwrap();
    node
}

fn open_splits(node: &Node) -> u64 {
    let splits = shards(node, "frozen").into_iter().filter_map(|shard| shard.splits);
    splits.map(|splits| splits.open).sum()
}

fn ask(node: &Node, ctx: &RequestContext, name: &str, query: Value) -> SearchResponse {
    let body = json!({"query": query, "size": 0});
    let request = SearchRequest::parse(target(name), Some(&body)).unwrap();
    node.run(node.engine.search(ctx, request)).unwrap()
}

fn total(response: &SearchResponse) -> u64 {
    response.total.map_or(0, |total| total.value)
}

/// Checks that all events are found by each exact value.
fn check_answers(node: &Node, name: &str) {
    for number in (0..EVENTS).step_by(7) {
        assert_eq!(
            node.count(name, json!({"term": {"ip": address(number)}})),
            1,
            "{number}"
        );
        assert_eq!(
            node.count(name, json!({"ids": {"values": [format!("id-{number}")]}})),
            1,
            "{number}"
        );
    }
    assert_eq!(node.count(name, json!({"term": {"ip": "10.0.0.0/24"}})), 100);
    assert_eq!(
        node.count(name, json!({"term": {"kind": "login"}})),
        EVENTS.div_ceil(3) as u64
    );
    let either = json!({"bool": {"should": [{"term": {"ip": address(3)}}, {"term": {"ip": address(90)}}]}});
    assert_eq!(node.count(name, either), 2);
    let neither = json!({"bool": {"filter": [{"term": {"ip": address(3)}}, {"term": {"ip": address(90)}}]}});
    assert_eq!(node.count(name, neither), 0);
    for nothing in [
        json!({"term": {"ip": "9.9.9.9"}}),
        json!({"term": {"absent.field": "x"}}),
    ] {
        assert_eq!(node.count(name, nothing), 0);
    }
}

#[test]
fn a_needle_opens_the_split_that_holds_it() {
    let folder = tempfile::tempdir().unwrap();
    let node = mounted(folder.path());
    let before = requests(&node);
    let needle = ask(&node, &ctx(), "frozen", json!({"term": {"ip": address(7)}}));
    assert_eq!(total(&needle), 1);
    assert_eq!(
        (u64::from(needle.shards.total), u64::from(needle.shards.successful)),
        (SHARDS, SHARDS)
    );
    assert!(u64::from(needle.shards.skipped) >= SHARDS - 2, "{:?}", needle.shards);
    assert!(open_splits(&node) <= 2);
    // The table was fetched with the mount, so all requests are for the one split.
    assert!(requests(&node) - before <= 6, "{} requests", requests(&node) - before);
    let first = requests(&node);
    assert_eq!(
        total(&ask(&node, &ctx(), "frozen", json!({"term": {"ip": address(7)}}))),
        1
    );
    assert_eq!(requests(&node), first, "a repeated search fetches nothing");
    for nothing in [
        json!({"term": {"ip": "9.9.9.9"}}),
        json!({"term": {"absent.field": "x"}}),
    ] {
        let open = open_splits(&node);
        assert_eq!(total(&ask(&node, &ctx(), "frozen", nothing)), 0);
        assert_eq!((open_splits(&node), requests(&node)), (open, first));
    }
    check_answers(&node, "frozen");
}

#[test]
fn a_profile_shows_what_filters_pruned() {
    let folder = tempfile::tempdir().unwrap();
    let writer = node_of(folder.path());
    // One shard of several splits.
    create(&writer, &json!({"number_of_shards": 1}));
    for part in 0..6 {
        write(&writer, part * 10..part * 10 + 10);
    }
    snapshot(&writer, "first", "logs").unwrap();
    let node = node_of(folder.path());
    mount_as(&node, "frozen", Storage::SharedCache).unwrap();
    let profile = |body: Value| {
        let request = SearchRequest::parse(target("frozen"), Some(&body)).unwrap();
        let response = node.run(node.engine.search(&ctx(), request)).unwrap();
        response.profile.unwrap().shards[0].segments
    };
    let needle = json!({"term": {"ip": address(7)}});
    let counts = profile(json!({"size": 0, "profile": true, "query": needle}));
    assert!(counts.total >= 4, "{counts:?}");
    assert!(
        counts.pruned_by_filter >= counts.total - 2 && counts.read <= 2,
        "{counts:?}"
    );
    // Each mount of a snapshot reports its counts, also if it is searched with other mounts.
    mount_as(&node, "again", Storage::SharedCache).unwrap();
    mount_as(&node, "copied", Storage::FullCopy).unwrap();
    for storage in ["frozen,again", "again,copied,frozen"] {
        let body = json!({"size": 0, "profile": true, "query": needle});
        let request = SearchRequest::parse(target(storage), Some(&body)).unwrap();
        let shards = node
            .run(node.engine.search(&ctx(), request))
            .unwrap()
            .profile
            .unwrap()
            .shards;
        assert_eq!(shards.len(), storage.split(',').count());
        for shard in shards {
            let own = shard.segments;
            assert_eq!(
                (own.total, own.pruned_by_filter),
                (counts.total, counts.pruned_by_filter),
                "{}",
                shard.index
            );
        }
    }
    // A value without a match opens no split, and the shard that answers reports why.
    let none = profile(json!({"size": 0, "profile": true, "query": {"term": {"ip": "9.9.9.9"}}}));
    assert_eq!(
        (none.total, none.pruned_by_filter, none.read),
        (counts.total, counts.total, 0)
    );
    // Scores depend on all documents of the shard, as before it was frozen.
    let scored = json!({"profile": true, "query": needle});
    assert_eq!(profile(scored).pruned_by_filter, 0);
    let score = |node: &Node, name: &str| {
        let response = node
            .search(name, json!({"query": {"term": {"ip": address(7)}}}))
            .unwrap();
        response.hits[0].score
    };
    assert_eq!(score(&node, "frozen"), score(&writer, "logs"));
}

#[test]
fn many_mounts_of_a_snapshot_cost_the_requests_of_one() {
    const MOUNTS: u64 = 30;
    let folder = tempfile::tempdir().unwrap();
    let node = mounted(folder.path());
    for number in 1..MOUNTS {
        mount_as(&node, &format!("many-{number}"), Storage::SharedCache).unwrap();
    }
    let needle = ask(&node, &ctx(), "frozen,many-*", json!({"term": {"ip": address(7)}}));
    assert_eq!(total(&needle), MOUNTS);
    assert_eq!(u64::from(needle.shards.total), MOUNTS * SHARDS);
    assert!(u64::from(needle.shards.skipped) >= MOUNTS * (SHARDS - 2));
    assert!(requests(&node) <= 10, "{} requests", requests(&node));
}

#[test]
fn lost_or_damaged_tables_change_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    drop(mounted(folder.path()));
    let tables = folder.path().join("backups").join("filters");
    let mut damaged = 0;
    for part in std::fs::read_dir(&tables).unwrap() {
        for table in std::fs::read_dir(part.unwrap().path()).unwrap() {
            let path = table.unwrap().path();
            let bytes: Vec<u8> = std::fs::read(&path).unwrap().into_iter().map(|byte| !byte).collect();
            std::fs::write(&path, bytes).unwrap();
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1);
    let check = || {
        let node = node_of(folder.path());
        mount_as(&node, "frozen", Storage::SharedCache).unwrap();
        // The filter of each split decides.
        let needle = ask(&node, &ctx(), "frozen", json!({"term": {"ip": address(7)}}));
        assert_eq!(total(&needle), 1);
        assert!(u64::from(needle.shards.skipped) >= SHARDS - 2, "{:?}", needle.shards);
        check_answers(&node, "frozen");
    };
    check();
    std::fs::remove_dir_all(&tables).unwrap();
    check();
}

#[test]
fn tables_are_written_and_removed_with_their_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    let node = node_of(folder.path());
    create(&node, &json!({}));
    let tables = || objects(folder.path(), "filters");
    write(&node, 0..80);
    snapshot(&node, "first", "logs").unwrap();
    let first = tables();
    assert_eq!(first.len(), 1);
    // Without new data there is no new table.
    snapshot(&node, "same", "logs").unwrap();
    assert_eq!(tables(), first);
    write(&node, 80..EVENTS);
    snapshot(&node, "second", "logs").unwrap();
    assert!(tables().len() <= 2);
    let other = node_of(folder.path());
    let mount = |node: &Node, snapshot: &str| {
        let request = firn_engine::mounts::MountSnapshot {
            repository: "r".to_owned(),
            snapshot: snapshot.to_owned(),
            index: "logs".to_owned(),
            renamed_index: Some("frozen".to_owned()),
            storage: Storage::SharedCache,
            index_settings: Value::Null,
            ignore_index_settings: Vec::new(),
        };
        node.run(firn_engine::mounts::SearchableSnapshots::mount_snapshot(
            &*node.engine,
            &ctx(),
            request,
        ))
    };
    remove(&node, &["first", "same"]).unwrap();
    mount(&other, "second").unwrap();
    check_answers(&other, "frozen");
    remove(&node, &["second"]).unwrap();
    assert_eq!(tables(), Vec::<String>::new());
}

#[test]
fn a_tenant_learns_no_value_of_others_from_counts() {
    let folder = tempfile::tempdir().unwrap();
    let writer = node_of(folder.path());
    create(&writer, &json!({"number_of_shards": 1, "index.tenant.field": "tenant"}));
    for part in 0..5 {
        let event = |tenant: &str, ip: String| add("logs", json!({"tenant": tenant, "ip": ip, "kind": "login"}));
        writer.bulk(vec![event("small", address(part)), event("big", address(100 + part))]);
        writer.flush("logs");
    }
    snapshot(&writer, "first", "logs").unwrap();
    let node = node_of(folder.path());
    for number in 0..5 {
        mount_as(&node, &format!("frozen-{number}"), Storage::SharedCache).unwrap();
    }
    let mut small = ctx();
    small.scope = Scope::tenant(TenantId::parse("small").unwrap()).into();
    let counts = |ip: String| {
        let response = ask(&node, &small, "frozen-*", json!({"term": {"ip": ip}}));
        let shards = &response.shards;
        (total(&response), shards.total, shards.successful, shards.skipped)
    };
    assert_eq!(counts(address(3)).0, 5);
    // An address that does not exist, and one of another tenant.
    assert_eq!(counts("9.9.9.9".to_owned()), counts(address(103)));
    // Nor by refusals: fields of the tenant are known even if none of its events is read, and those of other tenants
    // are not.
    let outcome = |ip: &str, options: &Value| {
        let mut body = json!({"query": {"term": {"ip": ip}}, "size": 0});
        body.as_object_mut()
            .unwrap()
            .extend(options.as_object().unwrap().clone());
        let request = SearchRequest::parse(target("frozen-*"), Some(&body)).unwrap();
        let answer = node.run(node.engine.search(&small, request));
        answer
            .map(|found| (total(&found), found.shards.failures.len()))
            .map_err(|error| error.reason().to_owned())
    };
    for (options, is_fine) in [
        (json!({"sort": ["kind"]}), true),
        (json!({"collapse": {"field": "kind"}}), true),
        (json!({"sort": ["nowhere"]}), false),
        (json!({"collapse": {"field": "nowhere"}}), false),
        (json!({"aggs": {"a": {"sum": {"field": "kind"}}}}), false),
    ] {
        let noname = outcome("9.9.9.9", &options);
        assert_eq!(noname, outcome(&address(103), &options), "{options}");
        let is_answered = matches!(noname, Ok((0, 0)));
        assert_eq!(is_answered, is_fine, "{options}: {noname:?}");
    }
    let body = json!({"query": {"term": {"ip": address(103)}}, "size": 0, "profile": true});
    let request = SearchRequest::parse(target("frozen-*"), Some(&body)).unwrap();
    let profile = node.run(node.engine.search(&small, request)).unwrap().profile.unwrap();
    assert!(profile.shards.iter().all(|shard| shard.segments.pruned_by_filter == 0));
}
