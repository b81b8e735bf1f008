//! Lifecycle without a repository.

use serde_json::{Value, json};

use crate::{ask, at, eventually, found, indices, put_stream, start, write};

#[test]
fn indices_roll_over_are_merged_and_go_across_ends_of_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = start(folder.path());
    put_stream(
        node.client(),
        json!({
            "hot": {"actions": {"rollover": {"max_docs": 10}, "set_priority": {"priority": 100}}},
            "warm": {"actions": {
                "readonly": {},
                "forcemerge": {"max_num_segments": 1},
                "set_priority": {"priority": 50},
                "shrink": {"number_of_shards": 1},
            }},
        }),
    );
    let mut written = 0;
    for round in 0..4 {
        write(node.client(), written, 5);
        write(node.client(), written + 5, 5);
        written += 10;
        // Somewhere in between.
        std::thread::sleep(std::time::Duration::from_millis(400 * round));
        node.kill9().unwrap();
        node = start(folder.path());
        assert_eq!(found(node.client()), (written, written), "round {round}");
        eventually("a rollover", || indices(node.client()).len() as u64 > round + 1);
    }
    let client = node.client();
    for index in &indices(client)[..4] {
        eventually("the end of the warm phase", || {
            at(client, index) == "warm/complete/complete"
        });
        let settings = ask(
            client,
            "GET",
            &format!("/{index}/_settings?flat_settings=true"),
            Value::Null,
        );
        let settings = &settings[index]["settings"];
        assert_eq!(settings["index.blocks.write"], "true");
        assert_eq!(settings["index.priority"], "50");
        assert_eq!(settings["index.lifecycle.indexing_complete"], "true");
        let stats = ask(client, "GET", &format!("/{index}/_stats/segments,docs"), Value::Null);
        assert_eq!(stats["_all"]["primaries"]["segments"]["count"], json!(1), "{index}");
    }
    assert_eq!(found(client), (written, written));

    // The policy gets a delete phase, and all indices but the write index are deleted.
    let policy = json!({"policy": {"phases": {"delete": {"actions": {"delete": {}}}}}});
    ask(client, "PUT", "/_ilm/policy/events", policy);
    eventually("the end of old indices", || indices(client).len() == 1);
    assert_eq!(found(client), (0, 0));
}

#[test]
fn what_fails_is_explained_and_goes_on_once_it_is_mended() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let policy = json!({"policy": {"phases": {"hot": {"actions": {"rollover": {"max_docs": 1}}}}}});
    ask(client, "PUT", "/_ilm/policy/events", policy);
    ask(
        client,
        "PUT",
        "/logs-000001",
        json!({"settings": {"index.lifecycle.name": "events"}}),
    );
    ask(client, "POST", "/_ilm/stop", Value::Null);
    eventually("the stop", || {
        ask(client, "GET", "/_ilm/status", Value::Null)["operation_mode"] == "STOPPED"
    });
    ask(client, "POST", "/_ilm/start", Value::Null);
    eventually("the failure", || at(client, "logs-000001") == "hot/rollover/ERROR");
    let explained = ask(
        client,
        "GET",
        "/logs-000001/_ilm/explain?only_errors=true&human",
        Value::Null,
    );
    let explained = &explained["indices"]["logs-000001"];
    assert_eq!(explained["failed_step"], "check-rollover-ready");
    assert_eq!(explained["step_info"]["type"], "illegal_argument_exception");
    assert_eq!(explained["phase_execution"]["policy"], "events");
    assert!(explained["phase_time"].is_string(), "{explained}");
    ask(
        client,
        "PUT",
        "/logs-000001/_settings",
        json!({"index.lifecycle.rollover_alias": "logs"}),
    );
    ask(
        client,
        "PUT",
        "/logs-000001/_alias/logs",
        json!({"is_write_index": true}),
    );
    let written = client
        .json("PUT", "/logs/_doc/1?refresh=true", &json!({"a": 1}))
        .unwrap();
    assert_eq!(written.status, 201);
    eventually("the rollover", || at(client, "logs-000001") == "hot/complete/complete");
    let aliases = ask(client, "GET", "/_alias/logs", Value::Null);
    assert_eq!(aliases["logs-000002"]["aliases"]["logs"]["is_write_index"], json!(true));
}
