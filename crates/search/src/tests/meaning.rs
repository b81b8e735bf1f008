//! Tests of explanations of `_validate/query`, and of matched query names of hits.

use firn_engine::RequestContext;
use firn_query::query::Query;
use serde_json::{Value, json};

use super::support::{NOW_MS, run, shard};
use crate::describe;

/// Names with scores.
type Matched = Vec<(String, Option<f32>)>;

#[track_caller]
fn check(query: Value, expect: &str) {
    let query = Query::parse(&query).unwrap();
    let described = describe(&shard().ready(), &query, NOW_MS, &RequestContext::new()).unwrap();
    assert_eq!(described, expect);
}

#[test]
fn terms_and_ranges() {
    check(json!({"match_all": {}}), "*:*");
    check(json!({"match_all": {"boost": 2}}), "(*:*)^2.0");
    check(json!({"term": {"nickname": "web-1"}}), "host.name:web-1");
    check(json!({"term": {"status": 200}}), "status:[200 TO 200]");
    check(
        json!({"term": {"@timestamp": "2024-06-15T10:00:00Z"}}),
        "@timestamp:[1718445600000 TO 1718445600999]",
    );
    check(json!({"terms": {"host.name": ["a", "b"]}}), "host.name:(a b)");
    check(json!({"range": {"size": {"gt": 1, "lte": 5}}}), "size:{1 TO 5]");
    check(
        json!({"range": {"@timestamp": {"gte": "2024-06-15T10:00:00Z"}}}),
        "@timestamp:[1718445600000 TO *]",
    );
    check(
        json!({"exists": {"field": "message"}}),
        "ConstantScore(FieldExistsQuery [field=message])",
    );
    check(json!({"ids": {"values": ["a", "b"]}}), "_id:(a b)");
    check(json!({"prefix": {"host.name": "we"}}), "host.name:we*");
    check(json!({"wildcard": {"host.name": "w?b*"}}), "host.name:w?b*");
    check(json!({"regexp": {"host.name": "w.b"}}), "host.name:/w.b/");
    check(json!({"fuzzy": {"message": "browm"}}), "message:browm~1");
}

#[test]
fn texts_are_shown_as_their_terms() {
    check(json!({"match": {"message": "Quick FOX"}}), "message:quick message:fox");
    check(
        json!({"match": {"message": {"query": "Quick FOX", "operator": "and"}}}),
        "+message:quick +message:fox",
    );
    check(
        json!({"match": {"message": {"query": "a b c", "minimum_should_match": 2}}}),
        "(message:a message:b message:c)~2",
    );
    check(
        json!({"match": {"message": {"query": "quikk", "fuzziness": "AUTO"}}}),
        "message:quikk~1",
    );
    check(json!({"match": {"status": 404}}), "status:[404 TO 404]");
    check(
        json!({"match_phrase": {"message": {"query": "Quick FOX", "slop": 2}}}),
        "message:\"quick fox\"~2",
    );
    check(
        json!({"match_phrase_prefix": {"message": "Quick F"}}),
        "message:\"quick f*\"",
    );
    check(
        json!({"match_bool_prefix": {"message": "Quick F"}}),
        "message:quick message:f*",
    );
    check(
        json!({"multi_match": {"query": "Quick FOX", "fields": ["message", "host.name^2"]}}),
        "((message:quick message:fox) | (host.name:Quick FOX)^2.0)",
    );
    check(
        json!({"multi_match": {
            "query": "Quick FOX", "fields": ["message", "status"], "type": "cross_fields", "operator": "and"
        }}),
        "((status:Quick FOX) | (+message:quick +message:fox))",
    );
    check(
        json!({"query_string": {"query": "Quick -dogs", "fields": ["message"]}}),
        "-message:dogs message:quick",
    );
    check(
        json!({"query_string": {"query": "size:>=3 AND host.n\\*:web*"}}),
        "+size:[3 TO *] +host.name:web*",
    );
    check(
        json!({"simple_query_string": {"query": "Quick + \"brown fox\"", "fields": ["message"]}}),
        "+message:quick +message:\"brown fox\"",
    );
}

#[test]
fn combinations() {
    let fox = json!({"match": {"message": "fox"}});
    let ok = json!({"term": {"status": 200}});
    check(
        json!({"bool": {"must": [fox], "filter": [ok], "must_not": [{"match": {"message": "a b"}}], "should": [fox]}}),
        "+message:fox #status:[200 TO 200] -(message:a message:b) message:fox",
    );
    check(json!({"bool": {"must_not": [fox]}}), "-message:fox #*:*");
    check(
        json!({"bool": {"should": [fox, ok], "minimum_should_match": "100%", "boost": 2}}),
        "((message:fox status:[200 TO 200])~2)^2.0",
    );
    check(
        json!({"constant_score": {"filter": fox, "boost": 1.5}}),
        "(ConstantScore(message:fox))^1.5",
    );
    check(
        json!({"dis_max": {"queries": [fox, ok], "tie_breaker": 0.5}}),
        "(message:fox | status:[200 TO 200])~0.5",
    );
    check(
        json!({"boosting": {"positive": fox, "negative": ok, "negative_boost": 0.5}}),
        "FunctionScoreQuery(message:fox, scored by boost(queryboost(score(status:[200 TO 200]))^0.5))",
    );
}

#[test]
fn invalid_queries_are_not_explained() {
    let query = Query::parse(&json!({"range": {"status": {"gte": "abc"}}})).unwrap();
    let error = describe(&shard().ready(), &query, NOW_MS, &RequestContext::new()).unwrap_err();
    assert!(error.reason().contains("For input string: \"abc\""), "{error}");
}

#[test]
fn hits_name_the_queries_that_they_match() {
    let named = |mut body: Value| {
        let query = json!({"bool": {
            "must": [{"match": {"message": {"query": "fox", "_name": "fox"}}}],
            "should": [
                {"term": {"status": {"value": 200, "boost": 3, "_name": "ok"}}},
                {"constant_score": {"filter": {"match": {"message": {"query": "dogs", "_name": "dogs"}}}}}
            ],
            "must_not": [{"term": {"host.name": {"value": "noname", "_name": "noname"}}}],
            "_name": "all"
        }});
        body["query"] = query;
        body["sort"] = json!(["id"]);
        let response = run(vec![shard().ready()], &body).unwrap();
        let hits = response.hits.into_iter();
        hits.map(|hit| (hit.id, hit.matched_queries)).collect::<Vec<_>>()
    };
    let names = |hits: Vec<(String, Matched)>| -> Vec<String> {
        let line = |(id, names): (String, Matched)| {
            let names: Vec<String> = names.into_iter().map(|(name, _)| name).collect();
            format!("{id}: {}", names.join(" "))
        };
        hits.into_iter().map(line).collect()
    };
    assert_eq!(
        names(named(json!({}))),
        ["a: all fox ok", "b: all fox dogs", "c: all fox"]
    );
    assert_eq!(
        names(named(
            json!({"post_filter": {"term": {"status": {"value": 404, "_name": "late"}}}})
        )),
        ["b: all fox dogs late"]
    );
    let scored = named(json!({"include_named_queries_score": true}));
    let ok = scored[0].1.iter().find(|(name, _)| name == "ok").unwrap();
    assert_eq!(ok.1, Some(3.0));
    assert!(
        scored
            .iter()
            .all(|(_, names)| names.iter().all(|(_, score)| score.is_some()))
    );
}
