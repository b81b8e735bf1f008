//! ILM removes the local index only after its snapshot was verified by reading it back from the store.

use std::fs;
use std::path::{Path, PathBuf};

use firn_testkit::Client;
use serde_json::{Value, json};

use crate::{ask, at, eventually, start};

const VERIFYING: &str = "frozen/searchable_snapshot/verify-snapshot";
/// Rate limit of reads. The only object that is read before any split is a table of filters, which takes many minutes
/// at this rate.
const HARDLY: &str = "10b";

fn put_repository(client: &Client, pace: Option<&str>) {
    let mut settings = json!({"location": "objects"});
    if let Some(pace) = pace {
        settings["max_restore_bytes_per_sec"] = pace.into();
    }
    ask(
        client,
        "PUT",
        "/_snapshot/objects",
        json!({"type": "fs", "settings": settings}),
    );
}

/// Creates an index `logs` of one segment, which is already in the snapshot `kept`.
fn put_index(client: &Client) {
    let lines: String = (0..50)
        .map(|number| format!("{{\"index\":{{}}}}\n{{\"n\":{number},\"user\":\"user-{number}\"}}\n"))
        .collect();
    let answer = client.bulk("/logs/_bulk?refresh=true", lines.as_bytes()).unwrap();
    assert_eq!(answer.json()["errors"], json!(false), "{}", answer.text());
    ask(client, "POST", "/logs/_forcemerge?max_num_segments=1", Value::Null);
    ask(
        client,
        "PUT",
        "/_snapshot/objects/kept?wait_for_completion=true",
        json!({"indices": "logs"}),
    );
}

/// Moves it into the repository.
fn freeze(client: &Client) {
    let actions = json!({"searchable_snapshot": {"snapshot_repository": "objects"}});
    let policy = json!({"policy": {"phases": {"frozen": {"actions": actions}}}});
    ask(client, "PUT", "/_ilm/policy/freeze", policy);
    ask(
        client,
        "PUT",
        "/logs/_settings",
        json!({"index.lifecycle.name": "freeze"}),
    );
}

fn explained(client: &Client) -> Value {
    ask(client, "GET", "/logs/_ilm/explain", Value::Null)["indices"]["logs"].clone()
}

/// Returns the tasks that read a snapshot back.
fn tasks(client: &Client) -> Vec<String> {
    let path = "/_tasks?actions=cluster:admin/snapshot/read_back&detailed=true&group_by=none";
    let answer = ask(client, "GET", path, Value::Null);
    let tasks = answer["tasks"].as_array().cloned().unwrap_or_default();
    tasks
        .iter()
        .map(|task| task["description"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn count(client: &Client, index: &str) -> Value {
    ask(client, "GET", &format!("/{index}/_count"), Value::Null)["count"].clone()
}

fn exists(client: &Client, index: &str) -> bool {
    client.send("HEAD", &format!("/{index}"), None, &[]).unwrap().status == 200
}

fn splits(folder: &Path) -> Vec<PathBuf> {
    let root = folder.join("repositories/objects/splits");
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap());
    files.map(|entry| entry.unwrap().path()).collect()
}

/// A bit flips in the store, and the process ends during the verification: the index stays, the error names the object,
/// the retry replaces it, and other snapshots that share it are valid again.
#[test]
fn what_the_store_damaged_is_found_before_the_index_goes() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    put_repository(node.client(), Some(HARDLY));
    put_index(node.client());
    freeze(node.client());
    eventually("reading", || {
        let explained = explained(node.client());
        explained["step"] == "verify-snapshot" && explained["step_info"]["bytes_total"].as_u64() > Some(0)
    });
    let info = explained(node.client())["step_info"].clone();
    assert_eq!(info["objects_verified"], 0, "{info}");
    let message = info["message"].as_str().unwrap_or_default().to_owned();
    assert!(
        message.contains("which stays in place in the meantime: [0] of ["),
        "{message}"
    );
    assert!(tasks(node.client())[0].ends_with("index [logs]"));
    let splits = splits(folder.path());
    assert_eq!(splits.len(), 1, "both snapshots have the same");
    let whole = fs::read(&splits[0]).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    fs::write(&splits[0], flipped).unwrap();
    put_repository(node.client(), None);
    // From now on a failed step is retried only on request.
    ask(
        node.client(),
        "PUT",
        "/_cluster/settings",
        json!({"persistent": {"indices.lifecycle.poll_interval": "1h"}}),
    );
    node.kill9().unwrap();

    let node = start(folder.path());
    let client = node.client();
    eventually("the discovery", || {
        at(client, "logs") == "frozen/searchable_snapshot/ERROR"
    });
    let explained = explained(client);
    assert_eq!(explained["step_info"]["type"], "repository_exception", "{explained}");
    let reason = explained["step_info"]["reason"].as_str().unwrap_or_default().to_owned();
    let name = splits[0].file_name().unwrap().to_string_lossy().into_owned();
    for part in [
        format!("/{name}]: the checksum of the page at offset"),
        "index [logs], which stays in place".to_owned(),
    ] {
        assert!(reason.contains(&part), "{reason}");
    }
    assert!(!exists(client, "partial-logs"));
    assert_eq!(count(client, "logs"), 50);
    assert_ne!(fs::read(&splits[0]).unwrap(), whole);

    ask(client, "POST", "/logs/_ilm/retry", Value::Null);
    eventually("the move", || {
        exists(client, "partial-logs") && at(client, "partial-logs") == "frozen/complete/complete"
    });
    assert_eq!(fs::read(&splits[0]).unwrap(), whole, "it was written again");
    assert_eq!(count(client, "logs"), 50, "under its old name too");
    let mount = "/_snapshot/objects/kept/_mount?wait_for_completion=true&storage=shared_cache";
    ask(client, "POST", mount, json!({"index": "logs", "renamed_index": "kept"}));
    assert_eq!(count(client, "kept"), 50);
}

/// The verification stops if the index is deleted, or if its policy is removed.
#[test]
fn an_obsolete_verification_stops() {
    type End = (&'static str, fn(&Client));
    let ends: [End; 2] = [
        ("its policy is taken away", |client| {
            ask(client, "POST", "/logs/_ilm/remove", Value::Null);
        }),
        ("it is deleted", |client| {
            ask(client, "DELETE", "/logs", Value::Null);
        }),
    ];
    for (what, end) in ends {
        let folder = tempfile::tempdir().unwrap();
        let node = start(folder.path());
        let client = node.client();
        put_repository(client, Some(HARDLY));
        put_index(client);
        freeze(client);
        eventually("reading", || {
            at(client, "logs") == VERIFYING && tasks(client).len() == 1
        });
        end(client);
        eventually(what, || tasks(client).is_empty());
        assert!(!exists(client, "partial-logs"));
    }
}
