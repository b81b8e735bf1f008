//! Rules over several events: thresholds, absence, new values, sequences and correlations (docs/operate/alerts.md).

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use firn_testkit::Client;
use rules::{send, start, try_send, wait_for, wait_for_rules};
use serde_json::{Value, json};

#[path = "support/rules.rs"]
mod rules;

/// An event of a minute of the first hour of 2026.
fn event(second: u64, members: &Value) -> Value {
    let (minute, second) = (second / 60, second % 60);
    let mut event = json!({"@timestamp": format!("2026-01-01T00:{minute:02}:{second:02}Z")});
    event
        .as_object_mut()
        .unwrap()
        .extend(members.as_object().unwrap().clone());
    event
}

/// Returns the alerts of a rule in all data streams, by the time of their window.
fn alerts(client: &Client, rule: &str) -> Vec<Value> {
    client.ok("POST", "/.alerts-*/_refresh?ignore_unavailable=true", &Value::Null);
    let body = json!({
        "size": 10_000, "query": {"term": {"rule.id": rule}},
        "sort": [{"firn.alert.event.time": {"order": "asc", "unmapped_type": "date"}}],
    });
    let path = "/.alerts-*/_search?ignore_unavailable=true&expand_wildcards=all";
    let found = client.ok("POST", path, &body);
    let hits = found["hits"]["hits"].as_array().unwrap();
    hits.iter().map(|hit| hit["_source"].clone()).collect()
}

#[test]
fn thresholds_absence_and_new_values_raise_alerts_of_their_tenants() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    for (id, body) in [
        (
            "scan",
            json!({
                "type": "threshold", "name": "Port scan", "query": "event.action: denied", "group_by": ["source.ip"], "window": "1m",
                "threshold": {"distinct": "destination.port", "at_least": 5}, "severity": "high", "tags": ["attack.t1046"],
                "exceptions": [{"query": "source.ip: 10.9.0.0/16"}],
            }),
        ),
        (
            "silent",
            json!({"type": "absence", "name": "Silent site", "query": "*", "group_by": ["site"], "after": "5m"}),
        ),
        (
            "country",
            json!({
                "type": "new_value", "name": "Logon from a new country", "query": "event.action: logon",
                "group_by": ["user.name", "source.geo.country_iso_code"], "learn_for": "10m",
            }),
        ),
    ] {
        client.ok("PUT", &format!("/_firn/rules/{id}"), &body);
    }
    let bad = json!({"type": "threshold", "name": "x", "query": "*", "window": "1m"});
    let refused = client.json("PUT", "/_firn/rules/bad", &bad).unwrap();
    assert!(
        refused.status == 400 && refused.text().contains("[threshold]"),
        "{}",
        refused.text()
    );
    client.ok(
        "PUT",
        "/_firn/pipelines/web",
        &json!({"source": {"type": "http"}, "index": "web"}),
    );
    wait_for_rules(client, "web", 3);

    let denied = |second, tenant: &str, ip: &str, port: u64| {
        event(
            second,
            &json!({"tenant": tenant, "event": {"action": "denied"}, "source": {"ip": ip}, "destination": {"port": port}}),
        )
    };
    // Each tenant has its own keys, although the address is the same; an exception is not counted.
    let mut events: Vec<Value> = (0..5).map(|port| denied(port, "alpha", "10.0.0.1", port)).collect();
    events.extend((0..4).map(|port| denied(port, "bravo", "10.0.0.1", port)));
    events.extend((0..9).map(|port| denied(port, "alpha", "10.9.0.1", port)));
    let logon = |second, country: &str| {
        let source = json!({"geo": {"country_iso_code": country}});
        event(
            second,
            &json!({"tenant": "alpha", "event": {"action": "logon"}, "user": {"name": "ann"}, "source": source, "site": "north"}),
        )
    };
    events.push(logon(1, "NO"));
    events.push(event(1, &json!({"site": "south"})));
    send(client, "web", &events);
    wait_for("the scan", || !alerts(client, "scan").is_empty());
    let scans = alerts(client, "scan");
    assert_eq!(scans.len(), 1, "{scans:?}");
    let scan = &scans[0];
    let state = &scan["firn"]["alert"];
    assert_eq!(
        (&scan["tenant"], &scan["rule"]["name"]),
        (&json!("alpha"), &json!("Port scan"))
    );
    assert_eq!(state["group_by"], json!({"source.ip": ["10.0.0.1"]}));
    assert_eq!(
        (&state["window"]["value"], &state["count"]),
        (&json!(5), &json!(5)),
        "{state}"
    );
    assert_eq!((&state["status"], &state["severity"]), (&json!("open"), &json!("high")));
    assert_eq!(scan["threat"]["technique"]["id"], json!(["T1046"]));
    assert_eq!(scan["source.ip"], "10.0.0.1");

    // The other site goes on, and the first one is silent.
    send(client, "web", &[logon(50, "NO"), event(400, &json!({"site": "south"}))]);
    wait_for("the silent site", || !alerts(client, "silent").is_empty());
    let silent = alerts(client, "silent");
    let site = |alert: &Value| alert["firn"]["alert"]["group_by"]["site"][0].clone();
    let silent: Vec<Value> = silent.iter().map(site).collect();
    assert_eq!(silent, [json!("north")], "{silent:?}");

    send(client, "web", &[logon(700, "NO"), logon(701, "BR"), logon(702, "BR")]);
    wait_for("the new country", || !alerts(client, "country").is_empty());
    let new = alerts(client, "country");
    assert_eq!(new.len(), 1, "{new:?}");
    let group = json!({"user.name": ["ann"], "source.geo.country_iso_code": ["BR"]});
    assert_eq!(new[0]["firn"]["alert"]["group_by"], group);
    let stats = client.get("/_firn/pipelines/web/stats").unwrap().json();
    assert!(stats["rules"]["alerts"].as_u64() >= Some(3), "{stats}");
}

#[test]
fn an_absence_is_noticed_while_other_events_come() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let rule = json!({
        "type": "absence", "name": "Silent", "query": "event.action: heartbeat", "group_by": ["site"], "after": "10s",
    });
    client.ok("PUT", "/_firn/rules/silent", &rule);
    client.ok(
        "PUT",
        "/_firn/pipelines/web",
        &json!({"source": {"type": "http"}, "index": "web"}),
    );
    wait_for_rules(client, "web", 1);
    send(
        client,
        "web",
        &[event(5, &json!({"event": {"action": "heartbeat"}, "site": "north"}))],
    );
    // Its query does not match this one, and its time is the one that counts.
    send(client, "web", &[event(60, &json!({"event": {"action": "logon"}}))]);
    wait_for("the absence", || !alerts(client, "silent").is_empty());
    // An edit keeps what is known: it is not raised again.
    let mut other = rule.clone();
    other["severity"] = "high".into();
    client.ok("PUT", "/_firn/rules/silent", &other);
    wait_for("the pipeline", || {
        let lines = format!("{}\n", event(120, &json!({"event": {"action": "logon"}})));
        let path = "/_firn/pipelines/web/_events";
        let answer = client
            .send("POST", path, Some("application/x-ndjson"), lines.as_bytes())
            .unwrap();
        answer.status == 200 && client.get("/_firn/rules/silent").unwrap().json()["silent"] == other
    });
    std::thread::sleep(Duration::from_millis(1500));
    // The pipeline answers 503 while it starts with the other rule.
    wait_for("the pipeline with the other rule", || {
        let later = event(180, &json!({"event": {"action": "logon"}}));
        try_send(client, "web", &[later]).status == 200
    });
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(alerts(client, "silent").len(), 1);
}

#[test]
fn each_alert_of_a_window_is_stored_once_over_kills() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let source = folder.path().join("events.ndjson");
    std::fs::write(&source, "").unwrap();
    let mut node = start(&data);
    let rule = json!({
        "type": "threshold", "name": "Many", "query": "*", "group_by": ["user.name"], "window": "10s", "threshold": {"count": 4},
    });
    node.client().ok("PUT", "/_firn/rules/many", &rule);
    node.client().ok(
        "PUT",
        "/_firn/pipelines/files",
        &json!({"source": {"type": "file", "paths": [source]}, "index": "web"}),
    );
    wait_for_rules(node.client(), "files", 1);
    // Each round, each of 20 users has four events within a second, in another minute: of two rounds' batches.
    let rounds = 8;
    for round in 0..rounds {
        let mut file = std::fs::OpenOptions::new().append(true).open(&source).unwrap();
        for part in 0..2 {
            for number in 0..40 {
                let user = format!("user{}", number % 20);
                writeln!(file, "{}", event(round * 60 + 2, &json!({"user": {"name": user}}))).unwrap();
            }
            if part == 0 {
                // The threshold is reached by events before and after a kill.
                std::thread::sleep(Duration::from_millis(40 * round));
                node.kill9().unwrap();
                node = start(&data);
            }
        }
    }
    let expected = 20 * rounds;
    wait_for("all alerts", || alerts(node.client(), "many").len() as u64 >= expected);
    // One that comes twice would have come.
    std::thread::sleep(Duration::from_secs(2));
    let found = alerts(node.client(), "many");
    assert_eq!(found.len() as u64, expected);
    let different: BTreeSet<String> = found
        .iter()
        .map(|alert| format!("{} {}", alert["user.name"], alert["firn"]["alert"]["window"]["start"]))
        .collect();
    assert_eq!(different.len() as u64, expected);
    assert!(
        found.iter().all(|alert| alert["firn"]["alert"]["count"] == json!(4)),
        "{found:?}"
    );
}

#[test]
fn a_sequence_raises_one_alert_with_the_times_of_its_steps_over_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = start(folder.path());
    let rule = json!({
        "type": "sequence", "name": "Logon after failures", "severity": "high", "group_by": ["user.name"], "within": "10m",
        "steps": [
            {"name": "failure", "query": "event.action: logon and event.outcome: failure"},
            {"name": "second failure", "query": "event.action: logon and event.outcome: failure"},
            {"name": "success", "query": "event.action: logon and event.outcome: success"},
        ],
        "exceptions": [{"query": "user.name: test*"}],
    });
    let rate = json!({
        "type": "rate_of_change", "name": "Rise", "query": "event.action: request", "group_by": ["site"], "window": "1m",
        "change": {"rise_factor": 3, "baseline_windows": 3, "min_events": 5},
    });
    node.client().ok("PUT", "/_firn/rules/logon", &rule);
    node.client().ok("PUT", "/_firn/rules/rise", &rate);
    let bad = json!({"type": "sequence", "name": "x", "within": "10m", "steps": [{"query": "*"}]});
    let refused = node.client().json("PUT", "/_firn/rules/bad", &bad).unwrap();
    assert!(
        refused.status == 400 && refused.text().contains("[steps]"),
        "{}",
        refused.text()
    );
    node.client().ok(
        "PUT",
        "/_firn/pipelines/web",
        &json!({"source": {"type": "http"}, "index": "web"}),
    );
    wait_for_rules(node.client(), "web", 2);
    let logon = |second, user: &str, outcome: &str| {
        event(
            second,
            &json!({"event": {"action": "logon", "outcome": outcome}, "user": {"name": user}}),
        )
    };
    // Of bob there is one failure, and an exception is not looked at.
    let mut events = vec![
        logon(5, "ann", "failure"),
        logon(9, "bob", "failure"),
        logon(10, "ann", "failure"),
    ];
    events.extend(["failure", "failure", "success"].map(|outcome| logon(10, "test1", outcome)));
    let request = |second| event(second, &json!({"event": {"action": "request"}, "site": "north"}));
    for minute in 0..3 {
        events.extend((0..2).map(|second| request(minute * 60 + second)));
    }
    send(node.client(), "web", &events);
    node.kill9().unwrap();
    node = start(folder.path());
    wait_for_rules(node.client(), "web", 2);
    let mut events = vec![
        logon(200, "ann", "success"),
        logon(201, "bob", "success"),
        logon(202, "ann", "success"),
    ];
    events.extend((0..12).map(|second| request(180 + second)));
    events.push(request(300));
    send(node.client(), "web", &events);
    wait_for("the sequence", || !alerts(node.client(), "logon").is_empty());
    wait_for("the rise", || !alerts(node.client(), "rise").is_empty());
    let found = alerts(node.client(), "logon");
    assert_eq!(found.len(), 1, "{found:?}");
    let state = &found[0]["firn"]["alert"];
    assert_eq!((&found[0]["user.name"], &state["count"]), (&json!("ann"), &json!(3)));
    let window = json!({
        "start": "2026-01-01T00:00:05.000Z", "end": "2026-01-01T00:03:20.000Z", "events": 3,
        "steps": [
            {"name": "failure", "time": "2026-01-01T00:00:05.000Z"},
            {"name": "second failure", "time": "2026-01-01T00:00:10.000Z"},
            {"name": "success", "time": "2026-01-01T00:03:20.000Z"},
        ],
    });
    assert_eq!(state["window"], window);
    let rise = alerts(node.client(), "rise");
    let window = json!({
        "start": "2026-01-01T00:03:00.000Z", "end": "2026-01-01T00:04:00.000Z", "events": 12, "value": 12, "baseline": 2.0,
    });
    assert_eq!(
        (rise.len(), &rise[0]["firn"]["alert"]["window"]),
        (1, &window),
        "{rise:?}"
    );
}

#[test]
fn a_sigma_correlation_is_imported_with_its_rules_and_reads_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let text = "title: Failed logon\nname: failed\nid: failed-id\nlogsource: {product: windows, service: security}\n\
        detection:\n  selection: {EventID: 4625}\n  condition: selection\n---\n\
        title: Logon\nname: logon\nlogsource: {product: windows, service: security}\n\
        detection:\n  selection: {EventID: 4624}\n  condition: selection\n---\n\
        title: Brute force\nid: brute\nlevel: high\ntags: [attack.t1110]\ncorrelation:\n  type: temporal_ordered\n  rules: [failed, logon]\n\
        \u{20}\u{20}group-by: [User]\n  timespan: 10m\n  aliases: {User: {failed: TargetUserName, logon: SubjectUserName}}\n---\n\
        title: Many stations\nid: stations\ngenerate: true\ncorrelation:\n  type: value_count\n  rules: [failed-id]\n  group-by: [TargetUserName]\n\
        \u{20}\u{20}timespan: 10m\n  condition: {gte: 3, field: WorkstationName}\n---\n\
        title: Lost\nid: lost\ncorrelation:\n  type: temporal\n  rules: [failed, gone]\n  timespan: 10m\n";
    let answer = client
        .send(
            "POST",
            "/_firn/rules/_import",
            Some("application/yaml"),
            text.as_bytes(),
        )
        .unwrap();
    let report = answer.json();
    assert_eq!(report["imported"], json!(["brute", "stations"]), "{report}");
    assert_eq!(report["refused"].as_array().map(Vec::len), Some(1), "{report}");
    assert!(report["refused"][0].to_string().contains("[gone]"), "{report}");

    client.ok(
        "PUT",
        "/_firn/pipelines/windows",
        &json!({"source": {"type": "http"}, "pack": "windows", "index": "windows", "tenant": "alpha"}),
    );
    // The two correlations, and the rule of the one that generates.
    wait_for_rules(client, "windows", 3);
    let stats = client.get("/_firn/rules/_stats").unwrap().json();
    assert_eq!(stats["brute"]["evaluated_by"], json!(["windows"]), "{stats}");
    let failed = |user: &str, station: &str| json!({"Channel": "Security", "EventID": 4625, "TargetUserName": user, "WorkstationName": station, "Computer": "dc1"});
    let logon = |user: &str| json!({"Channel": "Security", "EventID": 4624, "SubjectUserName": user, "TargetUserName": "x", "Computer": "dc1"});
    let events = [
        failed("EXAMPLE\\ann", "ws1"),
        failed("EXAMPLE\\ann", "ws2"),
        failed("bob", "ws1"),
        logon("ann"),
    ];
    send(client, "windows", &events);
    send(
        client,
        "windows",
        &[
            failed("EXAMPLE\\ann", "ws2"),
            logon("EXAMPLE\\ann"),
            failed("EXAMPLE\\ann", "ws3"),
        ],
    );
    wait_for("the brute force", || !alerts(client, "brute").is_empty());
    wait_for("the stations", || !alerts(client, "stations").is_empty());
    let brute = alerts(client, "brute");
    assert_eq!(brute.len(), 1, "{brute:?}");
    let state = &brute[0]["firn"]["alert"];
    // The name as the record has it, which is no field of the alert.
    assert_eq!(state["group_by"], json!({"User": ["EXAMPLE\\ann"]}), "{state}");
    assert!(
        brute[0].get("User").is_none() && brute[0]["tenant"] == "alpha",
        "{}",
        brute[0]
    );
    assert_eq!(brute[0]["threat"]["technique"]["id"], json!(["T1110"]));
    let names: Vec<&Value> = state["window"]["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| &step["name"])
        .collect();
    assert_eq!(names, ["failed", "logon"]);
    let stations = alerts(client, "stations");
    assert_eq!(
        (stations.len(), &stations[0]["firn"]["alert"]["window"]["value"]),
        (1, &json!(3)),
        "{stations:?}"
    );
    // The rule of the correlation that generates raises alerts of its own; those of the other one do not.
    assert_eq!(alerts(client, "stations/failed-id").len(), 5);
    let all = client.ok("POST", "/.alerts-alpha/_count", &json!({"query": {"match_all": {}}}));
    assert_eq!(all["count"], json!(7), "{all}");
}

#[test]
fn a_rule_is_tested_on_stored_events() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let mapping = json!({"mappings": {"properties": {"@timestamp": {"type": "date"}, "user": {"properties": {"name": {"type": "keyword"}}}}}});
    client.ok("PUT", "/web", &mapping);
    let mut lines = String::new();
    for number in 0..60 {
        let event = event(
            number * 30,
            &json!({"user": {"name": format!("user{}", number % 3)}, "number": number}),
        );
        lines += &format!("{{\"create\":{{}}}}\n{event}\n");
    }
    let written = client
        .send(
            "POST",
            "/web/_bulk?refresh=true",
            Some("application/x-ndjson"),
            lines.as_bytes(),
        )
        .unwrap();
    assert_eq!(written.json()["errors"], json!(false), "{}", written.text());
    let test = |rule: Value| {
        let body = json!({"rule": rule, "index": "web", "from": "2026-01-01", "to": "2026-01-02", "examples": 2});
        client.json("POST", "/_firn/rules/_test", &body).unwrap()
    };
    let found = test(json!({
        "type": "query", "name": "x", "query": "user.name: user0", "exceptions": [{"query": "number < 6"}],
    }))
    .json();
    assert_eq!(
        (&found["events"], &found["alerts"]),
        (&json!(18), &json!(18)),
        "{found}"
    );
    assert_eq!((&found["ran"], &found["partial"]), (&json!(true), &json!(false)));
    assert_eq!(found["examples"].as_array().unwrap().len(), 2);
    assert_eq!(
        found["days"],
        json!([{"day": "2026-01-01T00:00:00.000Z", "events": 18}])
    );
    // Each user has 20 events in half an hour: 3 or 4 in each 5 minutes.
    let threshold = |count: u64| {
        let rule = json!({
            "type": "threshold", "name": "x", "query": "*", "group_by": ["user.name"], "window": "5m", "threshold": {"count": count},
        });
        test(rule).json()["alerts"].clone()
    };
    assert_eq!(
        (threshold(3), threshold(4), threshold(5)),
        (json!(18), json!(6), json!(0))
    );
    let refused = test(json!({"type": "absence", "name": "x", "query": "*", "group_by": ["a"], "after": "1m"}));
    assert_eq!(refused.status, 400, "{}", refused.text());
    let sequence =
        json!({"type": "sequence", "name": "x", "within": "1m", "steps": [{"query": "a: 1"}, {"query": "a: 2"}]});
    let refused = test(sequence);
    assert!(
        refused.status == 400 && refused.text().contains("a sequence cannot be counted"),
        "{}",
        refused.text()
    );
    let refused = test(json!({"type": "query", "name": "x", "query": "a: ("}));
    assert_eq!(refused.status, 400, "{}", refused.text());
}

#[test]
fn a_definition_is_validated_without_being_stored() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let validate = |body: &Value| client.json("POST", "/_firn/rules/_validate", body).unwrap();
    let rate = |change: Value| json!({"rule": {"type": "rate_of_change", "name": "x", "query": "*", "window": "5m", "change": change}});
    let valid = validate(&rate(json!({"drop_percent": 80})));
    assert_eq!((valid.status, valid.json()), (200, json!({"valid": true})));
    let wrong = validate(&rate(json!({"drop_percent": 101})));
    let error = "[change.drop_percent] is more than 0 and at most 100, not [101]";
    assert_eq!(
        (wrong.status, wrong.json()),
        (200, json!({"valid": false, "error": error}))
    );
    let steps = json!([{"query": "a: 1"}, {"query": "a: ("}]);
    let wrong = validate(&json!({"rule": {"type": "sequence", "name": "x", "within": "1m", "steps": steps}}));
    let error = wrong.json()["error"].clone();
    assert!(
        error.as_str().is_some_and(|error| error.starts_with("step [step 2]: ")),
        "{error}"
    );
    for body in [json!({}), json!({"rule": 1}), json!({"rule": {}, "index": "a"})] {
        let refused = validate(&body);
        assert_eq!(refused.status, 400, "{body}: {}", refused.text());
    }
    let stored = client.send("GET", "/_firn/rules", None, b"").unwrap();
    assert_eq!((stored.status, stored.json()), (200, json!({})));
}
