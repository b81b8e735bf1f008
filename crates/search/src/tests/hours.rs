//! Tests of date histograms of splits that read only timestamps rounded to the hour where that is enough. They
//! answer like those of segments, which have no rounded timestamps.

use serde_json::{Value, json};

use super::splits::{as_splits, seen};
use super::support::*;

const HOUR_MS: i64 = 3_600_000;

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

/// Returns events around a time, many of them at the edges of hours.
fn events(seed: u64, around_ms: i64) -> Vec<Value> {
    let mut random = random(seed);
    (0..400)
        .map(|number| {
            let hour = around_ms.div_euclid(HOUR_MS) + random(240) as i64 - 120;
            let within = match random(4) {
                0 => 0,
                1 => HOUR_MS - 1,
                _ => random(HOUR_MS as u64) as i64,
            };
            json!({
                "id": number.to_string(),
                "@timestamp": hour * HOUR_MS + within,
                "host": {"name": format!("h{}", random(3))},
                "status": 200 + random(5),
            })
        })
        .collect()
}

/// Returns histograms for which hours are enough, and others.
fn histograms(seed: u64, around_ms: i64) -> Vec<Value> {
    let mut random = random(seed ^ 0x5eed);
    let mut all = Vec::new();
    let zones = [
        "UTC",
        "Europe/Berlin",
        "Asia/Kolkata",
        "Asia/Kathmandu",
        "-03:30",
        "+14:00",
    ];
    let fixed = ["1h", "3h", "1d", "7d", "30m", "90m", "61m", "3600s", "5400001ms"];
    for interval in ["hour", "day", "week", "month", "quarter", "year"] {
        for _ in 0..2 {
            let zone = zones[random(zones.len() as u64) as usize];
            all.push(json!({"field": "@timestamp", "calendar_interval": interval, "time_zone": zone}));
        }
    }
    for interval in fixed {
        let zone = zones[random(zones.len() as u64) as usize];
        all.push(json!({"field": "@timestamp", "fixed_interval": interval, "time_zone": zone}));
        all.push(json!({"field": "@timestamp", "fixed_interval": interval, "offset": "+1h"}));
        all.push(json!({"field": "@timestamp", "fixed_interval": interval, "offset": "-90m", "missing": around_ms}));
    }
    let (min, max) = (around_ms - 30 * HOUR_MS, around_ms + 25 * HOUR_MS + 5);
    all.push(json!({
        "field": "@timestamp", "fixed_interval": "2h", "format": "epoch_millis", "hard_bounds": {"min": min, "max": max}
    }));
    all
}

fn check(seed: u64, mapping: &Value, around_ms: i64, documents: &[Value], deleted: &[usize]) {
    let mut shard = Shard::new(mapping);
    shard.segment(documents, deleted);
    let segments = shard.ready();
    let splits = as_splits(&segments);
    let windows = [
        json!({"match_all": {}}),
        json!({"term": {"host.name": "h1"}}),
        json!({"range": {"@timestamp": {
            "gte": around_ms - 50 * HOUR_MS, "lt": around_ms + 40 * HOUR_MS + 12_345, "format": "epoch_millis"
        }}}),
    ];
    for histogram in histograms(seed, around_ms) {
        for query in &windows {
            let body = json!({"size": 0, "query": query, "aggs": {
                "alone": {"date_histogram": histogram},
                "over": {"date_histogram": histogram, "aggs": {"s": {"terms": {"field": "status"}}}},
                "hosts": {"terms": {"field": "host.name"}, "aggs": {"under": {"date_histogram": histogram}}},
            }});
            let answers = [&splits, &segments].map(|shard| seen(&run(vec![shard.clone()], &body).unwrap()));
            assert_eq!(answers[0], answers[1], "seed {seed}: {body}");
        }
    }
}

/// 2023-11-14, within a day of the end of summer time in other years, and the epoch.
const AROUND_MS: [i64; 3] = [1_700_000_000_000, 1_698_540_000_000, 0];

#[test]
fn histograms_of_splits_equal_those_of_segments() {
    for (seed, around_ms) in (1..).zip(AROUND_MS) {
        check(seed, &mapping(), around_ms, &events(seed, around_ms), &[3, 200, 399]);
    }
}

#[test]
fn timestamps_are_read_if_a_document_has_no_hour() {
    let mut documents = events(4, AROUND_MS[0]);
    documents.push(json!({"id": "timeless", "host": {"name": "h1"}, "status": 200}));
    check(4, &mapping(), AROUND_MS[0], &documents, &[]);
    let mut several = events(5, AROUND_MS[0]);
    several[7]["@timestamp"] = json!([AROUND_MS[0], AROUND_MS[0] + 5 * HOUR_MS]);
    check(5, &mapping(), AROUND_MS[0], &several, &[]);
    let mut nanos = mapping();
    nanos["properties"]["@timestamp"] = json!({"type": "date_nanos"});
    check(6, &nanos, AROUND_MS[0], &events(6, AROUND_MS[0]), &[9]);
}
