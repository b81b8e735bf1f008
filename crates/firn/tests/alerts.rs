//! Detection rules in event pipelines, and the alerts that they raise (docs/operate/alerts.md).

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use firn_testkit::Client;
use rules::{send, start, stats, wait_for, wait_for_rules};
use serde_json::{Value, json};

#[path = "support/rules.rs"]
mod rules;

/// Returns the alerts of an index, oldest event first.
fn alerts(client: &Client, index: &str) -> Vec<Value> {
    client.ok("POST", &format!("/{index}/_refresh"), &Value::Null);
    let body = json!({"size": 10_000, "sort": [{"firn.alert.event.time": "asc"}, {"rule.id": "asc"}]});
    let found = client.ok("POST", &format!("/{index}/_search"), &body);
    assert_eq!(found["_shards"]["failed"], 0, "{found}");
    let hits = found["hits"]["hits"].as_array().unwrap();
    hits.iter().map(|hit| hit["_source"].clone()).collect()
}

#[test]
fn an_event_that_matches_raises_an_alert_with_a_link_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let refused = |body: Value, words: &str| {
        let answer = client.json("PUT", "/_firn/rules/bad", &body).unwrap();
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains(words), "{}", answer.text());
    };
    refused(json!([]), "must be a JSON object");
    refused(json!({"type": "query", "name": "x", "query": "a: ("}), "rule [bad]");
    refused(
        json!({"type": "query", "name": "x", "query": {"ids": {"values": ["1"]}}}),
        "[ids] is not supported in rules",
    );

    let root = json!({
        "type": "query", "name": "Logon as root", "query": "user.name: root and not event.outcome: failure", "severity": "high",
        "tags": ["attack.t1078"], "exceptions": [{"query": "host.name: lab*"}],
    });
    client.ok("PUT", "/_firn/rules/root", &root);
    assert_eq!(client.get("/_firn/rules/root").unwrap().json(), json!({"root": root}));
    let scan = json!({
        "type": "query", "name": "Port scan", "language": "lucene", "query": "event.action:denied", "group_by": ["source.ip"],
    });
    client.ok("PUT", "/_firn/rules/scan", &scan);
    let of_bravo = json!({"type": "query", "name": "Bravo's", "query": "user.name: *", "tenant": "bravo"});
    client.ok("PUT", "/_firn/rules/of-bravo", &of_bravo);
    let off = json!({"type": "query", "name": "Off", "query": "*", "enabled": false});
    client.ok("PUT", "/_firn/rules/off", &off);
    client.ok(
        "PUT",
        "/_firn/pipelines/web",
        &json!({"source": {"type": "http"}, "index": "web"}),
    );
    client.ok(
        "PUT",
        "/_firn/pipelines/strange",
        &json!({"source": {"type": "http"}, "index": "strange"}),
    );
    wait_for("the pipelines", || {
        ["web", "strange"]
            .iter()
            .all(|id| stats(client, id)["running"] == json!(true))
    });
    wait_for_rules(client, "web", 3);
    let rules = client.get("/_firn/rules/_stats").unwrap().json();
    assert_eq!(rules["root"]["evaluated_by"], json!(["strange", "web"]), "{rules}");
    assert_eq!(
        (&rules["off"]["enabled"], &rules["off"]["evaluated_by"]),
        (&json!(false), &json!([]))
    );
    assert_eq!(rules["root"]["error"], Value::Null);

    let answer = send(
        client,
        "web",
        &[
            json!({"@timestamp": "2026-01-01T00:00:01Z", "tenant": "alpha", "user": {"name": "root"}, "host": {"name": "a"}}),
            json!({"@timestamp": "2026-01-01T00:00:02Z", "tenant": "alpha", "user": {"name": "root"}, "host": {"name": "lab7"}}),
            json!({"@timestamp": "2026-01-01T00:00:03Z", "tenant": "bravo", "user": {"name": "ann"}}),
            json!({"@timestamp": "2026-01-01T00:00:04Z", "event": {"action": "denied"}, "source": {"ip": "10.0.0.1"}}),
            json!({"@timestamp": "2026-01-01T00:00:05Z", "event": {"action": "denied"}, "source": {"ip": "10.0.0.2"}}),
            json!({"@timestamp": "2026-01-01T00:00:06Z", "event": {"action": "denied"}, "source": {"ip": "10.0.0.1"}}),
            json!({"@timestamp": "2026-01-01T00:00:07Z", "event": {"action": "allowed"}, "source": {"ip": "10.0.0.1"}}),
        ],
    );
    assert_eq!(
        (&answer["indexed"], &answer["dead_lettered"]),
        (&json!(7), &json!(0)),
        "{answer}"
    );

    // The name of a tenant may have capitals, and that of an index may not.
    send(
        client,
        "web",
        &[json!({"@timestamp": "2026-01-01T00:00:08Z", "tenant": "ACME", "user": {"name": "root"}})],
    );
    assert_eq!(alerts(client, ".alerts-acme")[0]["tenant"], "ACME");

    let of_alpha = alerts(client, ".alerts-alpha");
    assert_eq!(of_alpha.len(), 1, "{of_alpha:?}");
    let alert = &of_alpha[0];
    let state = &alert["firn"]["alert"];
    assert_eq!(alert["rule"], json!({"id": "root", "name": "Logon as root"}));
    assert_eq!(
        (&alert["tenant"], &alert["user"]["name"]),
        (&json!("alpha"), &json!("root"))
    );
    assert_eq!(
        (&state["status"], &state["severity"], &state["risk_score"]),
        (&json!("open"), &json!("high"), &json!(73))
    );
    assert_eq!(alert["threat"]["technique"]["id"], json!(["T1078"]));
    let link = &state["event"];
    let path = format!(
        "/{}/_doc/{}",
        link["index"].as_str().unwrap(),
        link["id"].as_str().unwrap()
    );
    let event = client.get(&path).unwrap().json();
    assert_eq!(event["_source"]["host"]["name"], "a", "{event}");

    let of_bravo = alerts(client, ".alerts-bravo");
    assert_eq!(of_bravo.len(), 1, "{of_bravo:?}");
    assert_eq!(of_bravo[0]["rule"]["id"], "of-bravo");
    let others: Vec<(String, u64)> = alerts(client, ".alerts-default")
        .iter()
        .map(|alert| {
            (
                alert["source"]["ip"].as_str().unwrap().to_owned(),
                alert["firn"]["alert"]["count"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(others, [("10.0.0.1".to_owned(), 2), ("10.0.0.2".to_owned(), 1)]);
    assert_eq!(stats(client, "web")["rules"]["alerts"], 5);

    // Members that the alert has too, in other shapes: the alert is stored, and the pipeline goes on.
    let strange = json!({
        "event": {"action": "denied", "kind": {"a": 1}}, "tenant": ["alpha", "bravo"], "source": {"ip": "10.0.0.3"}, "user": "text",
    });
    send(client, "strange", &[strange]);
    let found = alerts(client, ".alerts-default");
    let of_strange = found
        .iter()
        .filter(|alert| alert["firn"]["alert"]["group_by"]["source.ip"] == json!(["10.0.0.3"]));
    assert_eq!(of_strange.count(), 1, "{found:?}");
    assert_eq!(alerts(client, ".alerts-alpha").len(), 1);

    // A removed rule is not evaluated any more; its alerts stay.
    client.ok("DELETE", "/_firn/rules/root,off", &Value::Null);
    assert_eq!(client.get("/_firn/rules/root").unwrap().status, 404);
    wait_for_rules(client, "web", 2);
    send(client, "web", &[json!({"tenant": "alpha", "user": {"name": "root"}})]);
    assert_eq!(alerts(client, ".alerts-alpha").len(), 1);
    node.stop().unwrap();

    // Rules are there before the first event after a start.
    let node = start(folder.path());
    let client = node.client();
    wait_for("the pipeline", || stats(client, "web")["running"] == json!(true));
    send(client, "web", &[json!({"tenant": "bravo", "user": {"name": "bob"}})]);
    assert_eq!(alerts(client, ".alerts-bravo").len(), 2);
    node.stop().unwrap();
}

#[test]
fn sigma_rules_are_imported_and_read_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let rules = "title: Log cleared\nid: cleared\nlevel: critical\nlogsource: {product: windows, service: security}\n\
        detection:\n  selection: {EventID: 1102}\n  condition: selection\n---\n\
        title: Other log\nid: other\nlogsource: {product: linux, service: sshd}\n\
        detection:\n  keywords: [error]\n  condition: keywords\n---\n\
        title: Looks around\nid: around\nlogsource: {product: windows}\n\
        detection:\n  selection:\n    CommandLine|re: '(?=a)b'\n  condition: selection\n";
    let answer = client
        .send(
            "POST",
            "/_firn/rules/_import",
            Some("application/yaml"),
            rules.as_bytes(),
        )
        .unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let report = answer.json();
    assert_eq!(report["imported"], json!(["cleared", "other"]), "{report}");
    assert_eq!(report["refused"][0]["id"], "around", "{report}");
    assert_eq!(report["refused"].as_array().unwrap().len(), 1, "{report}");

    let body = json!({"source": {"type": "http"}, "pack": "windows", "index": "windows", "tenant": "alpha"});
    client.ok("PUT", "/_firn/pipelines/windows", &body);
    wait_for("the pipeline", || stats(client, "windows")["running"] == json!(true));
    wait_for_rules(client, "windows", 1);
    assert_eq!(stats(client, "windows")["rules"]["unmapped"], json!(["other"]));
    send(
        client,
        "windows",
        &[
            json!({"Channel": "Security", "EventID": 1102, "SubjectUserName": "ann"}),
            json!({"Channel": "System", "EventID": 1102}),
            json!({"Channel": "Security", "EventID": 4624}),
        ],
    );
    let found = alerts(client, ".alerts-alpha");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (&found[0]["rule"]["id"], &found[0]["firn"]["alert"]["severity"]),
        (&json!("cleared"), &json!("critical"))
    );
    assert!(found[0]["event"].get("original").is_none(), "{}", found[0]);
    node.stop().unwrap();
}

/// Some lines of a file match a rule, some two. However often the server is killed, each alert is there once.
#[test]
fn each_alert_is_stored_once_through_kills() {
    let seed = firn_testkit::seed("each_alert_is_stored_once_through_kills");
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("app.log");
    let mut file = OpenOptions::new().create(true).append(true).open(&log).unwrap();
    let mut node = start(folder.path());
    for (id, query) in [("odd", "kind: odd"), ("seventh", "seventh: true"), ("clash", "user: *")] {
        let body = json!({"type": "query", "name": id, "query": query});
        node.client().ok("PUT", &format!("/_firn/rules/{id}"), &body);
    }
    let body = json!({"source": {"type": "file", "paths": [log.display().to_string()]}, "index": "lines"});
    node.client().ok("PUT", "/_firn/pipelines/lines", &body);
    let mut expected: BTreeMap<(String, u64), u64> = BTreeMap::new();
    let mut next = 0_u64;
    for _ in 0..6 {
        let until = Instant::now() + Duration::from_millis(random.u64(200..1500));
        while Instant::now() < until {
            let mut lines = String::new();
            for _ in 0..random.u64(1..200) {
                let (is_odd, is_seventh) = (next % 2 == 1, next.is_multiple_of(7));
                let mut line = json!({"n": next, "kind": if is_odd { "odd" } else { "even" }, "seventh": is_seventh});
                // A text where other alerts have an object: the index of alerts rejects one of the two kinds.
                if next.is_multiple_of(50) {
                    line["user"] = if random.bool() {
                        json!("ann")
                    } else {
                        json!({"name": "ann"})
                    };
                    // `user: *` does not find an object of this name.
                    if line["user"].is_string() {
                        expected.insert(("clash".to_owned(), next), 1);
                    }
                }
                for (id, is_expected) in [("odd", is_odd), ("seventh", is_seventh)] {
                    if is_expected {
                        expected.insert((id.to_owned(), next), 1);
                    }
                }
                lines += &format!("{line}\n");
                next += 1;
            }
            file.write_all(lines.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(random.u64(0..40)));
        }
        node.kill9().unwrap();
        node = start(folder.path());
    }
    let client = node.client();
    wait_for("all lines", || {
        let at = stats(client, "lines")["partitions"][0].clone();
        at["read"].as_u64() == Some(next)
    });
    wait_for("an account", || {
        stats(client, "lines")["since_start"]["in_flight"] == json!(0)
    });
    client.ok("POST", "/.alerts-default/_refresh", &Value::Null);
    // By offset, since an alert without the copy of its event has no number.
    let offsets = offsets(&log);
    let mut found: BTreeMap<(String, u64), u64> = BTreeMap::new();
    let mut after = Value::Null;
    loop {
        let mut body = json!({"size": 5000, "sort": [{"firn.alert.event.offset": "asc"}, {"rule.id": "asc"}]});
        if !after.is_null() {
            body["search_after"] = after;
        }
        let page = client.ok("POST", "/.alerts-default/_search", &body);
        let hits = page["hits"]["hits"].as_array().unwrap();
        let Some(last) = hits.last() else {
            break;
        };
        after = last["sort"].clone();
        for hit in hits {
            let alert = &hit["_source"];
            let offset = alert["firn"]["alert"]["event"]["offset"].as_u64().unwrap();
            let rule = alert["rule"]["id"].as_str().unwrap().to_owned();
            *found.entry((rule, offsets[&offset])).or_default() += 1;
        }
    }
    let differences: Vec<_> = expected
        .iter()
        .filter(|(key, count)| found.get(*key) != Some(count))
        .map(|(key, count)| (key, count, found.get(key)))
        .take(10)
        .collect();
    assert!(differences.is_empty(), "expected and found: {differences:?}");
    assert_eq!(found.len(), expected.len());
    node.stop().unwrap();
}

/// Returns the number of the line that starts at each offset.
fn offsets(log: &Path) -> BTreeMap<u64, u64> {
    let text = std::fs::read_to_string(log).unwrap();
    let mut offset = 0;
    let lines = text.split_inclusive('\n').zip(0..).map(|(line, number)| {
        let start = offset;
        offset += line.len() as u64;
        (start, number)
    });
    lines.collect()
}
