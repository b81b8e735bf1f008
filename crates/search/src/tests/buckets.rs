//! Tests of aggregations with buckets of ranges, intervals and filters.

use serde_json::{Value, json};

use super::support::{Shard, documents, failure, mapping, run, shard};

/// Checks the answer of one aggregation, over two segments and over one.
fn check(aggregation: &Value, expect: &Value) {
    let body = json!({"size": 0, "aggs": {"x": aggregation}});
    let answer = run(vec![shard().ready()], &body).unwrap().aggregations.unwrap();
    assert_eq!(&answer["x"], expect, "{aggregation}");
    let mut one = Shard::new(&mapping());
    one.segment(&documents(), &[]);
    let answer = run(vec![one.ready()], &body).unwrap().aggregations.unwrap();
    assert_eq!(&answer["x"], expect, "{aggregation} over one segment");
}

/// Checks `key:count` of each bucket.
fn check_counts(aggregation: &Value, expect: &str) {
    let body = json!({"size": 0, "aggs": {"x": aggregation}});
    let answer = run(vec![shard().ready()], &body).unwrap().aggregations.unwrap();
    let text = |key: &Value| key.as_str().map_or_else(|| key.to_string(), str::to_owned);
    let found: Vec<String> = match &answer["x"]["buckets"] {
        Value::Array(buckets) => buckets
            .iter()
            .map(|bucket| format!("{}:{}", text(&bucket["key"]), bucket["doc_count"]))
            .collect(),
        Value::Object(buckets) => buckets
            .iter()
            .map(|(key, bucket)| format!("{key}:{}", bucket["doc_count"]))
            .collect(),
        other => panic!("{aggregation}: {other}"),
    };
    assert_eq!(found.join(" "), expect, "{aggregation}");
}

fn refused(aggregation: &Value, reason: &str) {
    let error = failure(&json!({"aggs": {"x": aggregation}}));
    assert_eq!(error.reason(), reason, "{aggregation}");
}

#[test]
fn ranges() {
    let of = |field: &str, ranges: Value| json!({"range": {"field": field, "ranges": ranges}});
    check_counts(
        &of(
            "status",
            json!([{"from": 400}, {"to": 300}, {"from": 404, "to": 500}, {"from": 201, "to": 201}]),
        ),
        "*-300.0:2 201.0-201.0:0 400.0-*:2 404.0-500.0:1",
    );
    // Two values of one document in one range count once; 2^53 + 1 is not rounded.
    check_counts(
        &of(
            "size",
            json!([{"from": 9007199254740993_i64}, {"to": 0}, {"from": 0, "to": 10}]),
        ),
        "*-0.0:1 0.0-10.0:1 9.007199254740992E15-*:1",
    );
    check_counts(&of("price", json!([{"to": 10}, {"from": 10}])), "*-10.0:1 10.0-*:1");
    check_counts(&of("small", json!([{"from": 0.1, "to": 1}])), "0.1-1.0:1");
    check_counts(&of("unmapped", json!([{"to": 10}])), "*-10.0:0");
    check_counts(
        &json!({"range": {"field": "ratio", "missing": 100, "keyed": true, "ranges": [{"from": 50, "key": "high"}, {"to": 0}]}}),
        "*-0.0:1 high:2",
    );
    check(
        &json!({
            "range": {"field": "status", "ranges": [{"from": 400, "key": "bad"}]},
            "aggs": {"hosts": {"cardinality": {"field": "host.name"}}}
        }),
        &json!({"buckets": [{"key": "bad", "from": 400.0, "doc_count": 2, "hosts": {"value": 3}}]}),
    );
    refused(
        &of("host.name", json!([{"to": 1}])),
        "Field [host.name] of type [keyword] is not supported for aggregation [range]",
    );
}

#[test]
fn date_ranges() {
    check(
        &json!({"date_range": {"field": "@timestamp", "format": "yyyy-MM-dd", "time_zone": "+02:00", "ranges": [
            {"from": "now-1d/d", "to": "now/d"}, {"to": "2024-06-01||/M", "key": "old"}, {"from": "2024-06-15"}
        ]}}),
        &json!({"buckets": [
            {"key": "old", "to": 1717192800000.0, "to_as_string": "2024-06-01", "doc_count": 1},
            {"key": "2024-06-14-2024-06-15", "from": 1718316000000.0, "from_as_string": "2024-06-14",
             "to": 1718402400000.0, "to_as_string": "2024-06-15", "doc_count": 0},
            {"key": "2024-06-15-*", "from": 1718402400000.0, "from_as_string": "2024-06-15", "doc_count": 3}
        ]}),
    );
    check_counts(
        &json!({"date_range": {"field": "nanos", "missing": "2020-01-01", "ranges": [{"to": "2021"}, {"from": "2024"}]}}),
        "*-2021-01-01T00:00:00.000Z:4 2024-01-01T00:00:00.000Z-*:1",
    );
    check_counts(
        &json!({"date_range": {"field": "unmapped", "ranges": [{"to": "2021"}]}}),
        "*-2021-01-01T00:00:00.000Z:0",
    );
    refused(
        &json!({"date_range": {"field": "host.name", "ranges": [{"to": "now"}]}}),
        "Field [host.name] of type [keyword] is not supported for aggregation [date_range]",
    );
}

#[test]
fn ip_ranges() {
    check_counts(
        &json!({"ip_range": {"field": "host.ip", "ranges": [
            {"mask": "10.0.0.0/24"}, {"from": "10.0.0.2"}, {"to": "10.0.1.7"}, {"mask": "2001:db8::/32"}
        ]}}),
        "*-10.0.1.7:2 10.0.0.0/24:2 10.0.0.2-*:3 2001:db8::/32:1",
    );
    check_counts(
        &json!({"ip_range": {"field": "host.ip", "missing": "10.0.0.9", "ranges": [{"mask": "10.0.0.8/29"}]}}),
        "10.0.0.8/29:1",
    );
    refused(
        &json!({"ip_range": {"field": "host.name", "ranges": [{"to": "10.0.0.1"}]}}),
        "Field [host.name] of type [keyword] is not supported for aggregation [ip_range]",
    );
}

#[test]
fn histograms() {
    let of = |more: Value| {
        let mut body = json!({"field": "status", "interval": 100});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"histogram": body})
    };
    check_counts(&of(json!({})), "200.0:2 300.0:0 400.0:1 500.0:1");
    check_counts(&of(json!({"offset": 4, "min_doc_count": 1})), "104.0:2 404.0:2");
    check_counts(
        &of(json!({"missing": 10, "min_doc_count": 1})),
        "0.0:1 200.0:2 400.0:1 500.0:1",
    );
    check_counts(&of(json!({"hard_bounds": {"min": 300, "max": 400}})), "400.0:1");
    check_counts(
        &of(json!({"hard_bounds": {"max": 200}, "extended_bounds": {"min": 0, "max": 10}, "keyed": true})),
        "0.0:0 100.0:0 200.0:2",
    );
    check_counts(
        &json!({"histogram": {"field": "size", "interval": 1, "min_doc_count": 1}}),
        "-5.0:1 0.0:1 10.0:2 9007199254740992.0:1",
    );
    check_counts(
        &json!({"histogram": {"field": "ratio", "interval": 0.5, "min_doc_count": 1}}),
        "-1.5:1 0.5:1 3.0:1",
    );
    check_counts(&json!({"histogram": {"field": "unmapped", "interval": 0.5}}), "");
    check(
        &json!({
            "histogram": {"field": "@timestamp", "interval": 864000000_i64, "min_doc_count": 1, "order": {"m": "desc"}},
            "aggs": {"m": {"max": {"field": "status"}}}
        }),
        &json!({"buckets": [
            {"key_as_string": "2024-06-06T00:00:00.000Z", "key": 1717632000000.0, "doc_count": 3, "m": {"value": 503.0}},
            {"key_as_string": "2024-05-27T00:00:00.000Z", "key": 1716768000000.0, "doc_count": 1, "m": {"value": 201.0}}
        ]}),
    );
    refused(
        &json!({"histogram": {"field": "host.name", "interval": 1}}),
        "Field [host.name] of type [keyword] is not supported for aggregation [histogram]",
    );
}

#[test]
fn too_many_buckets_are_refused_early() {
    let error = failure(&json!({"aggs": {"x": {"histogram": {"field": "size", "interval": 0.0001}}}}));
    assert_eq!(error.kind(), firn_model::ErrorKind::TooManyBuckets);
}

#[test]
fn filters_by_name_and_place() {
    let named = json!({"fox": {"match": {"message": "fox"}}, "bad": {"range": {"status": {"gte": 400}}}});
    check_counts(&json!({"filters": {"filters": named}}), "bad:2 fox:3");
    check_counts(
        &json!({"filters": {"filters": named, "other_bucket_key": "rest", "keyed": false}}),
        "bad:2 fox:3 rest:2",
    );
    check(
        &json!({
            "filters": {"filters": [{"term": {"ok": true}}, {"match_all": {}}], "other_bucket": true},
            "aggs": {"s": {"max": {"field": "status"}}}
        }),
        &json!({"buckets": [
            {"doc_count": 2, "s": {"value": 503.0}}, {"doc_count": 5, "s": {"value": 503.0}},
            {"doc_count": 0, "s": {"value": null}}
        ]}),
    );
    // Under a parent with several values, the same document occurs twice.
    check(
        &json!({
            "terms": {"field": "labels.team"},
            "aggs": {"f": {"filters": {"filters": {"small": {"range": {"size": {"lte": 10}}}}}}}
        }),
        &json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": 0, "buckets": [
            {"key": "blue", "doc_count": 2, "f": {"buckets": {"small": {"doc_count": 2}}}},
            {"key": "red", "doc_count": 2, "f": {"buckets": {"small": {"doc_count": 2}}}}
        ]}),
    );
}

#[test]
fn missing_values() {
    check(&json!({"missing": {"field": "ok"}}), &json!({"doc_count": 2}));
    check(&json!({"missing": {"field": "labels.team"}}), &json!({"doc_count": 2}));
    check(&json!({"missing": {"field": "unmapped"}}), &json!({"doc_count": 5}));
    check(&json!({"missing": {"field": "env"}}), &json!({"doc_count": 0}));
    check(
        &json!({"missing": {"field": "ok", "missing": false}}),
        &json!({"doc_count": 0}),
    );
    check(
        &json!({
            "terms": {"field": "host.name", "size": 1, "order": {"none": "desc"}},
            "aggs": {"none": {"missing": {"field": "ok"}, "aggs": {"m": {"max": {"field": "size"}}}}}
        }),
        &json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": 4, "buckets": [
            {"key": "WEB-1", "doc_count": 1, "none": {"doc_count": 1, "m": {"value": 0.0}}}
        ]}),
    );
}
