//! Tests of metrics and pipelines over segments and shards.

use firn_model::ErrorKind;
use serde_json::{Value, json};

use super::support::{Shard, documents, failure, mapping, run, shard};

/// Checks the answer of one aggregation: over two segments, over one, and over a shard per document.
fn check(aggregation: &Value, expect: &Value) {
    let body = json!({"size": 0, "aggs": {"x": aggregation}});
    let documents = documents();
    let one = {
        let mut one = Shard::new(&mapping());
        one.segment(&documents, &[]);
        vec![one.ready()]
    };
    let many = documents.iter().enumerate().map(|(number, document)| {
        let mut shard = Shard::named("test", number as u32, &mapping());
        shard.segment(std::slice::from_ref(document), &[]);
        shard.ready()
    });
    for shards in [vec![shard().ready()], one, many.collect()] {
        let answer = run(shards, &body).unwrap().aggregations.unwrap();
        assert_eq!(&answer["x"], expect, "{aggregation}");
    }
}

/// Checks that an aggregation is rejected for this reason.
fn check_refused(aggregation: &Value, reason: &str) {
    let error = failure(&json!({"aggs": {"x": aggregation}}));
    assert_eq!(error.reason(), reason, "{aggregation}");
}

#[test]
fn extended_stats() {
    // -1.25, 0.5, 3
    let answer = |more: Value| {
        let mut body = json!({"field": "ratio"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = json!({"size": 0, "aggs": {"x": {"extended_stats": body}}});
        run(vec![shard().ready()], &body).unwrap().aggregations.unwrap()["x"].clone()
    };
    let plain = answer(json!({}));
    assert_eq!(
        (&plain["count"], &plain["sum"], &plain["sum_of_squares"]),
        (&json!(3), &json!(2.25), &json!(10.8125))
    );
    assert_eq!(plain["variance_sampling"], json!((10.8125 - 2.25 * 2.25 / 3.0) / 2.0));
    assert_eq!(answer(json!({"missing": 1}))["count"], 5);
    assert_eq!(answer(json!({"format": "0.0"}))["min_as_string"], "-1.2");
    check_refused(
        &json!({"extended_stats": {"field": "host.name"}}),
        "Field [host.name] of type [keyword] is not supported for aggregation [extended_stats]",
    );
}

#[test]
fn dates_of_nanoseconds_are_counted_like_in_terms() {
    let at = |fraction: &str| json!({"id": fraction, "nanos": format!("2024-06-15T10:00:00.{fraction}Z")});
    let documents = ["123456789", "123999999", "124"].map(at);
    let body = json!({"size": 0, "aggs": {
        "terms": {"terms": {"field": "nanos"}},
        "all": {"cardinality": {"field": "nanos"}},
        "missing": {"cardinality": {"field": "nanos", "missing": "2024-06-15T10:00:00.124Z"}},
        // Not of whole segments, and not of a first bucket.
        "some": {"filters": {"filters": [{"term": {"id": "124"}}, {"exists": {"field": "nanos"}}]}, "aggs": {
            "n": {"cardinality": {"field": "nanos"}},
        }},
    }});
    let mut one = Shard::new(&mapping());
    one.segment(&documents, &[]);
    let mut two = Shard::new(&mapping());
    two.segment(&documents[..1], &[]);
    two.segment(&documents[1..], &[]);
    for shard in [one, two] {
        let answer = run(vec![shard.ready()], &body).unwrap().aggregations.unwrap();
        assert_eq!(answer["terms"]["buckets"].as_array().unwrap().len(), 2, "{answer}");
        let some = &answer["some"]["buckets"];
        let counts = [&answer["all"], &answer["missing"], &some[1]["n"], &some[0]["n"]].map(|n| n["value"].clone());
        assert_eq!(counts, [2, 2, 2, 1].map(|n| json!(n)));
    }
}

#[test]
fn ranks() {
    // status: 200, 404, 500, 503, 201
    check(
        &json!({"percentiles": {"field": "status", "percents": [0, 25, 50, 100]}}),
        &json!({"values": {"0.0": 200.0, "25.0": 201.0, "50.0": 404.0, "100.0": 503.0}}),
    );
    check(
        &json!({"percentiles": {"field": "status", "percents": [50], "missing": 100, "keyed": false, "format": "0.00"}}),
        &json!({"values": [{"key": 50.0, "value": 302.5, "value_as_string": "302.50"}]}),
    );
    check(
        &json!({"percentiles": {"field": "nanos", "percents": [50]}}),
        &json!({"values": {"50.0": 1_718_445_600_000.0, "50.0_as_string": "2024-06-15T10:00:00.000Z"}}),
    );
    check(
        &json!({"percentiles": {"field": "unmapped", "percents": [50]}}),
        &json!({"values": {"50.0": null}}),
    );
    check(
        &json!({"percentile_ranks": {"field": "status", "values": [404, 199, 600]}}),
        &json!({"values": {"199.0": 0.0, "404.0": 50.0, "600.0": 100.0}}),
    );
    check(
        &json!({"median_absolute_deviation": {"field": "status"}}),
        &json!({"value": 99.0}),
    );
    check(
        &json!({"boxplot": {"field": "status"}}),
        &json!({"min": 200.0, "max": 503.0, "q1": 201.0, "q2": 404.0, "q3": 500.0, "lower": 200.0, "upper": 503.0}),
    );
    check_refused(
        &json!({"percentiles": {"field": "host.name"}}),
        "Field [host.name] of type [keyword] is not supported for aggregation [percentiles]",
    );
}

#[test]
fn weighted_avg() {
    // ratio and size: (0.5, 10), (-1.25, -5), (3, 9007199254740993), (-, 0), (-, 10)
    check(
        &json!({"weighted_avg": {"value": {"field": "price"}, "weight": {"field": "size"}, "format": "0.0"}}),
        &json!({"value": 9.98, "value_as_string": "10.0"}),
    );
    check(
        &json!({"weighted_avg": {"value": {"field": "price", "missing": 1}, "weight": {"field": "small", "missing": 0}}}),
        &json!({"value": (9.99 * f64::from(0.1_f32) + 25.0) / (f64::from(0.1_f32) + 2.5)}),
    );
    check(
        &json!({"weighted_avg": {"value": {"field": "unmapped"}, "weight": {"field": "size"}}}),
        &json!({"value": null}),
    );
    check_refused(
        &json!({"weighted_avg": {"value": {"field": "size"}, "weight": {"field": "status"}}}),
        "Encountered more than one weight for a single document. Use a script to combine multiple weights-per-doc into a \
         single value.",
    );
}

#[test]
fn string_stats() {
    // web-1, web-2, db-1, db-2, WEB-1
    let lengths = |field: &str, more: Value| {
        let mut body = json!({"field": field});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = json!({"size": 0, "aggs": {"x": {"string_stats": body}}});
        let answer = run(vec![shard().ready()], &body).unwrap().aggregations.unwrap();
        let part = |name: &str| answer["x"][name].clone();
        [
            part("count"),
            part("min_length"),
            part("max_length"),
            part("avg_length"),
        ]
    };
    let expect = |values: [Value; 4]| values;
    assert_eq!(
        lengths("host.name", json!({})),
        expect([json!(5), json!(4), json!(5), json!(4.6)])
    );
    assert_eq!(
        lengths("host.name", json!({"missing": "12"})),
        expect([json!(6), json!(2), json!(5), json!(25.0 / 6.0)])
    );
    assert_eq!(lengths("host.ip", json!({}))[2], json!(11));
    assert_eq!(
        lengths("env", json!({})),
        expect([json!(5), json!(4), json!(4), json!(4.0)])
    );
    assert_eq!(lengths("unmapped", json!({}))[0], json!(0));
    check(
        &json!({"string_stats": {"field": "hidden", "show_distribution": true}}),
        &json!({
            "count": 2, "min_length": 1, "max_length": 1, "avg_length": 1.0, "entropy": 1.0,
            "distribution": {"x": 0.5, "y": 0.5}
        }),
    );
    check_refused(
        &json!({"string_stats": {"field": "size"}}),
        "Field [size] of type [long] is not supported for aggregation [string_stats]",
    );
}

#[test]
fn top_metrics() {
    check(
        &json!({"top_metrics": {
            "metrics": [{"field": "size"}, {"field": "host.name"}, {"field": "ok"}], "sort": {"@timestamp": "desc"}, "size": 3
        }}),
        &json!({"top": [
            {"sort": ["2024-06-15T11:00:00.000Z"], "metrics": {"size": -5, "host.name": "web-2", "ok": "false"}},
            {"sort": ["2024-06-15T10:00:00.000Z"], "metrics": {"size": 10, "host.name": "web-1", "ok": "true"}},
            {
                "sort": ["2024-06-14T23:30:00.000Z"],
                "metrics": {"size": 9_007_199_254_740_993_i64, "host.name": "db-1", "ok": "true"}
            }
        ]}),
    );
    check(
        &json!({"top_metrics": {"metrics": {"field": "host.ip"}, "sort": "status"}}),
        &json!({"top": [{"sort": [200], "metrics": {"host.ip": "10.0.0.1"}}]}),
    );
    check(
        &json!({"top_metrics": {"metrics": {"field": "size"}, "sort": "unmapped"}}),
        &json!({"top": []}),
    );
    check(
        &json!({"top_metrics": {"metrics": {"field": "size"}, "sort": {"_score": "desc"}}}),
        &json!({"top": [{"sort": [1.0], "metrics": {"size": -5}}]}),
    );
}

#[test]
fn metrics_order_terms() {
    let order = |by: &str, metric: Value| {
        let body = json!({"size": 0, "aggs": {"x": {
            "terms": {"field": "labels.team", "order": {by: "desc"}}, "aggs": {"m": metric}
        }}});
        let answer = run(vec![shard().ready()], &body).unwrap().aggregations.unwrap();
        let buckets = answer["x"]["buckets"].as_array().unwrap();
        buckets
            .iter()
            .map(|bucket| bucket["key"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
            .concat()
    };
    // red: 200 and 201; blue: 404 and 201
    let status = |kind: &str| json!({ kind: {"field": "status"} });
    assert_eq!(order("m.variance", status("extended_stats")), "bluered");
    assert_eq!(order("m.99", status("percentiles")), "bluered");
    assert_eq!(order("m[1.0]", status("percentiles")), "bluered");
    assert_eq!(
        order("m", json!({"median_absolute_deviation": {"field": "status"}})),
        "bluered"
    );
    assert_eq!(order("m.q1", status("boxplot")), "bluered");
    assert_eq!(
        order("m.avg_length", json!({"string_stats": {"field": "lower"}})),
        "redblue"
    );
    assert_eq!(
        order(
            "m[size]",
            json!({"top_metrics": {"metrics": {"field": "size"}, "sort": {"status": "desc"}}})
        ),
        "redblue"
    );
    check_refused(
        &json!({"terms": {"field": "status", "order": {"m.98": "asc"}}, "aggs": {"m": status("percentiles")}}),
        "Invalid aggregator order path [m.98]. [98] of aggregation [m] cannot be used to sort the buckets.",
    );
}

#[test]
fn numbers_print_by_patterns() {
    let first = |aggregation: Value| {
        let body = json!({"size": 0, "aggs": {"x": aggregation}});
        run(vec![shard().ready()], &body).unwrap().aggregations.unwrap()["x"].clone()
    };
    let bucket = |field: &str, format: &str, size: usize| {
        let terms = json!({"terms": {"field": field, "format": format, "order": {"_key": "desc"}, "size": size}});
        first(terms)["buckets"][size - 1].clone()
    };
    assert_eq!(
        bucket("size", "#,##0.00", 1),
        json!({"key": 9_007_199_254_740_993_i64, "key_as_string": "9,007,199,254,740,993.00", "doc_count": 1})
    );
    assert_eq!(
        bucket("big", "0.0", 1),
        json!({"key": 18_446_744_073_709_551_615_u64, "key_as_string": "18446744073709551615.0", "doc_count": 1})
    );
    assert_eq!(
        bucket("price", "$0.0", 2),
        json!({"key": 9.99, "key_as_string": "$10.0", "doc_count": 1})
    );
    assert_eq!(
        first(json!({"min": {"field": "price", "format": "0.000"}})),
        json!({"value": 9.99, "value_as_string": "9.990"})
    );
    assert_eq!(
        first(json!({"sum": {"field": "status", "format": "0.0E0"}})),
        json!({"value": 1808.0, "value_as_string": "1.8E3"})
    );
    let histogram =
        first(json!({"histogram": {"field": "status", "interval": 100, "format": "0.0", "min_doc_count": 1}}));
    assert_eq!(
        histogram["buckets"][0],
        json!({"key": 200.0, "key_as_string": "200.0", "doc_count": 2})
    );
    // Elasticsearch prints several booleans as JSON, a single one as a word.
    assert_eq!(first(json!({"stats": {"field": "ok"}}))["avg_as_string"], true);
    assert_eq!(
        first(json!({"max": {"field": "ok"}})),
        json!({"value": 1.0, "value_as_string": "true"})
    );
    check_refused(
        &json!({"avg": {"field": "price", "format": "0.0.0"}}),
        "Malformed pattern \"0.0.0\"",
    );
    check_refused(
        &json!({"avg": {"field": "ok", "format": "0"}}),
        "Field type [boolean] does not support custom formats",
    );
}

#[test]
fn pipelines_see_the_whole() {
    check(
        &json!({
            "histogram": {"field": "status", "interval": 100},
            "aggs": {
                "hosts": {"cardinality": {"field": "host.ip"}},
                "so_far": {"cumulative_sum": {"buckets_path": "_count"}},
                "per_host": {"bucket_script": {"buckets_path": {"n": "_count", "h": "hosts"}, "script": "params.n / params.h"}},
                "most": {"bucket_sort": {"sort": [{"so_far": "desc"}], "size": 2}}
            }
        }),
        &json!({"buckets": [
            {"key": 500.0, "doc_count": 1, "hosts": {"value": 1}, "so_far": {"value": 4.0}, "per_host": {"value": 1.0}},
            {"key": 400.0, "doc_count": 1, "hosts": {"value": 1}, "so_far": {"value": 3.0}, "per_host": {"value": 1.0}}
        ]}),
    );
    let body = json!({"size": 0, "aggs": {
        "teams": {
            "terms": {"field": "labels.team"},
            "aggs": {"all": {"filter": {"exists": {"field": "size"}}, "aggs": {"p": {"percentiles": {"field": "size"}}}}}
        },
        "top": {"max_bucket": {"buckets_path": "teams>all>p.99"}},
        "red": {"avg_bucket": {"buckets_path": "teams>all._count"}}
    }});
    let answer = run(vec![shard().ready()], &body).unwrap().aggregations.unwrap();
    assert_eq!(answer["top"], json!({"value": 10.0, "keys": ["red"]}));
    assert_eq!(answer["red"], json!({"value": 2.0}));
}

#[test]
fn scripts_fail_with_their_place() {
    let error = failure(
        &json!({"aggs": {"x": {"terms": {"field": "status"}, "aggs": {"s": {"bucket_selector": {
            "buckets_path": {"n": "_count"}, "script": "params.m > 1"
        }}}}}}),
    );
    assert_eq!(error.kind(), ErrorKind::Script);
    // The position of the dot, as in Painless.
    assert_eq!(error.details().unwrap()["position"]["offset"], 6);
}
