//! Event pipelines of the running server: syslog, files and HTTP; kills; definitions that change.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use firn_testkit::{Client, Node, NodeOptions};
use serde_json::{Value, json};

const CEF: &str = "CEF:0|Acme|Firewall|3.1|100|connection blocked|7|src=81.2.69.142 dst=10.1.2.3 dpt=443 act=block";

fn start(folder: &Path) -> Node {
    Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder, &NodeOptions::default()).unwrap()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn stats(client: &Client, id: &str) -> Value {
    client.get(&format!("/_firn/pipelines/{id}/stats")).unwrap().json()
}

#[track_caller]
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come within 60 s");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn wait_until_running(client: &Client, id: &str) {
    wait_for(id, || stats(client, id)["running"] == json!(true));
}

fn count(client: &Client, index: &str) -> u64 {
    client.ok("POST", &format!("/{index}/_refresh"), &Value::Null);
    client.ok("POST", &format!("/{index}/_count"), &json!({}))["count"]
        .as_u64()
        .unwrap()
}

#[test]
fn syslog_comes_by_udp_and_tcp_and_is_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let address = format!("127.0.0.1:{}", free_port());
    let body =
        json!({"source": {"type": "syslog", "udp": address, "tcp": address}, "pack": "cef", "index": "firewalls"});
    client.ok("PUT", "/_firn/pipelines/firewalls", &body);
    assert_eq!(
        client.get("/_firn/pipelines/firewalls").unwrap().json()["firewalls"],
        body
    );
    wait_until_running(client, "firewalls");
    let mut stream = None;
    wait_for("the listener", || {
        stream = TcpStream::connect(&address).ok();
        stream.is_some()
    });
    let mut stream = stream.unwrap();
    stream
        .write_all(format!("<134>{CEF}\nnot CEF\n{CEF}\n").as_bytes())
        .unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.send_to(CEF.as_bytes(), &address).unwrap();
    wait_for("four events", || {
        stats(client, "firewalls")["since_start"]["read"] == json!(4)
    });
    wait_for("an account", || {
        stats(client, "firewalls")["since_start"]["in_flight"] == json!(0)
    });
    let now = stats(client, "firewalls");
    let of = |name: &str| now["since_start"][name].as_u64().unwrap();
    assert_eq!((of("indexed"), of("dead_lettered"), of("refused")), (3, 1, 0), "{now}");
    assert_eq!(now["source"]["udp_datagrams"], 1, "{now}");
    assert_eq!(count(client, "firewalls"), 3);
    let found = client.ok(
        "POST",
        "/firewalls/_search",
        &json!({"query": {"term": {"source.ip": "81.2.69.142"}}}),
    );
    assert_eq!(found["hits"]["total"]["value"], 3);
    let letters = client.ok("POST", "/dead-letters/_search", &json!({}));
    let letter = &letters["hits"]["hits"][0]["_source"];
    assert_eq!(
        (&letter["event"]["original"], &letter["firn"]["dead_letter"]["step"]),
        (&json!("not CEF"), &json!("parse"))
    );
    // Another definition: the address is free again for it.
    let mut changed = body;
    changed["index"] = "changed".into();
    client.ok("PUT", "/_firn/pipelines/firewalls", &changed);
    wait_for("an event in the other index", || {
        udp.send_to(CEF.as_bytes(), &address).unwrap();
        client.get("/changed/_count").unwrap().json()["count"]
            .as_u64()
            .is_some_and(|count| count > 0)
    });
    client.ok("DELETE", "/_firn/pipelines/firewalls", &Value::Null);
    wait_for("the end", || {
        client.get("/_firn/pipelines/firewalls/stats").unwrap().status == 404
    });
    TcpListener::bind(&address).expect("the address is free");
    node.stop().unwrap();
}

/// A sender that got 404 instead would drop its events.
#[test]
fn a_sender_gets_status_503_while_a_definition_changes() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let put = |index: &str| {
        let body = json!({"source": {"type": "http"}, "index": index});
        client.ok("PUT", "/_firn/pipelines/web", &body);
    };
    put("first");
    wait_until_running(client, "web");
    let mut stored = 0;
    for change in 0..5 {
        let index = format!("web-{change}");
        put(&index);
        wait_for("an event in the new index", || {
            let path = "/_firn/pipelines/web/_events";
            let answer = client
                .send("POST", path, Some("application/x-ndjson"), b"{\"a\": 1}\n")
                .unwrap();
            assert!(
                matches!(answer.status, 200 | 503),
                "{} {}",
                answer.status,
                answer.text()
            );
            stored += u64::from(answer.status == 200);
            client.get(&format!("/{index}/_count")).unwrap().status == 200
        });
    }
    // What was answered with 503 may be stored, too.
    assert!(count(client, "first*,web-*") >= stored);
    node.stop().unwrap();
}

#[test]
fn lines_of_a_file_are_stored_once_through_kills() {
    let seed = firn_testkit::seed("lines_of_a_file_are_stored_once_through_kills");
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("app.log");
    let mut file = OpenOptions::new().create(true).append(true).open(&log).unwrap();
    let mut node = start(folder.path());
    let mappings = json!({"mappings": {"dynamic": "strict", "properties": {"@timestamp": {"type": "date"}, "n": {"type": "long"}}}});
    node.client().ok("PUT", "/lines", &mappings);
    let body = json!({"source": {"type": "file", "paths": [log.display().to_string()]}, "index": "lines"});
    node.client().ok("PUT", "/_firn/pipelines/lines", &body);
    let (mut next, mut dead) = (0_u64, 0_u64);
    for _ in 0..6 {
        let until = Instant::now() + Duration::from_millis(random.u64(200..1500));
        while Instant::now() < until {
            let mut lines = String::new();
            for _ in 0..random.u64(1..400) {
                // Some lines are no JSON, and some have a field that the index refuses.
                let line = match next % 40 {
                    3 => format!("line {next}"),
                    5 => json!({"n": next, "other": 1}).to_string(),
                    _ => json!({"n": next}).to_string(),
                };
                dead += u64::from(matches!(next % 40, 3 | 5));
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
    let partition = || stats(client, "lines")["partitions"][0].clone();
    wait_for("all lines", || partition()["read"].as_u64() == Some(next));
    let at = partition();
    assert_eq!(
        (at["indexed"].as_u64(), at["dead_lettered"].as_u64()),
        (Some(next - dead), Some(dead)),
        "{at}"
    );
    // A line that its index rejects is counted before its letter is written.
    wait_for("all letters", || count(client, "dead-letters") >= dead);
    assert_eq!(
        (count(client, "lines"), count(client, "dead-letters")),
        (next - dead, dead)
    );
    let distinct = json!({"size": 0, "aggs": {"n": {"cardinality": {"field": "n", "precision_threshold": 40000}}, "max": {"max": {"field": "n"}}}});
    let found = client.ok("POST", "/lines/_search", &distinct);
    let estimated = found["aggregations"]["n"]["value"].as_u64().unwrap();
    assert!(estimated.abs_diff(next - dead) * 100 <= next, "{found}");
    let last_stored = (0..next).rev().find(|n| !matches!(n % 40, 3 | 5)).unwrap();
    assert_eq!(found["aggregations"]["max"]["value"].as_f64(), Some(last_stored as f64));
    node.stop().unwrap();
}

#[test]
fn events_come_by_http_and_bad_requests_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let refused = |method: &str, path: &str, body: Value, status: u16, words: &str| {
        let answer = match &body {
            Value::Null => client.send(method, path, None, b"").unwrap(),
            body => client.json(method, path, body).unwrap(),
        };
        assert_eq!(answer.status, status, "{}", answer.text());
        assert!(answer.text().contains(words), "{} lacks {words}", answer.text());
    };
    let put = "/_firn/pipelines/web";
    refused("PUT", put, json!([]), 400, "must be a JSON object");
    refused("PUT", put, json!({"index": "a"}), 400, "missing field `source`");
    refused(
        "PUT",
        put,
        json!({"source": {"type": "carrier_pigeon"}, "index": "a"}),
        400,
        "unknown variant `carrier_pigeon`",
    );
    for (member, value, words) in [
        ("pack", json!("cfe"), "there is no pack [cfe]"),
        ("index", json!("a b"), "[index] must name one index or data stream"),
        ("dead_letter_index", json!("A"), "[dead_letter_index] must name one"),
        (
            "source",
            json!({"type": "file", "paths": ["/a/[b"]}),
            "[/a/[b] is no pattern of paths",
        ),
        ("source", json!({"type": "file", "paths": []}), "needs [paths]"),
        (
            "source",
            json!({"type": "file", "paths": ["/a", ""]}),
            "[] in [paths] must be an absolute path",
        ),
        (
            "source",
            json!({"type": "file", "paths": ["log/*"]}),
            "[log/*] in [paths] must be an absolute path",
        ),
        (
            "source",
            json!({"type": "file", "paths": ["/a/[b/c]"]}),
            "[/a/[b/c]] is no pattern",
        ),
        ("source", json!({"type": "kafka", "topics": []}), "needs [topics]"),
        (
            "source",
            json!({"type": "kafka", "topics": [""]}),
            "[] in [topics] must be the name of a topic",
        ),
        (
            "source",
            json!({"type": "kafka", "topics": ["t"], "settings_file": ""}),
            "[settings_file] must be a path",
        ),
        (
            "source",
            json!({"type": "kafka", "topics": ["t"], "settings": {"group.id": "", "bootstrap.servers": "b"}}),
            "needs the setting [group.id]",
        ),
        (
            "source",
            json!({"type": "syslog", "tls": {"address": "127.0.0.1:1", "certificate": "", "key": "/k"}}),
            "[certificate] of [tls] must be a path",
        ),
    ] {
        let mut body = json!({"source": {"type": "http"}, "index": "a"});
        body[member] = value;
        refused("PUT", put, body, 400, words);
    }
    refused(
        "PUT",
        put,
        json!({"source": {"type": "kafka", "topics": ["t"], "settings": {"group.id": "g"}}, "index": "a"}),
        400,
        "needs the setting [bootstrap.servers]",
    );
    refused(
        "PUT",
        "/_firn/pipelines/_web",
        json!({"source": {"type": "http"}, "index": "a"}),
        400,
        "must not start with",
    );
    refused("GET", put, Value::Null, 404, "pipeline [web] is missing");
    refused("DELETE", put, Value::Null, 404, "pipeline [web] is missing");
    refused(
        "POST",
        "/_firn/pipelines/_simulate",
        json!({"records": []}),
        400,
        "[pipeline] is missing",
    );
    refused(
        "POST",
        "/_firn/pipelines/web/_simulate",
        json!({"records": []}),
        404,
        "pipeline [web] is missing",
    );

    let body = json!({"source": {"type": "http"}, "pack": "nginx", "index": "web"});
    client.ok("PUT", put, &body);
    wait_until_running(client, "web");
    let line = r#"203.0.113.7 - alice [10/Oct/2025:13:55:36 +0000] "GET /a HTTP/1.1" 200 12 "-" "curl/8.5""#;
    let send = |text: &str| {
        client
            .send(
                "POST",
                "/_firn/pipelines/web/_events",
                Some("application/x-ndjson"),
                text.as_bytes(),
            )
            .unwrap()
    };
    let answer = send(&format!("{line}\r\n\nnot a line of nginx\n{line}"));
    let expected = json!({"read": 3, "indexed": 2, "filtered": 0, "dead_lettered": 1});
    assert_eq!((answer.status, answer.json()), (200, expected));
    assert_eq!(
        count(client, "web"),
        2,
        "events are stored when the request is answered"
    );
    assert_eq!(send("").status, 400);
    let simulated = client.ok(
        "POST",
        "/_firn/pipelines/web/_simulate",
        &json!({"records": [line, "no"]}),
    );
    assert_eq!(
        simulated["records"][0]["document"]["url"]["original"], "/a",
        "{simulated}"
    );
    assert_eq!(
        (
            &simulated["records"][1]["index"],
            simulated["records"][1]["error"].is_string()
        ),
        (&json!("dead-letters"), true)
    );
    assert_eq!(count(client, "web"), 2, "a simulation stores nothing");

    // The index refuses writes: the sender learns it, and sends again later.
    client.ok("PUT", "/web/_settings", &json!({"index.blocks.write": true}));
    let answer = send(line);
    assert_eq!(answer.status, 503, "{}", answer.text());
    client.ok("PUT", "/web/_settings", &json!({"index.blocks.write": false}));
    assert_eq!(send(line).status, 200);
    let all = client.ok("GET", "/_firn/pipelines/_stats", &Value::Null);
    let events = &all["pipelines"]["web"]["since_start"];
    let of = |name: &str| events[name].as_u64().unwrap();
    assert_eq!(
        of("read"),
        of("indexed") + of("dead_lettered") + of("refused"),
        "{events}"
    );
    assert_eq!((of("refused"), of("in_flight")), (1, 0));

    let metrics = client.get("/metrics").unwrap().text();
    let line = format!(
        "firn_pipeline_events_total{{pipeline=\"web\",outcome=\"read\"}} {}\n",
        of("read")
    );
    assert!(metrics.contains(&line), "{line} is not in the metrics");

    // Definitions survive a kill.
    node.kill9().unwrap();
    let node = start(folder.path());
    wait_until_running(node.client(), "web");
    node.stop().unwrap();
}

#[test]
fn dead_letters_are_replayed_once_their_index_takes_them() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let mapping = json!({"mappings": {"dynamic": "strict", "properties": {"@timestamp": {"type": "date"}, "n": {"type": "long"}}}});
    client.ok("PUT", "/numbers", &mapping);
    let definition = json!({"source": {"type": "http"}, "index": "numbers"});
    client.ok("PUT", "/_firn/pipelines/numbers", &definition);
    client.ok("PUT", "/_firn/pipelines/others", &definition);
    wait_until_running(client, "numbers");
    wait_until_running(client, "others");
    // The index refuses `size`, and the last two lines are no JSON.
    let lines: String = (0..700).map(|n| format!("{{\"n\":{n},\"size\":1}}\n")).collect();
    let lines = [lines.as_bytes(), b"no JSON\n\xff\xfe\n"].concat();
    let answer = client.bulk("/_firn/pipelines/numbers/_events", &lines).unwrap();
    assert_eq!(answer.json()["dead_lettered"], 702, "{}", answer.text());
    client
        .bulk("/_firn/pipelines/others/_events", b"of another pipeline\n")
        .unwrap();
    let replay = |path: &str, body: &Value| {
        client
            .json("POST", &format!("/_firn/pipelines/numbers/{path}"), body)
            .unwrap()
    };
    let outcome = |path: &str, body: &Value| {
        let answer = replay(path, body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = answer.json();
        ["total", "replayed", "failed", "not_tried"].map(|name| answer[name].as_u64().unwrap())
    };
    // Nothing has changed: all letters stay.
    assert_eq!(outcome("_replay", &json!({})), [702, 0, 702, 0]);
    assert_eq!(count(client, "dead-letters"), 703);
    client.ok(
        "PUT",
        "/numbers/_mapping",
        &json!({"properties": {"size": {"type": "long"}}}),
    );
    let rejected = json!({"query": {"term": {"firn.dead_letter.step": "index"}}});
    assert_eq!(outcome("_replay?max_docs=100", &rejected), [700, 100, 0, 600]);
    let only_text = json!({"query": {"term": {"firn.dead_letter.step": "parse"}}});
    assert_eq!(outcome("_replay", &only_text), [2, 0, 2, 0]);
    assert_eq!(outcome("_replay", &json!({})), [602, 600, 2, 0]);
    assert_eq!((count(client, "numbers"), count(client, "dead-letters")), (700, 3));
    let failures = replay("_replay", &json!({})).json()["failures"].clone();
    assert!(
        failures[0]["reason"].as_str().unwrap().contains("not a JSON object"),
        "{failures}"
    );
    // Each event is the one that was sent, once.
    let sums = json!({"size": 0, "aggs": {"n": {"sum": {"field": "n"}}, "different": {"cardinality": {"field": "n", "precision_threshold": 3000}}}});
    let sums = client.ok("POST", "/numbers/_search", &sums)["aggregations"].clone();
    assert_eq!(
        (&sums["n"]["value"], &sums["different"]["value"]),
        (&json!(244_650.0), &json!(700))
    );
    for (path, body, status) in [
        ("_replay?max_docs=0", json!({}), 400),
        ("_replay", json!({"size": 1}), 400),
        ("_replay", json!({"query": {"no_such_query": {}}}), 400),
    ] {
        assert_eq!(replay(path, &body).status, status, "{path} {body}");
    }
    assert_eq!(
        client
            .json("POST", "/_firn/pipelines/missing/_replay", &json!({}))
            .unwrap()
            .status,
        404
    );
    node.stop().unwrap();
}

#[test]
fn a_definition_brings_its_own_pack() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let pack = |to: &str| {
        json!({
            "name": "doorbell", "version": 3, "prefix": "doorbell", "parser": "json",
            "fields": {"visitor": to},
            "examples": [{"name": "a guest", "input": "{\"visitor\":\"ann\"}", "expect": {
                "@timestamp": "2026-11-24T08:00:00.000Z", "user": {"name": "ann"}, "related": {"user": ["ann"]}}}],
        })
    };
    let put = |id: &str, pack: &Value| {
        let body = json!({"source": {"type": "http"}, "pack": pack, "index": format!("index-{id}")});
        client.json("PUT", &format!("/_firn/pipelines/{id}"), &body).unwrap()
    };
    let refused = put("doorbells", &pack("client.user.name"));
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(
        refused
            .text()
            .contains("the example [a guest] of the pack [doorbell] fails"),
        "{}",
        refused.text()
    );
    let refused = put("doorbells", &json!({"name": "doorbell", "parser": "no such parser"}));
    assert_eq!(refused.status, 400, "{}", refused.text());
    let accepted = put("doorbells", &pack("user.name"));
    assert_eq!(accepted.status, 200, "{}", accepted.text());
    // In a file, which need not exist before the pipeline runs.
    let path = folder.path().join("doorbell.yml");
    assert_eq!(put("files", &json!(path)).status, 200);
    wait_for("the reason", || {
        stats(client, "files")["error"].to_string().contains("doorbell.yml")
    });
    std::fs::write(&path, pack("user.name").to_string()).unwrap();
    client.ok("DELETE", "/_firn/pipelines/files", &Value::Null);
    wait_for("the end", || {
        client.get("/_firn/pipelines/files/stats").unwrap().status == 404
    });
    assert_eq!(put("files", &json!(path)).status, 200);
    for id in ["doorbells", "files"] {
        wait_until_running(client, id);
        let events = client
            .bulk(
                &format!("/_firn/pipelines/{id}/_events"),
                b"{\"visitor\":\"bob\",\"floor\":2}\n",
            )
            .unwrap();
        assert_eq!(events.json()["indexed"], 1, "{}", events.text());
        client.ok("POST", "/_refresh", &Value::Null);
        let found = client.get(&format!("/index-{id}/_search")).unwrap().json();
        let event = &found["hits"]["hits"][0]["_source"];
        assert_eq!(
            (&event["user"]["name"], &event["doorbell"]["floor"]),
            (&json!("bob"), &json!(2)),
            "{event}"
        );
        assert_eq!(event["firn"]["mapping"], json!({"name": "doorbell", "version": 3}));
    }
    node.stop().unwrap();
}

#[test]
fn stored_events_are_mapped_again_by_a_newer_pack() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let pack = |version: u32, target: &str| {
        json!({"name": "doors", "version": version, "prefix": "door", "parser": "json", "fields": {
            "when": {"to": "@timestamp", "format": ["epoch_second"]}, "visitor": target}})
    };
    let definition = |pack: Value| json!({"source": {"type": "http"}, "index": "logs-doors", "pack": pack});
    // A data stream: events are replaced in the index that holds them.
    client.ok(
        "PUT",
        "/_index_template/doors",
        &json!({"index_patterns": ["logs-doors"], "data_stream": {}, "priority": 500, "template": {"mappings": {
            "properties": {"@timestamp": {"type": "date"}, "visitors": {"type": "long"}}}}}),
    );
    client.ok("PUT", "/_firn/pipelines/doors", &definition(pack(1, "labels.who")));
    wait_until_running(client, "doors");
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let lines: String = (0..1200)
        .map(|n| format!("{{\"when\":{},\"visitor\":\"v{n}\"}}\n", now - 3000 + n))
        .collect();
    client.bulk("/_firn/pipelines/doors/_events", lines.as_bytes()).unwrap();
    client.ok("POST", "/logs-doors/_rollover", &json!({}));
    client.bulk("/_firn/pipelines/doors/_events", lines.as_bytes()).unwrap();
    assert_eq!(count(client, "logs-doors"), 2400);
    let remap = |path: &str, body: &Value| {
        client
            .json("POST", &format!("/_firn/pipelines/doors/{path}"), body)
            .unwrap()
    };
    let outcome = |path: &str, body: &Value| {
        let answer = remap(path, body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = answer.json();
        ["total", "remapped", "unchanged", "failed", "not_tried"].map(|name| answer[name].as_u64().unwrap())
    };
    // Nothing is of another version.
    assert_eq!(outcome("_remap", &json!({})), [0; 5]);
    let all = json!({"query": {"match_all": {}}});
    assert_eq!(outcome("_remap?max_docs=600", &all), [2400, 0, 600, 0, 1800]);

    client.ok("PUT", "/_firn/pipelines/doors", &definition(pack(2, "user.name")));
    // The pack before leaves the two as they are, and a pipeline that starts answers 503.
    let one = json!({"query": {"term": {"labels.who.keyword": "v7"}}});
    wait_for("the next pack", || {
        let answer = remap("_remap", &one);
        assert!(matches!(answer.status, 200 | 503), "{}", answer.text());
        answer.status == 200 && answer.json()["remapped"] == json!(2)
    });
    assert_eq!(outcome("_remap?max_docs=1000", &json!({})), [2398, 1000, 0, 0, 1398]);
    assert_eq!(outcome("_remap", &json!({})), [1398, 1398, 0, 0, 0]);
    assert_eq!(outcome("_remap", &json!({})), [0; 5]);
    assert_eq!(count(client, "logs-doors"), 2400);
    let found = client.ok(
        "POST",
        "/logs-doors/_search",
        &json!({"size": 1, "track_total_hits": true, "query": {"bool": {"filter": [{"exists": {"field": "user.name"}}],
            "must_not": [{"exists": {"field": "labels"}}]}}}),
    );
    assert_eq!(found["hits"]["total"]["value"], 2400, "{found}");
    // The time of the event is its own, not that of the mapping.
    let distinct =
        json!({"size": 0, "aggs": {"n": {"cardinality": {"field": "@timestamp", "precision_threshold": 3000}}}});
    let distinct = client.ok("POST", "/logs-doors/_search", &distinct);
    assert_eq!(distinct["aggregations"]["n"]["value"], 1200, "{distinct}");

    // Which of its fields have a common name.
    let line = format!("{{\"when\":{now},\"visitor\":\"x\",\"extra\":1}}\n");
    client.bulk("/_firn/pipelines/doors/_events", line.as_bytes()).unwrap();
    client.ok("POST", "/logs-doors/_refresh", &Value::Null);
    let coverage = |since: &str| {
        client
            .get(&format!("/_firn/pipelines/doors/_coverage?since={since}"))
            .unwrap()
            .json()
    };
    let day = coverage("1d");
    assert_eq!(day["events"], 2401, "{day}");
    assert_eq!(day["unmapped"][0], json!({"field": "door.extra", "events": 1}), "{day}");
    let mapped = day["mapped"].as_array().unwrap();
    assert!(mapped.contains(&json!({"field": "user.name", "events": 2401})), "{day}");
    assert_eq!(
        coverage("1s")["events"].as_u64().map(|events| events < 2401),
        Some(true)
    );
    let refused = client.get("/_firn/pipelines/doors/_coverage?since=long").unwrap();
    assert_eq!(refused.status, 400, "{}", refused.text());

    for (path, body, status) in [
        ("_remap?max_docs=0", json!({}), 400),
        ("_remap", json!({"size": 1}), 400),
    ] {
        assert_eq!(remap(path, &body).status, status, "{path} {body}");
    }
    client.ok(
        "PUT",
        "/_firn/pipelines/plain",
        &json!({"source": {"type": "http"}, "index": "plain"}),
    );
    wait_until_running(client, "plain");
    let refused = client
        .json("POST", "/_firn/pipelines/plain/_remap", &json!({}))
        .unwrap();
    assert_eq!(refused.status, 400, "{}", refused.text());
    node.stop().unwrap();
}
