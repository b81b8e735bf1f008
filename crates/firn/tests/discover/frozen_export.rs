//! Exports from a snapshot repository: the cost of fetching the events is reported before they are fetched.

use serde_json::{Value, json};

use crate::frozen::{forget, world};
use crate::{BEGIN_MS, DAY_MS, EVENTS, Party, World, eventually};

fn question(index: &str, frozen: &str) -> Value {
    json!({
        "index": index,
        "time": {"from": BEGIN_MS, "to": BEGIN_MS + 30 * DAY_MS},
        "frozen": frozen,
    })
}

fn export(party: &Party, body: &Value) -> (u16, String) {
    let answer = party.client.json("POST", "/_firn/discover/export", body).unwrap();
    (answer.status, answer.text())
}

#[track_caller]
fn whole(party: &Party, body: &Value) -> String {
    let (status, text) = export(party, body);
    assert_eq!(status, 200, "{text}");
    text
}

#[track_caller]
fn refused(party: &Party, body: &Value, expect: u16) -> Value {
    let (status, text) = export(party, body);
    assert_eq!(status, expect, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn an_export_returns_its_estimate_until_it_is_confirmed() {
    let world = world("0b");
    for format in ["csv", "ndjson"] {
        forget(&world);
        let mut body = question("shelf-frozen", "ask");
        body["format"] = json!(format);
        let answer = refused(&world.alpha, &body, 409);
        assert_eq!(answer["error"]["type"], "illegal_state_exception");
        let estimate = &answer["error"]["estimate"];
        for name in ["requests", "bytes", "ms", "splits"] {
            assert!(estimate[name].as_u64() > Some(0), "{name} of {estimate}");
        }
        let reason = answer["error"]["reason"].as_str().unwrap();
        assert!(reason.contains("set [frozen] to [run]"), "{reason}");
        // The default is to ask.
        body.as_object_mut().unwrap().remove("frozen");
        refused(&world.alpha, &body, 409);
        body["frozen"] = json!("run");
        let run = whole(&world.alpha, &body);
        body["index"] = json!("shelf");
        assert_eq!(run, whole(&world.alpha, &body), "{format}");
        let lines = run.lines().count();
        assert_eq!(lines, EVENTS + usize::from(format == "csv"));
        assert!(!run.contains("bravo says"));
    }
    let answer = refused(&world.alpha, &question("shelf-frozen", "background"), 400);
    assert!(answer.to_string().contains("one of [ask, run]"), "{answer}");
    // Data on disk needs no confirmation.
    whole(&world.alpha, &question("shelf", "ask"));
}

#[test]
fn what_costs_little_begins_at_once() {
    let world = world("1gb");
    let text = whole(&world.alpha, &question("shelf-frozen", "ask"));
    assert_eq!(text.lines().count(), EVENTS);
}

/// Mounts an index whose events have almost one document block each.
fn mount_heavy(world: &World) {
    let index = json!({
        "settings": {"index.tenant.field": "tenant", "number_of_shards": 1},
        "mappings": {"properties": {"@timestamp": {"type": "date"}, "rare": {"type": "keyword"}, "text": {"type": "keyword", "index": false, "doc_values": false}}},
    });
    world.operator.ok("PUT", "/heavy", &index);
    let mut random = fastrand::Rng::with_seed(3);
    let events = (0..40).map(|number| {
        let text: String = (0..40_000).map(|_| random.alphanumeric()).collect();
        let at = BEGIN_MS + number * 1000;
        json!({"tenant": "alpha", "@timestamp": at, "rare": format!("r-{number}"), "text": text})
    });
    world.alpha.write("heavy", events);
    let path = "/_snapshot/objects/heavy?wait_for_completion=true";
    world.operator.ok("PUT", path, &json!({"indices": "heavy"}));
    let path = "/_snapshot/objects/heavy/_mount?wait_for_completion=true&storage=shared_cache";
    let mount = json!({"index": "heavy", "renamed_index": "heavy-frozen"});
    world.operator.ok("POST", path, &mount);
}

#[test]
fn the_more_events_the_dearer() {
    let world = world("0b");
    mount_heavy(&world);
    let bytes = |query: &str| {
        world
            .operator
            .ok("POST", "/heavy-frozen/_searchable_snapshots/cache/clear", &Value::Null);
        let mut body = question("heavy-frozen", "ask");
        body["query"] = json!({"text": query});
        let answer = refused(&world.alpha, &body, 409);
        answer["error"]["estimate"]["bytes"].as_u64().unwrap()
    };
    let (one, all) = (bytes("rare: \"r-7\""), bytes(""));
    // All documents, which compress badly, versus one or two of them; plus the upper bound of finding them.
    assert!(
        one > 20_000 && all > 40 * 20_000 && all > one + 20 * 20_000,
        "{one} {all}"
    );
}

#[test]
fn a_limit_of_bytes_holds_for_files_too() {
    let world = world("1gb");
    let limit = |bytes: u64| {
        let quota = json!({"quotas": {"search_repository_bytes": bytes}});
        world.operator.ok("PUT", "/_firn/tenants/alpha", &quota);
    };
    let body = question("shelf-frozen", "run");
    limit(1000);
    eventually("the quota", || {
        // Nothing of earlier requests is cached.
        forget(&world);
        export(&world.alpha, &body).0 == 400
    });
    // Counting them is within the limit, reading them is not.
    limit(1 << 30);
    let all = json!({"gte": BEGIN_MS, "lt": BEGIN_MS + 30 * DAY_MS, "format": "epoch_millis"});
    let count = json!({"size": 0, "track_total_hits": true, "query": {"range": {"@timestamp": all}}});
    let path = "/shelf-frozen/_search?explain_cost=true";
    let response = world.alpha.client.json("POST", path, &count).unwrap().json();
    let counting = response["cost"]["bytes"].as_u64().unwrap();
    let most = counting + counting / 8;
    limit(most);
    eventually("the other quota", || {
        let (status, text) = export(&world.alpha, &body);
        status == 400 && text.contains("the export was not started")
    });
    let answer = refused(&world.alpha, &body, 400);
    assert_eq!(answer["error"]["limit"], "search_repository_bytes", "{answer}");
    assert_eq!(answer["error"]["limit_bytes"], most);
    assert!(answer["error"]["estimate"]["bytes"].as_u64() > Some(most), "{answer}");
    limit(1 << 30);
    eventually("no quota again", || export(&world.alpha, &body).0 == 200);
    // For a tenant the estimate includes cached data, which other tenants may have caused.
    limit(1);
    eventually("the last quota", || export(&world.alpha, &body).0 == 400);
    // Data on disk is not fetched, and other tenants have other quotas.
    whole(&world.alpha, &question("shelf", "run"));
    whole(&world.bravo, &body);
}
