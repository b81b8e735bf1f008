//! Results of each stage, compared with `_search`, `_count` and a plain loop over the events.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{BEGIN_MS, DAY_MS, EVENTS, HOUR_MS, MINUTE_MS, World, event};

/// Five hundred hours cover all of them.
fn all_time() -> Value {
    json!({"from": BEGIN_MS, "to": BEGIN_MS + 500 * HOUR_MS})
}

fn own() -> Vec<Value> {
    (0..EVENTS).map(|number| event("alpha", number)).collect()
}

#[test]
fn the_sample_is_the_first_page_of_a_search_and_the_total_exact() {
    let world = World::new(&[]);
    let filter = json!({"terms": {"status": [404, 500]}});
    let count = world.alpha.ok("POST", "/events/_count", &json!({"query": filter}))["count"].clone();
    let body = json!({
        "index": "events", "time": all_time(), "filters": [filter],
        "stages": [{"stage": "sample", "size": 30}],
    });
    let events = world.alpha.discover(&body);
    assert_eq!(events.0[0]["event"], "opened");
    assert_eq!(events.0.last().unwrap()["event"], "end");
    let sample = events.result("sample");
    assert_eq!(sample["total"], json!({"value": count, "relation": "eq"}));
    let search = json!({"query": filter, "size": 60, "sort": [{"@timestamp": "desc"}, {"_seq_no": "desc"}]});
    let search = world.alpha.ok("POST", "/events/_search", &search);
    let ids = |hits: &Value| -> Vec<Value> {
        let hits = hits.as_array().unwrap().iter();
        hits.map(|hit| json!([hit["_id"], hit["_source"]])).collect()
    };
    let expect = ids(&search["hits"]["hits"]);
    assert_eq!(ids(&sample["hits"]), expect[..30]);
    assert_eq!(sample["omitted"], 0);
    // The next page continues where this one ends.
    let mut next = body.clone();
    next["stages"][0]["search_after"] = sample["hits"][29]["sort"].clone();
    let next = world.alpha.discover(&next);
    assert_eq!(ids(&next.result("sample")["hits"]), expect[30..60]);
    // No event of the other tenant.
    assert!(!format!("{:?}", events.0).contains("bravo"));
}

#[test]
fn each_language_says_the_same() {
    let world = World::new(&[]);
    let of = |query: Value| {
        let body = json!({"index": "events", "query": query, "stages": [{"stage": "sample", "size": 0}]});
        world.alpha.discover(&body).result("sample")["total"]["value"]
            .as_u64()
            .unwrap()
    };
    let expect = own()
        .iter()
        .filter(|event| event["event_class"] == "dns" && event["status"] == 404)
        .count() as u64;
    assert!(expect > 5, "{expect}");
    for query in [
        json!({"language": "lucene", "text": "event_class:dns AND status:404"}),
        json!({"language": "kql", "text": "event_class:dns AND status:404"}),
        json!({"language": "dsl", "dsl": {"bool": {"filter": [{"term": {"event_class": "dns"}}, {"term": {"status": 404}}]}}}),
    ] {
        assert_eq!(of(query.clone()), expect, "{query}");
    }
}

#[test]
fn the_histogram_counts_every_event_once() {
    let world = World::new(&[]);
    let (from_ms, to_ms) = (BEGIN_MS + 95 * MINUTE_MS, BEGIN_MS + 3 * DAY_MS);
    let events = world.alpha.discover(&json!({
        "index": "events", "time": {"from": from_ms, "to": to_ms},
        "stages": [{"stage": "histogram", "interval": "3h", "split_values": 3}],
    }));
    let histogram = events.result("histogram");
    assert_eq!(
        (&histogram["split_by"], &histogram["exact"]),
        (&json!("event_class"), &json!(true))
    );
    assert_eq!(histogram["exact_choice"], true);
    let mut expect: BTreeMap<i64, BTreeMap<String, u64>> = BTreeMap::new();
    for event in own() {
        let ms = event["@timestamp"].as_i64().unwrap();
        if (from_ms..=to_ms).contains(&ms) {
            let bucket = expect.entry(ms / (3 * HOUR_MS) * 3 * HOUR_MS).or_default();
            *bucket
                .entry(event["event_class"].as_str().unwrap().to_owned())
                .or_default() += 1;
        }
    }
    let buckets = histogram["buckets"].as_array().unwrap();
    assert_eq!(buckets.len(), 25, "the ends are cut, not left out");
    assert_eq!(buckets[0]["from_ms"], from_ms);
    assert_eq!(buckets[24]["to_ms"], to_ms + 1);
    let splits: Vec<&str> = histogram["splits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    assert_eq!(splits.len(), 3);
    for bucket in buckets {
        let start = bucket["from_ms"].as_i64().unwrap() / (3 * HOUR_MS) * 3 * HOUR_MS;
        let counts = &expect[&start];
        assert_eq!(bucket["count"].as_u64(), Some(counts.values().sum()), "{bucket}");
        let in_splits: u64 = splits
            .iter()
            .map(|name| bucket["splits"][*name].as_u64().unwrap_or(0))
            .sum();
        for name in &splits {
            assert_eq!(
                bucket["splits"][*name].as_u64(),
                counts.get(*name).copied(),
                "{name} of {bucket}"
            );
        }
        assert_eq!(bucket["other"].as_u64(), Some(counts.values().sum::<u64>() - in_splits));
    }
}

#[test]
fn cardinalities_are_those_of_all_events() {
    let world = World::new(&[]);
    let result = world.alpha.stage("events", &json!({"stage": "cardinality"}));
    let mut expect: BTreeMap<String, (BTreeSet<String>, u64)> = BTreeMap::new();
    for event in own() {
        for (name, value) in event.as_object().unwrap() {
            let (values, documents) = expect.entry(name.clone()).or_default();
            *documents += 1;
            match value {
                Value::Array(list) => values.extend(list.iter().map(Value::to_string)),
                value => drop(values.insert(value.to_string())),
            }
        }
    }
    // Texts cannot be counted, and are not counted by default.
    expect.remove("message");
    let fields = result["fields"].as_array().unwrap();
    let names: BTreeSet<&str> = fields.iter().map(|field| field["name"].as_str().unwrap()).collect();
    for (name, (values, documents)) in &expect {
        let field = fields.iter().find(|field| field["name"] == name.as_str());
        let field = field.unwrap_or_else(|| panic!("[{name}] is not among {names:?}"));
        assert_eq!(field["cardinality"], values.len(), "{field}");
        assert_eq!(field["documents"], *documents, "{field}");
        assert_eq!(field["exact"], true, "{field}");
    }
    let place = |name: &str| fields.iter().position(|field| field["name"] == name).unwrap();
    assert!(
        place("status") < place("tags") && place("tags") < place("rare"),
        "most used first: {names:?}"
    );

    let named = json!({"stage": "cardinality", "fields": ["rare", "status", "noname_has_it", "message"]});
    let named = world.bravo.stage("events", &named);
    let of = |name: &str| {
        let fields = named["fields"].as_array().unwrap();
        fields.iter().find(|field| field["name"] == name).unwrap().clone()
    };
    assert_eq!(
        (&of("rare")["cardinality"], &of("rare")["documents"]),
        (&json!(12), &json!(12))
    );
    assert_eq!(
        (&of("noname_has_it")["cardinality"], &of("noname_has_it")["documents"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(of("message")["error"]["type"], "illegal_argument_exception");
}

#[test]
fn top_values_are_counted_over_all_hits() {
    let world = World::new(&[]);
    for field in ["event_class", "src_ip", "status", "tags", "rare", "took", "ok"] {
        let result = world
            .alpha
            .stage("events", &json!({"stage": "top_values", "field": field, "size": 4}));
        let search = world.alpha.ok(
            "POST",
            "/events/_search",
            &json!({"size": 0, "track_total_hits": true, "aggs": {
                "values": {"terms": {"field": field, "size": 4, "shard_size": 10_000}},
                "with": {"filter": {"exists": {"field": field}}},
            }}),
        );
        let (terms, with) = (
            &search["aggregations"]["values"],
            &search["aggregations"]["with"]["doc_count"],
        );
        let pairs = |list: &Value, key: &str, count: &str| -> Vec<Value> {
            let list = list.as_array().unwrap().iter();
            list.map(|entry| json!([entry[key], entry[count]])).collect()
        };
        let mut terms = terms.clone();
        if field == "ok" {
            // A filter does not accept 1 for true.
            for bucket in terms["buckets"].as_array_mut().unwrap() {
                bucket["key"] = json!(bucket["key"] == 1);
            }
        }
        assert_eq!(
            pairs(&result["values"], "value", "count"),
            pairs(&terms["buckets"], "key", "doc_count"),
            "{field}"
        );
        assert_eq!(result["other"], terms["sum_other_doc_count"], "{field}");
        assert_eq!(
            (&result["with_value"], &result["total"]),
            (with, &json!(EVENTS)),
            "{field}"
        );
        assert_eq!(
            result["missing"].as_u64().unwrap() + with.as_u64().unwrap(),
            EVENTS as u64
        );
        assert_eq!(
            (&result["exact"], &result["exact_choice"]),
            (&json!(true), &json!(true))
        );
        let first = &result["values"][0];
        let percent = first["count"].as_f64().unwrap() * 100.0 / with.as_f64().unwrap();
        assert!(
            (first["percent"].as_f64().unwrap() - percent).abs() <= 0.005,
            "{field}: {first}"
        );
    }
    let tags = own().iter().filter(|event| event.get("tags").is_some()).count();
    let result = world
        .alpha
        .stage("events", &json!({"stage": "top_values", "field": "tags"}));
    assert_eq!(
        result["values"][0],
        json!({"value": "seventh", "text": "seventh", "count": tags, "percent": 100.0})
    );
}
