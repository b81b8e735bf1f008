//! Tests of aggregations with a second run over a shard (samples, significance), and of the matrix of filters.

use serde_json::{Value, json};

use super::support::{Shard, documents, failure, mapping, run, shard};
use crate::ShardSearch;

fn check(shards: Vec<ShardSearch>, query: &Value, aggregation: &Value, expect: &Value) {
    let body = json!({"size": 0, "query": query, "aggs": {"x": aggregation}});
    let answer = run(shards, &body).unwrap().aggregations.unwrap();
    assert_eq!(&answer["x"], expect, "{query} {aggregation}");
}

/// Returns documents of 20 words with a group and a value, in the given number of segments.
fn words(segments: usize) -> ShardSearch {
    let mut shard = Shard::new(&mapping());
    let all: Vec<Value> = (0..60_usize)
        .map(|number| {
            json!({
                "id": format!("{number:02}"), "message": "fox ".repeat(1 + number % 5).trim(),
                "lower": format!("g{}", number % 3), "status": number % 7, "size": number,
                "@timestamp": format!("2024-0{}-01", 1 + number / 20),
                "hidden": if number % 3 == 0 { format!("h{}", number % 2) } else { "usual".to_owned() },
            })
        })
        .collect();
    for part in all.chunks(60_usize.div_ceil(segments)) {
        shard.segment(part, &[]);
    }
    shard.ready()
}

#[test]
fn samplers_take_the_best_of_a_shard_in_any_segments() {
    let aggregation = json!({
        "sampler": {"shard_size": 5},
        "aggs": {"least": {"min": {"field": "size"}}, "n": {"value_count": {"field": "size"}},
                 "groups": {"terms": {"field": "lower"}}}
    });
    // The longest messages score highest here; those with equal scores are in index order.
    let query = json!({"match": {"message": "fox"}});
    let whole = {
        let body = json!({"size": 5, "query": query, "_source": false, "docvalue_fields": ["size"]});
        let response = run(vec![words(1)], &body).unwrap();
        let ids = response.hits.iter().map(|hit| hit.id.clone());
        ids.collect::<Vec<_>>()
    };
    let least = whole
        .iter()
        .map(|id| id.parse::<f64>().unwrap())
        .fold(f64::INFINITY, f64::min);
    for segments in [1, 2, 7] {
        let body = json!({"size": 0, "query": query, "aggs": {"x": aggregation}});
        let answer = run(vec![words(segments)], &body).unwrap().aggregations.unwrap();
        assert_eq!(answer["x"]["doc_count"], 5, "{segments}");
        assert_eq!(answer["x"]["n"]["value"], 5, "{segments}");
        assert_eq!(answer["x"]["least"]["value"], json!(least), "{segments}");
    }
    // If all score the same, the first documents are taken.
    for segments in [1, 2, 7] {
        check(
            vec![words(segments)],
            &json!({"match_all": {}}),
            &json!({"sampler": {"shard_size": 4}, "aggs": {"most": {"max": {"field": "size"}}}}),
            &json!({"doc_count": 4, "most": {"value": 3.0}}),
        );
    }
    check(
        vec![words(2)],
        &json!({"match_none": {}}),
        &json!({"sampler": {}, "aggs": {"most": {"max": {"field": "size"}}}}),
        &json!({"doc_count": 0, "most": {"value": null}}),
    );
}

#[test]
fn samples_are_of_each_parent_bucket() {
    for segments in [1, 3] {
        check(
            vec![words(segments)],
            &json!({"match_all": {}}),
            &json!({
                "terms": {"field": "lower", "order": {"s>most": "desc"}, "size": 2},
                "aggs": {"s": {"sampler": {"shard_size": 2}, "aggs": {
                    "most": {"max": {"field": "size"}},
                    "inner": {"sampler": {"shard_size": 1}, "aggs": {"m": {"max": {"field": "size"}}}}
                }}}
            }),
            &json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": 20, "buckets": [
                {"key": "g2", "doc_count": 20, "s": {"doc_count": 2, "most": {"value": 5.0}, "inner": {"doc_count": 1, "m": {"value": 2.0}}}},
                {"key": "g1", "doc_count": 20, "s": {"doc_count": 2, "most": {"value": 4.0}, "inner": {"doc_count": 1, "m": {"value": 1.0}}}}
            ]}),
        );
    }
}

#[test]
fn diversified_samples_hold_few_of_each_value() {
    for segments in [1, 4] {
        for (field, per_value, expect) in [
            ("lower", 1, 3),
            ("lower", 2, 6),
            ("status", 1, 7),
            ("unmapped", 3, 3),
            ("size", 1, 20),
        ] {
            let aggregation = json!({
                "diversified_sampler": {"field": field, "shard_size": 20, "max_docs_per_value": per_value},
                "aggs": {"n": {"value_count": {"field": "id"}}}
            });
            let expect = json!({"doc_count": expect, "n": {"value": expect}});
            check(vec![words(segments)], &json!({"match_all": {}}), &aggregation, &expect);
        }
    }
    let error = failure(&json!({"aggs": {"x": {
        "diversified_sampler": {"field": "host.name"}, "aggs": {"n": {"value_count": {"field": "id"}}}
    }}}));
    assert_eq!(error.reason(), "Sample diversifying key must be a single valued-field");
}

#[test]
fn significant_terms_compare_with_everything() {
    let query = json!({"term": {"lower": "g0"}});
    for segments in [1, 2, 5] {
        check(
            vec![words(segments)],
            &query,
            &json!({"significant_terms": {"field": "hidden"}, "aggs": {"m": {"max": {"field": "size"}}}}),
            &json!({"doc_count": 20, "bg_count": 60, "buckets": [
                {"key": "h0", "doc_count": 10, "score": 1.0, "bg_count": 10, "m": {"value": 54.0}},
                {"key": "h1", "doc_count": 10, "score": 1.0, "bg_count": 10, "m": {"value": 57.0}}
            ]}),
        );
        // Numbers, a separate background, and a foreground that time restricts to one segment.
        check(
            vec![words(segments)],
            &json!({"range": {"@timestamp": {"lt": "2024-02-01"}}}),
            &json!({"significant_terms": {
                "field": "size", "min_doc_count": 1, "size": 1, "background_filter": {"range": {"size": {"gte": 19, "lt": 59}}}
            }}),
            &json!({"doc_count": 20, "bg_count": 40, "buckets": [
                {"key": 0, "doc_count": 1, "score": 0.05, "bg_count": 0}
            ]}),
        );
        check(
            vec![words(segments)],
            &json!({"match_all": {}}),
            &json!({"terms": {"field": "lower", "size": 1}, "aggs": {
                "s": {"significant_terms": {"field": "hidden", "percentage": {}, "size": 1}}
            }}),
            &json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": 40, "buckets": [
                {"key": "g0", "doc_count": 20, "s": {"doc_count": 20, "bg_count": 60, "buckets": [
                    {"key": "h0", "doc_count": 10, "score": 1.0, "bg_count": 10}
                ]}}
            ]}),
        );
    }
    check(
        vec![words(2)],
        &json!({"match_all": {}}),
        &json!({"significant_terms": {"field": "unmapped"}}),
        &json!({"buckets": []}),
    );
    let mut hidden = words(2);
    hidden.filters = vec![firn_query::query::Query::parse(&json!({"range": {"size": {"lt": 30}}})).unwrap()];
    check(
        vec![hidden],
        &query,
        &json!({"significant_terms": {"field": "hidden", "size": 1}}),
        &json!({"doc_count": 10, "bg_count": 30, "buckets": [
            {"key": "h0", "doc_count": 5, "score": 1.0, "bg_count": 5}
        ]}),
    );
}

#[test]
fn significant_terms_below_a_sampler() {
    check(
        vec![words(3)],
        &json!({"term": {"lower": "g0"}}),
        &json!({"sampler": {"shard_size": 4}, "aggs": {"s": {"significant_terms": {"field": "hidden", "min_doc_count": 2}}}}),
        &json!({"doc_count": 4, "s": {"doc_count": 4, "bg_count": 60, "buckets": [
            {"key": "h0", "doc_count": 2, "score": 1.0, "bg_count": 10},
            {"key": "h1", "doc_count": 2, "score": 1.0, "bg_count": 10}
        ]}}),
    );
}

#[test]
fn prefixes_of_addresses() {
    let all = json!({"match_all": {}});
    check(
        vec![shard().ready()],
        &all,
        &json!({"ip_prefix": {"field": "host.ip", "prefix_length": 16}, "aggs": {"m": {"max": {"field": "status"}}}}),
        &json!({"buckets": [
            {"key": "10.0.0.0", "is_ipv6": false, "doc_count": 3, "prefix_length": 16, "netmask": "255.255.0.0", "m": {"value": 404.0}},
            {"key": "192.168.0.0", "is_ipv6": false, "doc_count": 1, "prefix_length": 16, "netmask": "255.255.0.0", "m": {"value": 201.0}}
        ]}),
    );
    check(
        vec![shard().ready()],
        &all,
        &json!({"ip_prefix": {
            "field": "host.ip", "prefix_length": 32, "is_ipv6": true, "append_prefix_length": true, "keyed": true,
            "missing": "2001:db8:1::1"
        }}),
        &json!({"buckets": {"2001:db8::/32": {"is_ipv6": true, "doc_count": 2, "prefix_length": 32}}}),
    );
    check(
        vec![shard().ready()],
        &all,
        &json!({"ip_prefix": {"field": "unmapped", "prefix_length": 8}}),
        &json!({"buckets": []}),
    );
}

#[test]
fn matrices_of_filters() {
    let aggregation = json!({
        "adjacency_matrix": {"filters": {
            "fox": {"match": {"message": "fox"}}, "bad": {"range": {"status": {"gte": 400}}}, "none": {"match_none": {}}
        }},
        "aggs": {"m": {"max": {"field": "status"}}}
    });
    let expect = json!({"buckets": [
        {"key": "bad", "doc_count": 2, "m": {"value": 503.0}},
        {"key": "bad&fox", "doc_count": 2, "m": {"value": 503.0}},
        {"key": "fox", "doc_count": 3, "m": {"value": 503.0}}
    ]});
    check(vec![shard().ready()], &json!({"match_all": {}}), &aggregation, &expect);
    let mut one = Shard::new(&mapping());
    one.segment(&documents(), &[]);
    check(vec![one.ready()], &json!({"match_all": {}}), &aggregation, &expect);
}
