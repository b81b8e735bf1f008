//! Sigma rules on stored events: their records are read again, so holes are filled and rules are tested before they are enabled
//! (docs/operate/alerts.md).

use std::collections::BTreeSet;

use firn_testkit::Client;
use rules::{send, start, start_with, stats, wait_for, wait_for_rules};
use serde_json::{Value, json};

#[path = "support/rules.rs"]
mod rules;

const SIGMA: &str = "title: Logon\nid: logon\nlogsource: {product: windows, service: security}\ndetection:\n  \
                     selection: {EventID: 4624, SubjectUserName|startswith: 'EXAMPLE\\'}\n  condition: selection\n";

fn put_rule(client: &Client, enabled: bool) {
    let body = json!({"type": "sigma", "sigma": SIGMA, "enabled": enabled});
    client.ok("PUT", "/_firn/rules/logon", &body);
}

/// Enables or disables the rule, and waits for the pipeline.
fn set_rule(client: &Client, enabled: bool) {
    put_rule(client, enabled);
    wait_for_rules(client, "win", u64::from(enabled));
}

/// Creates or changes the pipeline, and waits until it has no other definition any more.
fn put_pipeline(client: &Client, members: &Value) {
    let mut body = json!({"source": {"type": "http"}, "pack": "windows", "index": "windows"});
    body.as_object_mut()
        .unwrap()
        .extend(members.as_object().unwrap().clone());
    client.ok("PUT", "/_firn/pipelines/win", &body);
    wait_for("the pipeline", || {
        let stats = stats(client, "win");
        stats["running"] == json!(true) && stats["since_start"]["indexed"] == json!(0)
    });
}

/// A record that the rule matches if `user` has the domain.
fn record(user: &str) -> Value {
    json!({"Channel": "Security", "EventID": 4624, "Computer": "dc1", "SubjectUserName": user})
}

/// Returns index and id of the events that have an alert; fails if one has two.
#[track_caller]
fn alerted(client: &Client) -> BTreeSet<String> {
    client.ok("POST", "/.alerts-*/_refresh?expand_wildcards=all", &Value::Null);
    let body = json!({"size": 10_000, "query": {"term": {"rule.id": "logon"}}, "_source": ["firn.alert.event"]});
    let found = client.ok("POST", "/.alerts-*/_search?expand_wildcards=all", &body);
    let hits = found["hits"]["hits"].as_array().unwrap();
    let ids = hits
        .iter()
        .map(|hit| hit["_source"]["firn"]["alert"]["event"]["id"].to_string());
    let ids: BTreeSet<String> = ids.collect();
    assert_eq!(ids.len(), hits.len(), "an event has two alerts");
    ids
}

/// Returns the ids of the events that the rule matches: their users are of the domain, which the pack stores apart.
fn matching(client: &Client, index: &str) -> BTreeSet<String> {
    client.ok("POST", &format!("/{index}/_refresh"), &Value::Null);
    let body = json!({"size": 10_000, "query": {"match_phrase": {"event.original": "EXAMPLE"}}});
    let found = client.ok("POST", &format!("/{index}/_search"), &body);
    let hits = found["hits"]["hits"].as_array().unwrap();
    hits.iter().map(|hit| hit["_id"].to_string()).collect()
}

fn run(client: &Client, index: &str) -> Value {
    let range = json!({"index": index, "from": "now-1h"});
    client.ok("POST", "/_firn/rules/logon/_run", &range)
}

fn hole(client: &Client) -> Value {
    let coverage = client.ok("GET", "/_firn/rules/logon/_coverage", &Value::Null);
    assert_eq!(coverage["holes"].as_array().unwrap().len(), 1, "{coverage}");
    coverage["holes"][0].clone()
}

/// Sends matching and other records: before, in, and behind a hole of the disabled rule.
fn leave_hole(client: &Client) {
    put_rule(client, true);
    put_pipeline(client, &json!({}));
    wait_for_rules(client, "win", 1);
    send(client, "win", &[record(r"EXAMPLE\ann"), record("bob")]);
    set_rule(client, false);
    send(
        client,
        "win",
        &[record(r"EXAMPLE\carl"), record("dora"), record(r"EXAMPLE\eve")],
    );
    set_rule(client, true);
    send(client, "win", &[record(r"EXAMPLE\fred")]);
}

#[test]
fn a_disabled_sigma_rule_is_tested_and_its_hole_is_filled() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    // Events of others, which no pipeline evaluates a Sigma rule on.
    let other = json!({"@timestamp": "2026-01-01T00:00:00Z", "EventID": 4624, "SubjectUserName": "EXAMPLE\\gina"});
    client.ok("POST", "/others/_doc?refresh=true", &other);
    leave_hole(client);
    assert_eq!(alerted(client).len(), 2);
    assert_eq!(
        (&hole(client)["filled"], &hole(client)["not_filled"]),
        (&json!(false), &Value::Null)
    );

    client.ok("POST", "/windows/_refresh", &Value::Null);
    let rule = json!({"type": "sigma", "sigma": SIGMA});
    let test = json!({"rule": rule, "index": "*", "from": "2025-12-31", "examples": 1});
    let tested = client.ok("POST", "/_firn/rules/_test", &test);
    let counts = ["read", "events", "alerts", "partial"].map(|member| tested[member].clone());
    assert_eq!(counts, [json!(7), json!(4), json!(4), json!(false)], "{tested}");
    assert_eq!(tested["examples"][0]["_index"], "windows", "{tested}");
    assert_eq!(tested["days"].as_array().unwrap().len(), 1, "{tested}");
    assert_eq!(tested["not_evaluated"]["events"], 0, "{tested}");
    assert_eq!(
        tested["not_applicable"]["reasons"][0]["example"]["_index"], "others",
        "{tested}"
    );
    // It stores nothing.
    assert_eq!(alerted(client).len(), 2);

    let answer = run(client, "*");
    let counts = ["read", "events", "alerts", "existing"].map(|member| answer[member].clone());
    assert_eq!(counts, [json!(6), json!(4), json!(2), json!(2)], "{answer}");
    assert_eq!(answer["not_evaluated"], json!({"events": 0, "reasons": []}), "{answer}");
    assert_eq!(alerted(client), matching(client, "windows"));
    assert_eq!(hole(client)["filled"], true);
    let again = run(client, "windows");
    assert_eq!(
        (&again["alerts"], &again["existing"]),
        (&json!(0), &json!(4)),
        "{again}"
    );
    assert_eq!(alerted(client).len(), 4);
    node.stop().unwrap();
}

#[test]
fn a_hole_whose_events_have_no_records_says_how_many() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = start(folder.path());
    let client = node.client();
    leave_hole(client);
    set_rule(client, false);
    // Meanwhile the records are not stored.
    put_pipeline(client, &json!({"keep_original": false}));
    wait_for_rules(client, "win", 0);
    send(client, "win", &[record(r"EXAMPLE\gina"), record("hugo")]);
    set_rule(client, true);
    send(client, "win", &[record("ida")]);
    put_pipeline(client, &json!({}));
    wait_for_rules(client, "win", 1);
    send(client, "win", &[record("jan")]);

    let answer = run(client, "windows");
    // The one that came after the hole has none, either.
    let not_evaluated = &answer["not_evaluated"];
    assert_eq!(not_evaluated["events"], 3, "{answer}");
    let reason = &not_evaluated["reasons"][0];
    assert_eq!(
        (&reason["reason"], &reason["events"], &reason["example"]["_index"]),
        (&json!("no record in [event.original]"), &json!(3), &json!("windows"))
    );
    assert_eq!(
        (&answer["alerts"], &answer["existing"]),
        (&json!(2), &json!(2)),
        "{answer}"
    );
    assert_eq!(alerted(client), matching(client, "windows"));
    let holes = |client: &Client| client.ok("GET", "/_firn/rules/logon/_coverage", &Value::Null)["holes"].clone();
    let check = |holes: &Value| {
        assert_eq!(holes.as_array().unwrap().len(), 2, "{holes}");
        for hole in holes.as_array().unwrap() {
            assert_eq!(hole["filled"], false, "{holes}");
            let reason = hole["not_filled"].as_str().unwrap_or_default();
            assert!(
                reason.contains("3 events were not evaluated: no record in [event.original] (3)"),
                "{holes}"
            );
        }
    };
    check(&holes(client));
    node.kill9().unwrap();
    node = start(folder.path());
    wait_for_rules(node.client(), "win", 1);
    check(&holes(node.client()));
    node.stop().unwrap();
}

#[test]
fn events_in_mounted_snapshots_are_read_and_raise_no_alert_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (data, repositories) = (folder.path().join("data"), folder.path().join("repositories"));
    std::fs::create_dir(&data).unwrap();
    let repositories = repositories.display().to_string();
    let node = start_with(&data, &[("path.repo", &repositories)]);
    let client = node.client();
    leave_hole(client);
    let repository = json!({"type": "fs", "settings": {"location": repositories}});
    client.ok("PUT", "/_snapshot/r", &repository);
    let snapshot = json!({"indices": "windows"});
    client.ok("PUT", "/_snapshot/r/s?wait_for_completion=true", &snapshot);
    let mount = json!({"index": "windows", "renamed_index": "partial-windows"});
    let path = "/_snapshot/r/s/_mount?wait_for_completion=true&storage=shared_cache";
    client.ok("POST", path, &mount);
    client.ok("DELETE", "/windows", &Value::Null);
    let expected = matching(client, "partial-windows");
    assert_eq!((alerted(client).len(), expected.len()), (2, 4));
    for (alerts, existing) in [(2, 2), (0, 4)] {
        let answer = run(client, "partial-windows");
        assert_eq!(
            (&answer["alerts"], &answer["existing"]),
            (&json!(alerts), &json!(existing)),
            "{answer}"
        );
        assert_eq!(answer["not_evaluated"]["events"], 0, "{answer}");
    }
    assert_eq!(alerted(client), expected);
    node.stop().unwrap();
}

#[test]
fn a_long_run_continues_and_a_correlation_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    put_pipeline(client, &json!({}));
    set_rule(client, false);
    for part in 0..6 {
        let records: Vec<Value> = (0..2_000)
            .map(|number| {
                let user = if number == 0 { r"EXAMPLE\ann" } else { "bob" };
                let mut record = record(user);
                record["@timestamp"] = json!(format!(
                    "2026-01-01T00:0{part}:{:02}.{:03}Z",
                    number / 1_000,
                    number % 1_000
                ));
                record
            })
            .collect();
        send(client, "win", &records);
    }
    let range = |from: &Value| json!({"index": "windows", "from": from, "to": "2026-01-02"});
    let first = client.ok("POST", "/_firn/rules/logon/_run", &range(&json!("2026-01-01")));
    assert_eq!(
        (&first["complete"], &first["alerts"]),
        (&json!(false), &json!(5)),
        "{first}"
    );
    assert!(first["read"].as_u64().unwrap() <= 10_000, "{first}");
    let second = client.ok("POST", "/_firn/rules/logon/_run", &range(&first["continue_from"]));
    assert_eq!(
        (&second["complete"], &second["alerts"]),
        (&json!(true), &json!(1)),
        "{second}"
    );
    let sum = first["read"].as_u64().unwrap() + second["read"].as_u64().unwrap();
    assert_eq!(sum, 12_000);
    // A test reads the newest events.
    let rule = json!({"type": "sigma", "sigma": SIGMA});
    let test = json!({"rule": rule, "index": "windows", "from": "2026-01-01", "to": "2026-01-02", "examples": 0});
    let tested = client.ok("POST", "/_firn/rules/_test", &test);
    let counts = ["read", "events", "partial", "read_from"].map(|member| tested[member].clone());
    let from = json!("2026-01-01T00:01:00.000Z");
    assert_eq!(counts, [json!(10_000), json!(5), json!(true), from], "{tested}");

    let correlation = format!(
        "{SIGMA}---\ntitle: Many\nid: many\ncorrelation:\n  type: event_count\n  rules: [logon]\n  group-by: [SubjectUserName]\n  \
         timespan: 1m\n  condition: {{gte: 3}}\n"
    );
    let body = json!({"type": "sigma", "sigma": correlation});
    client.ok("PUT", "/_firn/rules/many", &body);
    for (path, body) in [
        (
            "/_firn/rules/many/_run",
            json!({"index": "windows", "from": "2026-01-01"}),
        ),
        ("/_firn/rules/_test", json!({"rule": body, "index": "windows"})),
    ] {
        let answer = client.json("POST", path, &body).unwrap();
        assert!(
            answer.status == 400 && answer.text().contains("a correlation cannot be counted"),
            "{}",
            answer.text()
        );
    }
    node.stop().unwrap();
}
