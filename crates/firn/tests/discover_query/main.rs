//! Discover's single-answer endpoints against the real process: sources, fields, suggestions, one event and its
//! neighbours, and exports, also with failures.

mod export;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_testkit::{Answer, Client, Node, NodeOptions};
use serde_json::{Value, json};

use export::export;

const MIB: usize = 1 << 20;

fn start(folder: &Path, settings: &[(&str, &str)]) -> Node {
    let settings = settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder, &NodeOptions { settings }).unwrap()
}

/// Sends a request to `_firn/discover/{name}`.
fn ask(client: &Client, name: &str, body: &Value) -> Value {
    client.ok("POST", &format!("/_firn/discover/{name}"), body)
}

/// Writes events with these ids.
fn fill(client: &Client, index: &str, events: impl IntoIterator<Item = (String, Value)>) {
    let mut body = String::new();
    for (id, event) in events {
        body += &format!("{{\"create\":{{\"_index\":\"{index}\",\"_id\":\"{id}\"}}}}\n{event}\n");
    }
    let answer = client.bulk("/_bulk?refresh=true", body.as_bytes()).unwrap();
    assert_eq!(answer.json()["errors"], false, "{}", answer.text());
}

fn texts<'a>(list: &'a Value, name: &str) -> Vec<&'a str> {
    let items = list.as_array().unwrap_or_else(|| panic!("a list: {list}"));
    items.iter().map(|item| item[name].as_str().unwrap()).collect()
}

const TIME: i64 = 1_767_225_600_000;

fn logs(client: &Client) {
    let mapping = json!({"mappings": {"properties": {
        "@timestamp": {"type": "date"}, "host": {"type": "keyword"}, "status": {"type": "long"},
        "ok": {"type": "boolean"}, "ip": {"type": "ip"}, "never": {"type": "keyword"},
    }}});
    client.ok("PUT", "/logs", &mapping);
    let rows = [
        ("web-1", 200, "hello world"),
        ("web-1", 200, "hello again"),
        ("web-1", 404, "Help"),
        ("Web-2", 200, "bye"),
        ("db-1", 404, "a \"b\""),
        ("db-1", 500, "é😀"),
    ];
    let events = rows.iter().enumerate().map(|(at, (host, status, message))| {
        let event = json!({
            "@timestamp": TIME + at as i64, "host": host, "status": status, "message": message, "ok": *status < 400,
            "ip": format!("2001:db8::{at}"),
        });
        (at.to_string(), event)
    });
    fill(client, "logs", events);
}

/// Returns the ids of the sample of a Discover request.
fn found(client: &Client, query: &Value) -> Result<Vec<String>, Answer> {
    let body = json!({"index": "logs", "time": {}, "query": query, "stages": [{"stage": "sample"}]});
    let answer = client.ask("POST", "/_firn/discover", &body).unwrap();
    if answer.status != 200 {
        return Err(answer);
    }
    let text = answer.text();
    let news: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let done = news
        .iter()
        .find(|news| news["event"] == "done")
        .unwrap_or_else(|| panic!("{text}"));
    let mut ids: Vec<String> = texts(&done["result"]["hits"], "_id")
        .into_iter()
        .map(str::to_owned)
        .collect();
    ids.sort();
    Ok(ids)
}

#[test]
fn each_language_is_read_as_itself() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let client = node.client();
    logs(client);
    for (language, text, expect) in [
        ("kql", "status >= 404 and not host: db*", &["2"][..]),
        ("kql", "host: (Web-2 or \"web-1\") and ok: true", &["0", "1", "3"]),
        ("kql", "nothing: 1", &[]),
        ("kql", "nothing: * or status: 500", &["5"]),
        ("lucene", "status:[404 TO *] AND NOT host:db*", &["2"]),
        ("lucene", "nothing:1", &[]),
    ] {
        let ids = found(client, &json!({"language": language, "text": text})).unwrap();
        assert_eq!(ids, expect, "{text}");
    }
    // In Lucene's syntax this would be two words and an invalid operator.
    let kql = found(client, &json!({"text": "message: hello"})).unwrap();
    assert_eq!(kql, ["0", "1"]);
    for (language, text, start, end) in [
        ("kql", "message: \"é😀\" and and", 19, 22),
        ("kql", "host: (a or", 11, 11),
        ("lucene", "message:😀 AND )", 15, 16),
    ] {
        let answer = found(client, &json!({"language": language, "text": text})).unwrap_err();
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["language"]), (400, &json!(language)), "{error}");
        assert_eq!(
            error["position"],
            json!({"start": start, "end": end}),
            "{text}: {error}"
        );
        let utf16: Vec<u16> = text.encode_utf16().collect();
        assert!(end <= utf16.len());
    }
}

#[test]
fn sources_are_data_streams_aliases_and_open_indices() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let client = node.client();
    let sources = |query: &str| client.ok("GET", &format!("/_firn/discover/sources{query}"), &Value::Null);
    let empty = sources("");
    assert_eq!((&empty["sources"], &empty["default"]), (&json!([]), &Value::Null));
    logs(client);
    assert_eq!(sources("")["default"], "logs");
    client.ok(
        "PUT",
        "/plain-1",
        &json!({"aliases": {"plain": {}}, "mappings": {"properties": {"at": {"type": "date"}}}}),
    );
    client.ok("PUT", "/secret", &json!({"settings": {"index.hidden": true}}));
    client.ok("PUT", "/shut", &Value::Null);
    client.ok("POST", "/shut/_close", &Value::Null);
    client.ok(
        "POST",
        "/_aliases",
        &json!({"actions": [
            {"add": {"index": "logs", "alias": "bad-logs", "filter": {"range": {"status": {"gte": 400}}}}},
        ]}),
    );
    let template = json!({"index_patterns": ["*-stream", "events"], "data_stream": {}});
    client.ok("PUT", "/_index_template/streams", &template);
    let event = |day: &str| [("1".to_owned(), json!({"@timestamp": format!("2026-01-{day}")}))];
    fill(client, "a-stream", event("01"));
    fill(client, "b-stream", event("03"));
    fill(client, "c-stream", event("02"));
    let listed = sources("");
    // An index behind a plain alias is not listed; an index behind a filtered alias is.
    assert_eq!(
        texts(&listed["sources"], "name"),
        ["a-stream", "b-stream", "bad-logs", "c-stream", "logs", "plain"]
    );
    assert_eq!(
        texts(&listed["sources"], "kind"),
        ["data_stream", "data_stream", "alias", "data_stream", "index", "alias"]
    );
    let times: Vec<&Value> = listed["sources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|source| &source["time_field"])
        .collect();
    assert_eq!((times[0], times[5]), (&json!("@timestamp"), &json!("at")));
    assert_eq!(listed["sources"][0]["tier"], json!(["hot"]));
    assert_eq!(listed["default"], "b-stream", "where the newest event is");
    fill(client, "events", event("01"));
    assert_eq!(sources("")["default"], "events");
    let all = sources("?hidden=true");
    let secret = all["sources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|source| source["name"] == "secret");
    assert_eq!(secret.unwrap()["hidden"], true);
    assert!(!texts(&all["sources"], "name").contains(&"shut"));
}

#[test]
fn fields_say_what_they_are_and_whether_they_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let client = node.client();
    logs(client);
    let mapping = json!({"mappings": {"properties": {"event_class": {"type": "keyword"}}}});
    client.ok("PUT", "/wide-1", &mapping);
    let mut wide = json!({"@timestamp": "2026-01-01", "later": "2026-01-02", "event_class": "x", "message": "y"});
    for number in 0..350 {
        wide[format!("f{number:03}")] = number.into();
    }
    fill(client, "wide-1", [("1".to_owned(), wide)]);
    fill(
        client,
        "wide-2",
        [("1".to_owned(), json!({"@timestamp": "2027-01-01", "f000": "text"}))],
    );
    let answer = ask(client, "fields", &json!({"index": "wide-*"}));
    let names = texts(&answer["fields"], "name");
    assert!(names.len() > 355 && names.is_sorted(), "{}", names.len());
    assert_eq!(answer["truncated"], false);
    assert_eq!(answer["time_field"], "@timestamp");
    assert_eq!(answer["time_fields"], json!(["@timestamp", "later"]));
    assert_eq!(
        (&answer["split_by"], &answer["columns"]),
        (&json!("event_class"), &json!(["event_class", "message"]))
    );
    // Without well-known fields, the fields of most events come first, not the first by name.
    let reading = |number: u32| match number % 4 {
        0 => {
            json!({"@timestamp": "2026-01-01", "sensor": "s", "value": number, "about": {"site": "x"}, "a_note": "rare"})
        }
        _ => json!({"@timestamp": "2026-01-01", "sensor": "s", "value": number, "about": {"site": "x"}}),
    };
    fill(
        client,
        "readings",
        (0..40).map(|number| (number.to_string(), reading(number))),
    );
    let of_readings = ask(client, "fields", &json!({"index": "readings"}));
    assert_eq!(
        of_readings["columns"],
        json!(["about.site", "sensor", "value", "a_note"])
    );
    let field = |answer: &Value, name: &str| {
        let fields = answer["fields"].as_array().unwrap().iter();
        fields
            .clone()
            .find(|field| field["name"] == name)
            .cloned()
            .unwrap_or_else(|| panic!("{name}"))
    };
    let conflict = field(&answer, "f000");
    assert_eq!(conflict["type"], "conflict");
    assert_eq!(conflict["conflict"], json!({"long": ["wide-1"], "text": ["wide-2"]}));
    assert_eq!(conflict["aggregatable"], false);
    let plain = json!({"name": "f001", "type": "long", "searchable": true, "aggregatable": true, "in_use": true});
    assert_eq!(field(&answer, "f001"), plain);
    // In this time range only the other index has events.
    let later = ask(
        client,
        "fields",
        &json!({"index": "wide-*", "time": {"from": "2026-06-01", "to": "2027-06-01"}}),
    );
    assert_eq!(
        (&field(&later, "f001")["in_use"], &field(&later, "f000")["in_use"]),
        (&json!(false), &json!(true))
    );
    let logs = ask(client, "fields", &json!({"index": "logs"}));
    assert_eq!(field(&logs, "never")["in_use"], false);
    let missing = client
        .ask("POST", "/_firn/discover/fields", &json!({"index": "no-such"}))
        .unwrap();
    assert_eq!(
        (missing.status, &missing.json()["error"]["type"]),
        (404, &json!("index_not_found_exception"))
    );
    let refused = client
        .ask(
            "POST",
            "/_firn/discover/fields",
            &json!({"index": "logs", "columns": []}),
        )
        .unwrap();
    assert_eq!(refused.status, 400);
}

/// Requests the completions at the position of `|`, in UTF-16 units as a browser counts.
fn suggest(client: &Client, language: &str, text: &str, more: Value) -> Value {
    let (before, after) = text.split_once('|').unwrap();
    let mut body = json!({
        "index": "logs",
        "query": {"language": language, "text": format!("{before}{after}")},
        "cursor": before.encode_utf16().count(),
        "timeout": "5s",
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ask(client, "suggest", &body)
}

/// Returns the text after each choice.
fn chosen(answer: &Value, text: &str) -> Vec<String> {
    let text: Vec<u16> = text.replacen('|', "", 1).encode_utf16().collect();
    let at = |name: &str| answer["replace"][name].as_u64().unwrap() as usize;
    let with = |item: &str| {
        let item: Vec<u16> = item.encode_utf16().collect();
        String::from_utf16(&[&text[..at("from")], &item, &text[at("to")..]].concat()).unwrap()
    };
    texts(&answer["items"], "text").into_iter().map(with).collect()
}

#[test]
fn suggestions_say_that_there_was_no_time_for_more() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let client = node.client();
    logs(client);
    let hurried = suggest(client, "kql", "host: we|", json!({"timeout": "0ms"}));
    assert_eq!(
        (&hurried["items"], &hurried["partial"], &hurried["timed_out"]),
        (&json!([]), &json!(true), &json!(true))
    );
    // An incomplete answer is not cached.
    let patient = suggest(client, "kql", "host: we|", json!({}));
    assert_eq!(texts(&patient["items"], "label"), ["web-1", "Web-2"]);
    assert_eq!(
        (&patient["partial"], &patient["timed_out"]),
        (&json!(false), &json!(false))
    );
}

#[test]
fn suggestions_can_be_put_in_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let client = node.client();
    logs(client);
    for (language, text, expect) in [
        ("kql", "ho|", &["host"][..]),
        ("kql", "host|", &["host", "host: ", "host: *"]),
        ("kql", "ho|st: x", &["host: x"]),
        ("kql", "host: we|", &["host: \"web-1\"", "host: \"Web-2\""]),
        (
            "kql",
            "host: \"WE|\" and ok: true",
            &["host: \"web-1\" and ok: true", "host: \"Web-2\" and ok: true"],
        ),
        ("kql", "message: \"😀\" and ho|", &["message: \"😀\" and host"]),
        (
            "kql",
            "message: \"é😀\" and host: d|",
            &["message: \"é😀\" and host: \"db-1\""],
        ),
        ("kql", "status: 4|", &["status: 404"]),
        ("kql", "ok: t|", &["ok: true"]),
        ("kql", "message: a|", &["message: \"a \\\"b\\\"\""]),
        ("kql", "ip: 2001:db8::5|", &[]),
        ("kql", "ip: \"2001:db8::5|", &["ip: \"2001:db8::5\""]),
        ("kql", "host: x |", &["host: x and ", "host: x or "]),
        ("kql", "host: \"x\"|", &["host: \"x\" and ", "host: \"x\" or "]),
        ("kql", "nothing: |", &[]),
        ("lucene", "ho|", &["host"]),
        ("lucene", "host:we|", &["host:\"web-1\"", "host:\"Web-2\""]),
        (
            "lucene",
            "host:(db-1 OR w|",
            &["host:(db-1 OR \"web-1\"", "host:(db-1 OR \"Web-2\""],
        ),
        ("lucene", "host:x |", &["host:x AND ", "host:x OR "]),
        ("lucene", "status:4|", &["status:404"]),
    ] {
        let answer = suggest(client, language, text, json!({}));
        assert_eq!(chosen(&answer, text), expect, "{text}: {answer}");
        assert_eq!(
            (&answer["partial"], &answer["timed_out"]),
            (&json!(false), &json!(false)),
            "{text}"
        );
    }
    // Each of these is a valid query.
    for text in [
        "host: \"web-1\"",
        "status: 404",
        "message: \"a \\\"b\\\"\"",
        "status >= 404",
        "host: *",
    ] {
        assert!(!found(client, &json!({"text": text})).unwrap().is_empty(), "{text}");
    }
    let counts = suggest(client, "kql", "status: |", json!({}));
    let of: Vec<(&str, u64)> = texts(&counts["items"], "label")
        .into_iter()
        .zip(
            counts["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["detail"].as_u64().unwrap()),
        )
        .collect();
    assert_eq!(of, [("200", 3), ("404", 2), ("500", 1)]);
    // Only values within the filters and the time range.
    let narrowed = suggest(
        client,
        "kql",
        "status: |",
        json!({"filters": [{"term": {"host": "db-1"}}]}),
    );
    assert_eq!(texts(&narrowed["items"], "label"), ["404", "500"]);
    let narrowed = suggest(
        client,
        "kql",
        "status: |",
        json!({"time": {"from": TIME, "to": TIME + 1}}),
    );
    assert_eq!(texts(&narrowed["items"], "label"), ["200"]);
    assert_eq!(
        suggest(client, "kql", "|", json!({"size": 3}))["items"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_eq!(counts["error"]["position"], json!({"start": 8, "end": 8}), "{counts}");
    assert_eq!(suggest(client, "kql", "status: 404|", json!({}))["error"], Value::Null);
    let dsl = json!({"index": "logs", "query": {"language": "dsl", "text": ""}, "cursor": 0});
    assert_eq!(client.ask("POST", "/_firn/discover/suggest", &dsl).unwrap().status, 400);
}

#[test]
fn one_event_is_found_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let client = node.client();
    logs(client);
    let get = |query: &str| {
        client
            .ask("GET", &format!("/_firn/discover/event?{query}"), &Value::Null)
            .unwrap()
    };
    let long = format!("{}😀", "x".repeat(MIB));
    fill(
        client,
        "logs",
        [("long".to_owned(), json!({"message": long, "host": "h".repeat(300)}))],
    );
    assert_eq!(get("index=logs&id=long").json()["_source"]["message"], json!(long));
    // Values longer than a line are not suggested.
    assert_eq!(
        chosen(&suggest(client, "kql", "host: h|", json!({})), "host: h|"),
        [""; 0]
    );
    let hit = get("index=logs&id=4").json();
    assert_eq!((&hit["_index"], &hit["_id"]), (&json!("logs"), &json!("4")));
    assert_eq!(hit["_source"]["message"], "a \"b\"");
    client.ok(
        "POST",
        "/_aliases",
        &json!({"actions": [{"add": {"index": "logs", "alias": "all"}}]}),
    );
    assert_eq!(get("index=all&id=4").json()["_index"], "logs");
    for (query, status, reason) in [
        ("index=logs&id=99", 404, "event [99] is not in [logs]"),
        ("index=no-such&id=4", 404, "no such index [no-such]"),
        ("index=logs", 400, "[id] is required"),
        ("id=4&index=", 400, "[index] is required"),
    ] {
        let answer = get(query);
        assert_eq!(
            (answer.status, &answer.json()["error"]["reason"]),
            (status, &json!(reason)),
            "{query}"
        );
    }
}

#[test]
fn neighbours_are_returned_once_and_none_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let client = node.client();
    for index in ["near-1", "near-2"] {
        client.ok(
            "PUT",
            &format!("/{index}"),
            &json!({"settings": {"number_of_shards": 2}}),
        );
        // Many with the same time, in all shards.
        let events = (0..40).map(|number| {
            let event = json!({"@timestamp": TIME + number / 20, "n": number, "even": number % 2 == 0});
            (format!("{index}-{number}"), event)
        });
        fill(client, index, events);
    }
    fill(client, "near-1", [("timeless".to_owned(), json!({"n": 1}))]);
    let around = |id: &str, more: Value| {
        let index = &id[..6];
        let mut body = json!({"index": "near-*", "time": {}, "anchor": {"index": index, "id": id}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask(client, "surrounding", &body)
    };
    let all = |answer: &Value| {
        let mut ids: Vec<String> = texts(&answer["before"], "_id").into_iter().map(str::to_owned).collect();
        ids.push(answer["anchor"]["_id"].as_str().unwrap().to_owned());
        ids.extend(texts(&answer["after"], "_id").into_iter().map(str::to_owned));
        ids
    };
    let most = json!({"before": 100, "after": 100});
    let order = all(&around("near-1-7", most.clone()));
    assert_eq!(order.len(), 80);
    assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 80);
    assert!(
        order[..40].iter().all(|id| id[7..].parse::<u32>().unwrap() < 20),
        "{order:?}"
    );
    for at in [0, 13, 39, 40, 41, 79] {
        let id = &order[at];
        assert_eq!(all(&around(id, most.clone())), order, "from {id}");
        let near = around(id, json!({"before": 3, "after": 2}));
        assert_eq!(all(&near), order[at.saturating_sub(3)..(at + 3).min(80)], "from {id}");
        assert_eq!(near["partial"], false);
    }
    // The query filters the neighbours, not the event; the time range filters neither.
    let even = json!({"before": 100, "after": 100, "query": {"text": "even: true"}, "time": {"from": TIME + 1}});
    let even = around("near-2-7", even);
    assert_eq!((all(&even).len(), &even["anchor"]["_source"]["n"]), (41, &json!(7)));
    let refused = |body: Value| {
        let answer = client.ask("POST", "/_firn/discover/surrounding", &body).unwrap();
        (
            answer.status,
            answer.json()["error"]["reason"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let (status, reason) = refused(json!({"index": "near-1", "anchor": {"index": "near-1", "id": "timeless"}}));
    assert!(status == 400 && reason.contains("has no [@timestamp]"), "{reason}");
    let (status, reason) = refused(json!({"index": "near-1", "anchor": {"index": "near-2", "id": "near-2-7"}}));
    assert!(status == 404 && reason.contains("is not in [near-2]"), "{reason}");
    assert_eq!(
        refused(json!({"index": "near-1", "anchor": {"index": "near-1"}})).0,
        400
    );
    let too_many = json!({"index": "near-1", "before": 101, "anchor": {"index": "near-1", "id": "near-1-7"}});
    assert_eq!(refused(too_many).0, 400);
    assert_eq!(points_in_time(client), 0, "none is left open");
}

/// Returns the number of open points in time, after pending closes.
fn points_in_time(client: &Client) -> usize {
    let started = Instant::now();
    loop {
        let open = client.ok("GET", "/_search/point_in_time/_all", &Value::Null);
        let count = open["pits"].as_array().unwrap().len();
        if count == 0 || started.elapsed() > Duration::from_secs(10) {
            return count;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn tenants_find_their_own_alone() {
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, "correct horse\n").unwrap();
    let node = start(
        folder.path(),
        &[
            ("xpack.security.enabled", "true"),
            ("operator.password_file", &password.display().to_string()),
            ("discover.max_per_tenant", "1"),
        ],
    );
    let basic = format!("Basic {}", STANDARD.encode("elastic:correct horse"));
    let operator = node.client().authorized(basic);
    let template = json!({
        "index_patterns": ["events"], "data_stream": {},
        "template": {"settings": {"index.tenant.field": "tenant"}, "mappings": {"properties": {"class": {"type": "keyword"}}}},
    });
    operator.ok("PUT", "/_index_template/events", &template);
    operator.ok("PUT", "/_data_stream/events", &Value::Null);
    let [alpha, bravo] = ["alpha", "bravo"].map(|tenant| {
        operator.ok("PUT", &format!("/_firn/tenants/{tenant}"), &json!({}));
        let key = json!({"name": tenant, "metadata": {"tenant": tenant}});
        let key = operator.ok("POST", "/_security/api_key", &key);
        let client = node.client().authorized(format!("ApiKey {}", key["encoded"].as_str().unwrap()));
        let events = |index: &str| {
            let event = |number: i64| json!({"@timestamp": TIME + number, "class": format!("{tenant}-{number}"), format!("{tenant}_field"): 1});
            fill(&client, index, (0..3).map(|number| (format!("{tenant}-{number}"), event(number))));
        };
        events("events");
        events(&format!("{tenant}-own"));
        client
    });
    let sources = alpha.ok("GET", "/_firn/discover/sources?hidden=true", &Value::Null);
    let named: Vec<&str> = texts(&sources["sources"], "name");
    assert!(named.contains(&"events") && named.contains(&"alpha-own"), "{named:?}");
    assert_eq!(sources["default"], "events");
    let own = sources["sources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|source| source["name"] == "alpha-own");
    assert_eq!(own.unwrap()["kind"], "index");
    let suggest = |text: &str| json!({"index": "*", "query": {"text": text}, "cursor": text.len(), "timeout": "5s"});
    let values = ask(&alpha, "suggest", &suggest("class: "));
    assert_eq!(texts(&values["items"], "label"), ["alpha-0", "alpha-1", "alpha-2"]);
    assert_eq!(ask(&alpha, "suggest", &suggest("class: brav"))["items"], json!([]));
    let fields = ask(&alpha, "suggest", &suggest("_field"));
    assert_eq!(texts(&fields["items"], "label"), ["alpha_field"]);
    let hit = |client: &Client| client.ok("POST", "/events/_search", &json!({"size": 1}))["hits"]["hits"][0].clone();
    let foreign = hit(&bravo);
    let (index, id) = (foreign["_index"].as_str().unwrap(), foreign["_id"].as_str().unwrap());
    for name in ["events", index, "*"] {
        let event = alpha
            .ask(
                "GET",
                &format!("/_firn/discover/event?index={name}&id={id}"),
                &Value::Null,
            )
            .unwrap();
        assert_eq!(event.status, 404, "{}", event.text());
        assert!(!event.text().contains("bravo_field"));
    }
    let answer = alpha
        .ask(
            "GET",
            &format!("/_firn/discover/event?index=bravo-own&id={id}"),
            &Value::Null,
        )
        .unwrap();
    let missing = alpha
        .ask(
            "GET",
            &format!("/_firn/discover/event?index=bruvo-own&id={id}"),
            &Value::Null,
        )
        .unwrap();
    assert_eq!(answer.status, missing.status);
    assert_eq!(
        answer.text().replace("bravo-own", "x"),
        missing.text().replace("bruvo-own", "x")
    );
    let around = json!({"index": "events", "anchor": {"index": index, "id": id}});
    assert_eq!(
        alpha
            .ask("POST", "/_firn/discover/surrounding", &around)
            .unwrap()
            .status,
        404
    );
    let own = hit(&alpha);
    let around =
        json!({"index": "events", "anchor": {"index": own["_index"], "id": own["_id"]}, "before": 9, "after": 9});
    let around = ask(&alpha, "surrounding", &around);
    assert!(!around.to_string().contains("bravo"), "{around}");
    assert_eq!(
        around["before"].as_array().unwrap().len() + around["after"].as_array().unwrap().len(),
        2
    );
    // A form of a browser with a session carries its token.
    let account = json!({"username": "elastic", "password": "correct horse"});
    let signed_in = node.client().ask("POST", "/_firn/session", &account).unwrap();
    let cookie = signed_in.header("set-cookie").unwrap().split(';').next().unwrap();
    let download = |token: &str| {
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("cookie", cookie),
        ];
        let form = format!("csrf={token}&request=%7B%22index%22:%22events%22%7D");
        let client = node.client();
        client
            .with_headers("POST", "/_firn/discover/export", &headers, form.as_bytes())
            .unwrap()
    };
    assert_eq!(download("forged").status, 403);
    let whole = download(signed_in.json()["csrf"].as_str().unwrap());
    assert_eq!((whole.status, whole.text().lines().count()), (200, 6));
    for format in ["csv", "ndjson"] {
        let all = export(&alpha, &json!({"index": "*", "format": format}));
        assert_eq!(all.header("x-firn-total"), Some("6"));
        assert!(
            !all.text().contains("bravo") && all.text().contains("alpha-2"),
            "{}",
            all.text()
        );
    }
}
