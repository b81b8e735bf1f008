//! Tests of the answers of single aggregations.

use firn_model::ErrorKind;
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

/// Checks `key: count` of each bucket of a `terms`.
fn check_terms(terms: &Value, expect: &str) {
    let body = json!({"size": 0, "aggs": {"x": {"terms": terms}}});
    for ready in [shard().ready(), {
        let mut one = Shard::new(&mapping());
        one.segment(&documents(), &[]);
        one.ready()
    }] {
        let answer = run(vec![ready], &body).unwrap().aggregations.unwrap();
        let buckets: Vec<String> = answer["x"]["buckets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|bucket| {
                let key = match &bucket["key_as_string"] {
                    Value::String(text) => text.clone(),
                    _ => bucket["key"]
                        .as_str()
                        .map_or_else(|| bucket["key"].to_string(), str::to_owned),
                };
                format!("{key}:{}", bucket["doc_count"])
            })
            .collect();
        let other = &answer["x"]["sum_other_doc_count"];
        let mut found = buckets.join(" ");
        if other != &json!(0) {
            found.push_str(&format!(" +{other}"));
        }
        assert_eq!(found, expect, "{terms}");
    }
}

#[test]
fn terms() {
    check_terms(&json!({"field": "host.name"}), "WEB-1:1 db-1:1 db-2:1 web-1:1 web-2:1");
    check_terms(&json!({"field": "host.name", "size": 2}), "WEB-1:1 db-1:1 +3");
    check_terms(
        &json!({"field": "host.name", "order": {"_key": "desc"}, "size": 2}),
        "web-2:1 web-1:1 +3",
    );
    check_terms(&json!({"field": "labels.team"}), "blue:2 red:2");
    check_terms(
        &json!({"field": "host.ip"}),
        "10.0.0.1:2 10.0.1.7:1 192.168.0.1:1 2001:db8::1:1",
    );
    check_terms(&json!({"field": "status"}), "200:1 201:1 404:1 500:1 503:1");
    check_terms(
        &json!({"field": "status", "missing": 404}),
        "404:2 200:1 201:1 500:1 503:1",
    );
    check_terms(
        &json!({"field": "host.name", "missing": "none", "include": "n.*|web.*"}),
        "none:1 web-1:1 web-2:1",
    );
    check_terms(
        &json!({"field": "host.name", "exclude": ["web-1", "db-1"]}),
        "WEB-1:1 db-2:1 web-2:1",
    );
    check_terms(&json!({"field": "status", "include": [200, 500]}), "200:1 500:1");
    check_terms(&json!({"field": "ok"}), "true:2 false:1");
    check_terms(&json!({"field": "price"}), "9.99:1 10.0:1");
    check_terms(&json!({"field": "size"}), "10:2 -5:1 0:1 9007199254740993:1");
    check_terms(&json!({"field": "big"}), "1:1 18446744073709551615:1");
    check_terms(&json!({"field": "nanos"}), "2024-06-15T10:00:00.000Z:1");
    check_terms(&json!({"field": "env"}), "prod:5");
    check_terms(&json!({"field": "_index"}), "test:5");
    check_terms(&json!({"field": "unmapped"}), "");
    check_terms(&json!({"field": "unmapped", "missing": "x"}), "x:5");
    let error = failure(&json!({"aggs": {"x": {"terms": {"field": "message"}}}}));
    assert_eq!(error.kind(), ErrorKind::IllegalArgument);
    assert!(
        error.reason().starts_with("Fielddata is disabled on [message]"),
        "{error}"
    );
}

#[test]
fn terms_of_no_document() {
    let check = |query: Value, terms: Value, expect: &str| {
        let body = json!({"size": 0, "query": query, "aggs": {"x": {"terms": terms}}});
        let answer = run(vec![shard().ready()], &body).unwrap().aggregations.unwrap();
        let buckets = answer["x"]["buckets"].as_array().unwrap().iter();
        let found: Vec<String> = buckets
            .map(|bucket| format!("{}:{}", bucket["key"], bucket["doc_count"]))
            .collect();
        assert_eq!(found.join(" "), expect, "{query} {terms}");
    };
    let one = json!({"term": {"id": "a"}});
    let none = json!({"range": {"@timestamp": {"lt": "1980-01-01"}}});
    check(one.clone(), json!({"field": "ok", "min_doc_count": 0}), "1:1 0:0");
    check(
        one.clone(),
        json!({"field": "status", "min_doc_count": 0}),
        "200:1 201:0 404:0 500:0 503:0",
    );
    check(
        one,
        json!({"field": "labels.team", "min_doc_count": 0}),
        r#""red":1 "blue":0"#,
    );
    // Segments without possible matches have values, too.
    check(
        none.clone(),
        json!({"field": "labels.team", "min_doc_count": 0}),
        r#""blue":0 "red":0"#,
    );
    check(
        json!({"match_none": {}}),
        json!({"field": "size", "min_doc_count": 0}),
        "-5:0 0:0 10:0 9007199254740993:0",
    );
    check(none, json!({"field": "labels.team"}), "");
}

#[test]
fn terms_by_partition() {
    for field in ["host.name", "status", "host.ip", "ratio", "@timestamp"] {
        let keys = |include: Value| -> Vec<String> {
            let terms = json!({"field": field, "size": 100, "order": {"_key": "asc"}, "include": include});
            let mut body = json!({"size": 0, "aggs": {"x": {"terms": terms}}});
            if body["aggs"]["x"]["terms"]["include"].is_null() {
                body["aggs"]["x"]["terms"].as_object_mut().unwrap().remove("include");
            }
            let answer = run(vec![shard().ready()], &body).unwrap().aggregations.unwrap();
            let buckets = answer["x"]["buckets"].as_array().unwrap().iter();
            buckets.map(|bucket| bucket["key"].to_string()).collect()
        };
        let mut parts: Vec<String> = (0..3)
            .flat_map(|part| keys(json!({"partition": part, "num_partitions": 3})))
            .collect();
        let mut all = keys(Value::Null);
        parts.sort();
        all.sort();
        assert_eq!(parts, all, "{field}");
    }
}

#[test]
fn shards_report_no_rare_terms_if_requested() {
    let shards = || {
        let mut left = Shard::named("test", 0, &mapping());
        left.segment(&documents()[..2], &[]).segment(&documents()[2..3], &[]);
        let mut right = Shard::named("test", 1, &mapping());
        right.segment(&documents()[3..], &[]);
        vec![left.ready(), right.ready()]
    };
    let body = |least: u64| json!({"size": 0, "aggs": {"x": {"terms": {"field": "ok", "shard_min_doc_count": least}}}});
    let counts = |least| run(shards(), &body(least)).unwrap().aggregations.unwrap()["x"]["buckets"].clone();
    assert_eq!(counts(2), json!([{"key": 1, "key_as_string": "true", "doc_count": 2}]));
    assert_eq!(counts(1).as_array().unwrap().len(), 2);
}

#[test]
fn terms_with_aggregations_below() {
    check(
        &json!({
            "terms": {"field": "labels.team", "order": {"most": "desc"}},
            "aggs": {"most": {"max": {"field": "size"}}, "hosts": {"cardinality": {"field": "host.ip"}}}
        }),
        &json!({
            "doc_count_error_upper_bound": 0, "sum_other_doc_count": 0,
            "buckets": [
                {"key": "blue", "doc_count": 2, "most": {"value": 10.0}, "hosts": {"value": 3}},
                {"key": "red", "doc_count": 2, "most": {"value": 10.0}, "hosts": {"value": 2}}
            ]
        }),
    );
}

#[test]
fn date_histograms() {
    check(
        &json!({"date_histogram": {"field": "@timestamp", "calendar_interval": "month"}}),
        &json!({"buckets": [
            {"key_as_string": "2024-05-01T00:00:00.000Z", "key": 1714521600000i64, "doc_count": 1},
            {"key_as_string": "2024-06-01T00:00:00.000Z", "key": 1717200000000i64, "doc_count": 3}
        ]}),
    );
    check(
        &json!({
            "date_histogram": {
                "field": "@timestamp", "fixed_interval": "12h", "min_doc_count": 1, "format": "dd HH:mm",
                "time_zone": "+01:00", "hard_bounds": {"min": 1717200000000i64, "max": 1800000000000i64}
            },
            "aggs": {"status": {"terms": {"field": "status", "size": 1}}}
        }),
        &json!({"buckets": [
            {"key_as_string": "15 00:00", "key": 1718406000000i64, "doc_count": 2, "status": {
                "doc_count_error_upper_bound": 0, "sum_other_doc_count": 2, "buckets": [{"key": 200, "doc_count": 1}]
            }},
            {"key_as_string": "15 12:00", "key": 1718449200000i64, "doc_count": 1, "status": {
                "doc_count_error_upper_bound": 0, "sum_other_doc_count": 0, "buckets": [{"key": 404, "doc_count": 1}]
            }}
        ]}),
    );
    let unmapped = json!({"date_histogram": {"field": "nope", "fixed_interval": "1d"}});
    check(&unmapped, &json!({"buckets": []}));
}

#[test]
fn metrics() {
    check(&json!({"min": {"field": "status"}}), &json!({"value": 200.0}));
    check(&json!({"max": {"field": "price"}}), &json!({"value": 10.0}));
    check(&json!({"sum": {"field": "status"}}), &json!({"value": 1808.0}));
    check(&json!({"avg": {"field": "ratio"}}), &json!({"value": 0.75}));
    check(
        &json!({"avg": {"field": "ratio", "missing": 0}}),
        &json!({"value": 0.45}),
    );
    check(&json!({"value_count": {"field": "host.name"}}), &json!({"value": 5}));
    check(&json!({"value_count": {"field": "status"}}), &json!({"value": 5}));
    check(&json!({"max": {"field": "unmapped"}}), &json!({"value": null}));
    check(
        &json!({"max": {"field": "@timestamp"}}),
        &json!({"value": 1718449200000.0, "value_as_string": "2024-06-15T11:00:00.000Z"}),
    );
    check(
        &json!({"stats": {"field": "status"}}),
        &json!({"count": 5, "min": 200.0, "max": 503.0, "avg": 361.6, "sum": 1808.0}),
    );
    let error = failure(&json!({"aggs": {"x": {"avg": {"field": "host.name"}}}}));
    assert_eq!(
        error.reason(),
        "Field [host.name] of type [keyword] is not supported for aggregation [avg]"
    );
}

#[test]
fn cardinalities() {
    check(&json!({"cardinality": {"field": "host.name"}}), &json!({"value": 5}));
    check(
        &json!({"cardinality": {"field": "host.name", "missing": "web-1"}}),
        &json!({"value": 5}),
    );
    check(&json!({"cardinality": {"field": "host.ip"}}), &json!({"value": 4}));
    check(&json!({"cardinality": {"field": "status"}}), &json!({"value": 5}));
    check(&json!({"cardinality": {"field": "ok"}}), &json!({"value": 2}));
    check(
        &json!({"cardinality": {"field": "ok", "missing": true}}),
        &json!({"value": 2}),
    );
    check(&json!({"cardinality": {"field": "env"}}), &json!({"value": 1}));
    check(&json!({"cardinality": {"field": "unmapped"}}), &json!({"value": 0}));
}

#[test]
fn filters() {
    check(
        &json!({"filter": {"match": {"message": "fox"}}, "aggs": {"m": {"max": {"field": "status"}}}}),
        &json!({"doc_count": 3, "m": {"value": 503.0}}),
    );
    check(
        &json!({
            "terms": {"field": "ok"},
            "aggs": {"errors": {"filter": {"range": {"status": {"gte": 400}}}, "aggs": {"n": {"value_count": {"field": "status"}}}}}
        }),
        &json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": 0, "buckets": [
            {"key": 1, "key_as_string": "true", "doc_count": 2, "errors": {"doc_count": 1, "n": {"value": 2}}},
            {"key": 0, "key_as_string": "false", "doc_count": 1, "errors": {"doc_count": 1, "n": {"value": 1}}}
        ]}),
    );
}

/// Three positions in a block, the last two of one document: their ends look like a run of documents.
#[test]
fn documents_in_several_buckets_keep_their_values() {
    let documents = [
        json!({"size": 1, "host": {"name": "x"}}),
        json!({"size": 10}),
        json!({"size": 100, "host": {"name": ["y", "z"]}}),
    ];
    let mut shard = Shard::new(&mapping());
    shard.segment(&documents, &[]);
    let metrics = json!({"sum": {"sum": {"field": "size"}}, "max": {"extended_stats": {"field": "size"}}});
    let body = json!({"size": 0, "aggs": {"x": {"terms": {"field": "host.name"}, "aggs": metrics}}});
    let answer = run(vec![shard.ready()], &body).unwrap().aggregations.unwrap();
    let buckets = answer["x"]["buckets"].as_array().unwrap().iter();
    let found: Vec<_> = buckets
        .map(|bucket| (bucket["sum"]["value"].as_f64(), bucket["max"]["max"].as_f64()))
        .collect();
    let expect: Vec<_> = [1.0, 100.0, 100.0]
        .iter()
        .map(|&value| (Some(value), Some(value)))
        .collect();
    assert_eq!(found, expect);
}
