//! Delivery of alerts to channels (docs/operate/alerts.md).

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use firn_testkit::{Client, Node};
use rules::{send, start_with, try_send, wait_for, wait_for_rules};
use serde_json::{Value, json};
use webhook_receiver::{Message, Receiver};

#[path = "support/rules.rs"]
mod rules;
#[path = "support/webhook_receiver.rs"]
mod webhook_receiver;

const ALLOWED: (&str, &str) = ("notify.webhook.allowed_networks", "127.0.0.0/8");

/// Stores a rule that matches each event with `user.name: root`, a pipeline, and waits for both.
fn prepare(client: &Client, rule: &Value) {
    let mut body = json!({"type": "query", "name": "Root", "query": "user.name: root", "severity": "high"});
    body.as_object_mut().unwrap().extend(rule.as_object().unwrap().clone());
    client.ok("PUT", "/_firn/rules/root", &body);
    let pipeline = json!({"source": {"type": "http"}, "index": "web"});
    client.ok("PUT", "/_firn/pipelines/web", &pipeline);
    wait_for_rules(client, "web", 1);
}

fn wait_for_channels(client: &Client, ids: &[&str]) {
    wait_for("the channels", || {
        let stats = channel_stats(client);
        ids.iter().all(|id| stats.get(id).is_some())
    });
}

fn channel_stats(client: &Client) -> Value {
    client.get("/_firn/channels/_stats").unwrap().json()
}

fn event(number: u64) -> Value {
    json!({"@timestamp": "2026-01-01T00:00:00Z", "tenant": "alpha", "user": {"name": "root"}, "number": number})
}

/// Returns the hits of the alerts of an index that match a query, oldest first.
fn hits(client: &Client, index: &str, query: &Value) -> Vec<Value> {
    client.ok(
        "POST",
        &format!("/{index}/_refresh?ignore_unavailable=true"),
        &Value::Null,
    );
    let body = json!({"size": 10_000, "query": query, "sort": [{"number": {"order": "asc", "unmapped_type": "long"}}]});
    let path = format!("/{index}/_search?ignore_unavailable=true");
    let found = client.ok("POST", &path, &body);
    found["hits"]["hits"].as_array().unwrap().clone()
}

fn all(client: &Client, index: &str) -> Vec<Value> {
    hits(client, index, &json!({"match_all": {}}))
}

fn state(hit: &Value) -> &Value {
    &hit["_source"]["firn"]["alert"]
}

#[test]
fn a_channel_that_fails_is_tried_again_and_what_is_refused_can_be_resent() {
    let folder = tempfile::tempdir().unwrap();
    let node = start_with(folder.path(), &[ALLOWED]);
    let client = node.client();
    let (hook, operator) = (Receiver::start(), Receiver::start());
    let definition = json!({"type": "webhook", "url": hook.url});
    client.ok("PUT", "/_firn/channels/hook", &definition);
    client.ok(
        "PUT",
        "/_firn/channels/operator",
        &json!({"type": "webhook", "url": operator.url, "subscribe": {"min_severity": "high"}}),
    );
    assert_eq!(
        client.get("/_firn/channels/hook").unwrap().json(),
        json!({"hook": definition})
    );
    wait_for_channels(client, &["hook", "operator"]);
    let tested = client.ok("POST", "/_firn/channels/hook/_test", &Value::Null);
    assert_eq!(tested, json!({"delivered": true}));
    assert_eq!(hook.messages()[0].body["alerts"][0]["rule"]["id"], "firn-test");
    hook.answer_next(&["403 Forbidden"]);
    let refused = client.send("POST", "/_firn/channels/hook/_test", None, b"").unwrap();
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(refused.text().contains("403 Forbidden"), "{}", refused.text());

    // The rule has low severity for the operator's channel.
    prepare(client, &json!({"channels": ["hook"], "severity": "low"}));
    hook.answer_next(&["503 Service Unavailable", "200 OK"]);
    send(client, "web", &[event(1)]);
    wait_for("the second attempt", || hook.messages().len() == 4);
    let (first, second) = (&hook.messages()[2], &hook.messages()[3]);
    assert_eq!(first.headers["idempotency-key"], second.headers["idempotency-key"]);
    assert!(
        second.at - first.at >= Duration::from_millis(900),
        "{:?}",
        second.at - first.at
    );
    assert_eq!(first.alerts().len(), 1);
    wait_for("the mark of the delivery", || {
        state(&all(client, ".alerts-alpha")[0])["pending"] == json!([])
    });
    let alerts = all(client, ".alerts-alpha");
    let delivery = &state(&alerts[0])["deliveries"][0];
    assert_eq!(
        (&delivery["channel"], &delivery["outcome"], &delivery["attempts"]),
        (&json!("hook"), &json!("delivered"), &json!(2)),
        "{delivery}"
    );

    // The receiver will never take it: it is listed, the operator is told, and it can be sent again.
    hook.answer_next(&["422 Unprocessable Entity"]);
    send(client, "web", &[event(2)]);
    wait_for("the failure", || {
        state(&all(client, ".alerts-alpha")[1])["failed"] == json!(["hook"])
    });
    let alerts = all(client, ".alerts-alpha");
    let delivery = &state(&alerts[1])["deliveries"][0];
    assert!(
        delivery["reason"]
            .as_str()
            .unwrap()
            .contains("422 Unprocessable Entity"),
        "{delivery}"
    );
    wait_for("the operator's message", || !operator.messages().is_empty());
    let message = &operator.messages()[0].body;
    assert_eq!(message["alerts"][0]["rule"]["id"], "firn-channel-failing", "{message}");
    let stats = channel_stats(client);
    assert_eq!(
        (&stats["hook"]["delivered"], &stats["hook"]["failed"]),
        (&json!(1), &json!(1)),
        "{stats}"
    );
    let key = json!({"index": alerts[1]["_index"], "id": alerts[1]["_id"]});
    let body = json!({"alerts": [key]});
    let answer = client.ok("POST", "/_firn/alerts/_resend", &body);
    assert_eq!(answer["updated"], 1, "{answer}");
    wait_for("the delivery after the resend", || {
        state(&all(client, ".alerts-alpha")[1])["pending"] == json!([])
    });
    let alerts = all(client, ".alerts-alpha");
    assert_eq!(state(&alerts[1])["failed"], json!([]));
    assert_eq!(hook.messages().len(), 6);
    let answer = client.ok("POST", "/_firn/alerts/_resend", &body);
    assert_eq!((&answer["updated"], &answer["unchanged"]), (&json!(0), &json!(1)));

    // A rule may name a channel that does not exist: its alerts say so.
    prepare(client, &json!({"channels": ["missing"]}));
    wait_for("the new rule", || {
        send(client, "web", &[event(3)]);
        !hits(
            client,
            ".alerts-alpha",
            &json!({"term": {"firn.alert.failed": "missing"}}),
        )
        .is_empty()
    });
}

#[test]
fn the_alert_of_a_replayed_event_is_delivered_once() {
    let folder = tempfile::tempdir().unwrap();
    let node = start_with(folder.path(), &[ALLOWED]);
    let client = node.client();
    let hook = Receiver::start();
    client.ok(
        "PUT",
        "/_firn/channels/hook",
        &json!({"type": "webhook", "url": hook.url}),
    );
    prepare(client, &json!({"channels": ["hook"]}));
    wait_for_channels(client, &["hook"]);
    let with_pack = json!({"source": {"type": "http"}, "index": "web", "pack": "nginx"});
    client.ok("PUT", "/_firn/pipelines/web", &with_pack);
    // It is no line of a web server's log. While the definition changes, the pipeline answers 503.
    wait_for("the dead letter", || {
        let status = try_send(client, "web", &[event(1)]).status;
        assert!(matches!(status, 200 | 503), "{status}");
        client.ok("POST", "/dead-letters/_refresh?ignore_unavailable=true", &Value::Null);
        let found = client
            .get("/dead-letters/_count?ignore_unavailable=true")
            .unwrap()
            .json();
        found["count"].as_u64() > Some(0)
    });
    client.ok(
        "PUT",
        "/_firn/pipelines/web",
        &json!({"source": {"type": "http"}, "index": "web"}),
    );
    let before = hook.messages().len();
    wait_for("the replay", || {
        let answer = client.send("POST", "/_firn/pipelines/web/_replay", None, b"").unwrap();
        answer.status == 200 && answer.json()["failed"] == json!(0)
    });
    wait_for("the message", || hook.messages().len() > before);
    let pending = json!({"exists": {"field": "firn.alert.pending"}});
    wait_for("all marks", || hits(client, ".alerts-alpha", &pending).is_empty());
}

#[test]
fn a_flood_of_alerts_is_a_few_messages() {
    let folder = tempfile::tempdir().unwrap();
    let node = start_with(folder.path(), &[ALLOWED]);
    let client = node.client();
    let hook = Receiver::start();
    let definition = json!({"type": "webhook", "url": hook.url, "max_per_minute": 4});
    client.ok("PUT", "/_firn/channels/hook", &definition);
    prepare(client, &json!({"channels": ["hook"]}));
    wait_for_channels(client, &["hook"]);
    let events: Vec<Value> = (0..400).map(event).collect();
    send(client, "web", &events);
    let sum = || -> usize { hook.messages().iter().map(|message| message.alerts().len()).sum() };
    wait_for("all alerts", || sum() >= 400);
    let messages = hook.messages();
    let different: BTreeSet<String> = messages.iter().flat_map(Message::alerts).collect();
    // Alerts without a partition have no id of their own: they are told apart by their documents.
    assert_eq!((sum(), different.len()), (400, 1));
    let documents: BTreeSet<String> = messages
        .iter()
        .flat_map(|message| message.body["alerts"].as_array().unwrap().clone())
        .map(|alert| alert["_id"].to_string())
        .collect();
    assert_eq!(documents.len(), 400);
    let counts: Vec<u64> = messages
        .iter()
        .map(|message| message.body["count"].as_u64().unwrap())
        .collect();
    assert!(counts.len() <= 5 && counts[..3] == [1, 1, 1], "{counts:?}");
    assert!(
        messages[3].body["summary"]
            .as_str()
            .unwrap()
            .contains(" alerts: Root ("),
        "{}",
        messages[3].body["summary"]
    );
}

#[test]
fn webhooks_reach_no_private_address_unless_a_setting_allows_it() {
    let folder = tempfile::tempdir().unwrap();
    let node = start_with(folder.path(), &[]);
    let client = node.client();
    let hook = Receiver::start();
    let port = hook.url.rsplit_once(':').unwrap().1.to_owned();
    let by_name = format!("http://localhost:{port}");
    let mapped = format!("http://[::ffff:127.0.0.1]:{port}");
    let decimal = format!("http://2130706433:{port}");
    for url in [&hook.url, &by_name, &mapped, &decimal] {
        let body = json!({"type": "webhook", "url": url});
        let answer = client.json("POST", "/_firn/channels/new/_test", &body).unwrap();
        assert_eq!(answer.status, 503, "{url}: {}", answer.text());
        assert!(answer.text().contains("private network"), "{url}: {}", answer.text());
    }
    assert!(hook.messages().is_empty());
    drop(node);

    let node = start_with(folder.path(), &[ALLOWED]);
    let client = node.client();
    let body = json!({"type": "webhook", "url": by_name});
    client.ok("POST", "/_firn/channels/new/_test", &body);
    assert_eq!(hook.messages().len(), 1);
    // An answer does not lead elsewhere.
    hook.answer_next(&["307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/"]);
    let answer = client.json("POST", "/_firn/channels/new/_test", &body).unwrap();
    assert!(
        answer.status == 503 && answer.text().contains("307"),
        "{}",
        answer.text()
    );
}

#[test]
fn an_alert_that_is_not_acknowledged_goes_to_further_channels() {
    let folder = tempfile::tempdir().unwrap();
    let node = start_with(folder.path(), &[ALLOWED]);
    let client = node.client();
    let receivers = ["team", "boss", "alpha", "bravo"].map(|id| (id, Receiver::start()));
    for (id, receiver) in &receivers {
        let mut body = json!({"type": "webhook", "url": receiver.url});
        if ["alpha", "bravo"].contains(id) {
            body["tenant"] = (*id).into();
            body["subscribe"] = json!({});
        }
        client.ok("PUT", &format!("/_firn/channels/{id}"), &body);
    }
    prepare(
        client,
        &json!({"channels": ["team"], "escalation": [{"after": "2s", "channels": ["boss"]}]}),
    );
    wait_for_channels(client, &["team", "boss", "alpha", "bravo"]);
    send(client, "web", &[event(1), event(2)]);
    let count = |id: &str| {
        let (_, receiver) = receivers.iter().find(|(other, _)| *other == id).unwrap();
        receiver.messages().len()
    };
    wait_for("the first messages", || count("team") == 2 && count("alpha") == 2);
    let first = &all(client, ".alerts-alpha")[0];
    let body = json!({
        "alerts": [{"index": first["_index"], "id": first["_id"]}], "status": "acknowledged", "reason": "on it",
    });
    let answer = client.ok("POST", "/_firn/alerts/_status", &body);
    assert_eq!(
        (&answer["updated"], &answer["failed"]),
        (&json!(1), &json!(0)),
        "{answer}"
    );
    // The alert is found by its id, although it has changed.
    let by_id = json!({"ids": {"values": [first["_id"]]}});
    assert_eq!(hits(client, ".alerts-alpha", &by_id).len(), 1);
    wait_for("the escalation", || count("boss") == 1);
    wait_for("its mark", || {
        state(&all(client, ".alerts-alpha")[1])["pending"] == json!([])
    });
    let alerts = all(client, ".alerts-alpha");
    assert_eq!(state(&alerts[0])["status"], "acknowledged");
    assert_eq!(state(&alerts[0])["changed"]["reason"], "on it");
    let channels = |hit: &Value| {
        let deliveries = state(hit)["deliveries"].as_array().unwrap().iter();
        deliveries
            .map(|delivery| delivery["channel"].to_string())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(channels(&alerts[0]).len(), 2, "{}", state(&alerts[0]));
    assert_eq!(channels(&alerts[1]).len(), 3, "{}", state(&alerts[1]));
    assert_eq!((count("boss"), count("bravo")), (1, 0));

    // Bad requests change nothing.
    let change = |body: Value| client.json("POST", "/_firn/alerts/_status", &body).unwrap();
    let key = &body["alerts"];
    for (body, status, words) in [
        (json!({"alerts": key}), 400, "status"),
        (json!({"alerts": key, "status": "lost"}), 400, "not [lost]"),
        (json!({"status": "closed"}), 400, "either [alerts] or [query]"),
        (
            json!({"alerts": key, "query": {"match_all": {}}, "status": "closed"}),
            400,
            "either",
        ),
        (json!({"alerts": key, "status": "closed", "colour": 1}), 400, "colour"),
        (json!([]), 400, "JSON object"),
    ] {
        let answer = change(body.clone());
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
        assert!(answer.text().contains(words), "{body}: {}", answer.text());
    }
    let web = &all(client, "web")[0];
    let answer = change(json!({
        "alerts": [{"index": web["_index"], "id": web["_id"]}, {"index": first["_index"], "id": "none"}], "status": "closed",
    }));
    let answer = answer.json();
    assert_eq!(
        (&answer["updated"], &answer["failed"]),
        (&json!(0), &json!(2)),
        "{answer}"
    );
    let answer = change(json!({"query": {"term": {"rule.id": "root"}}, "status": "closed"})).json();
    assert_eq!(answer["updated"], 2, "{answer}");
}

/// Milliseconds since the epoch.
fn now_ms() -> u64 {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    elapsed.unwrap().as_millis() as u64
}

#[test]
fn alerts_in_a_maintenance_window_are_stored_and_neither_delivered_nor_escalated() {
    const HOUR_MS: u64 = 3_600_000;
    let folder = tempfile::tempdir().unwrap();
    let mut node = start_with(folder.path(), &[ALLOWED]);
    let client = node.client();
    let (hook, boss) = (Receiver::start(), Receiver::start());
    let webhook = |receiver: &Receiver| json!({"type": "webhook", "url": receiver.url});
    let mut subscribed = webhook(&hook);
    subscribed["subscribe"] = json!({});
    client.ok("PUT", "/_firn/channels/hook", &subscribed);
    client.ok("PUT", "/_firn/channels/boss", &webhook(&boss));
    let window = json!({
        "title": "Patch day", "start": now_ms() - HOUR_MS, "duration": "2h", "tenant": "alpha", "rules": ["root"],
        "query": "number < 10", "repeat": {"every": "week"}, "timezone": "Europe/Berlin",
    });
    let ended = json!({"title": "Over", "start": now_ms() - 3 * HOUR_MS, "end": now_ms() - HOUR_MS});
    let path = "/_firn/maintenance_windows";
    client.ok("PUT", &format!("{path}/patch"), &window);
    client.ok("PUT", &format!("{path}/over"), &ended);
    let listed = client.get(path).unwrap().json();
    assert_eq!(listed["patch"]["status"]["active"], true, "{listed}");
    assert!(listed["patch"]["status"]["next_start"].is_string(), "{listed}");
    assert_eq!(
        listed["over"]["status"],
        json!({"active": false, "active_until": null, "next_start": null})
    );
    // The answer can be stored again.
    let mut own = client.get(&format!("{path}/patch")).unwrap().json()["patch"].clone();
    client.ok("PUT", &format!("{path}/patch"), &own);
    own.as_object_mut().unwrap().remove("status");
    assert_eq!(own, window);

    prepare(client, &json!({"escalation": [{"after": "1s", "channels": ["boss"]}]}));
    wait_for_channels(client, &["hook", "boss"]);
    // The windows are applied before the rules.
    send(client, "web", &[event(1), event(100)]);
    wait_for("the alert outside of the window", || boss.messages().len() == 1);
    let marks = |node: &Node| {
        let alerts = all(node.client(), ".alerts-alpha");
        let marks = alerts.iter().map(|alert| {
            let state = state(alert);
            let members = ["status", "maintenance_windows"].map(|member| state[member].clone());
            json!([alert["_source"]["number"], members])
        });
        marks.collect::<Vec<Value>>()
    };
    let expected = [json!([1, ["open", ["patch"]]]), json!([100, ["open", null]])];
    assert_eq!(marks(&node), expected);
    let first = &all(client, ".alerts-alpha")[0];
    assert_eq!(state(first)["pending"], json!([]));
    assert!(state(first).get("escalate_at").is_none(), "{first}");
    assert_eq!((hook.messages().len(), boss.messages().len()), (1, 1));

    // The alerts stay marked when their window is removed, and the windows survive a kill.
    client.ok("DELETE", &format!("{path}/patch"), &Value::Null);
    node.kill9().unwrap();
    node = start_with(folder.path(), &[ALLOWED]);
    let client = node.client();
    let listed = client.get(path).unwrap().json();
    assert_eq!(listed.as_object().unwrap().keys().collect::<Vec<_>>(), ["over"]);
    assert_eq!(marks(&node), expected);
    wait_for_channels(client, &["hook", "boss"]);
    let suppressed = json!({"exists": {"field": "firn.alert.maintenance_windows"}});
    let resend = json!({"query": suppressed, "channels": ["hook"]});
    assert_eq!(client.ok("POST", "/_firn/alerts/_resend", &resend)["updated"], 1);
    wait_for("the alert that is sent later", || hook.messages().len() == 2);
    wait_for("the rule", || {
        let stats = client.get("/_firn/pipelines/web/stats").unwrap().json();
        stats["rules"]["evaluated"] == json!(1) && stats["running"] == json!(true)
    });
    send(client, "web", &[event(2)]);
    wait_for("the alert after the window", || hook.messages().len() == 3);

    // Bad requests change nothing.
    for (method, id, body, status, words) in [
        ("PUT", "bad", json!({"title": "t"}), 400, "start"),
        (
            "PUT",
            "bad",
            json!({"title": "t", "start": "soon", "duration": "1h"}),
            400,
            "[start]",
        ),
        ("PUT", "bad", json!([]), 400, "JSON object"),
        ("PUT", "_bad", ended.clone(), 400, "must not start with [_]"),
        ("DELETE", "bad", Value::Null, 404, "maintenance window [bad] is missing"),
        ("GET", "bad", Value::Null, 404, "maintenance window [bad] is missing"),
    ] {
        let path = format!("{path}/{id}");
        let answer = match body.is_null() {
            true => client.send(method, &path, None, b""),
            false => client.json(method, &path, &body),
        };
        let answer = answer.unwrap();
        assert_eq!(answer.status, status, "{method} {id} {body}: {}", answer.text());
        assert!(answer.text().contains(words), "{method} {id} {body}: {}", answer.text());
    }
}

#[test]
fn no_alert_is_lost_over_kills() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let source = folder.path().join("events.ndjson");
    std::fs::create_dir(&data).unwrap();
    let hook = Receiver::start();
    let mut node = start_with(&data, &[ALLOWED]);
    let client = node.client();
    let definition = json!({"type": "webhook", "url": hook.url, "max_per_minute": 6000});
    client.ok("PUT", "/_firn/channels/hook", &definition);
    let rule = json!({"type": "query", "name": "Root", "query": "user.name: root", "channels": ["hook"]});
    client.ok("PUT", "/_firn/rules/root", &rule);
    std::fs::write(&source, "").unwrap();
    client.ok(
        "PUT",
        "/_firn/pipelines/files",
        &json!({"source": {"type": "file", "paths": [source]}, "index": "web"}),
    );
    wait_for("the rule", || {
        let stats = client.get("/_firn/pipelines/files/stats").unwrap().json();
        stats["rules"]["evaluated"] == json!(1)
    });
    let mut written = 0;
    for round in 0..8 {
        let mut file = std::fs::OpenOptions::new().append(true).open(&source).unwrap();
        for _ in 0..20 {
            writeln!(file, "{}", event(written)).unwrap();
            written += 1;
        }
        drop(file);
        // Ends it before, amid and after the messages.
        std::thread::sleep(Duration::from_millis(60 * round));
        node.kill9().unwrap();
        node = start_with(&data, &[ALLOWED]);
    }
    let client = node.client();
    let ids = || -> BTreeSet<String> { hook.messages().iter().flat_map(Message::alerts).collect() };
    wait_for("all alerts", || ids().len() as u64 == written);
    let pending = json!({"exists": {"field": "firn.alert.pending"}});
    wait_for("all marks", || hits(client, ".alerts-alpha", &pending).is_empty());
    let alerts = all(client, ".alerts-alpha");
    assert_eq!(alerts.len() as u64, written);
    let stored: BTreeSet<String> = alerts
        .iter()
        .map(|alert| state(alert)["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(stored, ids());
    // What was sent twice has the same key.
    let mut keys: BTreeMap<Vec<String>, BTreeSet<String>> = BTreeMap::new();
    for message in hook.messages() {
        keys.entry(message.alerts())
            .or_default()
            .insert(message.headers["idempotency-key"].clone());
    }
    assert!(keys.values().all(|keys| keys.len() == 1), "{keys:?}");
}
