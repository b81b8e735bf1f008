//! Detection rules on events that are stored already: pipelines whose source is of type `index` (docs/operate/alerts.md).

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use firn_testkit::Client;
use rules::{start, stats, wait_for, wait_for_rules};
use serde_json::{Value, json};

#[path = "support/rules.rs"]
mod rules;

fn put_rule(client: &Client, id: &str, members: &Value) {
    let mut body = json!({"type": "query", "name": id, "query": "event.action: denied"});
    body.as_object_mut()
        .unwrap()
        .extend(members.as_object().unwrap().clone());
    client.ok("PUT", &format!("/_firn/rules/{id}"), &body);
}

fn put_pipeline(client: &Client, id: &str, rules: u64, members: &Value) {
    let mut source = json!({"type": "index", "indices": ["logs-*"], "every": "100ms"});
    source
        .as_object_mut()
        .unwrap()
        .extend(members.as_object().unwrap().clone());
    client.ok("PUT", &format!("/_firn/pipelines/{id}"), &json!({ "source": source }));
    wait_for_rules(client, id, rules);
}

/// Returns the number of alerts of a rule by index and id of their event.
fn alerts(client: &Client, rule: &str) -> BTreeMap<(String, String), u64> {
    client.ok("POST", "/.alerts-*/_refresh?ignore_unavailable=true", &Value::Null);
    let body = json!({"size": 10_000, "query": {"term": {"rule.id": rule}}});
    let path = "/.alerts-*/_search?ignore_unavailable=true&expand_wildcards=all";
    let found = client.ok("POST", path, &body);
    let mut events = BTreeMap::new();
    for hit in found["hits"]["hits"].as_array().unwrap() {
        let event = &hit["_source"]["firn"]["alert"]["event"];
        let member = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        *events.entry((member("index"), member("id"))).or_default() += 1;
    }
    events
}

fn count_of(client: &Client, rule: &str) -> u64 {
    alerts(client, rule).values().sum()
}

#[test]
fn each_event_that_comes_by_bulk_raises_one_alert_through_kills() {
    let seed = firn_testkit::seed("each_event_that_comes_by_bulk_raises_one_alert_through_kills");
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let mut node = start(folder.path());
    let client = node.client();
    let settings = json!({"settings": {"index.number_of_shards": 3, "index.refresh_interval": "-1"}});
    client.ok("PUT", "/logs-a", &settings);
    client.ok("PUT", "/other", &json!({}));
    // Events from before the first start are left out.
    for n in 0..20 {
        client.ok("POST", "/logs-a/_doc", &json!({"event": {"action": "denied"}, "n": n}));
    }
    put_rule(client, "denied", &json!({}));
    put_pipeline(client, "stored", 1, &json!({}));
    let mut expected: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut n = 0_u64;
    for round in 0..6 {
        let client = node.client();
        let until = Instant::now() + Duration::from_millis(random.u64(100..1000));
        while Instant::now() < until {
            let mut body = String::new();
            let mut places = Vec::new();
            for _ in 0..random.u64(1..60) {
                // An index that the pattern names comes later.
                let index = match random.u64(0..4) {
                    0 => "other".to_owned(),
                    1 => format!("logs-{round}"),
                    _ => "logs-a".to_owned(),
                };
                let is_denied = n % 5 == 2;
                let id = format!("e{n}");
                // Late events are found, too: what counts is when they were written.
                let time = format!("20{:02}-01-01T00:00:00Z", random.u64(10..26));
                let action = if is_denied { "denied" } else { "allowed" };
                body += &format!("{}\n", json!({"create": {"_index": index, "_id": id}}));
                body += &format!("{}\n", json!({"@timestamp": time, "event": {"action": action}}));
                if is_denied && index != "other" {
                    places.push((index, id));
                }
                n += 1;
            }
            let answer = client
                .send("POST", "/_bulk", Some("application/x-ndjson"), body.as_bytes())
                .unwrap();
            assert_eq!(answer.json()["errors"], json!(false), "{}", answer.text());
            expected.extend(places.into_iter().map(|place| (place, 1)));
        }
        node.kill9().unwrap();
        node = start(folder.path());
    }
    let client = node.client();
    wait_for("all alerts", || count_of(client, "denied") >= expected.len() as u64);
    // An event that is read twice would come within some looks.
    std::thread::sleep(Duration::from_millis(500));
    let found = alerts(client, "denied");
    let difference: Vec<_> = found
        .iter()
        .filter(|(place, count)| expected.get(*place) != Some(count))
        .chain(expected.iter().filter(|(place, _)| !found.contains_key(*place)))
        .take(5)
        .collect();
    assert!(
        difference.is_empty(),
        "{} found, {} expected; such as {difference:?}",
        found.len(),
        expected.len()
    );
    let now = stats(client, "stored");
    let partitions = now["partitions"].as_array().unwrap();
    let read: u64 = partitions.iter().map(|at| at["read"].as_u64().unwrap()).sum();
    let filtered: u64 = partitions.iter().map(|at| at["filtered"].as_u64().unwrap()).sum();
    assert_eq!(read, filtered, "{now}");
    node.stop().unwrap();
}

#[test]
fn a_pipeline_that_was_disabled_reads_what_was_written_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let denied = |user: &str| json!({"@timestamp": "2026-01-01T00:00:00Z", "event": {"action": "denied"}, "user": {"name": user}});
    client.ok("POST", "/logs-a/_doc", &denied("ann"));
    put_rule(client, "denied", &json!({"pipelines": ["stored"]}));
    let threshold = json!({"type": "threshold", "group_by": ["user.name"], "window": "1m", "threshold": {"count": 3}});
    put_rule(client, "often", &threshold);
    put_pipeline(client, "stored", 2, &json!({}));
    // From the first event, for the rules that are for all pipelines.
    put_pipeline(client, "all", 1, &json!({"read_from": "earliest"}));
    let put = |enabled: bool| {
        let source = json!({"type": "index", "indices": ["logs-*"], "every": "100ms"});
        let body = json!({"source": source, "enabled": enabled});
        client.ok("PUT", "/_firn/pipelines/stored", &body);
    };
    client.ok("POST", "/logs-a/_doc", &denied("ann"));
    wait_for("an alert", || count_of(client, "denied") == 1);
    put(false);
    wait_for("the stop", || stats(client, "stored")["running"] == json!(false));
    client.ok("POST", "/logs-a/_doc", &denied("ann"));
    client.ok("POST", "/logs-b/_doc", &denied("bob"));
    // The other pipeline has seen three events of Ann, the oldest one included.
    wait_for("the threshold", || count_of(client, "often") == 1);
    assert_eq!(count_of(client, "denied"), 1);
    put(true);
    wait_for("the alerts of the pause", || count_of(client, "denied") == 3);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!((count_of(client, "denied"), count_of(client, "often")), (3, 1));
    node.stop().unwrap();
}

#[test]
fn definitions_that_would_read_what_they_write_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    for (body, words) in [
        (
            json!({"source": {"type": "index", "indices": []}}),
            "1 to 100 [indices]",
        ),
        (
            json!({"source": {"type": "index", "indices": ["<.alerts-default>"]}}),
            "does not start with [.]",
        ),
        (
            json!({"source": {"type": "index", "indices": [".alerts-*"]}}),
            "does not start with [.]",
        ),
        (
            json!({"source": {"type": "index", "indices": ["a"]}, "index": "b"}),
            "leave [index] out",
        ),
        (
            json!({"source": {"type": "index", "indices": ["dead-letters"]}}),
            "must not read it",
        ),
        (
            json!({"source": {"type": "index", "indices": ["a"], "every": "1ms"}}),
            "[every] is 100ms to 1h",
        ),
        (json!({"source": {"type": "http"}}), "missing field `index`"),
    ] {
        let answer = client.json("PUT", "/_firn/pipelines/stored", &body).unwrap();
        assert!(
            answer.status == 400 && answer.text().contains(words),
            "{}",
            answer.text()
        );
    }
    // An event that the pack cannot map becomes one letter, although the pattern names the index of letters.
    let body = json!({"source": {"type": "index", "indices": ["*"], "every": "100ms"}, "pack": "cef"});
    client.ok("PUT", "/_firn/pipelines/stored", &body);
    wait_for("the pipeline", || stats(client, "stored")["running"] == json!(true));
    client.ok("POST", "/logs-a/_doc", &json!({"a": 1}));
    wait_for("a letter", || {
        stats(client, "stored")["since_start"]["dead_lettered"] == json!(1)
    });
    std::thread::sleep(Duration::from_millis(500));
    let events = stats(client, "stored")["since_start"].clone();
    assert_eq!(
        (&events["read"], &events["dead_lettered"]),
        (&json!(1), &json!(1)),
        "{events}"
    );
    let answer = client
        .json("POST", "/_firn/pipelines/stored/_replay", &json!({}))
        .unwrap();
    assert!(answer.text().contains("stores no events"), "{}", answer.text());
    node.stop().unwrap();
}

#[test]
fn alerts_that_could_not_be_stored_come_after_the_pipeline_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let log = folder.path().join("app.log");
    let mut file = OpenOptions::new().create(true).append(true).open(&log).unwrap();
    let mut write = |user: &str| {
        let line = json!({"@timestamp": "2026-01-01T00:00:00Z", "event": {"action": "denied"}, "user": {"name": user}});
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    };
    put_rule(client, "denied", &json!({}));
    let body = |description: &str| {
        let source = json!({"type": "file", "paths": [log.display().to_string()]});
        json!({"source": source, "index": "lines", "description": description})
    };
    client.ok("PUT", "/_firn/pipelines/lines", &body("one"));
    write("ann");
    wait_for("an alert", || count_of(client, "denied") == 1);
    client.ok(
        "PUT",
        "/.alerts-default/_settings",
        &json!({"index.blocks.write": true}),
    );
    write("bob");
    wait_for("an event whose alert is not stored", || {
        client.ok("POST", "/lines/_refresh", &Value::Null);
        let count = client.ok("POST", "/lines/_count", &json!({}));
        count["count"] == json!(2) && stats(client, "lines")["since_start"]["in_flight"] == json!(1)
    });
    // The pipeline ends before the alert can be stored, and its successor begins.
    client.ok("PUT", "/_firn/pipelines/lines", &body("two"));
    // It has read the event again, and no other.
    wait_for("the successor", || {
        let events = &stats(client, "lines")["since_start"];
        (&events["read"], &events["in_flight"]) == (&json!(1), &json!(1))
    });
    assert_eq!(count_of(client, "denied"), 1);
    client.ok(
        "PUT",
        "/.alerts-default/_settings",
        &json!({"index.blocks.write": null}),
    );
    wait_for("the alert", || count_of(client, "denied") == 2);
    assert!(alerts(client, "denied").values().all(|count| *count == 1));
    node.stop().unwrap();
}

#[test]
fn a_run_raises_the_alerts_that_no_pipeline_raised_and_each_once() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    put_rule(client, "denied", &json!({"enabled": false}));
    let web = json!({"source": {"type": "http"}, "index": "logs-web"});
    client.ok("PUT", "/_firn/pipelines/web", &web);
    wait_for("the pipeline", || stats(client, "web")["running"] == json!(true));
    let send = |minutes: std::ops::Range<u64>| {
        let line = |minute: u64| {
            let user = format!("u{}", minute % 2);
            let event = json!({"@timestamp": format!("2026-01-01T00:{minute:02}:00Z"), "event": {"action": "denied"}, "user": {"name": user}});
            format!("{event}\n")
        };
        let lines: String = minutes.map(line).collect();
        let path = "/_firn/pipelines/web/_events";
        let answer = client
            .send("POST", path, Some("application/x-ndjson"), lines.as_bytes())
            .unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    send(0..10);
    put_rule(client, "denied", &json!({}));
    wait_for("the rule", || stats(client, "web")["rules"]["evaluated"] == json!(1));
    send(10..20);
    assert_eq!(count_of(client, "denied"), 10);
    let run = |rule: &str, body: &Value| client.ok("POST", &format!("/_firn/rules/{rule}/_run"), body);
    let range = json!({"index": "logs-*", "from": "2026-01-01T00:05:00Z", "to": "2026-01-01T00:15:00Z"});
    let answer = run("denied", &range);
    let expected = json!({
        "ran": true, "events": 10, "alerts": 5, "existing": 5, "in_groups": 0, "without_time": 0, "complete": true,
        "partial": false,
    });
    assert_eq!(answer, expected);
    let all = json!({"index": "logs-*", "from": "2026-01-01T00:00:00Z"});
    assert_eq!(run("denied", &all)["alerts"], json!(5));
    let again = run("denied", &all);
    assert_eq!((&again["alerts"], &again["existing"]), (&json!(0), &json!(20)));
    let found = alerts(client, "denied");
    assert!(
        found.len() == 20 && found.values().all(|count| *count == 1),
        "{found:?}"
    );
    // A disabled rule runs, too; its groups are not raised again.
    put_rule(client, "grouped", &json!({"enabled": false, "group_by": ["user.name"]}));
    assert_eq!(run("grouped", &all)["alerts"], json!(2));
    let again = run("grouped", &all);
    assert_eq!((&again["existing"], &again["in_groups"]), (&json!(2), &json!(18)));
    put_rule(
        client,
        "often",
        &json!({"type": "threshold", "window": "1m", "threshold": {"count": 3}}),
    );
    for (rule, body, status, words) in [
        ("often", all.clone(), 400, "counts several events"),
        ("none", all.clone(), 404, "is missing"),
        (
            "denied",
            json!({"index": ".alerts-default", "from": "now-1d"}),
            400,
            "names indices of events",
        ),
        (
            "denied",
            json!({"index": "", "from": "now-1d"}),
            400,
            "names indices of events",
        ),
        (
            "denied",
            json!({"index": "logs-*", "from": "now", "to": "now-1d"}),
            400,
            "[from] must be before",
        ),
        ("denied", json!({"index": "logs-*"}), 400, "[from] is missing"),
        (
            "denied",
            json!({"index": 3, "from": "now-1d"}),
            400,
            "[index] must be a string, not the number [3]",
        ),
        (
            "denied",
            json!({"index": "logs-*", "from": "2026-01-01 after x"}),
            400,
            "[TIME after SEQUENCE NUMBER]",
        ),
    ] {
        let answer = client
            .json("POST", &format!("/_firn/rules/{rule}/_run"), &body)
            .unwrap();
        assert!(
            answer.status == status && answer.text().contains(words),
            "{}",
            answer.text()
        );
    }
    node.stop().unwrap();
}

#[test]
fn a_hole_of_a_rule_is_reported_by_offsets_and_filled_by_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = start(folder.path());
    let client = node.client();
    let source = json!({"type": "index", "indices": ["logs-*"], "every": "100ms"});
    let mappings = json!({"mappings": {"properties": {"@timestamp": {"type": "date"}}}});
    client.ok("PUT", "/logs-a", &mappings);
    put_rule(client, "denied", &json!({}));
    put_rule(client, "other", &json!({}));
    put_pipeline(client, "stored", 2, &json!({}));
    let write = |client: &Client, count: u64| {
        let before = stats(client, "stored")["since_start"]["filtered"].as_u64().unwrap();
        for _ in 0..count {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
            client.ok(
                "POST",
                "/logs-a/_doc",
                &json!({"@timestamp": now, "event": {"action": "denied"}}),
            );
        }
        wait_for("the events", || {
            stats(client, "stored")["since_start"]["filtered"].as_u64().unwrap() == before + count
        });
    };
    let coverage = |client: &Client| client.ok("GET", "/_firn/rules/denied/_coverage", &Value::Null);
    write(client, 3);
    let now = coverage(client);
    let covered = now["coverage"].as_array().unwrap();
    assert_eq!(
        (covered.len(), &now["holes"], &now["partial"]),
        (1, &json!([]), &json!(false)),
        "{now}"
    );
    assert_eq!(
        (&covered[0]["pipeline"], &covered[0]["from"]["offset"]),
        (&json!("stored"), &json!(0))
    );
    put_rule(client, "denied", &json!({"enabled": false}));
    wait_for("the disabled rule", || {
        stats(client, "stored")["rules"]["evaluated"] == json!(1)
    });
    write(client, 4);
    let now = coverage(client);
    let hole = &now["holes"][0];
    assert_eq!(
        (&hole["from"]["offset"], &hole["to"]),
        (&json!(3), &Value::Null),
        "{now}"
    );
    assert_eq!(hole["reason"], "the rule is disabled");
    // The ledger outlives a kill, and the pipeline, too.
    node.kill9().unwrap();
    node = start(folder.path());
    let client = node.client();
    put_rule(client, "denied", &json!({}));
    wait_for("the rule", || stats(client, "stored")["rules"]["evaluated"] == json!(2));
    write(client, 2);
    let now = coverage(client);
    let hole = &now["holes"][0];
    let bounds = [&hole["from"], &hole["to"]].map(|mark| mark["offset"].as_u64().unwrap());
    // The batch before the kill may have been read again, with the rule.
    assert!(bounds[0] == 3 && (3..=7).contains(&bounds[1]), "{now}");
    assert_eq!(
        (now["holes"].as_array().unwrap().len(), &hole["filled"]),
        (1, &json!(false)),
        "{now}"
    );
    let run = |index: &str| {
        let range = json!({"index": index, "from": "now-1h"});
        client.ok("POST", "/_firn/rules/denied/_run", &range)
    };
    let answer = run("logs-a");
    assert_eq!(
        (&answer["complete"], &answer["events"]),
        (&json!(true), &json!(9)),
        "{answer}"
    );
    let found = alerts(client, "denied");
    assert!(found.len() == 9 && found.values().all(|count| *count == 1), "{found:?}");
    // The pipeline reads other indices, too.
    assert_eq!(coverage(client)["holes"][0]["filled"], json!(false));
    assert_eq!(run("logs-*")["existing"], json!(9));
    let now = coverage(client);
    assert_eq!(
        (&now["holes"][0]["filled"], &now["runs"][0]["index"]),
        (&json!(true), &json!("logs-*")),
        "{now}"
    );
    let missing = client.get("/_firn/rules/none/_coverage").unwrap();
    assert_eq!(missing.status, 404);
    client.ok(
        "PUT",
        "/_firn/pipelines/stored",
        &json!({"source": source, "enabled": false}),
    );
    client.ok("DELETE", "/_firn/rules/denied", &Value::Null);
    assert_eq!(coverage(client)["coverage"].as_array().unwrap().len(), 2);
    node.stop().unwrap();
}

#[test]
fn the_parts_of_a_run_over_several_requests_fill_a_hole_together() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let mappings = json!({"mappings": {"properties": {"@timestamp": {"type": "date"}, "part": {"type": "keyword"}}}});
    client.ok("PUT", "/logs-a", &mappings);
    let grouped = |enabled: bool| json!({"group_by": ["part"], "enabled": enabled});
    put_rule(client, "denied", &grouped(true));
    put_rule(client, "other", &json!({"query": "event.action: none"}));
    put_pipeline(client, "stored", 2, &json!({}));
    let now_ms = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let mut sent = 0;
    // Each second event has the time of the one before it.
    let mut write = |times: std::ops::Range<u64>, part: &str| {
        let mut body = String::new();
        for time in times {
            let event = json!({"@timestamp": time / 2 * 2, "event": {"action": "denied"}, "part": part});
            body.push_str(&format!("{{\"create\": {{}}}}\n{event}\n"));
            sent += 1;
        }
        let answer = client
            .send("POST", "/logs-a/_bulk", Some("application/x-ndjson"), body.as_bytes())
            .unwrap();
        assert_eq!(answer.json()["errors"], json!(false));
        wait_for("the events", || {
            stats(client, "stored")["since_start"]["filtered"].as_u64().unwrap() == sent
        });
    };
    let first_ms = now_ms() - 60_000;
    write(first_ms..first_ms + 1, "before");
    put_rule(client, "denied", &grouped(false));
    wait_for_rules(client, "stored", 1);
    let begin_ms = now_ms();
    write(begin_ms..begin_ms + 10_400, "hole");
    std::thread::sleep(Duration::from_millis(10_500_u64.saturating_sub(now_ms() - begin_ms)));
    put_rule(client, "denied", &grouped(true));
    wait_for_rules(client, "stored", 2);
    let end_ms = now_ms();
    write(end_ms..end_ms + 1, "after");
    let filled = || client.ok("GET", "/_firn/rules/denied/_coverage", &Value::Null)["holes"][0]["filled"].clone();
    assert_eq!(filled(), json!(false));
    let (mut from, mut answers) = (json!("now-1h"), Vec::new());
    loop {
        let range = json!({"index": "logs-*", "from": from});
        let answer = client.ok("POST", "/_firn/rules/denied/_run", &range);
        from = answer["continue_from"].clone();
        answers.push(answer);
        if from.is_null() {
            break;
        }
        assert_eq!(filled(), json!(false), "{answers:?}");
    }
    let sum = |member: &str| {
        answers
            .iter()
            .map(|answer| answer[member].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(
        (answers.len(), sum("events"), sum("in_groups")),
        (2, 10_402, 0),
        "{answers:?}"
    );
    assert_eq!(filled(), json!(true), "{answers:?}");
    node.stop().unwrap();
}

#[test]
fn the_events_of_one_time_are_read_by_several_requests_of_a_bounded_size() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let body = json!({
        "settings": {"index.number_of_shards": 3},
        "mappings": {"properties": {"@timestamp": {"type": "date_nanos"}}},
    });
    client.ok("PUT", "/logs-a", &body);
    put_rule(client, "denied", &json!({}));
    // One time, and one that is later in the same millisecond.
    let times = ["2026-01-01T00:00:00.000000001Z", "2026-01-01T00:00:00.000000002Z"];
    for (time, count) in times.into_iter().zip([12_000, 300]) {
        let line = format!(
            "{{\"create\": {{}}}}\n{}\n",
            json!({"@timestamp": time, "event": {"action": "denied"}})
        );
        let answer = client
            .send(
                "POST",
                "/logs-a/_bulk",
                Some("application/x-ndjson"),
                line.repeat(count).as_bytes(),
            )
            .unwrap();
        assert_eq!(answer.json()["errors"], json!(false));
    }
    let (mut from, mut answers) = (json!("2026-01-01"), Vec::new());
    while !from.is_null() {
        let range = json!({"index": "logs-*", "from": from, "to": "2026-01-02"});
        let answer = client.ok("POST", "/_firn/rules/denied/_run", &range);
        from = answer["continue_from"].clone();
        answers.push(answer);
        assert!(answers.len() < 5, "{answers:?}");
    }
    let of = |member: &str| {
        answers
            .iter()
            .map(|answer| answer[member].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert!(of("events").iter().all(|events| *events <= 10_000), "{answers:?}");
    assert!(
        answers[0]["continue_from"]
            .as_str()
            .unwrap()
            .contains("000000001Z after "),
        "{answers:?}"
    );
    let sum = |member: &str| of(member).iter().sum::<u64>();
    assert_eq!(
        (answers.len(), sum("events"), sum("alerts"), sum("existing")),
        (2, 12_300, 12_300, 0),
        "{answers:?}"
    );
    // Parts that continue each other are recorded to the event.
    let runs = client.ok("GET", "/_firn/rules/denied/_coverage", &Value::Null)["runs"].clone();
    let runs = runs.as_array().unwrap();
    assert_eq!(runs.len(), 2, "{runs:?}");
    for member in ["", "_nanos", "_seq_no"] {
        let [to, from] = [(1, "to"), (0, "from")].map(|(run, side)| &runs[run][format!("{side}{member}")]);
        assert!(to == from && !to.is_null(), "{runs:?}");
    }
    node.stop().unwrap();
}

#[test]
fn the_tenant_of_a_stored_event_is_that_of_its_index() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let by_org = json!({"settings": {"index.tenant.field": "org"}});
    client.ok("PUT", "/logs-orgs", &by_org);
    // A run before any pipeline: the ledger is made as a pipeline makes it.
    put_rule(client, "denied", &json!({}));
    let event = |org: &str| json!({"@timestamp": "2026-01-01T00:00:00Z", "event": {"action": "denied"}, "org": org, "tenant": "bravo"});
    client.ok("POST", "/logs-orgs/_doc?refresh=true", &event("alpha"));
    let range = json!({"index": "logs-*", "from": "2026-01-01", "to": "2026-01-02"});
    assert_eq!(
        client.ok("POST", "/_firn/rules/denied/_run", &range)["alerts"],
        json!(1)
    );
    put_pipeline(client, "stored", 1, &json!({}));
    client.ok("POST", "/logs-orgs/_doc", &event("charlie"));
    client.ok("POST", "/logs-plain/_doc", &event("alpha"));
    wait_for("the alerts", || count_of(client, "denied") == 3);
    for (stream, count) in [("alpha", 1), ("charlie", 1), ("default", 1)] {
        let found = client.ok("POST", &format!("/.alerts-{stream}/_search"), &json!({}));
        assert_eq!(found["hits"]["total"]["value"], json!(count), "{stream}: {found}");
    }
    assert_eq!(client.get("/.alerts-bravo/_search").unwrap().status, 404);
    node.stop().unwrap();
}

#[test]
fn a_pipeline_that_began_with_the_first_event_loses_none_when_it_is_to_begin_with_the_latest() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let denied = json!({"@timestamp": "2026-01-01T00:00:00Z", "event": {"action": "denied"}});
    put_rule(client, "denied", &json!({}));
    client.ok("POST", "/logs-a/_doc", &denied);
    put_pipeline(client, "stored", 1, &json!({"read_from": "earliest"}));
    wait_for("the first alert", || count_of(client, "denied") == 1);
    client.ok("DELETE", "/_firn/pipelines/stored", &Value::Null);
    wait_for("the end", || {
        client.get("/_firn/pipelines/stored/stats").unwrap().status == 404
    });
    client.ok("POST", "/logs-b/_doc", &denied);
    put_pipeline(client, "stored", 1, &json!({}));
    wait_for("the event of the new index", || count_of(client, "denied") == 2);
    node.stop().unwrap();
}

#[test]
fn an_alias_with_a_filter_names_the_events_that_match_it() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    for index in ["part", "whole"] {
        client.ok(
            "PUT",
            &format!("/{index}"),
            &json!({"mappings": {"properties": {"site": {"type": "keyword"}}}}),
        );
    }
    let actions = json!({"actions": [
        {"add": {"index": "part", "alias": "logs-berlin", "filter": {"term": {"site": "berlin"}}}},
        {"add": {"index": "part", "alias": "logs-oslo", "filter": {"term": {"site": "oslo"}}}},
        {"add": {"index": "whole", "alias": "logs-berlin", "filter": {"term": {"site": "berlin"}}}},
        {"add": {"index": "whole", "alias": "logs-all"}},
    ]});
    client.ok("POST", "/_aliases", &actions);
    put_rule(client, "denied", &json!({}));
    put_pipeline(client, "stored", 1, &json!({"indices": ["logs-*"]}));
    for index in ["part", "whole"] {
        for (id, site) in [("1", "berlin"), ("2", "rome"), ("3", "oslo"), ("4", "paris")] {
            let event = json!({"event": {"action": "denied"}, "site": site});
            client.ok("PUT", &format!("/{index}/_doc/{id}"), &event);
        }
    }
    wait_for("the last event of each index", || {
        let found = alerts(client, "denied");
        let has = |index: &str, id: &str| found.contains_key(&(index.to_owned(), id.to_owned()));
        has("part", "3") && has("whole", "4")
    });
    // What is left out must not come with a later look.
    std::thread::sleep(Duration::from_millis(500));
    let found: Vec<_> = alerts(client, "denied").into_keys().collect();
    let expected = [
        ("part", "1"),
        ("part", "3"),
        ("whole", "1"),
        ("whole", "2"),
        ("whole", "3"),
        ("whole", "4"),
    ];
    let expected: Vec<_> = expected.map(|(index, id)| (index.to_owned(), id.to_owned())).into();
    assert_eq!(found, expected);
    node.kill9().unwrap();
}
