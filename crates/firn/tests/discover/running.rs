//! Long runs: progress, end with the connection, and background runs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{BEGIN_MS, DiscoverEvents, World, eventually};

/// Documents with distinct names: enough for patterns that take long in a debug build.
const NAMES: usize = 12_000;
/// The bound allows for a debug build on a busy machine; without cancellation the rest would take ten times as long.
const ENDS_WITHIN: Duration = Duration::from_secs(4);

/// Creates an index whose names patterns must scan.
fn slow_index(world: &World) {
    // Cached responses would leave no work.
    let settings = json!({"number_of_shards": 3, "index.requests.cache.enable": false});
    world.index("slow", settings, json!({"name": {"type": "keyword"}}));
    let event = |number: usize| json!({"@timestamp": BEGIN_MS + number as i64, "name": format!("name {number} of {}", number * 7919 % 10_007)});
    world.alpha.write("slow", (0..NAMES).map(event));
}

/// Returns stages that each scan every name for this many patterns.
fn slow(patterns: usize) -> Value {
    let pattern = |number: usize| json!({"regexp": {"name": format!(".*(1|2|3).*(4|5|6|{}).*", number % 10)}});
    let any: Vec<Value> = (0..patterns).map(pattern).collect();
    json!({
        "index": "slow", "time": {"from": 0},
        "filters": [{"bool": {"must_not": any}}],
        "stages": [
            {"stage": "sample"},
            {"stage": "histogram", "split_by": "name"},
            {"stage": "cardinality", "fields": ["name", "@timestamp"]},
            {"stage": "top_values", "field": "name"},
            {"stage": "top_values", "field": "@timestamp"},
        ],
    })
}

/// Returns the running and the queued searches of the search threads.
fn busy(world: &World) -> (u64, u64) {
    let stats = world.operator.ok("GET", "/_nodes/stats/thread_pool", &Value::Null);
    let pool = &stats["nodes"].as_object().unwrap().values().next().unwrap()["thread_pool"]["search"];
    (pool["active"].as_u64().unwrap(), pool["queue"].as_u64().unwrap())
}

#[test]
fn a_closed_connection_ends_its_searches() {
    let world = World::empty(&[("thread_pool.search.size", "2")]);
    slow_index(&world);
    for accept in ["application/x-ndjson", "text/event-stream"] {
        let mut stream = world.alpha.stream("/_firn/discover", accept, &slow(400));
        assert_eq!(stream.next().unwrap()["event"], "opened");
        eventually("the search", || busy(&world).0 > 0);
        assert_eq!(world.operator.tasks(), ["indices:data/read/firn/discover"]);
        drop(stream);
        let took = eventually("the end of the task", || world.operator.tasks().is_empty());
        assert!(took < ENDS_WITHIN, "the task went on for {took:?}");
        let took = eventually("the end of the searches", || busy(&world) == (0, 0));
        assert!(took < ENDS_WITHIN, "searches went on for {took:?}");
    }
}

#[test]
fn a_cancelled_task_is_a_failure_of_its_stages() {
    let world = World::empty(&[("thread_pool.search.size", "2")]);
    slow_index(&world);
    let mut stream = world.alpha.stream("/_firn/discover", "*/*", &slow(400));
    stream.until("opened");
    eventually("the search", || busy(&world).0 > 0);
    let started = Instant::now();
    world
        .operator
        .ok("POST", "/_tasks/_cancel?actions=*firn/discover", &Value::Null);
    let events = stream.rest();
    assert!(
        started.elapsed() < ENDS_WITHIN,
        "it went on for {:?}",
        started.elapsed()
    );
    let end = events.end_of("top_values:name");
    assert_eq!(
        (&end["event"], &end["error"]["type"]),
        (&json!("failed"), &json!("task_cancelled_exception")),
        "{end}"
    );
}

#[test]
fn what_takes_long_says_how_far_it_is() {
    let world = World::empty(&[("thread_pool.search.size", "1")]);
    slow_index(&world);
    let events = world.alpha.stream("/_firn/discover", "*/*", &slow(40)).rest();
    let of = |event: &str| {
        events
            .0
            .iter()
            .filter(|next| next["event"] == event)
            .collect::<Vec<_>>()
    };
    let so_far: Vec<&Value> = of("progress").into_iter().chain(of("partial")).collect();
    assert!(!so_far.is_empty(), "no partial results: {:?}", events.0);
    for event in so_far {
        let shards = &event["shards"];
        assert!(shards["done"].as_u64() <= shards["total"].as_u64(), "{event}");
        assert!(shards["total"].as_u64() > Some(0), "{event}");
        assert_ne!(
            event["result"]["exact"], true,
            "nothing is exact before all of it is counted: {event}"
        );
    }
    // Each stage has ended, and its latest event is its end.
    assert_eq!(of("done").len() + of("failed").len(), 5, "{:?}", events.0);
    assert_eq!(events.result("cardinality")["fields"].as_array().unwrap().len(), 2);
}

#[test]
fn a_background_run_is_reopened_by_its_caller() {
    let world = World::new(&[]);
    let mut body = json!({
        "index": "events", "time": {"from": BEGIN_MS},
        "stages": [{"stage": "sample", "size": 5}, {"stage": "histogram"}, {"stage": "cardinality"}, {"stage": "top_values", "field": "status"}],
    });
    let expect = world.alpha.discover(&body);
    body["frozen"] = json!("background");
    let mut stream = world.alpha.stream("/_firn/discover", "*/*", &body);
    let id = stream.next().unwrap()["id"].as_str().unwrap().to_owned();
    drop(stream);
    let path = format!("/_firn/discover/{id}");
    // For other callers it has the answer of a missing run.
    let other = world.bravo.ask("GET", &path, &Value::Null);
    let nonames = world.alpha.ask(
        "GET",
        &format!("/_firn/discover/{}x", &id[..id.len() - 1]),
        &Value::Null,
    );
    assert_eq!((other.0, nonames.0), (404, 404), "{other:?}");
    assert_eq!(other.1["error"]["type"], "resource_not_found_exception");
    assert_eq!(world.bravo.ask("DELETE", &path, &Value::Null).0, 404);
    assert_eq!(world.alpha.ask("GET", "/_firn/discover/nonsense", &Value::Null).0, 400);
    for accept in ["application/x-ndjson", "text/event-stream"] {
        let events = world.alpha.stream(&path, accept, &Value::Null).rest();
        assert_eq!(events.0[0]["id"], id.as_str());
        for stage in ["sample", "histogram", "cardinality", "top_values"] {
            assert_eq!(events.result(stage), expect.result(stage), "{stage}");
        }
        assert_eq!(events.0.last().unwrap()["event"], "end");
    }
    assert_eq!(world.operator.tasks(), Vec::<String>::new(), "an ended run is no task");
    world.alpha.ok("DELETE", &path, &Value::Null);
    assert_eq!(world.alpha.ask("GET", &path, &Value::Null).0, 404);
}

#[test]
fn a_run_in_the_background_goes_on_until_it_is_deleted() {
    let world = World::empty(&[("thread_pool.search.size", "2")]);
    slow_index(&world);
    let mut body = slow(400);
    body["frozen"] = json!("background");
    let mut stream = world.alpha.stream("/_firn/discover", "*/*", &body);
    let id = stream.next().unwrap()["id"].as_str().unwrap().to_owned();
    drop(stream);
    eventually("the search", || busy(&world).0 > 0);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(world.operator.tasks(), ["indices:data/read/firn/discover/run"]);
    let path = format!("/_firn/discover/{id}");
    // A reader that connects during the run gets the current state, and can leave without ending the run.
    let mut reader = world.alpha.stream(&path, "*/*", &Value::Null);
    assert_eq!(reader.next().unwrap()["id"], id.as_str());
    drop(reader);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(world.operator.tasks().len(), 1);
    let reader = world.alpha.stream(&path, "*/*", &Value::Null);
    world.alpha.ok("DELETE", &path, &Value::Null);
    let took = eventually("the end of the run", || {
        world.operator.tasks().is_empty() && busy(&world) == (0, 0)
    });
    assert!(took < ENDS_WITHIN, "it went on for {took:?}");
    let DiscoverEvents(rest) = reader.rest();
    assert_eq!(rest.last().unwrap()["event"], "end", "the reader gets the end");
}
