//! Limits of a tenant's concurrent requests, and the records of its requests.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{BEGIN_MS, DiscoverEvents, World, eventually};

fn tail() -> Value {
    json!({"index": "events"})
}

#[test]
fn a_tenant_may_have_so_many_open() {
    let world = World::new(&[("discover.max_per_tenant", "2")]);
    let mut open: Vec<_> = (0..2)
        .map(|_| world.alpha.stream("/_firn/discover/tail", "*/*", &tail()))
        .collect();
    for stream in &mut open {
        assert_eq!(stream.next().unwrap()["event"], "opened");
    }
    for path in ["/_firn/discover", "/_firn/discover/tail"] {
        let (status, answer) = world.alpha.ask("POST", path, &json!({"index": "events"}));
        assert_eq!(status, 429, "{answer}");
        let reason = answer["error"]["reason"].as_str().unwrap();
        assert!(reason.contains("[discover.max_per_tenant]"), "{reason}");
    }
    // Other tenants have separate limits.
    world.bravo.discover(&json!({"index": "events"}));
    drop(open.pop());
    eventually("a place", || {
        world
            .alpha
            .ask("POST", "/_firn/discover", &json!({"index": "events"}))
            .0
            == 200
    });
}

#[test]
fn retained_runs_take_no_slot() {
    let world = World::new(&[("discover.max_per_tenant", "2")]);
    let request = json!({"index": "events", "frozen": "background", "stages": [{"stage": "sample", "size": 1}]});
    let run = || {
        let events = world.alpha.discover(&request);
        format!("/_firn/discover/{}", events.0[0]["id"].as_str().unwrap())
    };
    let paths: Vec<String> = (0..6).map(|_| run()).collect();
    let status = |path: &String| world.alpha.client.get(path).unwrap().status;
    eventually("the last ones", || {
        paths.iter().map(status).collect::<Vec<_>>() == [404, 404, 404, 404, 200, 200]
    });
    let export = json!({"index": "events"});
    let exported = world.alpha.client.json("POST", "/_firn/discover/export", &export);
    assert_eq!(exported.unwrap().status, 200);
}

#[test]
fn an_admin_of_the_tenant_may_delete_retained_runs() {
    let world = World::new(&[]);
    let reader = |name: &str| {
        let entry = json!({"names": ["*"], "privileges": ["read"]});
        let body = json!({
            "name": name, "metadata": {"tenant": "alpha"}, "role_descriptors": {"r": {"indices": [entry]}},
        });
        let key = world.operator.ok("POST", "/_security/api_key", &body);
        let authorization = format!("ApiKey {}", key["encoded"].as_str().unwrap());
        world.alpha.client.authorized(authorization)
    };
    let (one, other) = (reader("one"), reader("other"));
    let request = json!({"index": "events", "frozen": "background", "stages": [{"stage": "sample", "size": 1}]});
    let events = DiscoverEvents::read(&one.json("POST", "/_firn/discover", &request).unwrap().text());
    let run = format!("/_firn/discover/{}", events.0[0]["id"].as_str().unwrap());
    // Both are retained in the same way.
    let submitted = one.ok(
        "POST",
        "/events/_async_search?keep_on_completion=true",
        &json!({"size": 1}),
    );
    let search = format!("/_async_search/{}", submitted["id"].as_str().unwrap());
    for path in [run, search] {
        let delete = |client: &firn_testkit::Client| client.send("DELETE", &path, None, b"").unwrap().status;
        assert_eq!(delete(&other), 404, "not an admin: {path}");
        assert_eq!(delete(&world.bravo.client), 404, "an admin of another tenant: {path}");
        let read = world.alpha.client.get(&path).unwrap().status;
        assert_eq!(read, 404, "only the caller may read: {path}");
        assert_eq!(one.get(&path).unwrap().status, 200, "{path}");
        assert_eq!(
            (delete(&world.alpha.client), delete(&world.operator.client)),
            (200, 404),
            "{path}"
        );
    }
}

#[test]
fn searches_at_once_are_a_quota_of_the_tenant() {
    let world = World::new(&[]);
    world.operator.ok(
        "PUT",
        "/_firn/tenants/alpha",
        &json!({"quotas": {"concurrent_searches": 0}}),
    );
    eventually("the quota", || {
        world
            .alpha
            .ask("POST", "/_firn/discover", &json!({"index": "events"}))
            .0
            == 429
    });
    let answer = world
        .alpha
        .client
        .json("POST", "/_firn/discover", &json!({"index": "events"}))
        .unwrap();
    assert_eq!(answer.status, 429);
    assert_eq!(
        answer.json()["error"]["quota"],
        "concurrent_searches",
        "{}",
        answer.text()
    );
    assert_eq!(answer.header("retry-after"), Some("1"));
    world.bravo.discover(&json!({"index": "events"}));
    world.operator.ok(
        "PUT",
        "/_firn/tenants/alpha",
        &json!({"quotas": {"concurrent_searches": 1}}),
    );
    eventually("the quota", || {
        world
            .alpha
            .ask("POST", "/_firn/discover", &json!({"index": "events"}))
            .0
            == 200
    });
    // A run with any number of stages counts as one search; consecutive runs are allowed.
    for _ in 0..3 {
        world.alpha.discover(&json!({"index": "events"}));
    }
}

#[test]
fn an_answer_that_does_not_fit_is_a_failure_of_its_stage() {
    let world = World::empty(&[("discover.max_memory", "1mb")]);
    let text = "x".repeat(300_000);
    world.alpha.write(
        "large",
        (0..6).map(|number| json!({"@timestamp": BEGIN_MS + number, "n": number, "text": text})),
    );
    let events = world.alpha.discover(&json!({
        "index": "large", "time": {"from": 0},
        "stages": [{"stage": "sample"}, {"stage": "top_values", "field": "n"}],
    }));
    let sample = events.end_of("sample");
    assert_eq!(
        (&sample["event"], &sample["status"]),
        (&json!("failed"), &json!(429)),
        "{}",
        sample["event"]
    );
    assert_eq!(sample["error"]["type"], "circuit_breaking_exception");
    assert!(
        sample["error"]["reason"]
            .as_str()
            .unwrap()
            .contains("[discover.max_memory]"),
        "{sample}"
    );
    assert_eq!(events.result("top_values")["total"], 6);
    assert_eq!(events.0.last().unwrap()["event"], "end");
}

#[test]
fn the_traffic_says_how_long_each_stage_took() {
    let world = World::new(&[]);
    let answer = world
        .alpha
        .client
        .json(
            "POST",
            "/_firn/discover",
            &json!({
                "index": "events", "time": {"from": BEGIN_MS},
                "stages": [
                    {"stage": "sample"}, {"stage": "histogram"}, {"stage": "cardinality"},
                    {"stage": "top_values", "field": "status"}, {"stage": "top_values", "field": "message"},
                ],
            }),
        )
        .unwrap();
    let events = DiscoverEvents::read(&answer.text());
    let took_ms = events.end_of("cardinality")["took_ms"].as_f64().unwrap();
    let body =
        json!({"query": {"bool": {"filter": [{"term": {"request.name": "discover"}}, {"term": {"tenant": "alpha"}}]}}});
    let started = Instant::now();
    let record = loop {
        world
            .operator
            .ok("POST", "/.firn-traffic/_refresh?ignore_unavailable=true", &Value::Null);
        let found = world
            .operator
            .ok("POST", "/.firn-traffic/_search?ignore_unavailable=true", &body);
        if let Some(hit) = found["hits"]["hits"].get(0) {
            break hit["_source"].clone();
        }
        assert!(started.elapsed() < Duration::from_secs(30), "no record: {found}");
        std::thread::sleep(Duration::from_millis(100));
    };
    let stages = &record["stages"];
    assert_eq!(stages["failed"], json!(["top_values"]), "{record}");
    let mut names: Vec<&str> = stages["name"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["cardinality", "histogram", "sample", "top_values"]);
    for name in names {
        assert!(stages["took_ms"][name].as_f64() > Some(0.0), "{record}");
    }
    assert!(
        (stages["took_ms"]["cardinality"].as_f64().unwrap() - took_ms).abs() < 1_000.0,
        "{record}"
    );
    assert_eq!((&record["tenant"], &record["status"]), (&json!("alpha"), &json!(200)));
    assert!(record["segments"].as_u64() > Some(0), "what all stages read: {record}");
}
