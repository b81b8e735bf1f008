//! Event pipelines are the operator's: a tenant hands events to its own ones, and sees no other.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{MARK, world};

#[test]
fn a_tenant_writes_to_its_own_event_pipeline_and_sees_no_other() {
    let world = world();
    let (alpha, bravo, operator) = (&world.alpha, &world.bravo, &world.operator);
    for (id, tenant) in [
        ("of-alpha", json!("alpha")),
        ("of-bravo", json!("bravo")),
        ("of-none", Value::Null),
    ] {
        let body = json!({"source": {"type": "http"}, "index": "events", "tenant": tenant, "description": MARK});
        operator.ok("PUT", &format!("/_firn/pipelines/{id}"), &body);
    }
    let events = |client: &firn_testkit::Client, id: &str, text: &str| {
        let body = format!("{text}\n");
        let path = format!("/_firn/pipelines/{id}/_events");
        client
            .send("POST", &path, Some("application/x-ndjson"), body.as_bytes())
            .unwrap()
    };
    // The server notices a new pipeline within a second.
    let event = json!({"class": "al-sent"}).to_string();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while events(alpha, "of-alpha", &event).status != 200 {
        assert!(
            std::time::Instant::now() < deadline,
            "{}",
            events(alpha, "of-alpha", &event).text()
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    for id in ["of-bravo", "of-none", "missing"] {
        let answer = events(alpha, id, &event);
        assert_eq!(answer.status, 404, "{id}: {}", answer.text());
        assert_eq!(answer.json()["error"]["reason"], format!("pipeline [{id}] is missing"));
    }
    // An event that names another tenant is a dead letter of its sender.
    let answer = events(
        alpha,
        "of-alpha",
        &json!({"class": "al-sent", "tenant": "bravo"}).to_string(),
    );
    assert_eq!(
        (answer.status, &answer.json()["dead_lettered"]),
        (200, &json!(1)),
        "{}",
        answer.text()
    );
    operator.ok("POST", "/_refresh", &Value::Null);
    let count = |client: &firn_testkit::Client, index: &str, query: Value| {
        client.ok("POST", &format!("/{index}/_count"), &json!({ "query": query }))["count"].clone()
    };
    let sent = json!({"term": {"class": "al-sent"}});
    assert_eq!(count(alpha, "events", sent.clone()), json!(1));
    assert_eq!(count(bravo, "events", sent), json!(0));
    assert_eq!(count(alpha, "dead-letters", json!({"match_all": {}})), json!(1));
    assert_eq!(
        count(bravo, "*", json!({"term": {"firn.dead_letter.pipeline": "of-alpha"}})),
        json!(0)
    );

    // Shippers name no pipeline: a tenant's key reaches the one of its tenant, also through an index of another's.
    for (id, source, tenant, index) in [
        ("hec-alpha", "splunk_hec", json!("alpha"), "events"),
        ("hec-bravo", "splunk_hec", json!("bravo"), "others"),
        ("otlp-bravo", "otlp", json!("bravo"), "events"),
        ("otlp-none", "otlp", Value::Null, "events"),
    ] {
        let body = json!({"source": {"type": source}, "index": index, "tenant": tenant, "description": MARK});
        operator.ok("PUT", &format!("/_firn/pipelines/{id}"), &body);
    }
    let hec = |body: &Value| alpha.json("POST", "/services/collector/event", body).unwrap();
    let sent = json!({"event": {"class": "al-hec"}});
    while hec(&sent).status != 200 {
        assert!(std::time::Instant::now() < deadline, "{}", hec(&sent).text());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    for index in ["others", "missing"] {
        let answer = hec(&json!({"index": index, "event": {"class": "al-hec"}}));
        assert_eq!(
            (answer.status, answer.json()["code"].clone()),
            (400, json!(7)),
            "{index}"
        );
    }
    let record = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "a"}}]}]}]});
    for path in ["/v1/logs", "/v1/logs?pipeline=otlp-bravo"] {
        let answer = alpha.json("POST", path, &record).unwrap();
        assert_eq!(answer.status, 404, "{}", answer.text());
        assert!(!answer.text().contains("bravo"), "{}", answer.text());
    }
    operator.ok("POST", "/_refresh", &Value::Null);
    let by_hec = json!({"term": {"class": "al-hec"}});
    assert_eq!(count(alpha, "events", by_hec.clone()), json!(1));
    assert_eq!(count(bravo, "*", by_hec), json!(0));

    // The alerts of a tenant's events are that tenant's, whichever rule raised them.
    let rule = json!({"type": "query", "name": MARK, "query": "class: al-alarm"});
    operator.ok("PUT", "/_firn/rules/marked", &rule);
    let evaluated = || {
        let stats = operator.get("/_firn/pipelines/of-none/stats").unwrap().json();
        stats["rules"]["evaluated"] == json!(1)
    };
    while !evaluated() {
        assert!(std::time::Instant::now() < deadline, "the rule is not evaluated");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    for tenant in [json!("alpha"), json!("bravo"), Value::Null] {
        let event = json!({"class": "al-alarm", "tenant": tenant}).to_string();
        assert_eq!(events(operator, "of-none", &event).status, 200);
    }
    operator.ok("POST", "/.alerts-*/_refresh", &Value::Null);
    let alarms = || json!({"match_all": {}});
    for (client, own, other) in [(alpha, "alpha", "bravo"), (bravo, "bravo", "alpha")] {
        assert_eq!(count(client, ".alerts-*", alarms()), json!(1), "{own}");
        assert_eq!(count(client, &format!(".alerts-{own}"), alarms()), json!(1), "{own}");
        // The stream of another tenant is answered like one that does not exist.
        let answer = |name: &str| {
            let answer = client.json("POST", &format!("/{name}/_count"), &json!({})).unwrap();
            (answer.status, answer.text().replace(name, "NAME"))
        };
        let foreign = answer(&format!(".alerts-{other}"));
        assert_eq!(foreign, answer(".alerts-nothing"), "{own}");
        assert_eq!(foreign.0, 403, "{own}");
    }
    assert_eq!(count(operator, ".alerts-*", alarms()), json!(3));
    // The streams are named by tenants: one sees neither the name of another's nor of its indices.
    let everywhere = "expand_wildcards=all";
    for path in [
        format!("/_cat/indices?{everywhere}&h=index"),
        format!("/_cat/indices/.alerts-*?{everywhere}"),
        "/_cat/shards".to_owned(),
        "/_cat/segments".to_owned(),
        "/_cat/aliases".to_owned(),
        format!("/_data_stream?{everywhere}"),
        format!("/_data_stream/.alerts-*?{everywhere}"),
        format!("/_data_stream/.alerts-*/_stats?{everywhere}"),
        format!("/_resolve/index/*?{everywhere}"),
        format!("/_alias?{everywhere}"),
        format!("/_all/_settings?{everywhere}"),
        format!("/.alerts-*/_mapping?{everywhere}"),
        format!("/.alerts-*/_stats?{everywhere}"),
        format!("/_cluster/state?{everywhere}"),
    ] {
        for (client, own, other) in [(alpha, "alpha", "bravo"), (bravo, "bravo", "alpha")] {
            let shown = client.get(&path).unwrap().text();
            assert!(!shown.contains(&format!(".alerts-{other}")), "{own} {path}: {shown}");
        }
    }
    for path in [
        format!("/_data_stream?{everywhere}"),
        format!("/_cat/indices?{everywhere}&h=index"),
    ] {
        let shown = alpha.get(&path).unwrap().text();
        assert!(
            shown.contains(".alerts-alpha") && shown.contains(".alerts-default"),
            "{path}: {shown}"
        );
    }
    let missing = |name: &str| {
        let answer = alpha.get(&format!("/_data_stream/{name}")).unwrap();
        (answer.status, answer.text().replace(name, "NAME"))
    };
    assert_eq!(missing(".alerts-bravo"), missing(".alerts-nothing"));
    // Only firn writes alerts: what they say is delivered over the operator's channels.
    let forged = json!({"@timestamp": "2026-01-01", "firn": {"alert": {"status": "open", "pending": ["operator"]}}});
    for stream in [".alerts-alpha", ".alerts-bravo", ".alerts-default", ".alerts-new"] {
        let answer = alpha.json("POST", &format!("/{stream}/_doc"), &forged).unwrap();
        assert!([403, 404].contains(&answer.status), "{stream}: {}", answer.text());
    }
    let own = alpha.ok("POST", "/.alerts-alpha/_search", &json!({"query": alarms()}));
    let own = &own["hits"]["hits"][0];
    let path = format!(
        "/{}/_update/{}",
        own["_index"].as_str().unwrap(),
        own["_id"].as_str().unwrap()
    );
    let answer = alpha.json("POST", &path, &json!({"doc": forged})).unwrap();
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert_eq!(
        count(
            operator,
            ".alerts-*",
            json!({"term": {"firn.alert.pending": "operator"}})
        ),
        json!(0)
    );
    // A tenant changes its own alerts, and neither another's nor its events.
    let alerts = operator.ok("POST", "/.alerts-bravo/_search", &json!({"query": alarms()}));
    let of_bravo = &alerts["hits"]["hits"][0];
    let keys = json!([{"index": of_bravo["_index"], "id": of_bravo["_id"]}, {"index": "events", "id": "al-1"}]);
    let close = |body: Value| alpha.ok("POST", "/_firn/alerts/_status", &body);
    let answer = close(json!({"alerts": keys, "status": "closed"}));
    assert_eq!(
        (&answer["updated"], &answer["failed"]),
        (&json!(0), &json!(2)),
        "{answer}"
    );
    assert!(!answer.to_string().contains(MARK), "{answer}");
    // Nor can it make an index with the name of another's alerts, which firn would change in its place.
    let index = of_bravo["_index"].as_str().unwrap();
    let made = |name: &str| {
        let answer = alpha.json("PUT", &format!("/{name}"), &json!({})).unwrap();
        (answer.status, answer.text().replace(name, "NAME"))
    };
    for (name, nothing) in [
        (index, index.replace("bravo", "nothing").as_str()),
        (".alerts-bravo", ".alerts-nothing"),
    ] {
        let refused = made(name);
        assert_eq!(refused, made(nothing));
        assert!([400, 403].contains(&refused.0), "{refused:?}");
    }
    // What changes tells what matches: a user who may only write, or only read, changes nothing.
    for role in ["tenant_writer", "tenant_reader"] {
        let body = json!({"password": "correct horse", "roles": [role], "metadata": {"tenant": "alpha"}});
        operator.ok("PUT", &format!("/_security/user/alerts-{role}"), &body);
        let basic = STANDARD.encode(format!("alerts-{role}:correct horse"));
        let user = world.node.client().authorized(format!("Basic {basic}"));
        let body = json!({"query": alarms(), "status": "closed"});
        let answer = user.json("POST", "/_firn/alerts/_status", &body).unwrap();
        assert_eq!(answer.status, 403, "{role}: {}", answer.text());
    }
    let answer = close(json!({"query": alarms(), "status": "closed"}));
    assert_eq!(answer["updated"], 1, "{answer}");
    let closed = json!({"term": {"firn.alert.status": "closed"}});
    assert_eq!(count(operator, ".alerts-alpha", closed.clone()), json!(1));
    assert_eq!(count(operator, ".alerts-*", closed), json!(1));

    for (method, path) in [
        ("GET", "/_firn/pipelines"),
        ("GET", "/_firn/pipelines/of-alpha"),
        ("GET", "/_firn/pipelines/_stats"),
        ("GET", "/_firn/pipelines/of-alpha/stats"),
        ("DELETE", "/_firn/pipelines/of-alpha"),
        ("PUT", "/_firn/pipelines/mine"),
        ("POST", "/_firn/pipelines/of-alpha/_simulate"),
        ("GET", "/_firn/pipelines/of-alpha/_coverage"),
        ("POST", "/_firn/pipelines/of-alpha/_remap"),
        ("POST", "/_firn/pipelines/of-alpha/_replay"),
        ("GET", "/_firn/rules"),
        ("GET", "/_firn/rules/marked"),
        ("PUT", "/_firn/rules/mine"),
        ("DELETE", "/_firn/rules/marked"),
        ("GET", "/_firn/rules?short=true"),
        ("POST", "/_firn/rules/_import"),
        ("GET", "/_firn/rules/_export"),
        ("POST", "/_firn/rules/_export"),
        ("GET", "/_firn/rules/_export?format=sigma"),
        ("GET", "/_firn/rules/_stats"),
        ("POST", "/_firn/rules/_test"),
        ("POST", "/_firn/rules/_validate"),
        ("POST", "/_firn/rules/marked/_run"),
        ("GET", "/_firn/rules/marked/_coverage"),
        ("GET", "/_firn/channels"),
        ("GET", "/_firn/channels/_stats"),
        ("PUT", "/_firn/channels/mine"),
        ("DELETE", "/_firn/channels/mine"),
        ("POST", "/_firn/channels/mine/_test"),
        ("POST", "/_firn/alerts/_resend"),
        ("GET", "/_firn/maintenance_windows"),
        ("GET", "/_firn/maintenance_windows/mine"),
        ("PUT", "/_firn/maintenance_windows/mine"),
        ("DELETE", "/_firn/maintenance_windows/mine"),
        ("GET", "/_firn/positions/of-alpha"),
        ("POST", "/_firn/positions/of-alpha/_bulk"),
        ("POST", "/_firn/positions/of-alpha/_claim"),
    ] {
        let body = json!({"source": {"type": "http"}, "index": "events"});
        let answer = match method {
            "GET" | "DELETE" => alpha.send(method, path, None, b"").unwrap(),
            _ => alpha.json(method, path, &body).unwrap(),
        };
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text());
        assert!(!answer.text().contains(MARK), "{method} {path}");
    }
}

/// The bodies are no gzip: 429 means that firn did not decompress them.
#[test]
fn a_tenant_over_its_quota_is_refused_before_its_events_are_decompressed() {
    let world = world();
    let (alpha, bravo, operator) = (&world.alpha, &world.bravo, &world.operator);
    let sources = ["http", "splunk_hec", "otlp"];
    for tenant in ["alpha", "bravo"] {
        for source in sources {
            let body = json!({"source": {"type": source}, "index": "events", "tenant": tenant});
            operator.ok("PUT", &format!("/_firn/pipelines/{source}-{tenant}"), &body);
        }
    }
    let send = |client: &firn_testkit::Client, path: &str, encoding: &str, body: &[u8]| {
        let headers = [("content-type", "application/json"), ("content-encoding", encoding)];
        client.with_headers("POST", path, &headers, body).unwrap()
    };
    let paths = |tenant: &str| {
        [
            format!("/_firn/pipelines/http-{tenant}/_events"),
            "/services/collector/event".to_owned(),
            "/services/collector/raw".to_owned(),
            "/v1/logs".to_owned(),
            "/events/_bulk".to_owned(),
        ]
    };
    let event = json!({"class": "al-quota"}).to_string();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    for tenant in ["alpha", "bravo"] {
        for source in sources {
            let path = format!("/_firn/pipelines/{source}-{tenant}/stats");
            while operator.get(&path).unwrap().json()["running"] != json!(true) {
                assert!(std::time::Instant::now() < deadline, "{path}");
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
    }
    let quotas = json!({"quotas": {"ingest_bytes_per_second": 1}});
    operator.ok("PUT", "/_firn/tenants/alpha", &quotas);
    let path = &paths("alpha")[0];
    assert_eq!(send(alpha, path, "identity", event.as_bytes()).status, 200);
    // A member without its end.
    let mut damaged = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    damaged.extend([0xff; 100]);
    for (path, of_bravo) in paths("alpha").iter().zip(paths("bravo")) {
        let refused = send(alpha, path, "gzip", &damaged);
        if path.ends_with("/_bulk") {
            // Its first action tells whether it has events, and that is damaged.
            assert_eq!(refused.status, 429, "{}", refused.text());
            continue;
        }
        let hec = path.starts_with("/services");
        let body = refused.json();
        assert_eq!(refused.status, if hec { 503 } else { 429 }, "{path}: {body}");
        match hec {
            true => assert_eq!(body["code"], 9, "{body}"),
            false => assert_eq!(body["error"]["quota"], "ingest_bytes_per_second", "{path}: {body}"),
        }
        let other = send(bravo, &of_bravo, "gzip", &damaged);
        assert_eq!(other.status, 400, "{of_bravo}: {}", other.text());
        let other = send(operator, path, "gzip", &damaged);
        assert_eq!(other.status, 400, "{path}: {}", other.text());
    }
    operator.ok("PUT", "/_firn/tenants/alpha", &json!({"quotas": {}}));
    assert_eq!(send(alpha, path, "identity", event.as_bytes()).status, 200);
    operator.ok("POST", "/_refresh", &Value::Null);
    let query = json!({"query": {"term": {"class": "al-quota"}}});
    assert_eq!(alpha.ok("POST", "/events/_count", &query)["count"], 2);
}
