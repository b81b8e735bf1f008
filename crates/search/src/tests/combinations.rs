//! Tests of aggregations over several fields, over rare values and over all documents.

use serde_json::{Value, json};

use super::splits::as_splits;
use super::support::{Shard, documents, failure, mapping, run, shard};
use crate::ShardSearch;

/// Returns the same documents in two segments, in one, on two shards, and in splits.
fn layouts() -> Vec<Vec<ShardSearch>> {
    let mut one = Shard::new(&mapping());
    one.segment(&documents(), &[]);
    let mut left = Shard::named("test", 0, &mapping());
    left.segment(&documents()[..3], &[]);
    let mut right = Shard::named("test", 1, &mapping());
    right.segment(&documents()[3..], &[]);
    vec![
        vec![shard().ready()],
        vec![one.ready()],
        vec![left.ready(), right.ready()],
        vec![as_splits(&shard().ready())],
    ]
}

/// Checks the answer of one aggregation in all layouts.
fn check(aggregation: &Value, expect: &Value) {
    for shards in layouts() {
        let body = json!({"size": 0, "aggs": {"x": aggregation}});
        let answer = run(shards, &body).unwrap().aggregations.unwrap();
        assert_eq!(&answer["x"], expect, "{aggregation}");
    }
}

/// Returns `key:count` of each bucket, keys as JSON.
fn counts(answer: &Value) -> String {
    let buckets = answer["buckets"].as_array().unwrap().iter();
    let texts: Vec<String> = buckets
        .map(|bucket| format!("{}:{}", bucket["key"], bucket["doc_count"]))
        .collect();
    texts.join(" ")
}

fn check_counts(aggregation: &Value, expect: &str) {
    for shards in layouts() {
        let body = json!({"size": 0, "aggs": {"x": aggregation}});
        let answer = run(shards, &body).unwrap().aggregations.unwrap();
        assert_eq!(counts(&answer["x"]), expect, "{aggregation}");
    }
}

#[test]
fn multi_terms() {
    let of = |terms: Value| json!({"multi_terms": {"terms": terms}});
    check(
        &json!({
            "multi_terms": {"terms": [{"field": "labels.team"}, {"field": "ok", "missing": false}], "order": {"_key": "asc"}},
            "aggs": {"m": {"max": {"field": "status"}}}
        }),
        &json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": 0, "buckets": [
            {"key": ["blue", false], "key_as_string": "blue|false", "doc_count": 2, "m": {"value": 404.0}},
            {"key": ["red", false], "key_as_string": "red|false", "doc_count": 1, "m": {"value": 201.0}},
            {"key": ["red", true], "key_as_string": "red|true", "doc_count": 1, "m": {"value": 200.0}}
        ]}),
    );
    check_counts(
        &of(json!([{"field": "host.name"}, {"field": "host.ip"}])),
        r#"["db-1","2001:db8::1"]:1 ["db-2","2001:db8::1"]:1 ["web-1","10.0.0.1"]:1 ["web-2","10.0.1.7"]:1"#,
    );
    check_counts(
        &of(json!([{"field": "@timestamp", "format": "MM-dd"}, {"field": "price"}, {"field": "env"}])),
        r#"["06-15",9.99,"prod"]:1 ["06-15",10.0,"prod"]:1"#,
    );
    check_counts(&of(json!([{"field": "unmapped"}, {"field": "ok"}])), "");
    check_counts(
        &of(json!([{"field": "unmapped", "missing": "x"}, {"field": "ok"}])),
        r#"["x",true]:2 ["x",false]:1"#,
    );
}

#[test]
fn rare_terms() {
    check_counts(&json!({"rare_terms": {"field": "labels.team"}}), "");
    check_counts(
        &json!({"rare_terms": {"field": "labels.team", "max_doc_count": 2}}),
        r#""blue":2 "red":2"#,
    );
    check_counts(&json!({"rare_terms": {"field": "size"}}), "-5:1 0:1 9007199254740993:1");
    check_counts(
        &json!({"rare_terms": {"field": "host.ip", "exclude": ["192.168.0.1"]}}),
        r#""10.0.1.7":1 "2001:db8::1":1"#,
    );
    check_counts(&json!({"rare_terms": {"field": "unmapped"}}), "");
    let error = failure(&json!({"aggs": {"x": {"rare_terms": {"field": "ratio"}}}}));
    assert_eq!(
        error.reason(),
        "RareTerms aggregation does not support floating point fields."
    );
}

/// There are more values than `terms` would return.
#[test]
fn rare_terms_and_addresses_among_many() {
    let mut shard = Shard::new(&mapping());
    for part in 0..3_u32 {
        let document = |number: u32| json!({"host": {"name": format!("h{}", number + part * 1000), "ip": format!("10.{part}.{}.{}", number / 250, number % 250)}});
        let mut documents: Vec<Value> = (0..1500).map(document).collect();
        documents.extend((0..=part).map(|_| json!({"host": {"ip": "10.0.0.7"}})));
        shard.segment(&documents, &[]);
    }
    let body = json!({"size": 0, "aggs": {
        "rare": {"rare_terms": {"field": "host.name"}}, "ips": {"terms": {"field": "host.ip", "size": 2}}
    }});
    let answer = run(vec![shard.ready()], &body).unwrap().aggregations.unwrap();
    // Names 1000 to 1499 and 2000 to 2499 are in two segments each.
    assert_eq!(answer["rare"]["buckets"].as_array().unwrap().len(), 2500);
    assert_eq!(counts(&answer["ips"]), r#""10.0.0.7":7 "10.0.0.0":1"#);
    assert_eq!(answer["ips"]["sum_other_doc_count"], 4498);
}

#[test]
fn auto_date_histograms() {
    check(
        &json!({"auto_date_histogram": {"field": "@timestamp", "buckets": 2}, "aggs": {"m": {"max": {"field": "status"}}}}),
        &json!({
            "buckets": [
                {"key_as_string": "2024-05-01T00:00:00.000Z", "key": 1714521600000_i64, "doc_count": 1, "m": {"value": 201.0}},
                {"key_as_string": "2024-06-01T00:00:00.000Z", "key": 1717200000000_i64, "doc_count": 3, "m": {"value": 503.0}}
            ],
            "interval": "1M"
        }),
    );
    check(
        &json!({"auto_date_histogram": {"field": "@timestamp", "buckets": 3, "time_zone": "+02:00", "format": "MM-dd HH"}}),
        &json!({
            "buckets": [
                {"key_as_string": "05-31 00", "key": 1717106400000_i64, "doc_count": 1},
                {"key_as_string": "06-07 00", "key": 1717711200000_i64, "doc_count": 0},
                {"key_as_string": "06-14 00", "key": 1718316000000_i64, "doc_count": 3}
            ],
            "interval": "7d"
        }),
    );
    check(
        &json!({"auto_date_histogram": {"field": "nanos", "missing": "2024-06-15T10:00:03Z"}}),
        &json!({
            "buckets": [
                {"key_as_string": "2024-06-15T10:00:00.000Z", "key": 1718445600000_i64, "doc_count": 1},
                {"key_as_string": "2024-06-15T10:00:01.000Z", "key": 1718445601000_i64, "doc_count": 0},
                {"key_as_string": "2024-06-15T10:00:02.000Z", "key": 1718445602000_i64, "doc_count": 0},
                {"key_as_string": "2024-06-15T10:00:03.000Z", "key": 1718445603000_i64, "doc_count": 4}
            ],
            "interval": "1s"
        }),
    );
    let error = failure(&json!({"aggs": {"x": {"auto_date_histogram": {"field": "host.name"}}}}));
    assert_eq!(
        error.reason(),
        "Field [host.name] of type [keyword] is not supported for aggregation [auto_date_histogram]"
    );
}

/// Returns all pages of a composite, and their number.
fn pages(shards: &[ShardSearch], sources: &Value, size: usize) -> (String, usize) {
    let mut all = Vec::new();
    let mut after = Value::Null;
    for page in 0..100 {
        let mut composite = json!({"size": size, "sources": sources});
        if !after.is_null() {
            composite["after"] = after;
        }
        let body = json!({"size": 0, "aggs": {"x": {"composite": composite}}});
        let answer = run(shards.to_vec(), &body).unwrap().aggregations.unwrap();
        after = answer["x"]["after_key"].clone();
        if after.is_null() {
            assert_eq!(answer["x"]["buckets"], json!([]));
            return (all.join(" "), page);
        }
        for bucket in answer["x"]["buckets"].as_array().unwrap() {
            let key: Vec<String> = bucket["key"]
                .as_object()
                .unwrap()
                .values()
                .map(Value::to_string)
                .collect();
            all.push(format!("{}:{}", key.join(","), bucket["doc_count"]));
        }
    }
    panic!("{sources} does not end");
}

#[test]
fn composites_page_through_everything() {
    let check = |sources: Value, expect: &str| {
        for shards in layouts() {
            for size in [1, 2, 3, 100] {
                let (found, page_count) = pages(&shards, &sources, size);
                assert_eq!(found, expect, "{sources} by {size}");
                let buckets = expect.split(' ').filter(|text| !text.is_empty()).count();
                assert_eq!(page_count, buckets.div_ceil(size), "{sources} by {size}");
            }
        }
    };
    check(
        json!([{"h": {"terms": {"field": "host.name"}}}, {"s": {"terms": {"field": "status", "missing_bucket": true}}}]),
        r#""WEB-1",null:1 "db-1",500:1 "db-1",503:1 "db-2",500:1 "db-2",503:1 "web-1",200:1 "web-2",404:1"#,
    );
    check(
        json!([{"t": {"terms": {"field": "labels.team", "order": "desc", "missing_bucket": true}}},
               {"ip": {"terms": {"field": "host.ip", "missing_bucket": true, "missing_order": "last"}}}]),
        r#""red","10.0.0.1":2 "red","192.168.0.1":1 "blue","10.0.0.1":1 "blue","10.0.1.7":1 "blue","192.168.0.1":1 null,"2001:db8::1":1 null,null:1"#,
    );
    check(
        json!([{"m": {"date_histogram": {"field": "@timestamp", "calendar_interval": "1M", "format": "yyyy-MM", "order": "desc"}}},
               {"r": {"histogram": {"field": "ratio", "interval": 0.5, "missing_bucket": true}}}]),
        r#""2024-06",-1.5:1 "2024-06",0.5:1 "2024-06",3.0:1 "2024-05",null:1"#,
    );
    check(
        json!([{"d": {"date_histogram": {"field": "@timestamp", "fixed_interval": "12h", "time_zone": "+01:00"}}}]),
        "1717110000000:1 1718406000000:2 1718449200000:1",
    );
    check(
        json!([{"b": {"terms": {"field": "big"}}}, {"p": {"terms": {"field": "price", "order": "desc"}}}]),
        "1,10.0:1 18446744073709551615,9.99:1",
    );
    check(
        json!([{"o": {"terms": {"field": "ok"}}}, {"n": {"terms": {"field": "nanos", "missing_bucket": true}}},
               {"e": {"terms": {"field": "env"}}}]),
        r#"false,null,"prod":1 true,null,"prod":1 true,1718445600000,"prod":1"#,
    );
    check(json!([{"u": {"terms": {"field": "unmapped"}}}]), "");
    check(
        json!([{"u": {"terms": {"field": "unmapped", "missing_bucket": true}}}]),
        "null:5",
    );
}

#[test]
fn composites_have_sub_aggregations() {
    check(
        &json!({
            "composite": {"size": 2, "sources": [{"h": {"terms": {"field": "host.name", "order": "desc"}}}]},
            "aggs": {"m": {"max": {"field": "status"}}}
        }),
        &json!({"after_key": {"h": "web-1"}, "buckets": [
            {"key": {"h": "web-2"}, "doc_count": 1, "m": {"value": 404.0}},
            {"key": {"h": "web-1"}, "doc_count": 1, "m": {"value": 200.0}}
        ]}),
    );
    check(
        &json!({
            "filter": {"exists": {"field": "ok"}},
            "aggs": {"c": {"composite": {"sources": [{"o": {"terms": {"field": "ok"}}}], "after": {"o": false}}}}
        }),
        &json!({"doc_count": 3, "c": {"after_key": {"o": true}, "buckets": [{"key": {"o": true}, "doc_count": 2}]}}),
    );
}

/// Many keys on small pages: keys are evicted from a page, and documents wait for the sub-aggregations.
#[test]
fn composites_keep_the_first_of_many() {
    let mut shard = Shard::new(&mapping());
    let document = |number: i64| json!({"id": format!("{number}"), "size": (number * 7919) % 5000, "status": number});
    for part in 0..3 {
        let documents: Vec<Value> = (part * 5000..(part + 1) * 5000).map(document).collect();
        shard.segment(&documents, &[]);
    }
    let mut after = -1_i64;
    for _ in 0..3 {
        let body = json!({"size": 0, "aggs": {"x": {
            "composite": {"size": 50, "sources": [{"s": {"terms": {"field": "size"}}}], "after": {"s": after}},
            "aggs": {"n": {"value_count": {"field": "status"}}}
        }}});
        let answer = run(vec![shard.ready()], &body).unwrap().aggregations.unwrap();
        for bucket in answer["x"]["buckets"].as_array().unwrap() {
            after += 1;
            assert_eq!(bucket["key"]["s"], after);
            assert_eq!(
                (bucket["doc_count"].as_u64(), bucket["n"]["value"].as_u64()),
                (Some(3), Some(3))
            );
        }
    }
    assert_eq!(after, 149);
}

#[test]
fn a_wrong_after_key_is_refused() {
    let reason = |source: Value, after: Value| {
        let composite = json!({"sources": [{"a": source}], "after": {"a": after}});
        failure(&json!({"aggs": {"x": {"composite": composite}}}))
            .reason()
            .to_owned()
    };
    assert_eq!(
        reason(json!({"terms": {"field": "status"}}), json!("many")),
        "Invalid value for [after.a]: [many] is not a key of the source"
    );
    assert_eq!(
        reason(json!({"terms": {"field": "host.ip"}}), json!("many")),
        "'many' is not an IP string literal."
    );
    assert_eq!(
        reason(json!({"terms": {"field": "status"}}), Value::Null),
        "Missing value for [after.a]"
    );
}

#[test]
fn globals_ignore_the_query() {
    let global =
        json!({"global": {}, "aggs": {"n": {"value_count": {"field": "id"}}, "t": {"terms": {"field": "ok"}}}});
    for query in [
        json!({"term": {"id": "a"}}),
        json!({"match_none": {}}),
        // No segment can match, so the query reads none.
        json!({"range": {"@timestamp": {"lt": "1980-01-01"}}}),
    ] {
        for shards in layouts() {
            let body = json!({"query": query, "aggs": {"all": global, "own": {"value_count": {"field": "id"}}}});
            let response = run(shards, &body).unwrap();
            let answer = response.aggregations.unwrap();
            assert_eq!(answer["all"]["doc_count"], 5, "{query}");
            assert_eq!(answer["all"]["n"]["value"], 5, "{query}");
            assert_eq!(counts(&answer["all"]["t"]), "1:2 0:1", "{query}");
            assert_eq!(answer["own"]["value"], json!(response.total.unwrap().value), "{query}");
        }
    }
}

#[test]
fn globals_respect_alias_filters() {
    let mut ready = shard().ready();
    ready.filters = vec![firn_query::query::Query::parse(&json!({"term": {"ok": true}})).unwrap()];
    let body = json!({"query": {"term": {"id": "b"}}, "aggs": {"all": {"global": {}}}});
    assert_eq!(
        *run(vec![ready], &body).unwrap().aggregations.unwrap(),
        json!({"all": {"doc_count": 2}})
    );
}

#[test]
fn hits_of_a_global_come_from_every_segment() {
    let body = json!({"query": {"match_none": {}}, "aggs": {"all": {"global": {}, "aggs": {
        "top": {"top_hits": {"size": 5, "sort": [{"id": "desc"}], "_source": false}}
    }}}});
    let answer = run(vec![shard().ready()], &body).unwrap().aggregations.unwrap();
    let hits = answer["all"]["top"]["hits"]["hits"].as_array().unwrap().iter();
    let ids: Vec<&str> = hits.map(|hit| hit["_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["e", "d", "c", "b", "a"]);
}
