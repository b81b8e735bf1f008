//! Lifecycle into a repository: snapshot, mount, deletion.

use serde_json::{Value, json};

use crate::{ask, at, eventually, found, indices, put_stream, start, write};

fn put_repository(client: &firn_testkit::Client) {
    let body = json!({"type": "fs", "settings": {"location": "objects"}});
    ask(client, "PUT", "/_snapshot/objects", body);
}

fn snapshots(client: &firn_testkit::Client) -> Vec<Value> {
    let answer = ask(client, "GET", "/_snapshot/objects/_all", Value::Null);
    answer["snapshots"].as_array().cloned().unwrap_or_default()
}

/// The classic policy in small: every event is found exactly once while its index moves from local disk into the
/// repository, wherever the process is killed.
#[test]
fn events_stay_found_on_their_way_to_the_repository() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = start(folder.path());
    put_repository(node.client());
    put_stream(
        node.client(),
        json!({
            "hot": {"actions": {"rollover": {"max_docs": 20}, "forcemerge": {"max_num_segments": 1}}},
            "frozen": {"min_age": "1s", "actions": {"searchable_snapshot": {"snapshot_repository": "objects"}}},
        }),
    );
    let mut written = 0;
    for round in 0..3 {
        write(node.client(), written, 20);
        written += 20;
        eventually("a rollover", || indices(node.client()).len() as u64 > round + 1);
        // Somewhere in between: merge, snapshot, mount, swap.
        std::thread::sleep(std::time::Duration::from_millis(700 * round));
        node.kill9().unwrap();
        node = start(folder.path());
        eventually("opening", || found(node.client()) == (written, written));
    }
    let client = node.client();
    let is_frozen = |index: &String| index.starts_with("partial-.ds-events-");
    eventually("freezing", || {
        assert_eq!(found(client), (written, written), "{:?}", indices(client));
        indices(client).iter().filter(|index| is_frozen(index)).count() == 3
    });
    let frozen: Vec<String> = indices(client).into_iter().filter(is_frozen).collect();
    for index in &frozen {
        eventually("the end of the phase", || {
            at(client, index) == "frozen/complete/complete"
        });
        let settings = ask(
            client,
            "GET",
            &format!("/{index}/_settings?flat_settings=true"),
            Value::Null,
        );
        assert_eq!(settings[index]["settings"]["index.store.type"], "snapshot");
    }
    assert_eq!(snapshots(client).len(), 3, "one each, however often the process ended");

    let policy = json!({"policy": {"phases": {"delete": {"actions": {"delete": {}}}}}});
    ask(client, "PUT", "/_ilm/policy/events", policy);
    eventually("the end of frozen indices", || indices(client).len() == 1);
    eventually("the end of their snapshots", || snapshots(client).is_empty());
    assert_eq!(found(client), (0, 0));
}

/// Snapshot policies next to it: their snapshots exist, are counted, and are removed by retention.
#[test]
fn snapshot_policies_make_and_remove_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    put_repository(client);
    let written = client
        .json("PUT", "/logs/_doc/1?refresh=true", &json!({"a": 1}))
        .unwrap();
    assert_eq!(written.status, 201);
    let settings = json!({"persistent": {"slm.minimum_interval": "0s"}});
    ask(client, "PUT", "/_cluster/settings", settings);
    ask(
        client,
        "PUT",
        "/_slm/policy/often",
        json!({
            "schedule": "* * * * * ?",
            "name": "<often-{now/d}>",
            "repository": "objects",
            "config": {"indices": ["logs"], "include_global_state": false},
            "retention": {"max_count": 1},
        }),
    );
    let policy = || ask(client, "GET", "/_slm/policy/often", Value::Null)["often"].clone();
    eventually("three snapshots", || {
        policy()["stats"]["snapshots_taken"].as_u64() >= Some(3)
    });
    ask(client, "POST", "/_slm/stop", Value::Null);
    eventually("rest", || policy()["in_progress"].is_null());
    let all = snapshots(client);
    assert!(all.len() >= 3, "{all:?}");
    assert!(
        all.iter().all(|snapshot| snapshot["metadata"]["policy"] == "often"),
        "{all:?}"
    );
    ask(client, "POST", "/_slm/_execute_retention", Value::Null);
    eventually("retention", || snapshots(client).len() == 1);
    let last = policy()["last_success"]["snapshot_name"].clone();
    assert_eq!(snapshots(client)[0]["snapshot"], last, "the newest stays");

    let begun = ask(client, "PUT", "/_slm/policy/often/_execute", Value::Null);
    eventually("the snapshot that was asked for", || {
        policy()["last_success"]["snapshot_name"] == begun["snapshot_name"]
    });

    // An index that waits for the policy is deleted only after its next snapshot.
    ask(
        client,
        "PUT",
        "/_ilm/policy/safe",
        json!({"policy": {"phases": {"delete": {"actions": {"wait_for_snapshot": {"policy": "often"}, "delete": {}}}}}}),
    );
    ask(
        client,
        "PUT",
        "/logs/_settings",
        json!({"index.lifecycle.name": "safe"}),
    );
    eventually("waiting", || {
        at(client, "logs") == "delete/wait_for_snapshot/wait-for-snapshot"
    });
    ask(client, "PUT", "/_slm/policy/often/_execute", Value::Null);
    eventually("the end of the index", || {
        client.send("HEAD", "/logs", None, &[]).unwrap().status == 404
    });
}
