//! Detection under kill -9: alerts of each kind of rule exist once, messages come at least once, and what a rule was not evaluated on is in
//! the ledger.
//!
//! `FIRN_DETECTION_ROUNDS` (8) bounds it; `make soak` raises it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firn_testkit::{Client, MailServer, seed};
use rules::{start_with, stats, wait_for};
use serde_json::{Value, json};
use webhook_receiver::Receiver;

#[path = "support/rules.rs"]
mod rules;
#[path = "support/webhook_receiver.rs"]
mod webhook_receiver;

const SETTINGS: &[(&str, &str)] = &[("notify.webhook.allowed_networks", "127.0.0.0/8")];
/// Events of a key, of which the last one raises an alert.
const BURST: u64 = 5;
const HITS_MAX: usize = 10_000;

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// Writes lines of `numbers` to the file: each third event matches the rule `root`, and all events of a burst have its key.
fn write_lines(path: &Path, numbers: std::ops::Range<u64>) {
    let time = now_ms();
    let line = |number: u64| {
        let user = if number.is_multiple_of(3) { "root" } else { "ann" };
        json!({"@timestamp": time, "tenant": "alpha", "number": number, "user": {"name": user}, "burst": format!("b{}", number / BURST)})
            .to_string()
            + "\n"
    };
    let lines: String = numbers.map(line).collect();
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(lines.as_bytes()).unwrap();
}

/// Stores events of `numbers` by `_bulk`, each of which matches the rule `denied`.
fn store(client: &Client, numbers: std::ops::Range<u64>) {
    let mut body = String::new();
    for number in numbers {
        body += &format!("{}\n", json!({"create": {"_id": number.to_string()}}));
        body += &format!("{}\n", json!({"@timestamp": now_ms(), "event": {"action": "denied"}}));
    }
    let answer = client
        .send(
            "POST",
            "/logs-stored/_bulk",
            Some("application/x-ndjson"),
            body.as_bytes(),
        )
        .unwrap();
    assert_eq!(answer.json()["errors"], json!(false), "{}", answer.text());
}

fn put_denied(client: &Client, is_enabled: bool) {
    let rule = json!({"type": "query", "name": "Denied", "query": "event.action: denied", "pipelines": ["stored"], "enabled": is_enabled});
    client.ok("PUT", "/_firn/rules/denied", &rule);
}

/// Returns how many alerts of a rule there are for each value of a field of the alert.
fn alerts(client: &Client, rule: &str, pointer: &str) -> BTreeMap<String, u64> {
    client.ok("POST", "/.alerts-*/_refresh?ignore_unavailable=true", &Value::Null);
    let body = json!({"size": HITS_MAX, "query": {"term": {"rule.id": rule}}});
    let path = "/.alerts-*/_search?ignore_unavailable=true&expand_wildcards=all";
    let found = client.ok("POST", path, &body);
    let hits = found["hits"]["hits"].as_array().unwrap();
    assert!(hits.len() < HITS_MAX, "too many alerts for one search");
    let mut counts = BTreeMap::new();
    for hit in hits {
        let value = hit["_source"].pointer(pointer).unwrap_or(&Value::Null);
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        *counts.entry(value).or_default() += 1;
    }
    counts
}

/// Checks that each of the expected values has one alert.
fn check_once(what: &str, found: &BTreeMap<String, u64>, expected: &BTreeSet<String>) {
    let wrong: Vec<_> = found
        .iter()
        .filter(|(value, count)| **count != 1 || !expected.contains(*value))
        .take(5)
        .collect();
    let missing: Vec<_> = expected
        .iter()
        .filter(|value| !found.contains_key(*value))
        .take(5)
        .collect();
    assert!(
        wrong.is_empty() && missing.is_empty(),
        "{what}: {} alerts, {} expected; such as {wrong:?} too many, {missing:?} missing",
        found.len(),
        expected.len()
    );
}

/// Sequence numbers of the stored events by their ids.
fn sequence_numbers(client: &Client) -> BTreeMap<String, u64> {
    client.ok("POST", "/logs-stored/_refresh", &Value::Null);
    let body = json!({"size": HITS_MAX, "seq_no_primary_term": true, "_source": false});
    let found = client.ok("POST", "/logs-stored/_search", &body);
    let hits = found["hits"]["hits"].as_array().unwrap().iter();
    hits.map(|hit| {
        (
            hit["_id"].as_str().unwrap().to_owned(),
            hit["_seq_no"].as_u64().unwrap(),
        )
    })
    .collect()
}

fn setup(client: &Client, source: &Path, mail_port: u16, hook: &str) {
    let mail = json!({
        "type": "email", "host": "127.0.0.1", "port": mail_port, "tls": "none", "from": "firn <firn@example.com>",
        "to": ["ann@example.com"], "subject": "event {{number}}.", "max_per_minute": 6000,
    });
    client.ok("PUT", "/_firn/channels/mail", &mail);
    let hook = json!({"type": "webhook", "url": hook, "max_per_minute": 6000});
    client.ok("PUT", "/_firn/channels/hook", &hook);
    let root = json!({"type": "query", "name": "Root", "query": "user.name: root", "channels": ["mail"], "pipelines": ["files"]});
    client.ok("PUT", "/_firn/rules/root", &root);
    let burst = json!({
        "type": "threshold", "name": "Burst", "query": "burst: *", "group_by": ["burst"], "window": "60s",
        "threshold": {"count": BURST}, "channels": ["hook"], "pipelines": ["files"],
    });
    client.ok("PUT", "/_firn/rules/burst", &burst);
    put_denied(client, true);
    let mappings = json!({"mappings": {"properties": {"@timestamp": {"type": "date"}}}});
    client.ok("PUT", "/logs-stored", &mappings);
    let files = json!({"source": {"type": "file", "paths": [source]}, "index": "web"});
    client.ok("PUT", "/_firn/pipelines/files", &files);
    let stored = json!({"source": {"type": "index", "indices": ["logs-*"], "every": "100ms", "read_from": "earliest"}});
    client.ok("PUT", "/_firn/pipelines/stored", &stored);
    wait_for("the rules", || {
        stats(client, "files")["rules"]["evaluated"] == json!(2)
            && stats(client, "stored")["rules"]["evaluated"] == json!(1)
    });
}

#[test]
fn no_alert_is_lost_and_none_comes_twice_through_kills() {
    let rounds = std::env::var("FIRN_DETECTION_ROUNDS").map_or(8, |rounds| rounds.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(seed("detection"));
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let source = folder.path().join("events.ndjson");
    std::fs::write(&source, "").unwrap();
    let (mails, hook) = (MailServer::start().unwrap(), Receiver::start());
    let mut node = start_with(&data, SETTINGS);
    setup(node.client(), &source, mails.port(), &hook.url);
    let (mut lines, mut stored, mut is_enabled) = (0, 0, true);
    for _ in 0..rounds {
        let client = node.client();
        for _ in 0..random.u64(1..6) {
            // Whole bursts.
            let next = lines + BURST * random.u64(1..4);
            write_lines(&source, lines..next);
            lines = next;
            let next = stored + random.u64(1..10);
            store(client, stored..next);
            stored = next;
            match random.u8(0..6) {
                0 => {
                    is_enabled = !is_enabled;
                    put_denied(client, is_enabled);
                }
                // More in a row would be hours of back-off in a long run.
                1 if !hook.has_answers() => hook.answer_next(&["500 Internal Server Error", "503 Service Unavailable"]),
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(random.u64(0..150)));
        }
        node.kill9().unwrap();
        node = start_with(&data, SETTINGS);
    }
    let client = node.client();
    put_denied(client, true);
    let evaluated = |client: &Client| stats(client, "stored")["rules"]["evaluated"] == json!(1);
    wait_for("the rule", || evaluated(client));
    // The last event of each source ends the waiting.
    write_lines(&source, lines..lines + BURST);
    lines += BURST;
    store(client, stored..stored + 1);
    stored += 1;

    let roots: BTreeSet<String> = (0..lines).step_by(3).map(|number| number.to_string()).collect();
    let bursts: BTreeSet<String> = (0..lines / BURST).map(|burst| format!("b{burst}")).collect();
    let of_root = || alerts(client, "root", "/number");
    let of_burst = || alerts(client, "burst", "/burst");
    wait_for("the alerts of events", || of_root().len() >= roots.len());
    wait_for("the alerts of bursts", || of_burst().len() >= bursts.len());
    let last = (stored - 1).to_string();
    let of_denied = || alerts(client, "denied", "/firn/alert/event/id");
    wait_for("the alert of the last stored event", || of_denied().contains_key(&last));
    check_once("root", &of_root(), &roots);
    check_once("burst", &of_burst(), &bursts);

    // What the rule did not see is in the ledger, with its place.
    let found = of_denied();
    let repeated: Vec<_> = found.iter().filter(|(_, count)| **count > 1).take(5).collect();
    assert!(repeated.is_empty(), "{repeated:?}");
    let coverage = client.ok("GET", "/_firn/rules/denied/_coverage", &Value::Null);
    let holes: Vec<(u64, u64)> = coverage["holes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hole| {
            let offset = |mark: &Value| mark["offset"].as_u64();
            (
                offset(&hole["from"]).unwrap_or(0),
                offset(&hole["to"]).unwrap_or(u64::MAX),
            )
        })
        .collect();
    let unseen: Vec<(String, u64)> = sequence_numbers(client)
        .into_iter()
        .filter(|(id, _)| !found.contains_key(id))
        .collect();
    for (id, place) in &unseen {
        let is_in_hole = holes.iter().any(|(from, to)| (from..to).contains(&place));
        assert!(
            is_in_hole,
            "the event {id} at {place} has no alert, and is in no hole of {holes:?}"
        );
    }
    let answer = client.ok(
        "POST",
        "/_firn/rules/denied/_run",
        &json!({"index": "logs-*", "from": "now-1d"}),
    );
    assert_eq!(
        (&answer["complete"], &answer["alerts"]),
        (&json!(true), &json!(unseen.len())),
        "{answer}"
    );
    let all: BTreeSet<String> = (0..stored).map(|number| number.to_string()).collect();
    check_once("denied", &of_denied(), &all);
    let coverage = client.ok("GET", "/_firn/rules/denied/_coverage", &Value::Null);
    let open: Vec<&Value> = coverage["holes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|hole| hole["filled"] != json!(true))
        .collect();
    assert!(open.is_empty(), "{open:?}");

    // Each message came.
    let missing = || {
        let subjects: BTreeSet<String> = mails
            .mails()
            .iter()
            .filter_map(|mail| {
                mail.lines()
                    .find_map(|line| line.strip_prefix("Subject: event "))
                    .map(str::to_owned)
            })
            .collect();
        roots
            .iter()
            .filter(|number| !subjects.contains(&format!("{number}.")))
            .count()
    };
    wait_for("all mails", || missing() == 0);
    let of_bursts: BTreeSet<String> = client.ok(
        "POST",
        "/.alerts-alpha/_search",
        &json!({"size": HITS_MAX, "query": {"term": {"rule.id": "burst"}}}),
    )["hits"]["hits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| hit["_source"]["firn"]["alert"]["id"].as_str().unwrap().to_owned())
        .collect();
    wait_for("all messages", || {
        let messages = hook.messages();
        let came: BTreeSet<String> = messages.iter().flat_map(webhook_receiver::Message::alerts).collect();
        came.is_superset(&of_bursts)
    });
    node.kill9().unwrap();
}
