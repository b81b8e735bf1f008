//! Events in a snapshot repository: the cost of fetching them is reported before they are fetched.

use serde_json::{Value, json};

use crate::{BEGIN_MS, DAY_MS, DiscoverEvents, EVENTS, World, event};

/// Creates the same events on disk as `shelf`, and in a repository as `shelf-frozen`.
pub(super) fn world(ask_over: &str) -> World {
    let world = World::empty(&[("discover.frozen.ask_over", ask_over)]);
    let index = json!({
        "settings": {"index.tenant.field": "tenant"},
        "mappings": {"properties": {
            "@timestamp": {"type": "date"}, "event_class": {"type": "keyword"}, "status": {"type": "long"},
            "tags": {"type": "keyword"}, "src_ip": {"type": "ip"},
        }},
    });
    world.operator.ok("PUT", "/shelf", &index);
    for (party, name) in [(&world.alpha, "alpha"), (&world.bravo, "bravo")] {
        party.write("shelf", (0..EVENTS).map(|number| event(name, number)));
    }
    let repository = json!({"type": "fs", "settings": {"location": "objects"}});
    world.operator.ok("PUT", "/_snapshot/objects", &repository);
    let path = "/_snapshot/objects/kept?wait_for_completion=true";
    world.operator.ok("PUT", path, &json!({"indices": "shelf"}));
    let path = "/_snapshot/objects/kept/_mount?wait_for_completion=true&storage=shared_cache";
    world.operator.ok(
        "POST",
        path,
        &json!({"index": "shelf", "renamed_index": "shelf-frozen"}),
    );
    forget(&world);
    world
}

/// Clears all caches.
pub(super) fn forget(world: &World) {
    let path = "/shelf-frozen/_searchable_snapshots/cache/clear";
    world.operator.ok("POST", path, &Value::Null);
}

fn question(index: &str, frozen: &str) -> Value {
    json!({
        "index": index,
        "time": {"from": BEGIN_MS, "to": BEGIN_MS + 30 * DAY_MS},
        "frozen": frozen,
        "stages": [
            {"stage": "sample", "size": 20},
            {"stage": "histogram", "split_by": "event_class"},
            {"stage": "cardinality", "fields": ["status", "tags", "src_ip"]},
            {"stage": "top_values", "field": "tags"},
        ],
    })
}

const DEAR: [&str; 3] = ["histogram", "cardinality", "top_values"];

/// Returns the sources of the hits; only `_index` may differ.
fn sources(events: &DiscoverEvents) -> Vec<Value> {
    let hits = events.result("sample")["hits"].as_array().unwrap().iter();
    hits.map(|hit| json!([hit["_id"], hit["_source"]])).collect()
}

#[test]
fn a_stage_returns_its_estimate_until_it_is_confirmed() {
    let world = world("0b");
    let mut body = question("shelf-frozen", "ask");
    let stages = body["stages"].as_array().unwrap().clone();
    let (sample, dear) = stages.split_first().unwrap();
    // Each stage alone: so little data is close together, and the data that one stage reads for its estimate would be
    // cached for the next.
    for stage in dear {
        forget(&world);
        body["stages"] = json!([stage]);
        let answer = world.alpha.discover(&body);
        let end = answer.end_of(stage["stage"].as_str().unwrap());
        assert_eq!(end["event"], "estimate", "{end}");
        assert!(
            end["bytes"].as_u64() > Some(0) && end["requests"].as_u64() > Some(0),
            "{end}"
        );
        assert!(end["ms"].is_u64() && end["splits"].as_u64() > Some(0), "{end}");
        assert_eq!(end["result"], Value::Null);
    }
    // Only now: columns that were opened on disk are shared with the snapshot, and would cost nothing.
    let local = world.alpha.discover(&question("shelf", "ask"));
    // The sample runs at once.
    body["stages"] = json!([sample]);
    let answer = world.alpha.discover(&body);
    assert_eq!(sources(&answer), sources(&local));
    assert_eq!(
        answer.result("sample")["total"],
        json!({"value": EVENTS, "relation": "eq"})
    );
    let run = world.alpha.discover(&question("shelf-frozen", "run"));
    for stage in DEAR {
        assert_eq!(run.result(stage), local.result(stage), "{stage}");
    }
    let cost = &run.end_of("cardinality")["cost"];
    assert_eq!(cost, &Value::Null, "it would reveal data and searches of others");
    assert_eq!(sources(&run), sources(&local));
    assert!(!format!("{:?}", run.0).contains("bravo says"));
}

#[test]
fn an_open_range_is_not_looked_through_without_asking() {
    let world = world("0b");
    let mut body = question("shelf-frozen", "ask");
    body["time"] = json!({});
    body["stages"] = json!([{"stage": "histogram", "split_by": "event_class"}]);
    let answer = world.alpha.discover(&body);
    assert_eq!(
        answer.end_of("histogram")["event"],
        "estimate",
        "{}",
        answer.end_of("histogram")
    );
    body["frozen"] = json!("run");
    let run = world.alpha.discover(&body);
    let buckets = run.result("histogram")["buckets"].as_array().unwrap();
    let sum: u64 = buckets.iter().map(|bucket| bucket["count"].as_u64().unwrap()).sum();
    assert_eq!(sum, EVENTS as u64);
}

#[test]
fn what_costs_little_runs_at_once() {
    let world = world("1gb");
    let local = world.alpha.discover(&question("shelf", "ask"));
    let answer = world.alpha.discover(&question("shelf-frozen", "ask"));
    for stage in DEAR {
        assert_eq!(answer.result(stage), local.result(stage), "{stage}");
    }
}

#[test]
fn it_may_run_in_the_background() {
    let world = world("0b");
    let local = world.alpha.discover(&question("shelf", "ask"));
    let mut stream = world
        .alpha
        .stream("/_firn/discover", "*/*", &question("shelf-frozen", "background"));
    let id = stream.until("opened")["id"].as_str().unwrap().to_owned();
    drop(stream);
    let events = world
        .alpha
        .stream(&format!("/_firn/discover/{id}"), "*/*", &Value::Null)
        .rest();
    for stage in DEAR {
        assert_eq!(events.result(stage), local.result(stage), "{stage}");
    }
    // A tail covers writes: a mounted index has none.
    let tail = json!({"index": "shelf-frozen", "timeout": "100ms"});
    let tail = world.alpha.stream("/_firn/discover/tail", "*/*", &tail).rest();
    assert_eq!(tail.0.last().unwrap()["event"], "end");
}
