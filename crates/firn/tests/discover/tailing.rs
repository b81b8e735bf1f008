//! `POST /_firn/discover/tail`: live tail over HTTP.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{BEGIN_MS, DAY_MS, Party, World, event, eventually};

/// Goal for the time from the acknowledgement of a bulk to the event at the client.
const SHOWN_WITHIN: Duration = Duration::from_millis(1_500);
/// How much longer a single one may take where other tests take the processor.
const PATIENCE: Duration = Duration::from_secs(10);

fn write(party: &Party, event: &Value) {
    let line = format!("{{\"create\":{{}}}}\n{event}\n");
    let answer = party.client.bulk("/events/_bulk", line.as_bytes()).unwrap();
    assert_eq!(answer.json()["errors"], false, "{}", answer.text());
}

fn now() -> Value {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    json!(since.as_millis() as u64)
}

fn marked(mark: &str) -> Value {
    json!({"@timestamp": now(), "event_class": "web", "message": mark, "status": 200})
}

/// Returns `_source.message` of each hit.
fn messages(hits: &Value) -> Vec<String> {
    let hits = hits["hits"].as_array().unwrap().iter();
    hits.map(|hit| hit["_source"]["message"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn an_event_is_shown_soon_after_it_was_acknowledged() {
    let world = World::new(&[]);
    let mut stream = world
        .alpha
        .stream("/_firn/discover/tail", "text/event-stream", &json!({"index": "events"}));
    assert_eq!(stream.next().unwrap()["event"], "opened");
    let mut times = Vec::new();
    for number in 0..7 {
        write(&world.alpha, &marked(&format!("fresh {number}")));
        let acknowledged = Instant::now();
        let hits = stream.until("hits");
        times.push(acknowledged.elapsed());
        // Earlier events are not new, and no event comes twice.
        assert_eq!(messages(&hits), [format!("fresh {number}")]);
        assert_eq!(hits["dropped"], 0);
    }
    times.sort_unstable();
    assert!(
        times[times.len() / 2] <= SHOWN_WITHIN && times[times.len() - 1] < PATIENCE,
        "{times:?}"
    );
}

#[test]
fn a_tail_returns_only_matching_events_of_the_tenant() {
    let world = World::new(&[]);
    let body = json!({
        "index": "events",
        "time": {"from": BEGIN_MS, "to": "now"},
        "query": {"language": "lucene", "text": "event_class:web"},
        "filters": [{"term": {"status": 200}}],
        "columns": ["status"],
    });
    let mut stream = world.alpha.stream("/_firn/discover/tail", "*/*", &body);
    stream.until("opened");
    let changed = |mark: &str, name: &str, value: Value| {
        let mut event = marked(mark);
        event[name] = value;
        event
    };
    write(&world.bravo, &marked("of the other tenant"));
    write(&world.alpha, &changed("another class", "event_class", json!("dns")));
    write(&world.alpha, &changed("another status", "status", json!(500)));
    write(
        &world.alpha,
        &changed("before the range", "@timestamp", json!(BEGIN_MS - DAY_MS)),
    );
    // Old by its timestamp, but new all the same.
    write(&world.alpha, &changed("late", "@timestamp", json!(BEGIN_MS + DAY_MS)));
    let mut seen = Vec::new();
    while seen.is_empty() {
        let hits = stream.until("hits");
        seen.extend(messages(&hits));
        assert_eq!(hits["hits"][0]["fields"]["status"], json!([200]));
    }
    write(&world.alpha, &marked("last"));
    while seen.last().is_none_or(|last| last != "last") {
        seen.extend(messages(&stream.until("hits")));
    }
    assert_eq!(seen, ["late", "last"]);
}

#[test]
fn matches_are_highlighted_when_requested() {
    let world = World::empty(&[]);
    let body = |highlight: bool| json!({"index": "events", "time": {}, "query": {"text": "fresh"}, "filters": [{"term": {"status": 200}}], "highlight": highlight});
    let mut marking = world.alpha.stream("/_firn/discover/tail", "*/*", &body(true));
    let mut plain = world.alpha.stream("/_firn/discover/tail", "*/*", &body(false));
    marking.until("opened");
    plain.until("opened");
    write(&world.alpha, &marked("a fresh one"));
    let hit = marking.until("hits")["hits"][0].clone();
    assert_eq!(
        hit["highlight"],
        json!({"message": ["a @firn-mark@fresh@/firn-mark@ one"]})
    );
    assert!(plain.until("hits")["hits"][0]["highlight"].is_null());
}

#[test]
fn many_at_once_are_shown_in_order_and_the_rest_counted() {
    let world = World::empty(&[]);
    let mut stream = world
        .alpha
        .stream("/_firn/discover/tail", "*/*", &json!({"index": "events", "time": {}}));
    stream.until("opened");
    let lines: String = (0..1_300)
        .map(|number| format!("{{\"create\":{{}}}}\n{}\n", event("alpha", number)))
        .collect();
    let answer = world.alpha.client.bulk("/events/_bulk", lines.as_bytes()).unwrap();
    assert_eq!(answer.json()["errors"], false);
    let (mut shown, mut dropped) = (0, 0);
    while shown + dropped < 1_300 {
        let hits = stream.until("hits");
        let times: Vec<i64> = hits["hits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|hit| hit["_source"]["@timestamp"].as_i64().unwrap())
            .collect();
        assert!(times.is_sorted() && times.len() <= 500, "{times:?}");
        shown += times.len() as u64;
        dropped += hits["dropped"].as_u64().unwrap();
    }
    assert_eq!(shown + dropped, 1_300, "none is lost without a word");
}

#[test]
fn a_tail_ends_with_its_connection_its_time_and_its_name() {
    let world = World::new(&[]);
    let body = json!({"index": "events"});
    let mut stream = world.alpha.stream("/_firn/discover/tail", "*/*", &body);
    stream.until("opened");
    assert_eq!(world.operator.tasks(), ["indices:data/read/firn/discover/tail"]);
    drop(stream);
    let took = eventually("the end", || world.operator.tasks().is_empty());
    assert!(took < Duration::from_secs(4), "it went on for {took:?}");

    let timed = json!({"index": "events", "timeout": "300ms"});
    let events = world.alpha.stream("/_firn/discover/tail", "*/*", &timed).rest();
    assert_eq!(events.0.last().unwrap()["event"], "end");

    let mut stream = world.alpha.stream("/_firn/discover/tail", "*/*", &body);
    let id = stream.until("opened")["id"].as_str().unwrap().to_owned();
    let path = format!("/_firn/discover/{id}");
    assert_eq!(world.bravo.ask("DELETE", &path, &Value::Null).0, 404);
    world.alpha.ok("DELETE", &path, &Value::Null);
    assert_eq!(stream.rest().0.last().unwrap()["event"], "end");
}
