//! Searches over local events and events in a store that does not answer: the answer contains the local events and
//! reports what is missing.

use std::time::{Duration, Instant};

use firn_testkit::{Answer, Fault, Faults, Rule};
use serde_json::{Value, json};

use crate::tenants::eventually;
use crate::{Bed, DOCUMENTS};

/// Events of the local index.
const NEAR: u64 = 30;
/// Longer than a search with a timeout of a second waits for any store.
const HANGS: Duration = Duration::from_secs(90);

/// Behaviours of a store that does not answer.
const SILENT: [&str; 2] = ["nothing", "half a body"];

fn silent(bed: &Bed, how: &str) {
    bed.proxy.set(match how {
        "nothing" => Faults::latency(HANGS),
        "half a body" => Faults {
            silence: HANGS,
            ..Faults::rules([Rule::share(Fault::Stall, 1.0)])
        },
        _ => unreachable!("{how}"),
    });
}

/// Creates a local index, and one without local data.
fn prepare(bed: Bed) -> Bed {
    let lines: String = (0..NEAR)
        .map(|number| format!("{{\"index\":{{}}}}\n{{\"number\":{number},\"text\":\"event {number}\"}}\n"))
        .collect();
    let answer = bed.client().bulk("/near/_bulk?refresh=true", lines.as_bytes());
    assert_eq!(answer.expect("an answer").json()["errors"], false);
    let made = bed.ok(
        "PUT",
        "/_snapshot/r/s?wait_for_completion=true",
        &json!({"indices": "events"}),
    );
    assert_eq!(made["snapshot"]["state"], "SUCCESS", "{made}");
    let mount = json!({"index": "events", "renamed_index": "far"});
    let path = "/_snapshot/r/s/_mount?storage=shared_cache&wait_for_completion=true";
    bed.ok("POST", path, &mount);
    bed
}

/// Drops the cached data of the mount.
fn forgotten(bed: Bed) -> Bed {
    bed.ok("POST", "/far/_searchable_snapshots/cache/clear", &Value::Null);
    bed.killed()
}

/// Returns searches that find their hits and counts in different ways.
fn searches() -> Vec<Value> {
    let aggs = json!({"sum": {"sum": {"field": "number"}}, "all": {"global": {}, "aggs": {"n": {"value_count": {"field": "number"}}}}});
    vec![
        json!({"size": 1000, "track_total_hits": true, "aggs": aggs}),
        json!({"size": 1000, "track_total_hits": true, "query": {"match": {"text": "event"}}}),
        json!({"size": 1000, "track_total_hits": true, "sort": [{"number": "desc"}], "query": {"range": {"number": {"gte": 0}}}}),
        json!({"size": 0, "track_total_hits": true, "aggs": {"sum": {"sum": {"field": "number"}}}}),
    ]
}

/// Checks that an answer has all local events.
#[track_caller]
fn shows_near(found: &Value, request: &Value) {
    let hits = found["hits"]["hits"].as_array().expect("hits");
    let near = hits.iter().filter(|hit| hit["_index"] == "near").count() as u64;
    let wanted = if request["size"] == 0 { 0 } else { NEAR };
    assert_eq!(near, wanted, "{request}: {found}");
    assert!(
        found["hits"]["total"]["value"].as_u64() >= Some(NEAR),
        "{request}: {found}"
    );
    if request["aggs"]["sum"].is_object() {
        let sum = found["aggregations"]["sum"]["value"].as_f64();
        assert!(sum >= Some((NEAR * (NEAR - 1) / 2) as f64), "{request}: {found}");
    }
    if request["aggs"]["all"].is_object() {
        let all = found["aggregations"]["all"]["n"]["value"].as_u64();
        assert!(all >= Some(NEAR), "{request}: {found}");
    }
}

/// Checks that an answer is complete, or reports that it is not.
#[track_caller]
fn says_what_it_lacks(found: &Value, request: &Value) {
    let failed = found["_shards"]["failed"].as_u64() > Some(0);
    let hits = found["hits"]["hits"].as_array().map_or(0, Vec::len) as u64;
    let all = NEAR + DOCUMENTS;
    let is_whole = found["hits"]["total"]["value"] == all && (request["size"] == 0 || hits == all);
    assert!(found["timed_out"] == true || failed || is_whole, "{request}: {found}");
}

/// Typed clients need a `response` in an answer even before anything is found.
fn has_an_answer_from_the_beginning(bed: &Bed) {
    let path = "/far/_async_search?wait_for_completion_timeout=1ms&keep_on_completion=true&timeout=5s";
    let mut found = bed.ok("POST", path, &json!({"size": 0}));
    let path = format!("/_async_search/{}", found["id"].as_str().expect("an id"));
    eventually("the number of shards", || {
        let response = &found["response"];
        assert_eq!(response["hits"]["hits"], json!([]), "{found}");
        assert!(
            response["took"].is_u64() && response["_shards"]["failed"].is_u64(),
            "{found}"
        );
        if response["_shards"]["total"].as_u64() > Some(0) {
            return true;
        }
        found = bed.ok("GET", &path, &Value::Null);
        false
    });
    bed.ok("DELETE", &path, &Value::Null);
}

/// Later pages have no timeout of their own: data missing from the first page is missing from all, and each page
/// reports it.
fn scrolls(bed: &Bed) {
    let body = json!({"size": 20, "query": {"match": {"text": "event"}}});
    let mut page = bed.ok("POST", "/far,near/_search?scroll=1m&timeout=1s", &body);
    let mut found = 0;
    for _ in 0..2 {
        found += page["hits"]["hits"].as_array().expect("hits").len() as u64;
        let failures = page["_shards"]["failures"].as_array().expect("failures");
        assert!(failures.iter().all(|failure| failure["index"] == "far"), "{page}");
        let next = json!({"scroll": "1m", "scroll_id": page["_scroll_id"]});
        page = bed.ok("POST", "/_search/scroll", &next);
    }
    assert_eq!(found, NEAR, "{page}");
}

#[test]
fn what_is_here_is_found_while_a_store_hangs() {
    let mut bed = prepare(Bed::start_with("mixed searches of a store that hangs", "60s"));
    for is_forgotten in [false, true] {
        for how in SILENT {
            bed.calm();
            if is_forgotten {
                bed = forgotten(bed);
            } else {
                bed.ok("POST", "/far/_search", &json!({"size": 0}));
                bed.ok("POST", "/far/_searchable_snapshots/cache/clear", &Value::Null);
            }
            silent(&bed, how);
            for body in searches() {
                let since = Instant::now();
                let found = bed.ok("POST", "/far,near/_search?timeout=1s", &body);
                assert!(since.elapsed() < HANGS / 2, "{:?}", since.elapsed());
                shows_near(&found, &body);
                says_what_it_lacks(&found, &body);
            }
            let lines: String = searches()
                .into_iter()
                .map(|mut body| {
                    body["timeout"] = "1s".into();
                    format!("{{\"index\":\"far,near\"}}\n{body}\n")
                })
                .collect();
            let answer = bed
                .client()
                .send("POST", "/_msearch", Some("application/x-ndjson"), lines.as_bytes());
            let answer = answer.expect("an answer").json();
            let responses = answer["responses"].as_array().expect("responses");
            assert_eq!(responses.len(), searches().len());
            for (found, body) in responses.iter().zip(searches()) {
                shows_near(found, &body);
                says_what_it_lacks(found, &body);
            }
            has_an_answer_from_the_beginning(&bed);
            // The timeout of a second applies to the search, and the client waits for its end.
            let path = "/far,near/_async_search?wait_for_completion_timeout=60s&timeout=1s";
            let body = &searches()[0];
            let found = bed.ok("POST", path, body);
            assert_eq!(found["is_running"], false, "{found}");
            shows_near(&found["response"], body);
            says_what_it_lacks(&found["response"], body);
            if is_forgotten {
                scrolls(&bed);
            }
        }
    }
    bed.calm();
    let found = bed.ok("POST", "/far,near/_search?timeout=60s", &searches()[0]);
    assert_eq!(found["timed_out"], false, "{found}");
    assert_eq!(found["hits"]["total"]["value"], NEAR + DOCUMENTS, "{found}");
}

/// Returns the last event of each stage of a `_firn/discover`.
fn ends(bed: &Bed, body: &Value) -> Vec<Value> {
    let answer = bed.ask("POST", "/_firn/discover", body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let events = text.lines().filter(|line| !line.trim().is_empty());
    let events = events.map(|line| serde_json::from_str::<Value>(line).expect(line));
    events
        .filter(|event| ["done", "failed"].contains(&event["event"].as_str().unwrap_or_default()))
        .collect()
}

#[test]
fn stages_show_what_is_here_while_a_store_hangs() {
    let mut bed = prepare(Bed::start_with("stages over a store that hangs", "60s"));
    for is_forgotten in [false, true] {
        bed.calm();
        if is_forgotten {
            bed = forgotten(bed);
        } else {
            bed.ok("POST", "/far/_search", &json!({"size": 0}));
            bed.ok("POST", "/far/_searchable_snapshots/cache/clear", &Value::Null);
        }
        silent(&bed, "nothing");
        let body = json!({
            "index": ["far", "near"], "timeout": "1s", "frozen": "run",
            "query": {"language": "kql", "text": "number >= 0"},
            "stages": [
                {"stage": "sample", "size": 1000},
                {"stage": "cardinality", "fields": ["number"]},
                {"stage": "top_values", "field": "number", "size": 1000},
            ],
        });
        let since = Instant::now();
        let ends = ends(&bed, &body);
        assert!(since.elapsed() < HANGS / 2, "{:?}", since.elapsed());
        assert_eq!(ends.len(), 3, "{ends:?}");
        for end in ends {
            assert_eq!(end["event"], "done", "{end}");
            let result = &end["result"];
            let (found, all) = match end["stage"].as_str() {
                Some("sample") => {
                    let hits = result["hits"].as_array().expect("hits").iter();
                    let near = hits.clone().filter(|hit| hit["_index"] == "near").count() as u64;
                    assert_eq!(near, NEAR, "{end}");
                    (hits.count() as u64, NEAR + DOCUMENTS)
                }
                Some("cardinality") => (
                    result["fields"][0]["documents"].as_u64().expect("a count"),
                    NEAR + DOCUMENTS,
                ),
                _ => (result["total"].as_u64().expect("a count"), NEAR + DOCUMENTS),
            };
            assert!(found >= NEAR, "{end}");
            assert!(end["partial"] == true || found == all, "{end}");
        }
    }
}

/// More searches than may wait for a store at the same time, on a node without tenants.
const CROWD: usize = 120;
/// Number of searches that may wait, and of those that may pass before the store counts as unavailable.
const MAY_WAIT: usize = 64;

#[test]
fn searches_that_wait_for_a_store_delay_no_others() {
    let bed = prepare(Bed::start_with("a crowd that waits for a store", "60s"));
    bed.ok("POST", "/far/_search", &json!({"size": 0}));
    bed.ok("POST", "/far/_searchable_snapshots/cache/clear", &Value::Null);
    silent(&bed, "nothing");
    let bed = &bed;
    let near = |path: &str, number: u64| {
        let body = json!({"size": 3, "query": {"range": {"number": {"gte": number}}}});
        let since = Instant::now();
        let found = bed.ok("POST", path, &body);
        assert_eq!(found["timed_out"], false, "{found}");
        assert_eq!(found["hits"]["hits"].as_array().map(Vec::len), Some(3), "{found}");
        since.elapsed()
    };
    std::thread::scope(|scope| {
        let patience = Duration::from_secs(20);
        let far = |path: &'static str, number: usize| {
            let body = json!({"size": 3, "query": {"match": {"text": number.to_string()}}});
            scope.spawn(move || {
                let since = Instant::now();
                (bed.client().json_within(patience, path, &body), since.elapsed())
            })
        };
        let crowd: Vec<_> = (0..CROWD).map(|number| far("/far/_search", number)).collect();
        std::thread::sleep(Duration::from_secs(1));
        let first = near("/near/_search", 0);
        assert!(
            first < Duration::from_secs(6),
            "it waited {first:?} for those that wait for a store"
        );
        for number in 1..20 {
            let took = near("/near/_search?timeout=2s", number);
            assert!(
                took < Duration::from_secs(2),
                "it waited {took:?} for those that wait for a store"
            );
        }
        // A further one is refused at once.
        let (status, took) = far("/far/_search", CROWD).join().expect("a thread");
        assert!(
            status == Some(429) && took < Duration::from_secs(6),
            "{status:?} after {took:?}"
        );
        let since = Instant::now();
        let timed = bed.ask("POST", "/far,near/_search?timeout=1s", &json!({"size": 3}));
        // A search with a short timeout returns the local data.
        let found = timed.json();
        let is_said = found["timed_out"] == true || found["_shards"]["failed"] != 0;
        assert!(
            timed.status == 200 && is_said && since.elapsed() < Duration::from_secs(6),
            "{} after {:?}",
            timed.text(),
            since.elapsed()
        );
        let answers: Vec<_> = crowd
            .into_iter()
            .map(|search| search.join().expect("a thread"))
            .collect();
        let refused = answers.iter().filter(|(status, _)| *status == Some(429)).count();
        let waited = answers.iter().filter(|(status, _)| status.is_none()).count();
        assert_eq!(refused + waited, CROWD, "{answers:?}");
        assert!(refused > 0 && waited <= MAY_WAIT, "{answers:?}");
    });
    bed.calm();
    eventually("a whole answer", || {
        bed.ask("POST", "/far/_search", &json!({"size": 3})).status == 200
    });
    bed.holds_everything("far");
}

/// Sets a fault by which the store refuses or aborts, with few retries.
fn refused(bed: &Bed, fault: Fault) {
    bed.proxy.set(Faults {
        silence: Duration::from_secs(3),
        ..Faults::rules([Rule::share(fault, 1.0)])
    });
}

/// Mounts a snapshot of an index in a repository with few retries.
fn mount_of_the_impatient(bed: &Bed, index: &str, name: &str) {
    let settings = json!({"bucket": "bucket", "base_path": name, "max_retries": 1, "read_timeout": "500ms"});
    bed.ok(
        "PUT",
        &format!("/_snapshot/{name}"),
        &json!({"type": "s3", "settings": settings}),
    );
    let path = format!("/_snapshot/{name}/s?wait_for_completion=true");
    let made = bed.ok("PUT", &path, &json!({"indices": index, "include_global_state": false}));
    assert_eq!(made["snapshot"]["state"], "SUCCESS", "{made}");
    let path = format!("/_snapshot/{name}/s/_mount?storage=shared_cache&wait_for_completion=true");
    bed.ok("POST", &path, &json!({"index": index, "renamed_index": name}));
}

/// Checks for a 503 that names the unavailable store and the index: the client may retry.
#[track_caller]
fn does_not_answer(answer: &Answer, request: &Value) {
    let error = &answer.json()["error"];
    let cause = &error["root_cause"][0];
    assert!(
        answer.status == 503 && cause["type"] == "repository_exception" && cause["index"] == "torn",
        "{request}: {} {}",
        answer.status,
        answer.text()
    );
}

/// Checks that one index is among the failures, with a reason.
#[track_caller]
fn names(found: &Value, index: &str) {
    let failures = found["_shards"]["failures"].as_array().expect("failures");
    assert!(!failures.is_empty(), "{found}");
    for failure in failures {
        let reason = failure["reason"]["reason"].as_str().unwrap_or_default();
        assert!(failure["index"] == index && !reason.is_empty(), "{failure}");
    }
}

#[test]
fn what_is_here_is_found_while_a_store_refuses() {
    let bed = prepare(Bed::start("mixed searches of a store that refuses"));
    mount_of_the_impatient(&bed, "events", "torn");
    for fault in [Fault::SlowDown, Fault::Reset, Fault::Stall] {
        bed.calm();
        bed.ok("POST", "/torn/_searchable_snapshots/cache/clear", &Value::Null);
        refused(&bed, fault);
        let body = json!({"size": 1000, "track_total_hits": true, "query": {"match": {"text": "event"}}, "aggs": {"sum": {"sum": {"field": "number"}}}});
        let found = bed.ok("POST", "/torn,near/_search", &body);
        shows_near(&found, &body);
        assert_eq!(found["hits"]["total"]["value"], NEAR, "{fault:?}: {found}");
        names(&found, "torn");
        let counted = bed.ok(
            "POST",
            "/torn,near/_count",
            &json!({"query": {"match": {"text": "event"}}}),
        );
        assert_eq!(counted["count"], NEAR, "{fault:?}: {counted}");
        names(&counted, "torn");
        let none = bed.ask("POST", "/torn,near/_search?allow_partial_search_results=false", &body);
        crate::is_typed(&none, "all or nothing");
        for mut request in searches() {
            request["size"] = 0.into();
            does_not_answer(&bed.ask("POST", "/torn/_search", &request), &request);
        }
    }
    bed.calm();
    // One request at a time probes the store until it answers.
    eventually("a whole count", || {
        let found = bed.ok(
            "POST",
            "/torn,near/_count",
            &json!({"query": {"match": {"text": "event"}}}),
        );
        found["count"] == NEAR + DOCUMENTS && found["_shards"]["failed"] == 0
    });
}

/// The columns of the hits are cached, and their documents cannot be read: the shard returns no hit, and is among the
/// failures.
#[test]
fn documents_that_cannot_be_read_fail_their_shard_and_no_other() {
    /// Too large to be fetched together with other parts of its split.
    const WIDE: u64 = 2_000;
    let bed = prepare(Bed::start("documents that cannot be read"));
    let unsearched = json!({"mappings": {"properties": {"filling": {"type": "object", "enabled": false}}}});
    bed.ok("PUT", "/wide", &unsearched);
    let mut random = fastrand::Rng::with_seed(firn_testkit::seed("filling of documents that cannot be read"));
    let lines: String = (0..WIDE)
        .map(|number| {
            let text: String = (0..24).map(|_| format!("{:016x}", random.u64(..))).collect();
            format!("{{\"index\":{{}}}}\n{{\"number\":{number},\"filling\":{{\"text\":\"{text}\"}}}}\n")
        })
        .collect();
    let answer = bed.client().bulk("/wide/_bulk?refresh=true", lines.as_bytes());
    assert_eq!(answer.expect("an answer").json()["errors"], false);
    mount_of_the_impatient(&bed, "wide", "torn");
    let aggs = json!({"sum": {"sum": {"field": "number"}}});
    bed.ok("POST", "/torn/_search", &json!({"size": 0, "aggs": aggs}));
    for fault in [Fault::SlowDown, Fault::Reset, Fault::Stall] {
        refused(&bed, fault);
        // Counting needs no documents, so it is complete.
        let counted = bed.ok(
            "POST",
            "/torn,near/_search",
            &json!({"size": 0, "track_total_hits": true, "aggs": aggs}),
        );
        assert_eq!(counted["_shards"]["failed"], 0, "{counted}");
        assert_eq!(counted["hits"]["total"]["value"], WIDE + NEAR);
        let body = json!({"size": 5_000, "track_total_hits": true, "aggs": aggs});
        let found = bed.ok("POST", "/torn,near/_search", &body);
        shows_near(&found, &body);
        // Hits that are not returned are not counted either.
        assert_eq!(found["hits"]["total"]["value"], NEAR, "{fault:?}: {found}");
        assert_eq!(
            found["aggregations"]["sum"]["value"],
            (NEAR * (NEAR - 1) / 2) as f64,
            "{fault:?}"
        );
        names(&found, "torn");
        let alone = bed.ask("POST", "/torn/_search", &json!({"size": 5_000}));
        crate::is_typed(&alone, "all shards failed");
    }
    bed.calm();
    eventually("a whole answer", || {
        let found = bed.ok("POST", "/torn,near/_search", &json!({"size": 5_000}));
        found["hits"]["hits"].as_array().map(Vec::len) == Some((WIDE + NEAR) as usize)
    });
}
