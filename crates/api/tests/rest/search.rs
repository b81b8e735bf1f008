//! Searches over HTTP.

use firn_engine::{Error, ErrorKind};
use firn_query::search::TrackTotalHits;
use firn_query::source::SourceFilter;
use serde_json::json;

use crate::fake::Node;

#[tokio::test]
async fn answers_keep_sources_byte_for_byte() {
    let node = Node::new();
    node.ok(
        "PUT",
        "/i/_doc/1",
        r#"{ "n": 1.10, "big":123456789012345678901234567890}"#,
    )
    .await;
    insta::assert_snapshot!(node.send("GET", "/i/_search", "").await.text(), @r#"{"took":1,"timed_out":false,"_shards":{"total":1,"successful":1,"skipped":0,"failed":0},"hits":{"total":{"value":1,"relation":"eq"},"max_score":1.0,"hits":[{"_index":"i","_id":"1","_score":1.0,"_source":{ "n": 1.10, "big":123456789012345678901234567890}}]}}"#);
    let answer = node
        .ok("GET", "/i/_search?rest_total_hits_as_int=true&size=0", "")
        .await;
    assert_eq!(answer["hits"]["total"], 1);
    assert_eq!(node.ok("GET", "/i/_count", "").await["count"], 1);
}

#[tokio::test]
async fn parameters_win_over_the_body() {
    let node = Node::new();
    let uri = "/_search?q=a:b&size=3&from=4&sort=t:desc&_source_includes=x&track_total_hits=7&timeout=2s&routing=r1,r2&terminate_after=9";
    node.ok("POST", uri, r#"{"size":1,"query":{"match_all":{}}}"#).await;
    let request = node.fake.last_search.lock().unwrap().clone().unwrap();
    assert_eq!((request.size, request.from, request.terminate_after), (3, 4, 9));
    assert_eq!(request.track_total_hits, TrackTotalHits::UpTo(7));
    assert_eq!(request.routing, ["r1", "r2"]);
    assert_eq!(request.timeout, Some(std::time::Duration::from_secs(2)));
    assert!(request.sort[0].descending);
    assert_eq!(
        request.shape.source,
        SourceFilter::Paths {
            includes: vec!["x".to_owned()],
            excludes: Vec::new()
        }
    );
    assert!(request.query.print()["query_string"].is_object());
}

#[tokio::test]
async fn what_is_missing_is_refused() {
    let node = Node::new();
    for (uri, expected) in [
        (
            "/_search?scroll=1m&size=0",
            "400 action_request_validation_exception: Validation Failed: 1: [size] cannot be [0] in a scroll context;",
        ),
        (
            "/_search?search_type=scan",
            "400 illegal_argument_exception: No search type for [scan]",
        ),
        (
            "/_search?size=-1",
            "400 illegal_argument_exception: [size] parameter cannot be negative, found [-1]",
        ),
        (
            "/_search?rest_total_hits_as_int=true&track_total_hits=5",
            "400 illegal_argument_exception: [rest_total_hits_as_int] cannot be used if the tracking of total hits is not accurate, got 5",
        ),
    ] {
        assert_eq!(node.fails("GET", uri, "").await, expected);
    }
    assert_eq!(
        node.fails("POST", "/_count", r#"{"size":1}"#).await,
        "400 parsing_exception: request does not support [size]"
    );
}

#[tokio::test]
async fn shard_failures_have_elasticsearchs_shape() {
    let node = Node::new();
    *node.fake.search_error.lock().unwrap() =
        Some(Error::new(ErrorKind::QueryShard, "failed to create query: no").with_index("i"));
    let answer = node.send("GET", "/_search", "").await;
    assert_eq!(answer.status(), 400);
    let error = &answer.json()["error"];
    assert_eq!(error["type"], "search_phase_execution_exception");
    assert_eq!(error["reason"], "all shards failed");
    assert_eq!(error["root_cause"][0]["type"], "query_shard_exception");
    assert_eq!(
        error["failed_shards"][0]["reason"]["reason"],
        "failed to create query: no"
    );
    let valid = node.ok("GET", "/_validate/query?explain=true", "").await;
    assert_eq!(valid["valid"], false);
}

#[tokio::test]
async fn many_searches_in_one_request() {
    let node = Node::new();
    node.ok("PUT", "/i/_doc/1", "{}").await;
    let body = "{\"index\":\"i\"}\n{\"size\":0}\n{}\n{}\n{\"index\":\"x\"}\n{}\n";
    let answer = node.ok("POST", "/_msearch", body).await;
    let responses = answer["responses"].as_array().unwrap();
    assert_eq!(responses.len(), 3);
    assert_eq!(responses[0]["status"], 200);
    assert_eq!(responses[1]["hits"]["total"]["value"], 1);
    assert_eq!(responses[2]["status"], 404);
    assert_eq!(responses[2]["error"]["type"], "index_not_found_exception");
}

#[tokio::test]
async fn says_what_fields_there_are() {
    let node = Node::new();
    node.ok(
        "PUT",
        "/a",
        r#"{"mappings":{"properties":{"f":{"type":"keyword"},"o":{"properties":{"t":{"type":"text"}}}}}}"#,
    )
    .await;
    node.ok("PUT", "/b", r#"{"mappings":{"properties":{"f":{"type":"long"}}}}"#)
        .await;
    let answer = node.ok("GET", "/_field_caps?fields=f,o*", "").await;
    assert_eq!(
        answer,
        json!({
            "indices": ["a", "b"],
            "fields": {
                "f": {
                    "keyword": {"type": "keyword", "metadata_field": false, "searchable": true, "aggregatable": true, "indices": ["a"]},
                    "long": {"type": "long", "metadata_field": false, "searchable": true, "aggregatable": true, "indices": ["b"]},
                },
                "o": {"object": {"type": "object", "metadata_field": false, "searchable": false, "aggregatable": false}},
                "o.t": {"text": {"type": "text", "metadata_field": false, "searchable": true, "aggregatable": false}},
            }
        })
    );
}

#[tokio::test]
async fn analyzes() {
    let node = Node::new();
    let answer = node
        .ok("POST", "/_analyze", r#"{"analyzer":"keyword","text":"A b"}"#)
        .await;
    assert_eq!(answer["tokens"][0]["token"], "A b");
    assert_eq!(
        node.fails("POST", "/_analyze", r#"{"analyzer":"klingon","text":"x"}"#)
            .await,
        "400 illegal_argument_exception: failed to find global analyzer [klingon]"
    );
    assert_eq!(
        node.fails("POST", "/_analyze", r#"{"tokenizer":"ngram","text":"x"}"#)
            .await,
        "400 not_implemented_exception: the tokenizer [ngram] of [_analyze] is not implemented by firn"
    );
}

#[tokio::test]
async fn lists_terms() {
    let node = Node::new();
    let answer = node
        .ok("POST", "/logs/_terms_enum", r#"{"field":"a","string":"x"}"#)
        .await;
    assert_eq!(
        answer,
        json!({"_shards": {"total": 0, "successful": 0, "failed": 0}, "terms": ["x1"], "complete": true})
    );
    assert_eq!(
        node.fails("GET", "/logs/_terms_enum", "").await,
        "400 action_request_validation_exception: Validation Failed: 1: field cannot be null;"
    );
}
