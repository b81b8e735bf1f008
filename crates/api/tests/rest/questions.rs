//! Parameters and forms of `_search`, `_msearch`, `_count` and `_field_caps` beyond the body.

use firn_engine::{Error, ErrorKind};
use serde_json::json;

use crate::fake::Node;

#[tokio::test]
async fn parameters_are_checked_even_where_they_change_nothing() {
    let node = Node::new();
    node.ok(
        "GET",
        "/_search?batched_reduce_size=2&pre_filter_shard_size=1&max_concurrent_shard_requests=1&request_cache=true\
         &ccs_minimize_roundtrips=false&preference=session&search_type=dfs_query_then_fetch&typed_keys=true",
        "",
    )
    .await;
    for (parameter, reason) in [
        ("batched_reduce_size=1", "batchedReduceSize must be >= 2"),
        ("pre_filter_shard_size=0", "preFilterShardSize must be >= 1"),
        (
            "max_concurrent_shard_requests=0",
            "maxConcurrentShardRequests must be >= 1",
        ),
        ("terminate_after=-1", "terminateAfter must be > 0"),
        ("preference=_nope", "no Preference for [_nope]"),
        ("from=-1", "[from] parameter cannot be negative, found [-1]"),
        (
            "request_cache=maybe",
            "Failed to parse value [maybe] as only [true] or [false] are allowed.",
        ),
    ] {
        let uri = format!("/_search?{parameter}");
        assert_eq!(
            node.fails("GET", &uri, "").await,
            format!("400 illegal_argument_exception: {reason}")
        );
    }
    node.ok("GET", "/_search?preference=_shards:2,0", "").await;
    assert_eq!(
        node.fake.last_search.lock().unwrap().clone().unwrap().only_shards,
        [2, 0]
    );
    node.ok(
        "GET",
        "/_count?preference=_shards:1&terminate_after=3&min_score=0.5",
        "",
    )
    .await;
    let request = node.fake.last_search.lock().unwrap().clone().unwrap();
    assert_eq!(
        (request.only_shards, request.terminate_after, request.min_score),
        (vec![1], 3, Some(0.5))
    );
    for uri in ["/_search/template", "/logs/_search/template", "/_msearch/template"] {
        let refused = node.fails("POST", uri, "{}").await;
        assert!(refused.starts_with("400 not_implemented_exception"), "{uri}: {refused}");
    }
}

#[tokio::test]
async fn one_search_of_many_that_cannot_be_read_fails_them_all() {
    let node = Node::new();
    node.ok("PUT", "/i", "").await;
    let good = "{\"index\":\"i\"}\n{}\n";
    for (bad, error) in [
        ("{}\n{\"query\":{\"nope\":{}}}\n", "parsing_exception"),
        ("{}\n{\"size\":-1}\n", "illegal_argument_exception"),
        ("{\"typed_keys\":true}\n{}\n", "illegal_argument_exception"),
        ("{\"request_cache\":5}\n{}\n", "illegal_argument_exception"),
        ("{\"preference\":\"_x\"}\n{}\n", "illegal_argument_exception"),
        (
            "{}\n{\"slice\":{\"id\":0,\"max\":2}}\n",
            "action_request_validation_exception",
        ),
    ] {
        let answer = node.fails("POST", "/_msearch", &format!("{good}{bad}")).await;
        assert!(answer.starts_with(&format!("400 {error}")), "{bad}: {answer}");
    }
    assert!(node.fake.last_search.lock().unwrap().is_none(), "none has run");
    let header = r#"{"index":["i"],"routing":["a","b"],"preference":"_shards:1","request_cache":true,"search_type":"query_then_fetch"}"#;
    let answer = node
        .ok(
            "POST",
            "/_msearch?max_concurrent_searches=1&typed_keys=true",
            &format!("{header}\n{{}}\n\n"),
        )
        .await;
    assert_eq!(answer["responses"][0]["status"], 200);
    let request = node.fake.last_search.lock().unwrap().clone().unwrap();
    assert_eq!(
        (request.routing, request.only_shards),
        (vec!["a".to_owned(), "b".to_owned()], vec![1])
    );
    let refused = node.fails("POST", "/_msearch?max_concurrent_searches=0", good).await;
    assert!(
        refused.contains("maxConcurrentSearchRequests must be positive"),
        "{refused}"
    );
}

#[tokio::test]
async fn each_of_many_searches_fails_with_its_own_status() {
    let node = Node::new();
    node.ok("PUT", "/i", "").await;
    for (kind, status, error_type) in [
        (ErrorKind::Rejected, 429, "es_rejected_execution_exception"),
        (ErrorKind::QueryShard, 400, "search_phase_execution_exception"),
        (ErrorKind::SearchContextMissing, 404, "search_phase_execution_exception"),
    ] {
        *node.fake.search_error.lock().unwrap() = Some(Error::new(kind, "because"));
        let answer = node.ok("POST", "/_msearch", "{}\n{}\n{}\n{}\n").await;
        for item in answer["responses"].as_array().unwrap() {
            assert_eq!(
                (&item["status"], &item["error"]["type"]),
                (&json!(status), &json!(error_type))
            );
            assert!(item["error"]["root_cause"].is_array());
        }
    }
}

#[tokio::test]
async fn suggestions_of_a_busy_node_can_be_retried() {
    let node = Node::new();
    let mappings = r#"{"mappings":{"properties":{"host":{"type":"keyword"}}}}"#;
    node.ok("PUT", "/logs", mappings).await;
    let ask = r#"{"index":"logs","query":{"language":"kql","text":"host: we"},"cursor":8}"#;
    let fail = |kind| *node.fake.search_error.lock().unwrap() = Some(Error::new(kind, "because"));
    fail(ErrorKind::Rejected);
    let busy = node.ok("POST", "/_firn/discover/suggest", ask).await;
    assert_eq!(
        (&busy["items"], &busy["partial"], &busy["timed_out"]),
        (&json!([]), &json!(true), &json!(true))
    );
    fail(ErrorKind::Unavailable);
    let failed = node.fails("POST", "/_firn/discover/suggest", ask).await;
    assert!(failed.starts_with("503 "), "{failed}");
}

#[tokio::test]
async fn fields_without_values_and_indices_without_matches_are_left_out() {
    let node = Node::new();
    let mappings = r#"{"mappings":{"properties":{"full":{"type":"text","fields":{"raw":{"type":"keyword"}}},"empty":{"type":"long"}}}}"#;
    node.ok("PUT", "/a", mappings).await;
    let names = |answer: &serde_json::Value| {
        let fields = answer["fields"].as_object().unwrap();
        fields.keys().cloned().collect::<Vec<_>>().join(" ")
    };
    let all = node.ok("GET", "/_field_caps?fields=*", "").await;
    assert_eq!(names(&all), "_id _ignored _source empty full full.raw");
    assert_eq!(all["fields"]["_ignored"]["_ignored"]["aggregatable"], true);
    let full = node
        .ok(
            "GET",
            "/_field_caps?fields=*&include_empty_fields=false&filters=-metadata",
            "",
        )
        .await;
    assert_eq!(names(&full), "full");
    let single = node
        .ok("GET", "/_field_caps?fields=*&filters=-multifield,-metadata", "")
        .await;
    assert_eq!(names(&single), "empty full");
    let filtered = node
        .ok(
            "POST",
            "/_field_caps?fields=e*",
            r#"{"index_filter":{"range":{"@timestamp":{"gte":"now-1d"}}}}"#,
        )
        .await;
    assert_eq!(
        (names(&filtered).as_str(), &filtered["indices"]),
        ("empty", &json!(["a"]))
    );
}
