//! `_async_search` over HTTP: partial and final results, and their retention.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::{Error, ErrorKind};
use firn_query::search::{SearchResponse, SearchShards, TotalHits};
use serde_json::{Value, json};

use crate::fake::{NOW_MS, Node};

/// Returns a node with an index and a document, whose searches take this long.
async fn node(search_delay: Duration) -> Node {
    let node = Node::new();
    node.ok("PUT", "/logs/_doc/1", r#"{"a":1}"#).await;
    *node.fake.search_delay.lock().unwrap() = search_delay;
    node
}

fn slow() -> Duration {
    Duration::from_secs(3600)
}

#[tokio::test]
async fn a_search_that_completes_at_once_is_not_stored() {
    let node = node(Duration::ZERO).await;
    let answer = node.ok("POST", "/logs/_async_search", r#"{"size":1}"#).await;
    assert_eq!(answer.get("id"), None);
    assert_eq!(
        (&answer["is_running"], &answer["is_partial"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(answer["start_time_in_millis"], NOW_MS);
    assert_eq!(answer["completion_time_in_millis"], NOW_MS);
    assert_eq!(answer["expiration_time_in_millis"], NOW_MS + 5 * 86_400_000);
    assert_eq!(answer["response"]["hits"]["hits"][0]["_source"], json!({"a": 1}));
    let request = node.fake.last_search.lock().unwrap().clone().unwrap();
    assert_eq!((request.size, request.request_cache), (1, Some(true)));
}

#[tokio::test]
async fn a_retained_search_is_readable_until_it_is_deleted() {
    let node = node(Duration::ZERO).await;
    let submitted = node
        .ok("POST", "/logs/_async_search?keep_on_completion=true&keep_alive=1m", "")
        .await;
    let path = format!("/_async_search/{}", submitted["id"].as_str().unwrap());
    assert_eq!(submitted["expiration_time_in_millis"], NOW_MS + 60_000);
    let again = node
        .ok("GET", &format!("{path}?rest_total_hits_as_int=true&keep_alive=2m"), "")
        .await;
    assert_eq!(again["expiration_time_in_millis"], NOW_MS + 120_000);
    assert_eq!(again["response"]["hits"]["total"], 1);
    let status = node
        .ok("GET", &path.replace("_async_search/", "_async_search/status/"), "")
        .await;
    assert_eq!(status["completion_status"], 200);
    assert_eq!(
        status["_shards"],
        json!({"total": 1, "successful": 1, "skipped": 0, "failed": 0})
    );
    assert_eq!(node.ok("DELETE", &path, "").await, json!({"acknowledged": true}));
    let id = submitted["id"].as_str().unwrap();
    for method in ["GET", "DELETE"] {
        assert_eq!(
            node.fails(method, &path, "").await,
            format!("404 resource_not_found_exception: {id}")
        );
    }
    assert_eq!(
        node.fails("GET", "/_async_search/nonsense", "").await,
        "400 illegal_argument_exception: invalid id: [nonsense]"
    );
}

#[tokio::test]
async fn a_running_search_tells_what_it_has_and_can_be_cancelled() {
    let node = node(slow()).await;
    let submitted = node
        .ok(
            "POST",
            "/logs/_async_search?wait_for_completion_timeout=1ms&typed_keys=true",
            "",
        )
        .await;
    let id = submitted["id"].as_str().unwrap().to_owned();
    assert_eq!(
        (&submitted["is_running"], &submitted["is_partial"]),
        (&json!(true), &json!(true))
    );
    let nothing_yet = &submitted["response"];
    assert_eq!(
        (&nothing_yet["_shards"]["successful"], &nothing_yet["hits"]["total"]),
        (&json!(0), &json!({"value": 0, "relation": "gte"}))
    );
    let ctx = node.fake.contexts.lock().unwrap().last().unwrap().clone();
    let progress = Arc::clone(ctx.progress.as_ref().expect("the context has a progress"));
    progress.publish(SearchResponse {
        shards: SearchShards {
            total: 4,
            successful: 3,
            ..SearchShards::default()
        },
        total: Some(TotalHits { value: 7, exact: false }),
        aggregations: Some(Arc::new(json!({"max#top": {"value": 1.0}}))),
        ..SearchResponse::default()
    });
    let partial = node.ok("GET", &format!("/_async_search/{id}"), "").await;
    assert_eq!(partial["response"]["_shards"]["successful"], 3);
    assert_eq!(
        partial["response"]["hits"]["total"],
        json!({"value": 7, "relation": "gte"})
    );
    assert_eq!(partial["response"]["aggregations"], json!({"top": {"value": 1.0}}));
    let typed = node
        .ok("GET", &format!("/_async_search/{id}?typed_keys=true"), "")
        .await;
    assert_eq!(typed["response"]["aggregations"], json!({"max#top": {"value": 1.0}}));
    let status = node.ok("GET", &format!("/_async_search/status/{id}"), "").await;
    assert_eq!(status["is_running"], true);
    assert_eq!(status.get("completion_status"), None);

    let running = |tasks: &Value| tasks["tasks"].to_string().matches("async_search/submit").count();
    let path = "/_tasks?group_by=none&actions=*async_search*";
    assert_eq!(running(&node.ok("GET", path, "").await), 1);
    assert!(!ctx.cancel.is_cancelled(), "the search outlives its request");
    node.ok("DELETE", &format!("/_async_search/{id}"), "").await;
    assert!(ctx.cancel.is_cancelled());
}

#[tokio::test]
async fn a_search_whose_client_goes_away_before_it_has_an_id_ends() {
    let node = node(slow()).await;
    let waiting = node.send("POST", "/logs/_async_search?wait_for_completion_timeout=1h", "");
    let answered = tokio::time::timeout(Duration::from_millis(200), waiting).await;
    assert!(answered.is_err(), "it waits");
    assert!(node.fake.contexts.lock().unwrap().last().unwrap().cancel.is_cancelled());
}

#[tokio::test]
async fn a_failure_has_the_status_of_its_cause() {
    let node = node(Duration::ZERO).await;
    *node.fake.search_error.lock().unwrap() = Some(Error::new(ErrorKind::QueryShard, "failed to create query"));
    let answer = node.send("POST", "/logs/_async_search", "").await;
    assert_eq!(answer.status(), 400);
    let body = answer.json();
    assert_eq!(
        (&body["is_running"], &body["is_partial"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(body["error"]["type"], "status_exception");
    assert_eq!(body["error"]["caused_by"]["type"], "search_phase_execution_exception");
    assert_eq!(
        body["error"]["caused_by"]["failed_shards"][0]["reason"]["reason"],
        "failed to create query"
    );
    let response = node
        .send("POST", "/logs/_async_search?keep_on_completion=true", "")
        .await;
    let id = response.json()["id"].as_str().unwrap().to_owned();
    let status = node.ok("GET", &format!("/_async_search/status/{id}"), "").await;
    assert_eq!(status["completion_status"], 400);
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_stored() {
    let node = Node::with(|config| config.async_searches.response_bytes_max = 100);
    node.ok("PUT", "/logs/_doc/1", r#"{"a":1}"#).await;
    node.ok("POST", "/logs/_async_search", "").await;
    let response = node
        .send("POST", "/logs/_async_search?keep_on_completion=true", "")
        .await;
    assert_eq!(response.status(), 400);
    assert!(
        response.text().contains("larger than [100] bytes"),
        "{}",
        response.text()
    );
}

#[tokio::test]
async fn what_elasticsearch_refuses_is_refused() {
    let node = node(Duration::ZERO).await;
    assert_eq!(
        node.fails(
            "POST",
            "/logs/_async_search?scroll=1m&keep_alive=5ms&pre_filter_shard_size=2",
            ""
        )
        .await,
        "400 action_request_validation_exception: Validation Failed: 1: [scroll] queries are not supported;2: \
         [keep_alive] must be greater or equals than 1 second, got:5ms;3: [pre_filter_shard_size] cannot be changed for \
         async search queries;"
    );
    assert!(
        node.fails("POST", "/logs/_async_search?nonsense=1", "")
            .await
            .contains("unrecognized parameter")
    );
}
