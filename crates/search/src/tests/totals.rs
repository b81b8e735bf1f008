//! Tests of aggregations over whole splits that are computed from stored totals. They answer like those of
//! segments, which have no totals.

use serde_json::{Value, json};

use super::splits::{as_splits, seen};
use super::support::*;
use crate::ShardSearch;

const START_MS: i64 = 1_700_000_000_000;
const DOCS: u64 = 1500;

/// Returns pseudo-random numbers below a bound.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |bound| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    }
}

fn totals_mapping() -> Value {
    let mut mapping = mapping();
    mapping["properties"]["tenant"] = json!({"type": "keyword"});
    mapping["properties"]["tags"] = json!({"type": "keyword"});
    mapping["properties"]["codes"] = json!({"type": "long"});
    mapping["properties"]["user"] = json!({"type": "keyword"});
    mapping
}

/// Returns events with a field of every type: few and many values, several values of a document and none.
fn events(seed: u64, ms: i64, first: u64) -> Vec<Value> {
    let mut random = random(seed);
    (0..DOCS)
        .map(|number| {
            let mut event = json!({
                "id": (first + number).to_string(),
                "@timestamp": ms + random(10_000_000) as i64,
                "tenant": "t1",
                "host": {"name": format!("h{}", random(7)), "ip": format!("10.0.0.{}", random(9))},
                "status": 200 + random(5) * 100,
                "size": random(1_000_000) as i64 - 500_000,
                "ratio": random(1000) as f64 / 7.0 - 60.0,
                "small": (random(4) as f64) / 2.0 - 1.0,
                "price": random(5000) as f64 / 100.0,
                "nanos": format!("2024-06-15T10:00:{:02}.000000001Z", random(60)),
                "ok": random(2) == 0,
                "user": format!("u{}", random(700)),
                "lower": format!("{}b", ["A", "c", "a"][random(3) as usize]),
            });
            if random(4) > 0 {
                event["big"] = json!(u64::MAX - random(3));
            }
            if random(5) > 0 {
                let tags: Vec<String> = (0..random(4)).map(|_| format!("tag{}", random(6))).collect();
                event["tags"] = json!(tags);
                event["codes"] = json!((0..random(3)).map(|_| random(11) as i64 - 5).collect::<Vec<_>>());
            }
            if random(6) == 0 {
                event.as_object_mut().unwrap().remove("size");
                event["hidden"] = json!(format!("x{}", random(3)));
            }
            if random(9) == 0 {
                event.as_object_mut().unwrap().remove("status");
                event.as_object_mut().unwrap().remove("host");
            }
            event
        })
        .collect()
}

const FEW: [&str; 8] = [
    "host.name",
    "host.ip",
    "status",
    "ok",
    "lower",
    "hidden",
    "tags",
    "codes",
];
const NUMBERS: [&str; 10] = [
    "status",
    "size",
    "big",
    "ratio",
    "small",
    "price",
    "nanos",
    "ok",
    "codes",
    "@timestamp",
];

/// Returns aggregations, and whether totals are enough for them.
fn aggregations() -> Vec<(Value, bool)> {
    let mut all = Vec::new();
    for field in FEW {
        all.push((json!({"terms": {"field": field}}), true));
        all.push((
            json!({"terms": {"field": field, "size": 2, "shard_size": 2, "show_term_doc_count_error": true}}),
            true,
        ));
        all.push((
            json!({"terms": {"field": field, "order": {"_count": "asc"}, "size": 3}}),
            true,
        ));
        all.push((
            json!({"terms": {"field": field, "order": {"_key": "desc"}, "size": 3}}),
            true,
        ));
        all.push((json!({"terms": {"field": field, "min_doc_count": 0}}), false));
        all.push((json!({"terms": {"field": field, "min_doc_count": 200}}), true));
        all.push((json!({"cardinality": {"field": field}}), true));
        all.push((json!({"missing": {"field": field}}), true));
        all.push((json!({"value_count": {"field": field}}), true));
        all.push((
            json!({"terms": {"field": field}, "aggs": {"h": {"terms": {"field": "host.name"}}}}),
            false,
        ));
    }
    for (field, value, only) in [
        ("host.name", json!("none"), json!("h[0-3]|none")),
        ("host.name", json!("h2"), json!(["h2", "h9"])),
        ("status", json!(404), json!([200, 404, 500])),
        ("status", json!(300), json!({"partition": 1, "num_partitions": 3})),
        ("host.ip", json!("10.0.0.3"), json!(["10.0.0.3", "10.0.0.4"])),
        ("tags", json!("tag0"), json!({"partition": 0, "num_partitions": 2})),
        ("hidden", json!("h"), json!("x1|h")),
    ] {
        all.push((json!({"terms": {"field": field, "missing": value}}), true));
        all.push((json!({"terms": {"field": field, "include": only}}), true));
        all.push((
            json!({"terms": {"field": field, "missing": value, "include": only}}),
            true,
        ));
        all.push((json!({"cardinality": {"field": field, "missing": value}}), true));
        all.push((json!({"missing": {"field": field, "missing": value}}), true));
        all.push((
            json!({"terms": {"field": field, "missing": value}, "aggs": {"m": {"max": {"field": "size"}}}}),
            false,
        ));
    }
    all.push((json!({"terms": {"field": "host.name", "exclude": "h[12]"}}), true));
    all.push((json!({"terms": {"field": "user", "size": 3}}), false));
    all.push((json!({"terms": {"field": "absent"}}), false));
    for field in NUMBERS {
        let sums = matches!(field, "status" | "size" | "ok" | "codes" | "@timestamp");
        all.push((json!({"value_count": {"field": field}}), true));
        all.push((json!({"min": {"field": field}}), true));
        all.push((json!({"max": {"field": field}}), true));
        all.push((json!({"sum": {"field": field}}), sums));
        all.push((json!({"avg": {"field": field}}), sums));
        all.push((json!({"stats": {"field": field}}), sums));
        all.push((json!({"extended_stats": {"field": field}}), false));
        let is_everywhere = matches!(field, "ratio" | "small" | "price" | "nanos" | "ok" | "@timestamp");
        all.push((
            json!({"max": {"field": field, "missing": 1_600_000_000_000u64}}),
            is_everywhere,
        ));
    }
    for by in ["host.name", "status", "ok", "lower", "host.ip", "hidden", "tags"] {
        for (field, is_known) in [("size", true), ("ratio", false), ("codes", false), ("price", false)] {
            let below = |kind: &str| json!({"m": {kind: {"field": field}}});
            let is_known = is_known && by != "tags";
            // Its numbers are whole hundredths: totals have the largest one, but no sum.
            let has_largest = is_known || field == "price" && by != "tags";
            all.push((json!({"terms": {"field": by}, "aggs": below("avg")}), is_known));
            all.push((
                json!({"terms": {"field": by, "order": {"m": "desc"}, "size": 2}, "aggs": below("max")}),
                has_largest,
            ));
            all.push((
                json!({"terms": {"field": by, "size": 1}, "aggs": {
                    "m": {"stats": {"field": field}}, "n": {"value_count": {"field": field}}
                }}),
                is_known,
            ));
        }
        let newest = json!({"m": {"max": {"field": "@timestamp"}}});
        all.push((json!({"terms": {"field": by}, "aggs": newest}), by != "tags"));
        let sizes = json!({"m": {"sum": {"field": "size", "missing": 5}}});
        all.push((json!({"terms": {"field": by}, "aggs": sizes}), false));
    }
    all
}

/// Returns the number of segments answered from totals, and of all segments.
fn known_segments(shard: &ShardSearch, body: &Value) -> (u64, u64) {
    let mut body = body.clone();
    body["profile"] = json!(true);
    let profile = run(vec![shard.clone()], &body).unwrap().profile.unwrap();
    let segments = &profile.shards[0].segments;
    (segments.from_statistics, segments.total)
}

fn check(seed: u64, shard: &Shard, query: &Value, are_known: bool) {
    let segments = shard.ready();
    let splits = as_splits(&segments);
    for (aggregation, is_known) in aggregations() {
        let body = json!({"size": 0, "query": query, "track_total_hits": true, "aggs": {"a": aggregation}});
        let answers = [&splits, &segments].map(|shard| seen(&run(vec![shard.clone()], &body).unwrap()));
        assert_eq!(answers[0], answers[1], "seed {seed}: {body}");
        let (known, all) = known_segments(&splits, &body);
        let expect = if is_known && are_known { all } else { 0 };
        assert_eq!(known, expect, "seed {seed}: {body}");
    }
}

fn shard_of(seed: u64, deleted: &[usize]) -> Shard {
    let mut shard = Shard::new(&totals_mapping());
    shard.by_tenant();
    for (number, part) in (0..).zip(0..2) {
        let documents = events(seed + part, START_MS + part as i64 * 10_000_000, number * DOCS);
        shard.clustered_segment(&documents, deleted);
    }
    shard
}

#[test]
fn whole_splits_answer_like_their_segments() {
    for seed in 1..3 {
        check(seed, &shard_of(seed, &[]), &json!({"match_all": {}}), true);
    }
}

#[test]
fn windows_and_tenants_that_cover_a_split_use_totals() {
    let shard = shard_of(3, &[]);
    let window = json!({"range": {"@timestamp": {"gte": START_MS, "lt": START_MS + 20_000_000}}});
    check(3, &shard, &json!({"bool": {"filter": [window]}}), true);
    let all_are_its = json!({"bool": {"filter": [{"term": {"tenant": "t1"}}, window]}});
    let body = json!({"size": 0, "query": all_are_its, "aggs": {"a": {"terms": {"field": "host.name"}}}});
    let splits = as_splits(&shard.ready());
    assert_eq!(known_segments(&splits, &body), (2, 2));
    let answers = [splits, shard.ready()].map(|shard| seen(&run(vec![shard], &body).unwrap()));
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn partial_matches_are_read() {
    let cut = json!({"range": {"@timestamp": {"gte": START_MS + 1_000_000, "lt": START_MS + 19_000_000}}});
    check(4, &shard_of(4, &[]), &cut, false);
    check(5, &shard_of(5, &[]), &json!({"term": {"host.name": "h1"}}), false);
}

#[test]
fn deleted_documents_are_not_counted() {
    // The documents were deleted after the split was written.
    check(6, &shard_of(6, &[0, 3, 700]), &json!({"match_all": {}}), false);
}

#[test]
fn totals_are_used_for_all_aggregations_or_none() {
    let shard = shard_of(7, &[]);
    let splits = as_splits(&shard.ready());
    let known = json!({"a": {"terms": {"field": "host.name"}}, "b": {"max": {"field": "size"}}, "c": {"missing": {"field": "tags"}}});
    let body = |aggs: &Value| json!({"size": 0, "aggs": aggs});
    assert_eq!(known_segments(&splits, &body(&known)), (2, 2));
    let mut more = known.clone();
    more["d"] = json!({"percentiles": {"field": "size"}});
    assert_eq!(known_segments(&splits, &body(&more)), (0, 2));
    for question in [
        body(&known),
        body(&more),
        json!({"size": 3, "sort": ["id"], "aggs": known}),
        json!({"size": 0, "terminate_after": 100, "aggs": {"a": {"value_count": {"field": "id"}}}}),
        json!({"size": 0, "post_filter": {"term": {"ok": true}}, "aggs": known}),
        json!({"size": 0, "min_score": 2, "aggs": known}),
    ] {
        let answers = [&splits, &shard.ready()].map(|shard| seen(&run(vec![shard.clone()], &question).unwrap()));
        assert_eq!(answers[0], answers[1], "{question}");
    }
}
