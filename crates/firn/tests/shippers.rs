//! Protocols of shippers: Splunk's HTTP Event Collector, and OpenTelemetry's OTLP as JSON. OTLP as protobuf is tested by the
//! OpenTelemetry exporter (`tests/clients/test_otlp.py`).

use std::path::Path;
use std::time::{Duration, Instant};

use firn_testkit::{Answer, Client, Node, NodeOptions};
use serde_json::{Value, json};

fn start(folder: &Path) -> Node {
    Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder, &NodeOptions::default()).unwrap()
}

/// Stores a pipeline and waits until it runs.
fn put(client: &Client, id: &str, body: &Value) {
    client.ok("PUT", &format!("/_firn/pipelines/{id}"), body);
    let started = Instant::now();
    let stats = || client.get(&format!("/_firn/pipelines/{id}/stats")).unwrap();
    while stats().status != 200 || stats().json()["running"] != json!(true) {
        assert!(started.elapsed() < Duration::from_secs(60), "{}", stats().text());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn sources(client: &Client, index: &str) -> Vec<Value> {
    client.ok("POST", &format!("/{index}/_refresh"), &Value::Null);
    let body = json!({"size": 100, "sort": ["_seq_no"]});
    let found = client.ok("POST", &format!("/{index}/_search"), &body);
    let hits = found["hits"]["hits"].as_array().unwrap();
    hits.iter().map(|hit| hit["_source"].clone()).collect()
}

fn hec(client: &Client, path: &str, body: &str) -> Answer {
    client
        .send(
            "POST",
            &format!("/services/collector{path}"),
            Some("text/plain"),
            body.as_bytes(),
        )
        .unwrap()
}

#[test]
fn events_of_splunk_shippers_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let no_pipeline = hec(client, "/event", r#"{"event": "a"}"#);
    assert_eq!(
        (no_pipeline.status, no_pipeline.json()["code"].clone()),
        (400, json!(7))
    );
    put(
        client,
        "plain",
        &json!({"source": {"type": "splunk_hec"}, "index": "plain"}),
    );

    // Objects follow one another with and without white space.
    let body = r#"{"time": 1426279439.123, "host": "h1", "source": "s", "sourcetype": "t", "event": {"a": 1}, "fields": {"f": "x"}}{"event":"text \u00e9"}
        {"time": "1426279440", "event": [1, 2]}"#;
    let answer = hec(client, "/event", body);
    assert_eq!(
        (answer.status, answer.json()),
        (200, json!({"text": "Success", "code": 0}))
    );
    let found = sources(client, "plain");
    assert_eq!(
        found[0],
        json!({"@timestamp": "2015-03-13T20:43:59.123Z", "a": 1,
            "splunk": {"host": "h1", "source": "s", "sourcetype": "t", "fields": {"f": "x"}}})
    );
    assert_eq!(found[1]["message"], "text é");
    assert_eq!(
        (&found[2]["message"], &found[2]["@timestamp"]),
        (&json!("[1, 2]"), &json!("2015-03-13T20:44:00.000Z"))
    );

    // With a pack, the text is the record. Two pipelines: the index of an event decides.
    put(
        client,
        "cef",
        &json!({"source": {"type": "splunk_hec"}, "pack": "cef", "index": "firewalls"}),
    );
    let cef = "CEF:0|Acme|Firewall|3.1|100|connection blocked|7|src=81.2.69.142 dst=10.1.2.3";
    let body = json!({"index": "firewalls", "host": "fw-1", "event": cef}).to_string();
    assert_eq!(hec(client, "", &body).status, 200);
    let found = sources(client, "firewalls");
    assert_eq!(
        (&found[0]["source"]["ip"], &found[0]["splunk"]["host"]),
        (&json!("81.2.69.142"), &json!("fw-1"))
    );
    let raw = hec(client, "/raw?index=firewalls&host=fw-2", &format!("{cef}\nno CEF\n"));
    assert_eq!(raw.status, 200, "{}", raw.text());
    assert_eq!(sources(client, "firewalls")[1]["splunk"], json!({"host": "fw-2"}));
    let letter = &sources(client, "dead-letters")[0];
    assert_eq!(
        (&letter["event"]["original"], &letter["splunk"]["host"]),
        (&json!("no CEF"), &json!("fw-2"))
    );

    let refused = |path: &str, body: &str, code: u8, number: Value| {
        let answer = hec(client, path, body);
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
        let json = answer.json();
        assert_eq!(
            (&json["code"], &json["invalid-event-number"]),
            (&json!(code), &number),
            "{body}: {json}"
        );
    };
    let before = sources(client, "plain").len();
    refused(
        "/event",
        r#"{"index": "plain", "event": 1}{"index": "other", "event": 1}"#,
        7,
        json!(1),
    );
    refused("/event", r#"{"event": "which of the two"}"#, 7, json!(0));
    refused("/event", r#"{"index": "plain", "event": null}"#, 12, json!(0));
    refused("/event", r#"{"index": "plain"}"#, 12, json!(0));
    refused("/event", r#"{"index": "plain", "event": ""}"#, 13, json!(0));
    refused("/event", r#"{"index": "plain", "event": 1} {"index"#, 6, json!(1));
    refused(
        "/event",
        r#"{"index": "plain", "event": 1, "time": "now"}"#,
        6,
        json!(0),
    );
    refused("/event", " ", 5, Value::Null);
    refused("/raw?index=plain", "\n", 5, Value::Null);
    refused("/raw", "a", 7, Value::Null);
    refused("/ack", r#"{"acks": [0]}"#, 14, Value::Null);
    assert_eq!(
        sources(client, "plain").len(),
        before,
        "a request is stored as a whole or not at all"
    );
    assert_eq!(client.get("/services/collector/health").unwrap().json()["code"], 17);

    // A full disk or a blocked index: the shipper tries again.
    client.ok("PUT", "/plain/_settings", &json!({"index.blocks.write": true}));
    let busy = hec(client, "/event", r#"{"index": "plain", "event": "later"}"#);
    assert_eq!(
        (busy.status, busy.json()["code"].clone()),
        (503, json!(9)),
        "{}",
        busy.text()
    );
    node.stop().unwrap();
}

#[test]
fn log_records_of_opentelemetry_are_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    let request = json!({"resourceLogs": [{
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
        "scopeLogs": [{"scope": {"name": "cart"}, "logRecords": [{
            "timeUnixNano": "1544712660300000000", "severityText": "WARN", "traceId": "5b8efff798038103d269b633813fc60c",
            "body": {"stringValue": "out of stock"},
            "attributes": [{"key": "http.request.method", "value": {"stringValue": "GET"}}],
        }]}],
    }]});
    let send = |path: &str, body: &Value| client.json("POST", path, body).unwrap();
    assert_eq!(send("/v1/logs", &request).status, 404, "there is no pipeline yet");
    put(
        client,
        "otel",
        &json!({"source": {"type": "otlp"}, "pack": "otel", "index": "logs-otel"}),
    );
    let answer = send("/v1/logs", &request);
    assert_eq!((answer.status, answer.json()), (200, json!({})), "{}", answer.text());
    let found = &sources(client, "logs-otel")[0];
    for (pointer, expect) in [
        ("/@timestamp", "2018-12-13T14:51:00.300Z"),
        ("/message", "out of stock"),
        ("/log/level", "WARN"),
        ("/log/logger", "cart"),
        ("/service/name", "shop"),
        ("/http/request/method", "GET"),
        ("/trace/id", "5b8efff798038103d269b633813fc60c"),
    ] {
        assert_eq!(found.pointer(pointer), Some(&json!(expect)), "{pointer} of {found}");
    }
    for bad in [
        json!([]),
        json!({"resourceLogs": 1}),
        json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [{"timeUnixNano": "soon"}]}]}]}),
    ] {
        let answer = send("/v1/logs", &bad);
        assert_eq!(answer.status, 400, "{bad}: {}", answer.text());
    }
    let protobuf = client
        .send("POST", "/v1/logs", Some("application/x-protobuf"), b"\xff\xff")
        .unwrap();
    assert_eq!(protobuf.status, 400, "{}", protobuf.text());
    let large = client
        .send(
            "POST",
            "/v1/logs",
            Some("application/x-protobuf"),
            &vec![0; (16 << 20) + 1],
        )
        .unwrap();
    assert_eq!(large.status, 413, "{}", large.text());
    assert_eq!(send("/v1/logs", &json!({})).status, 200, "an empty request is no error");
    put(
        client,
        "other",
        &json!({"source": {"type": "otlp"}, "index": "logs-other"}),
    );
    let ambiguous = send("/v1/logs", &request);
    assert!(
        ambiguous.status == 400 && ambiguous.text().contains("[otel, other]"),
        "{}",
        ambiguous.text()
    );
    assert_eq!(send("/v1/logs?pipeline=other", &request).status, 200);
    assert_eq!(sources(client, "logs-other")[0]["body"], "out of stock");
    node.stop().unwrap();
}
