//! Tests of fields with many values over several segments: late resolution of counted values, wildcards that search
//! within values, distinct values, and cached results.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};

use super::support::{Shard, mapping, run};

/// Returns the values of three segments: some in all of them, most in one only.
fn segments() -> Vec<Vec<String>> {
    let mut state = 11u64;
    let mut random = move |bound: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    (0..3)
        .map(|_| {
            (0..6000)
                .map(|_| {
                    let rank = random(4000) * random(4000) / 4000;
                    format!("k{:x}", rank.wrapping_mul(0x9e37_79b9) % 0xff_ffff)
                })
                .collect()
        })
        .collect()
}

fn shard(segments: &[Vec<String>]) -> Shard {
    let mut shard = Shard::new(&mapping());
    for (number, values) in segments.iter().enumerate() {
        let documents: Vec<Value> = values
            .iter()
            .map(|value| json!({"host": {"name": value, "ip": format!("10.{number}.0.{}", value.len())}}))
            .collect();
        shard.segment(&documents, &[]);
    }
    shard
}

fn ask(shard: &Shard, body: &Value) -> Value {
    let mut answer = run(vec![shard.ready()], body).unwrap();
    let mut value = answer
        .aggregations
        .take()
        .map(std::sync::Arc::unwrap_or_clone)
        .unwrap_or_default();
    value["total"] = json!(answer.total.map(|total| total.value));
    value
}

#[test]
fn the_most_frequent_of_all_segments_are_named() {
    let segments = segments();
    let shard = shard(&segments);
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for value in segments.iter().flatten() {
        *counts.entry(value).or_default() += 1;
    }
    let total: u64 = counts.values().sum();
    let mut ranked: Vec<_> = counts.into_iter().collect();
    ranked.sort_by(|a, b| (b.1, a.0).cmp(&(a.1, b.0)));
    for size in [1, 5, 40, 3000] {
        let buckets: Vec<Value> = ranked
            .iter()
            .take(size)
            .map(|(key, count)| json!({"key": key, "doc_count": count}))
            .collect();
        let returned: u64 = ranked.iter().take(size).map(|(_, count)| count).sum();
        // Twice: the second answer may come from the cache.
        for _ in 0..2 {
            let body = json!({"size": 0, "aggs": {"top": {"terms": {"field": "host.name", "size": size}}}});
            let answer = ask(&shard, &body);
            assert_eq!(
                answer["top"],
                json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": total - returned, "buckets": buckets}),
                "{size}"
            );
        }
    }
}

#[test]
fn distinct_values_are_counted_once_over_segments() {
    let segments = segments();
    let shard = shard(&segments);
    let distinct = segments.iter().flatten().collect::<BTreeSet<_>>().len();
    let body = json!({"size": 0, "aggs": {"n": {"cardinality": {"field": "host.name", "precision_threshold": 40000}}}});
    for _ in 0..2 {
        assert_eq!(ask(&shard, &body)["n"], json!({"value": distinct}));
    }
}

#[test]
fn wildcards_search_within_values() {
    let segments = segments();
    let shard = shard(&segments);
    for (pattern, piece, rest) in [("*a4?", "a4", 1..=1), ("*e7*", "e7", 0..=9), ("??b1*", "b1", 0..=9)] {
        let wanted = segments
            .iter()
            .flatten()
            .filter(|value| {
                let mut starts = value.match_indices(piece).map(|(at, _)| at);
                match pattern {
                    "??b1*" => value.get(2..4) == Some(piece),
                    _ => starts.any(|at| rest.contains(&(value.len() - at - piece.len()))),
                }
            })
            .count();
        let body = json!({
            "size": 0, "track_total_hits": true, "query": {"wildcard": {"host.name": {"value": pattern}}}
        });
        for _ in 0..2 {
            assert_eq!(ask(&shard, &body)["total"], json!(wanted), "{pattern}");
        }
    }
}

#[test]
fn cached_results_follow_new_segments_and_mappings() {
    let segments = segments();
    let mut shard = shard(&segments);
    let body = json!({"size": 0, "aggs": {
        "ips": {"terms": {"field": "host.ip", "size": 100}, "aggs": {"hosts": {"cardinality": {"field": "host.name"}}}}
    }});
    let first = ask(&shard, &body);
    assert_eq!(ask(&shard, &body), first);
    shard.segment(&[json!({"host": {"name": "new", "ip": "10.0.0.1"}})], &[]);
    let buckets = ask(&shard, &body)["ips"]["buckets"].as_array().unwrap().clone();
    assert!(
        buckets
            .iter()
            .any(|bucket| bucket["key"] == "10.0.0.1" && bucket["hosts"]["value"] == 1)
    );
}
