//! Tests of order, pages, counts and content of hits.

use std::sync::Arc;

use firn_engine::RequestContext;
use firn_model::{Error, ErrorKind};
use firn_query::search::{IndexTarget, SearchRequest, TotalHits};
use firn_scheduler::Pool;
use serde_json::{Value, json};

use super::support::{LIMITS, NOW_MS, Shard, failure, ids, mapping, run, run_all, shard};
use crate::{FailedShard, SearchLimits, search};

fn order(sort: &Value, expect: &str) {
    let body = json!({"sort": sort, "_source": false});
    let response = run(vec![shard().ready()], &body).unwrap();
    assert_eq!(ids(&response), expect, "{sort}");
    // Paging with `search_after` returns the same hits.
    let mut paged = Vec::new();
    let mut after: Option<Vec<Value>> = None;
    for _ in 0..6 {
        let mut body = json!({"sort": sort, "size": 1});
        if let Some(after) = &after {
            body["search_after"] = json!(after);
        }
        let response = run(vec![shard().ready()], &body).unwrap();
        let Some(hit) = response.hits.first() else {
            break;
        };
        paged.push(hit.id.clone());
        after = Some(hit.sort.clone());
    }
    assert_eq!(paged.join(" "), expect, "paged {sort}");
}

#[test]
fn orders() {
    order(&json!(["id"]), "a b c d e");
    order(&json!([{"id": "desc"}]), "e d c b a");
    order(&json!([{"@timestamp": "desc"}, "id"]), "b a c e d");
    order(&json!([{"@timestamp": "asc"}, "id"]), "e c a b d");
    order(
        &json!([{"@timestamp": {"order": "desc", "missing": "_first"}}, "id"]),
        "d b a c e",
    );
    order(
        &json!([{"@timestamp": {"order": "desc", "format": "yyyy-MM-dd HH:mm"}}, "id"]),
        "b a c e d",
    );
    order(&json!([{"size": "desc"}, "id"]), "c a e d b");
    order(&json!([{"big": "asc"}, "id"]), "b a c d e");
    order(&json!([{"status": {"order": "asc", "mode": "max"}}, "id"]), "a e b c d");
    order(
        &json!([{"status": {"order": "desc", "mode": "avg", "missing": 202}}, "id"]),
        "c b d e a",
    );
    order(&json!([{"ratio": "desc"}, "id"]), "c a b d e");
    order(&json!([{"price": "asc"}, "id"]), "a b c d e");
    order(&json!([{"ok": "desc"}, "id"]), "a c b d e");
    order(&json!([{"host.name": "asc"}, "id"]), "d c a b e");
    order(
        &json!([{"host.name": {"order": "asc", "missing": "e"}}, "id"]),
        "d c e a b",
    );
    order(&json!([{"host.ip": "asc"}, "id"]), "a e b c d");
    order(&json!([{"other": {"unmapped_type": "long"}}, "id"]), "a b c d e");
    order(&json!([{"env": "asc"}, {"id": "desc"}]), "e d c b a");
    order(&json!([{"_doc": "asc"}]), "a b c d e");
    order(&json!(["_score", "id"]), "a b c d e");
}

#[test]
fn sort_values() {
    let body = json!({"sort": [
        {"@timestamp": "desc"}, {"size": "asc"}, {"ratio": "asc"}, {"host.name": "asc"}, {"host.ip": "asc"}, {"ok": "asc"},
        {"small": "asc"}
    ]});
    let response = run(vec![shard().ready()], &body).unwrap();
    let sorts: Vec<&Vec<Value>> = response.hits.iter().map(|hit| &hit.sort).collect();
    assert_eq!(
        json!(sorts[1]),
        json!([1718445600000i64, 10, 0.5, "web-1", "10.0.0.1", 1, 0.1])
    );
    let last = json!([i64::MIN, 0, "Infinity", "WEB-1", null, i64::MAX, "Infinity"]);
    assert_eq!(json!(sorts[4][..5]), json!(last.as_array().unwrap()[..5]));
    assert_eq!(sorts[4][6], json!("Infinity"));
}

#[test]
fn pages() {
    let page = |from: usize, size: usize| {
        let body = json!({"sort": ["id"], "from": from, "size": size});
        ids(&run(vec![shard().ready()], &body).unwrap())
    };
    assert_eq!(page(0, 2), "a b");
    assert_eq!(page(2, 2), "c d");
    assert_eq!(page(4, 2), "e");
    assert_eq!(page(9, 2), "");
    assert_eq!(
        failure(&json!({"from": 9_999, "size": 2})).kind(),
        ErrorKind::IllegalArgument
    );
    assert_eq!(
        failure(&json!({"search_after": [1]})).kind(),
        ErrorKind::IllegalArgument
    );
    assert_eq!(
        failure(&json!({"sort": ["id", "size"], "search_after": [1]})).kind(),
        ErrorKind::IllegalArgument
    );
}

#[test]
fn totals() {
    let total = |body: Value| run(vec![shard().ready()], &body).unwrap().total;
    assert_eq!(total(json!({})), Some(TotalHits { value: 5, exact: true }));
    assert_eq!(
        total(json!({"track_total_hits": 3})),
        Some(TotalHits { value: 3, exact: false })
    );
    assert_eq!(
        total(json!({"track_total_hits": 5})),
        Some(TotalHits { value: 5, exact: true })
    );
    assert_eq!(total(json!({"track_total_hits": false})), None);
    assert_eq!(
        total(json!({"size": 0, "track_total_hits": 2, "query": {"match": {"message": "fox"}}})),
        Some(TotalHits { value: 2, exact: false })
    );
}

#[test]
fn refusals() {
    let unmapped = failure(&json!({"sort": ["nope"]}));
    assert_eq!(unmapped.kind(), ErrorKind::QueryShard);
    assert_eq!(unmapped.reason(), "No mapping found for [nope] in order to sort on");
    let text = failure(&json!({"sort": ["message"]}));
    assert_eq!(text.kind(), ErrorKind::IllegalArgument);
    assert!(
        text.reason()
            .starts_with("Fielddata is disabled on [message] in [test]"),
        "{text}"
    );
    assert_eq!(failure(&json!({"sort": ["_id"]})).kind(), ErrorKind::IllegalArgument);
}

#[test]
fn contents() {
    let body = json!({
        "query": {"ids": {"values": ["a", "d"]}}, "sort": ["id"], "version": true, "seq_no_primary_term": true,
        "_source": ["id", "host.*"], "fields": ["status", "message.raw", "nanos", {"field": "@timestamp", "format": "yyyy"}],
        "docvalue_fields": ["host.ip", "price"]
    });
    let response = run(vec![shard().ready()], &body).unwrap();
    let [a, d] = response.hits.as_slice() else {
        panic!("{response:?}");
    };
    assert_eq!((a.index.as_str(), a.id.as_str()), ("test", "a"));
    assert_eq!((a.version, a.seq_no), (Some(1), Some((0, 1))));
    let source: Value = serde_json::from_slice(a.source.as_ref().unwrap()).unwrap();
    assert_eq!(source, json!({"id": "a", "host": {"name": "web-1", "ip": "10.0.0.1"}}));
    assert_eq!(
        Value::Object(a.fields.clone()),
        json!({
            "status": [200], "message.raw": ["The quick brown fox"], "nanos": ["2024-06-15T10:00:00.000000001Z"],
            "@timestamp": ["2024"], "host.ip": ["10.0.0.1"], "price": [9.99]
        })
    );
    assert_eq!(d.ignored, ["status"]);
}

#[test]
fn generated_ids() {
    let mut shard = Shard::new(&mapping());
    shard.segment(&[json!({"status": 1}), json!({"status": 2})], &[]);
    let response = run(vec![shard.ready()], &json!({"sort": ["status"]})).unwrap();
    let id = response.hits[1].id.clone();
    assert_eq!(id.len(), 20);
    for query in [json!({"ids": {"values": [id]}}), json!({"term": {"_id": id}})] {
        let found = run(vec![shard.ready()], &json!({"query": query})).unwrap();
        assert_eq!(ids(&found), id);
        assert_eq!(&found.hits[0].source.as_ref().unwrap()[..], br#"{"status":2}"#);
    }
}

#[test]
fn scores_rank_rarer_terms_first() {
    let body = json!({"query": {"match": {"message": "fox lazy"}}});
    let response = run(vec![shard().ready()], &body).unwrap();
    assert_eq!(response.hits[0].id, "b");
    assert_eq!(response.max_score, response.hits[0].score);
    assert!(response.hits.windows(2).all(|pair| pair[0].score >= pair[1].score));
    let body = json!({"query": {"constant_score": {"filter": {"match": {"message": "fox"}}, "boost": 2.5}}});
    let response = run(vec![shard().ready()], &body).unwrap();
    assert_eq!(ids(&response), "a b c");
    assert_eq!(response.max_score, Some(2.5));
    let body = json!({"query": {"match": {"message": "fox"}}, "sort": ["id"]});
    let response = run(vec![shard().ready()], &body).unwrap();
    assert_eq!((response.max_score, response.hits[0].score), (None, None));
    let body = json!({"query": {"match": {"message": "fox lazy"}}, "min_score": 1.0});
    let response = run(vec![shard().ready()], &body).unwrap();
    assert_eq!(ids(&response), "b");
    assert_eq!(response.total.unwrap().value, 1);
}

#[test]
fn early_ends_are_reported() {
    let body = json!({"terminate_after": 1, "sort": ["id"]});
    let response = run(vec![shard().ready()], &body).unwrap();
    assert_eq!(response.terminated_early, Some(true));
    assert!(response.total.unwrap().value < 5);
    let body = json!({"terminate_after": 100});
    let response = run(vec![shard().ready()], &body).unwrap();
    assert_eq!(
        (response.terminated_early, response.total.unwrap().value),
        (Some(false), 5)
    );

    let pool = Arc::new(Pool::new("test", 1, 10));
    let body = json!({"timeout": "1ms"});
    let request = Arc::new(SearchRequest::parse(IndexTarget::default(), Some(&body)).unwrap());
    let ctx = RequestContext::new();
    std::thread::sleep(std::time::Duration::from_millis(3));
    let response = search(
        vec![Ok(shard().ready())],
        Arc::clone(&request),
        &pool,
        &ctx,
        NOW_MS,
        LIMITS,
    )
    .unwrap();
    assert!(response.timed_out);
    ctx.cancel.cancel();
    let outcome = search(vec![Ok(shard().ready())], request, &pool, &ctx, NOW_MS, LIMITS);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn shards_fail_on_their_own() {
    let failed = || FailedShard {
        index: "test".into(),
        shard: 1,
        error: Error::new(ErrorKind::ShardDamaged, "file x is damaged at 17"),
    };
    let response = run_all(vec![Ok(shard().ready()), Err(failed())], &json!({})).unwrap();
    assert_eq!(response.hits.len(), 5);
    assert_eq!((response.shards.total, response.shards.successful), (2, 1));
    assert_eq!(response.shards.failures[0].1, 1);
    let all = run_all(vec![Err(failed())], &json!({}));
    assert_eq!(all.unwrap_err().kind(), ErrorKind::ShardDamaged);
    assert_eq!(run_all(Vec::new(), &json!({})).unwrap().total.unwrap().value, 0);
}

#[test]
fn memory_is_bounded() {
    let pool = Arc::new(Pool::new("test", 1, 10));
    let check = |body: Value, bytes: u64, fits: bool| {
        let request = Arc::new(SearchRequest::parse(IndexTarget::default(), Some(&body)).unwrap());
        let limits = SearchLimits {
            memory_bytes_max: bytes,
            ..LIMITS
        };
        let shards = vec![Ok(shard().ready())];
        let outcome = search(shards, request, &pool, &RequestContext::new(), NOW_MS, limits);
        match outcome {
            Ok(_) => assert!(fits, "{body} fits into {bytes}"),
            Err(error) => {
                assert!(!fits, "{body}: {error}");
                assert_eq!(error.kind(), ErrorKind::CircuitBreaking);
                assert!(error.reason().starts_with("[request] Data too large"), "{error}");
            }
        }
    };
    let names = json!({"size": 0, "aggs": {"names": {"terms": {"field": "host.name"}}}});
    check(names.clone(), 8, false);
    check(names, 1 << 20, true);
    // The sources of a page count as well as the search for its hits.
    check(json!({"size": 5}), 2000, false);
    check(json!({"size": 5, "_source": false}), 2000, true);
    check(json!({"size": 5}), 1 << 20, true);
}

#[test]
fn segments_outside_of_the_time_range_are_skipped() {
    let mut old = Shard::named("old", 0, &mapping());
    old.segment(&[json!({"id": "o", "@timestamp": "2020-01-01T00:00:00Z"})], &[]);
    let shards = || vec![old.ready(), shard().ready()];
    let body = json!({"query": {"range": {"@timestamp": {"gte": "2024-06-15"}}}, "sort": [{"@timestamp": "desc"}]});
    let response = run(shards(), &body).unwrap();
    assert_eq!(ids(&response), "b a");
    assert_eq!((response.shards.skipped, response.shards.successful), (1, 2));
    let body = json!({"sort": [{"@timestamp": "desc"}], "size": 2});
    assert_eq!(ids(&run(shards(), &body).unwrap()), "b a");
    let body = json!({"sort": [{"@timestamp": "asc"}], "size": 2});
    assert_eq!(ids(&run(shards(), &body).unwrap()), "o e");
}

#[test]
fn post_filters_narrow_hits_and_not_aggregations() {
    let aggs = json!({"n": {"value_count": {"field": "id"}}});
    let narrow = json!({"term": {"status": 200}});
    for (query, all) in [(json!({"match_all": {}}), 5), (json!({"match": {"message": "fox"}}), 3)] {
        let body = json!({"query": query, "post_filter": narrow, "aggs": aggs});
        let response = run(vec![shard().ready()], &body).unwrap();
        assert_eq!(ids(&response), "a");
        assert_eq!(response.total, Some(TotalHits { value: 1, exact: true }));
        assert_eq!(response.aggregations.as_deref(), Some(&json!({"n": {"value": all}})));
        // Without aggregations, it is one more filter; the score is that of the query.
        let alone = run(vec![shard().ready()], &json!({"query": query, "post_filter": narrow})).unwrap();
        assert_eq!(ids(&alone), "a");
        assert_eq!(alone.hits[0].score, response.hits[0].score);
        assert_eq!(alone.total, response.total);
    }
    // The last documents of the filter are skipped as well.
    let body = json!({"post_filter": {"ids": {"values": ["b", "e"]}}, "sort": ["id"], "aggs": aggs});
    assert_eq!(ids(&run(vec![shard().ready()], &body).unwrap()), "b e");
}

#[test]
fn stored_fields_come_from_the_source() {
    let mut shard = Shard::new(&json!({"properties": {
        "id": {"type": "keyword"}, "stored": {"type": "long", "store": true}, "other": {"type": "long"}
    }}));
    shard.segment(&[json!({"id": "a", "stored": [1, "2"], "other": 3})], &[]);
    let hit = |body: Value| run(vec![shard.ready()], &body).unwrap().hits.remove(0);
    let stored = hit(json!({"stored_fields": ["stored", "other"]}));
    assert_eq!((json!(stored.fields), stored.source), (json!({"stored": [1, 2]}), None));
    let all = hit(json!({"stored_fields": ["*", "_source"]}));
    assert_eq!(json!(all.fields), json!({"stored": [1, 2]}));
    assert!(all.source.is_some());
}

#[test]
fn boosted_indices_score_more() {
    for query in [json!({"match_all": {}}), json!({"match": {"message": "fox"}})] {
        let scores = |boost: f32| -> Vec<f32> {
            let body = json!({
                "query": query, "sort": ["_score", "id"], "indices_boost": [{"other": 9}, {"test": boost}, {"test": 5}]
            });
            let response = run(vec![shard().ready()], &body).unwrap();
            assert_eq!(response.max_score, response.hits[0].score);
            response.hits.iter().map(|hit| hit.score.unwrap()).collect()
        };
        for (plain, boosted) in scores(1.0).into_iter().zip(scores(2.0)) {
            assert!((plain * 2.0 - boosted).abs() < 1e-6, "{query}");
        }
    }
}

#[test]
fn boosted_indices_come_first_even_where_all_score_the_same() {
    let named = |index| {
        let mut shard = Shard::named(index, 0, &mapping());
        shard.segment(&[json!({"id": index})], &[]);
        shard.ready()
    };
    let body = json!({"indices_boost": [{"b": 3}]});
    let response = run(vec![named("a"), named("b")], &body).unwrap();
    assert_eq!((ids(&response).as_str(), response.max_score), ("b a", Some(3.0)));
}

/// Expected values are from OpenSearch 3.6 and Elasticsearch's sources, for keys that differ from the field's type.
#[test]
fn sort_values_of_other_kinds() {
    let check = |sort: Value, expected: Value| {
        let mut sort = vec![sort];
        sort.push(json!("id"));
        let response = run(vec![shard().ready()], &json!({"sort": sort})).unwrap();
        let found: Vec<Value> = response.hits.iter().map(|hit| hit.sort[0].clone()).collect();
        assert_eq!(json!(found), expected, "{sort:?}");
    };
    const MAX: i64 = i64::MAX;
    check(json!({"ok": "asc"}), json!([0, 1, 1, MAX, MAX]));
    check(
        json!({"big": "asc"}),
        json!([1, u64::MAX, u64::MAX, u64::MAX, u64::MAX]),
    );
    check(json!({"big": "desc"}), json!([u64::MAX, 1, 0, 0, 0]));
    check(json!({"status": {"mode": "avg"}}), json!([200, 201, 404, 502, MAX]));
    check(
        json!({"status": {"mode": "median", "order": "desc"}}),
        json!([502, 404, 201, 200, i64::MIN]),
    );
    check(
        json!({"size": {"missing": 2.5}}),
        json!([-5, 0, 10, 10, 9007199254740993i64]),
    );
    check(json!({"ratio": {"numeric_type": "long"}}), json!([-1, 0, 3, MAX, MAX]));
    check(
        json!({"price": {"numeric_type": "long", "order": "desc"}}),
        json!([10, 9, i64::MIN, i64::MIN, i64::MIN]),
    );
    check(
        json!({"status": {"numeric_type": "double"}}),
        json!([200.0, 201.0, 404.0, 500.0, "Infinity"]),
    );
    check(
        json!({"nanos": {"numeric_type": "date"}}),
        json!([1718445600000i64, MAX, MAX, MAX, MAX]),
    );
    check(
        json!({"@timestamp": {"numeric_type": "date_nanos", "order": "desc"}}),
        json!([
            1718449200000000000i64,
            1718445600000000000i64,
            1718407800000000000i64,
            1717113600000000000i64,
            i64::MIN
        ]),
    );
    let refused = |sort: Value, reason: &str| {
        assert_eq!(failure(&json!({"sort": [sort]})).reason(), reason);
    };
    refused(
        json!({"host.name": {"numeric_type": "long"}}),
        "[numeric_type] option cannot be set on a non-numeric field, got keyword",
    );
    refused(
        json!({"host.name": {"mode": "sum"}}),
        "we only support AVG, MEDIAN and SUM on number based fields",
    );
    refused(
        json!({"size": {"numeric_type": "date_nanos"}}),
        "trying to convert a known date time formatter to a nanosecond one, wrong field used?",
    );
    refused(json!({"x": {"unmapped_type": "foo"}}), "No mapper found for type [foo]");
    refused(json!({"size": {"missing": "x"}}), "For input string: \"x\"");
    refused(
        json!({"size": {"format": "0.0"}}),
        "Field [size] of type [long] does not support custom formats",
    );
    let after = |value: Value| failure(&json!({"sort": ["size"], "search_after": [value]}));
    assert_eq!(
        after(json!("x")).reason(),
        "Failed to parse search_after value for field [size]."
    );
}
