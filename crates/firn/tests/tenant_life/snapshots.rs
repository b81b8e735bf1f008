//! Deletion of a tenant from snapshots and mounted indices, in the real process.

use std::path::PathBuf;
use std::time::Duration;

use firn_testkit::{Client, Node, copy_folder, seed};
use serde_json::{Value, json};

use crate::{ask, count, eventually, put_template, start_with, write};

/// Events of each tenant in the first snapshot; the second has as many more.
const EVENTS: u64 = 60;

fn events() -> impl Iterator<Item = (&'static str, u64)> {
    (0..EVENTS).flat_map(|number| ["acme", "zeta", "omega"].map(|tenant| (tenant, number % 3 * 7)))
}

struct Bed {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Bed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        std::fs::create_dir_all(path.join("repositories")).unwrap();
        Self { _folder: folder, path }
    }

    fn start(&self, name: &str) -> Node {
        let own = self.path.join(name);
        std::fs::create_dir_all(&own).unwrap();
        start_with(&own, Some(&self.path.join("repositories")))
    }

    fn repository(&self, name: &str) -> PathBuf {
        self.path.join("repositories").join(name)
    }
}

fn register(client: &Client, name: &str, readonly: bool) {
    let settings = json!({"location": name, "readonly": readonly});
    ask(
        client,
        "PUT",
        &format!("/_snapshot/{name}"),
        json!({"type": "fs", "settings": settings}),
    );
}

fn snapshot(client: &Client, name: &str) {
    let body = json!({"indices": "events-*", "include_global_state": false});
    let path = format!("/_snapshot/objects/{name}?wait_for_completion=true");
    let made = ask(client, "PUT", &path, body);
    assert_eq!(made["snapshot"]["state"], "SUCCESS", "{made}");
}

/// Returns the indices of a snapshot.
fn indices_of(client: &Client, snapshot: &str) -> Vec<String> {
    let answer = ask(client, "GET", &format!("/_snapshot/objects/{snapshot}"), Value::Null);
    let indices = answer["snapshots"][0]["indices"].as_array().unwrap();
    indices.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// Returns settings that make restored backing indices visible, which are hidden from patterns.
fn shown() -> Value {
    json!({"index.hidden": false})
}

/// Mounts every index of a snapshot as `PREFIX-NUMBER`.
fn mount(client: &Client, snapshot: &str, storage: &str, prefix: &str) {
    for (number, index) in indices_of(client, snapshot).into_iter().enumerate() {
        let path = format!("/_snapshot/objects/{snapshot}/_mount?wait_for_completion=true&storage={storage}");
        let body = json!({"index": index, "renamed_index": format!("{prefix}-{number}"), "index_settings": shown()});
        ask(client, "POST", &path, body);
    }
}

fn restore(client: &Client, snapshot: &str, prefix: &str) {
    let path = format!("/_snapshot/objects/{snapshot}/_restore?wait_for_completion=true");
    let body = json!({
        "indices": indices_of(client, snapshot).join(","), "include_aliases": false, "index_settings": shown(),
        "rename_pattern": r"\.ds-events-app-(.+)", "rename_replacement": format!("{prefix}-$1"),
    });
    ask(client, "POST", &path, body);
}

/// Counts the events of each tenant in two ways.
fn counts(client: &Client, index: &str) -> [u64; 3] {
    let body = json!({"size": 0, "track_total_hits": true, "aggs": {"by": {"terms": {"field": "tenant"}}}});
    let answer = ask(client, "POST", &format!("/{index}/_search"), body);
    assert_eq!(answer["_shards"]["failed"], json!(0), "{answer}");
    ["acme", "zeta", "omega"].map(|tenant| {
        let buckets = answer["aggregations"]["by"]["buckets"].as_array().unwrap();
        let own = buckets.iter().find(|bucket| bucket["key"] == tenant);
        let own = own.map_or(0, |bucket| bucket["doc_count"].as_u64().unwrap());
        assert_eq!(count(client, index, tenant), own, "{tenant} of {index}");
        own
    })
}

fn deletion(client: &Client) -> Value {
    ask(client, "GET", "/_firn/tenants/acme/deletion", Value::Null)
}

/// Prepares a node with two snapshots and mounts of the first, and `mirror`, a read-only copy of the repository.
fn prepared(bed: &Bed) -> Node {
    let node = bed.start("node");
    let client = node.client();
    register(client, "objects", false);
    put_template(client, "week", 2);
    for name in ["first", "second"] {
        assert_eq!(write(client, events())["errors"], json!(false));
        snapshot(client, name);
    }
    mount(client, "first", "shared_cache", "frozen");
    mount(client, "first", "full_copy", "cold");
    for mounted in ["frozen-*", "cold-*"] {
        assert_eq!(counts(client, mounted), [EVENTS; 3]);
    }
    copy_folder(&bed.repository("objects"), &bed.repository("mirror"));
    register(client, "mirror", true);
    node
}

#[test]
fn a_deleted_tenant_is_gone_from_snapshots_and_mounts_although_the_process_is_killed() {
    let mut random = fastrand::Rng::with_seed(seed("tenant deletion in snapshots"));
    let bed = Bed::new();
    let mut node = prepared(&bed);
    ask(node.client(), "DELETE", "/_firn/tenants/acme", Value::Null);
    let mut done = Value::Null;
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(random.u64(0..1200)));
        node.kill9().unwrap();
        node = bed.start("node");
        // Wherever the kill came, other tenants have all their events.
        for mounted in ["frozen-*", "cold-*"] {
            let [acme, others @ ..] = counts(node.client(), mounted);
            assert!(
                (0..=EVENTS).contains(&acme) && others == [EVENTS; 2],
                "{mounted}: {acme}, {others:?}"
            );
        }
        done = deletion(node.client());
        if done["status"] == "done" {
            break;
        }
    }
    let client = node.client();
    eventually("the end of the deletion", || {
        done = deletion(client);
        done["status"] == "done"
    });
    assert_eq!(done["error"], Value::Null, "{done}");
    let rewritten = &done["snapshots_rewritten"];
    assert!(rewritten["count"].as_u64() <= Some(2), "{done}");
    let left = done["snapshots"].as_array().unwrap();
    let left: Vec<&str> = left.iter().filter_map(|left| left["repository"].as_str()).collect();
    assert_eq!(left, ["mirror", "mirror"], "{done}");
    assert!(
        done["snapshots"][0]["state"].as_str().unwrap().contains("read-only"),
        "{done}"
    );

    let check = |client: &Client, index: &str, each: u64| {
        assert_eq!(counts(client, index), [0, each, each], "{index}");
    };
    check(client, "frozen-*", EVENTS);
    check(client, "cold-*", EVENTS);
    check(client, "events-app", 2 * EVENTS);
    restore(client, "second", "restored");
    check(client, "restored-*", 2 * EVENTS);
    // No unreferenced objects remain.
    let cleaned = ask(client, "POST", "/_snapshot/objects/_cleanup", Value::Null);
    assert_eq!(cleaned["results"]["deleted_blobs"], json!(0), "{cleaned}");

    let other = bed.start("other");
    let client = other.client();
    register(client, "objects", true);
    for (name, each) in [("first", EVENTS), ("second", 2 * EVENTS)] {
        for storage in ["shared_cache", "full_copy"] {
            let prefix = format!("{name}-{storage}");
            mount(client, name, storage, &prefix);
            check(client, &format!("{prefix}-*"), each);
        }
        restore(client, name, &format!("restored-{name}"));
        check(client, &format!("restored-{name}-*"), each);
    }
}

#[test]
fn the_statement_says_what_was_rewritten_and_what_is_waited_for() {
    let bed = Bed::new();
    let node = prepared(&bed);
    node.stop().unwrap();
    // The device is missing for a while.
    let (here, away) = (bed.repository("objects"), bed.repository("away"));
    std::fs::rename(&here, &away).unwrap();
    let node = bed.start("node");
    let client = node.client();
    ask(client, "DELETE", "/_firn/tenants/acme", Value::Null);
    eventually("a reason", || {
        deletion(client)["error"]
            .as_str()
            .is_some_and(|error| error.contains("[objects]"))
    });
    let waiting = deletion(client);
    assert_eq!(waiting["status"], "running", "{waiting}");
    assert!(
        waiting["snapshots_not_read"][0]["snapshots_of"] == "objects",
        "{waiting}"
    );
    // Local data is removed all the same.
    eventually("its removal from indices", || count(client, "events-app", "acme") == 0);
    // Opening the missing repository created only its own folders.
    assert!(!here.join("log").exists() && !here.join("splits").exists());
    eventually("its return", || {
        let _ = std::fs::remove_dir_all(&here);
        std::fs::rename(&away, &here).is_ok()
    });
    let mut done = Value::Null;
    eventually("the end of the deletion", || {
        done = deletion(client);
        done["status"] == "done"
    });
    let rewritten = &done["snapshots_rewritten"];
    assert_eq!(
        (&rewritten["count"], &rewritten["documents"]),
        (&json!(2), &json!(3 * EVENTS)),
        "{done}"
    );
    let splits = rewritten["splits_rewritten"].as_u64().unwrap() + rewritten["splits_removed"].as_u64().unwrap();
    assert!(splits > 0 && rewritten["bytes_removed"].as_u64() > Some(0), "{done}");
    let names = |list: &Value| -> Vec<Value> {
        let list = list.as_array().unwrap().iter();
        list.map(|one| json!([one["repository"], one["snapshot"], one["documents"]]))
            .collect()
    };
    assert_eq!(
        names(&rewritten["snapshots"]),
        [
            json!(["objects", "first", EVENTS]),
            json!(["objects", "second", 2 * EVENTS])
        ]
    );
    assert_eq!(
        names(&done["snapshots"]),
        [
            json!(["mirror", "first", EVENTS]),
            json!(["mirror", "second", 2 * EVENTS])
        ]
    );
    assert_eq!(counts(client, "frozen-*"), [0, EVENTS, EVENTS]);
}

/// Events that were deleted before a snapshot are still in its files: no search finds them, and a restore brings them
/// back.
#[test]
fn deleted_events_that_a_restore_brings_meanwhile_are_removed_too() {
    let bed = Bed::new();
    let node = bed.start("node");
    let client = node.client();
    register(client, "objects", false);
    put_template(client, "week", 1);
    assert_eq!(write(client, events())["errors"], json!(false));
    let acme = json!({"query": {"term": {"tenant": "acme"}}});
    let deleted = ask(client, "POST", "/events-app/_delete_by_query?refresh=true", acme);
    assert_eq!(deleted["deleted"], json!(EVENTS), "{deleted}");
    snapshot(client, "first");
    copy_folder(&bed.repository("objects"), &bed.repository("mirror"));
    register(client, "mirror", true);
    // It cannot be changed here, and blocks the deletion.
    let held = indices_of(client, "first").remove(0);
    let held = json!({"index": held, "renamed_index": "held", "index_settings": shown()});
    ask(
        client,
        "POST",
        "/_snapshot/mirror/first/_mount?wait_for_completion=true",
        held,
    );
    ask(client, "DELETE", "/_firn/tenants/acme", Value::Null);
    eventually("a reason", || {
        let error = deletion(client)["error"].clone();
        error.as_str().is_some_and(|error| error.contains("[held]"))
    });
    let body = json!({
        "indices": indices_of(client, "first").join(","), "include_aliases": false, "index_settings": shown(),
        "rename_pattern": r"\.ds-events-app-(.+)", "rename_replacement": "restored-$1",
    });
    ask(
        client,
        "POST",
        "/_snapshot/mirror/first/_restore?wait_for_completion=true",
        body,
    );
    let in_files = || {
        let stats = ask(client, "GET", "/restored-*/_stats", Value::Null);
        stats["_all"]["primaries"]["docs"]["deleted"].as_u64().unwrap()
    };
    assert_eq!(counts(client, "restored-*"), [0, EVENTS, EVENTS]);
    assert!(in_files() > 0);
    ask(client, "DELETE", "/held", Value::Null);
    eventually("the end of the deletion", || deletion(client)["status"] == "done");
    assert_eq!(in_files(), 0, "{}", deletion(client));
    assert_eq!(counts(client, "restored-*"), [0, EVENTS, EVENTS]);
}
