//! Tests of segments that several threads read in parts: the answers are those of one thread, and of a plain count.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_model::tenant::TenantId;
use firn_query::search::{IndexTarget, SearchRequest};
use serde_json::{Value, json};

use super::support::{Shard, run_on};
use crate::TenantRestriction;

/// Seed of the events; a failure names the request.
const SEED: u64 = 2_611_300_021;
const EVENTS: usize = 3000;

/// Returns events of few tenants: an address of its own for most of them, a name by a skewed law, and a status.
fn events(seed: u64) -> Vec<Value> {
    let mut state = seed;
    let mut random = move |bound: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    (0..EVENTS)
        .map(|number| {
            let address = match random(10) {
                0 => random(20),
                _ => 1000 + (number as u64).wrapping_mul(40_503) % 60_000,
            };
            let mut event = json!({
                "@timestamp": 1_700_000_000_000i64 + random(1_000_000) as i64,
                "tenant": format!("t{}", random(4) * random(4) / 4),
                "host": {"ip": format!("10.1.{}.{}", address >> 8, address & 255)},
                "status": random(7),
            });
            match random(9) {
                0 => {}
                1 => event["host"]["name"] = json!([format!("k{}", random(50)), format!("k{}", random(3000))]),
                2 | 3 => event["host"]["name"] = json!("k0"),
                _ => event["host"]["name"] = json!(format!("k{}", random(3000) * random(3000) / 3000)),
            }
            event
        })
        .collect()
}

fn mapping() -> Value {
    json!({"properties": {
        "@timestamp": {"type": "date"},
        "tenant": {"type": "keyword"},
        "host": {"properties": {"name": {"type": "keyword"}, "ip": {"type": "ip"}}},
        "status": {"type": "integer"},
    }})
}

/// Returns a shard with segments in arrival order or in the order of a merge by tenant.
fn shard(segments: u64, is_clustered: bool, deleted: &[usize]) -> Shard {
    let mut shard = Shard::new(&mapping());
    shard.by_tenant();
    for number in 0..segments {
        let events = events(SEED + number);
        match is_clustered {
            true => shard.clustered_segment(&events, deleted),
            false => shard.segment(&events, deleted),
        };
    }
    shard
}

/// Returns the answer with so many threads, without the time that it took.
fn answer(threads: usize, shard: &Shard, tenant: Option<&str>, body: &Value) -> (Value, Option<u64>) {
    let mut search = shard.ready();
    search.tenant = tenant.map(|name| TenantRestriction {
        field: "tenant".into(),
        tenant: TenantId::parse(name).unwrap(),
    });
    let request = SearchRequest::parse(IndexTarget::default(), Some(body)).unwrap();
    let mut answer = run_on(threads, vec![Ok(search)], request).unwrap();
    let aggregations = answer.aggregations.take().map(Arc::unwrap_or_clone);
    (aggregations.unwrap_or_default(), answer.total.map(|total| total.value))
}

fn requests() -> Vec<Value> {
    let mut requests = Vec::new();
    let orders = [
        json!({"_count": "desc"}),
        json!({"_count": "asc"}),
        json!({"_key": "asc"}),
        json!({"_key": "desc"}),
        json!([{"_count": "desc"}, {"_key": "desc"}]),
    ];
    for field in ["host.ip", "host.name", "status"] {
        for order in &orders {
            for size in [1, 5, 3000] {
                requests.push(json!({"field": field, "order": order, "size": size}));
            }
        }
        requests.push(json!({"field": field, "size": 5, "shard_size": 7, "show_term_doc_count_error": true}));
        requests.push(json!({"field": field, "size": 10, "min_doc_count": 3}));
        requests.push(json!({"field": field, "size": 10, "min_doc_count": 0, "order": {"_key": "asc"}}));
    }
    requests.push(json!({"field": "host.name", "missing": "none", "size": 5}));
    requests.push(json!({"field": "host.name", "missing": "k7", "size": 5}));
    requests.push(json!({"field": "host.name", "include": "k1.*", "exclude": "k12.*"}));
    requests.push(json!({"field": "status", "missing": 99}));
    requests.push(json!({"field": "status", "include": [1, 3]}));
    requests
        .into_iter()
        .map(|terms| json!({"top": {"terms": terms}}))
        .chain([json!({
            "top": {"terms": {"field": "host.name", "size": 5}},
            "statuses": {"terms": {"field": "status"}, "aggs": {"names": {"terms": {"field": "host.name", "size": 3}}}},
        })])
        .collect()
}

#[test]
fn several_threads_give_the_answer_of_one() {
    let queries = [
        json!({"match_all": {}}),
        json!({"range": {"@timestamp": {"gte": 1_700_000_100_000i64, "lt": 1_700_000_900_000i64}}}),
        json!({"term": {"status": 3}}),
    ];
    let deleted: Vec<usize> = (0..EVENTS).filter(|row| row % 7 == 3 || *row > EVENTS - 200).collect();
    // (segments, clustered, deleted documents, tenant)
    let shards = [
        (2, false, &[][..], None),
        (2, false, &deleted[..], None),
        (2, true, &deleted[..], None),
        (2, true, &[][..], Some("t0")),
        (3, false, &deleted[..], Some("t0")),
    ];
    for (segments, is_clustered, deleted, tenant) in shards {
        let shard = shard(segments, is_clustered, deleted);
        for query in &queries {
            for aggs in requests() {
                let body = json!({"size": 0, "track_total_hits": true, "query": query, "aggs": aggs});
                let expect = answer(1, &shard, tenant, &body);
                let many = answer(4, &shard, tenant, &body);
                assert_eq!(
                    many, expect,
                    "seed {SEED}, tenant {tenant:?}, {segments} segments: {body}"
                );
            }
        }
    }
}

#[test]
fn parts_of_one_segment_count_each_event_once() {
    let mut shard = Shard::new(&mapping());
    let mut all = events(SEED);
    all.extend(events(SEED + 1));
    shard.segment(&all, &[]);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for event in &all {
        let address = event["host"]["ip"].as_str().unwrap();
        *counts.entry(address.to_owned()).or_default() += 1;
    }
    let mut ranked: Vec<(String, u64)> = counts.into_iter().collect();
    let as_number = |text: &str| text.parse::<std::net::Ipv4Addr>().unwrap();
    ranked.sort_by_key(|(address, count)| (std::cmp::Reverse(*count), as_number(address)));
    for size in [5, 2000] {
        let buckets: Vec<Value> = ranked
            .iter()
            .take(size)
            .map(|(address, count)| json!({"key": address, "doc_count": count}))
            .collect();
        let body = json!({"size": 0, "track_total_hits": true,
            "aggs": {"top": {"terms": {"field": "host.ip", "size": size}}}});
        let (found, total) = answer(4, &shard, None, &body);
        assert_eq!(total, Some(all.len() as u64), "seed {SEED}");
        assert_eq!(found["top"]["buckets"], json!(buckets), "seed {SEED}, size {size}");
    }
}
