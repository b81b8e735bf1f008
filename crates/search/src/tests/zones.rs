//! Tests of segments with several zones: windows, newest hits and histograms equal a loop over the documents.

use firn_segment::zones::ZONE_DOCS;
use serde_json::{Value, json};

use super::support::{Shard, mapping, run};

const START_MS: i64 = 1_718_000_000_000;

/// Returns events roughly in time order, with some late ones, enough for several zones.
fn events() -> Vec<(i64, &'static str)> {
    let mut state = 7u64;
    let mut random = move |bound: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    (0..3 * ZONE_DOCS as i64 + 500)
        .map(|number| {
            let late = if random(50) == 0 {
                random(40_000_000)
            } else {
                random(3000)
            };
            let ms = START_MS + number * 30_000 - late as i64;
            (ms, ["web-1", "web-2", "db-1", "db-1"][random(4) as usize])
        })
        .collect()
}

struct Case {
    shard: Shard,
    /// The alive events, in index order: (ms, host, id).
    alive: Vec<(i64, &'static str, String)>,
}

fn case(deleted: &[usize], without_time: bool) -> Case {
    let events = events();
    let mut documents: Vec<Value> = events
        .iter()
        .enumerate()
        .map(|(number, (ms, host))| json!({"id": number.to_string(), "@timestamp": ms, "host": {"name": host}}))
        .collect();
    if without_time {
        documents.push(json!({"id": "timeless", "host": {"name": "db-1"}}));
    }
    let mut shard = Shard::new(&mapping());
    shard.segment(&documents, deleted);
    let alive = events
        .into_iter()
        .enumerate()
        .filter(|(number, _)| !deleted.contains(number));
    Case {
        shard,
        alive: alive
            .map(|(number, (ms, host))| (ms, host, number.to_string()))
            .collect(),
    }
}

/// Returns windows that cut zones, cover zones, and miss all of them.
fn windows() -> Vec<(i64, i64)> {
    let end = START_MS + (3 * i64::from(ZONE_DOCS) + 500) * 30_000;
    vec![
        (START_MS + 100_000_000, START_MS + 250_000_000),
        (START_MS - 1_000_000_000, end + 1),
        (START_MS + 7_777_777, end - 9_999_999),
        (START_MS + 200_000_000, START_MS + 200_100_000),
        (end + 1, end + 1000),
    ]
}

#[test]
fn windows_newest_hits_and_histograms_equal_a_loop() {
    let zone: Vec<usize> = (0..ZONE_DOCS as usize).step_by(3).collect();
    for case in [case(&[], false), case(&zone, false), case(&[5], true)] {
        for (from, to) in windows() {
            for host in [None, Some("web-1")] {
                check(&case, from, to, host);
            }
        }
    }
}

fn check(case: &Case, from: i64, to: i64, host: Option<&str>) {
    let inside =
        |(ms, name, _): &&(i64, &str, String)| (from..to).contains(ms) && host.is_none_or(|host| *name == host);
    let expected: Vec<_> = case.alive.iter().filter(inside).collect();
    let range = json!({"range": {"@timestamp": {"gte": from, "lt": to, "format": "epoch_millis"}}});
    let mut filter = vec![range];
    filter.extend(host.map(|host| json!({"term": {"host.name": host}})));
    let query = json!({"bool": {"filter": filter}});
    let ask = |body: Value| run(vec![case.shard.ready()], &body).unwrap();

    let counted = ask(json!({"query": query, "size": 0, "track_total_hits": true}));
    assert_eq!(counted.total.unwrap().value, expected.len() as u64, "{query}");

    for order in ["asc", "desc"] {
        let mut sorted = expected.clone();
        // Ties are in index order.
        match order {
            "asc" => sorted.sort_by_key(|event| event.0),
            _ => sorted.sort_by_key(|event| std::cmp::Reverse(event.0)),
        }
        let body = json!({"query": query, "size": 30, "sort": [{"@timestamp": order}], "track_total_hits": true});
        let answer = ask(body);
        let found: Vec<&str> = answer.hits.iter().map(|hit| hit.id.as_str()).collect();
        let wanted: Vec<&str> = sorted.iter().take(30).map(|event| event.2.as_str()).collect();
        assert_eq!(found, wanted, "{query} {order}");
        assert_eq!(answer.total.unwrap().value, expected.len() as u64);
        if let Some(event) = sorted.get(25) {
            let after = ask(json!({
                "query": query, "size": 3, "search_after": [event.0], "sort": [{"@timestamp": order}]
            }));
            let beyond = sorted.iter().filter(|other| match order {
                "asc" => other.0 > event.0,
                _ => other.0 < event.0,
            });
            let wanted: Vec<&str> = beyond.take(3).map(|event| event.2.as_str()).collect();
            let found: Vec<&str> = after.hits.iter().map(|hit| hit.id.as_str()).collect();
            assert_eq!(found, wanted, "{query} {order} after {}", event.0);
        }
    }

    let answer = ask(json!({"query": query, "size": 0, "aggs": {"days": {
        "date_histogram": {"field": "@timestamp", "calendar_interval": "day", "min_doc_count": 1},
        "aggs": {"hosts": {"terms": {"field": "host.name", "order": {"_key": "asc"}}}}
    }}}));
    let mut wanted = std::collections::BTreeMap::<i64, std::collections::BTreeMap<&str, u64>>::new();
    for (ms, name, _) in &expected {
        *wanted
            .entry(ms.div_euclid(86_400_000))
            .or_default()
            .entry(name)
            .or_default() += 1;
    }
    let wanted: Vec<Value> = wanted
        .into_iter()
        .map(|(day, hosts)| {
            let hosts: Vec<Value> = hosts.iter().map(|(name, count)| json!([name, count])).collect();
            json!([day * 86_400_000, hosts])
        })
        .collect();
    let aggregations = answer.aggregations.unwrap();
    let days = aggregations["days"]["buckets"].as_array().unwrap().iter();
    let found: Vec<Value> = days
        .map(|day| {
            let hosts = day["hosts"]["buckets"].as_array().unwrap().iter();
            let hosts: Vec<Value> = hosts.map(|host| json!([host["key"], host["doc_count"]])).collect();
            json!([day["key"], hosts])
        })
        .collect();
    assert_eq!(found, wanted, "{query}");
}

#[test]
fn terms_cut_on_one_segment_retain_the_most_frequent() {
    let case = case(&[1, 2, 3], false);
    for (order, name) in [("_count", "db-1"), ("_key", "web-2")] {
        let answer = run(
            vec![case.shard.ready()],
            &json!({"size": 0, "aggs": {"x": {"terms": {
                "field": "host.name", "size": 1, "shard_size": 1, "order": {order: "desc"}
            }}}}),
        );
        let answer = &answer.unwrap().aggregations.unwrap()["x"];
        let count = case.alive.iter().filter(|event| event.1 == name).count();
        assert_eq!(answer["buckets"], json!([{"key": name, "doc_count": count}]));
        assert_eq!(answer["sum_other_doc_count"], json!(case.alive.len() - count));
    }
}

#[test]
fn should_clauses_next_to_a_window_only_score() {
    let mut shard = Shard::new(&mapping());
    let document = |id: &str, status: i64| json!({"id": id, "@timestamp": START_MS, "status": status});
    shard.segment(&[document("a", 1), document("b", 2)], &[]);
    let window = json!({"range": {"@timestamp": {"gte": START_MS}}});
    for (minimum, expect) in [(json!(null), 2), (json!(0), 2), (json!(1), 1)] {
        let body = json!({"query": {"bool": {
            "filter": [window], "should": [{"term": {"status": 1}}], "minimum_should_match": minimum
        }}});
        let found = run(vec![shard.ready()], &body).unwrap().total.unwrap().value;
        assert_eq!(found, expect, "{minimum}");
    }
}
