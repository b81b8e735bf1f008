//! Scrolls and points in time over HTTP: forms of ids, shapes of answers.

use std::time::Duration;

use firn_engine::{Error, ErrorKind};
use serde_json::json;

use crate::fake::Node;

#[tokio::test]
async fn elasticsearchs_points_in_time() {
    let node = Node::new();
    node.ok("PUT", "/logs", "").await;
    assert_eq!(
        node.fails("POST", "/logs/_pit", "").await,
        "400 action_request_validation_exception: Validation Failed: 1: [keep_alive] is not specified;"
    );
    let opened = node.ok("POST", "/logs/_pit?keep_alive=1m", "").await;
    assert_eq!(opened["_shards"]["total"], 1);
    let id = opened["id"].as_str().unwrap();

    let body = json!({"pit": {"id": id, "keep_alive": "2m"}, "sort": ["n"]}).to_string();
    node.ok("POST", "/_search", &body).await;
    let request = node.fake.last_search.lock().unwrap().clone().unwrap();
    assert_eq!(
        request.point_in_time.unwrap().keep_alive,
        Some(Duration::from_secs(120))
    );
    assert_eq!(
        node.fails("POST", "/logs/_search", &body).await,
        "400 action_request_validation_exception: Validation Failed: 1: [indices] cannot be used with point in time. \
         Do not specify any index with point in time.;"
    );
    assert_eq!(
        node.fails("POST", "/_search?routing=a", &body).await,
        "400 action_request_validation_exception: Validation Failed: 1: [routing] cannot be used with point in time;"
    );
    assert!(
        node.fails("POST", "/_search?preference=a", &body)
            .await
            .contains("[preference]")
    );
    assert!(
        node.fails("POST", "/_search?scroll=1m", &body)
            .await
            .contains("not allowed in a scroll context")
    );

    let close = json!({"id": id}).to_string();
    assert_eq!(
        node.ok("DELETE", "/_pit", &close).await,
        json!({"succeeded": true, "num_freed": 1})
    );
    let again = node.send("DELETE", "/_pit", &close).await;
    assert_eq!(
        (again.status(), again.json()),
        (404, json!({"succeeded": false, "num_freed": 0}))
    );
    assert_eq!(
        node.fails("DELETE", "/_pit", "").await,
        "400 action_request_validation_exception: Validation Failed: 1: id is empty;"
    );
    assert!(
        node.fails("POST", "/logs/_pit?keep_alive=1m", r#"{"a":1}"#)
            .await
            .starts_with("400")
    );
}

#[tokio::test]
async fn opensearchs_points_in_time() {
    let node = Node::new();
    node.ok("PUT", "/logs", "").await;
    let list = "/_search/point_in_time/_all";
    assert_eq!(
        node.fails("POST", "/logs/_search/point_in_time", "").await,
        "400 action_request_validation_exception: Validation Failed: 1: keep alive not specified;"
    );
    let opened = node.ok("POST", "/logs/_search/point_in_time?keep_alive=1m", "").await;
    let id = opened["pit_id"].as_str().unwrap();
    assert_eq!(
        opened["_shards"],
        json!({"total": 1, "successful": 1, "skipped": 0, "failed": 0})
    );
    assert_eq!(
        node.ok("GET", list, "").await,
        json!({"pits": [{"pit_id": id, "creation_time": opened["creation_time"], "keep_alive": 60000}]})
    );
    let one = json!({"pit_id": [id]}).to_string();
    let deleted = json!({"pits": [{"successful": true, "pit_id": id}]});
    assert_eq!(node.ok("DELETE", "/_search/point_in_time", &one).await, deleted);
    assert_eq!(node.ok("DELETE", "/_search/point_in_time", &one).await, deleted);
    assert_eq!(
        node.fails("DELETE", "/_search/point_in_time", "{}").await,
        "400 action_request_validation_exception: Validation Failed: 1: no pit ids specified;"
    );
    node.ok("POST", "/logs/_search/point_in_time?keep_alive=1m", "").await;
    assert_eq!(node.ok("DELETE", list, "").await["pits"].as_array().unwrap().len(), 1);
    assert_eq!(node.ok("GET", list, "").await, json!({"pits": []}));
    assert_eq!(node.ok("DELETE", list, "").await, json!({"pits": []}));
}

#[tokio::test]
async fn scroll_ids_come_in_many_ways() {
    let node = Node::new();
    for (uri, body) in [
        ("/_search/scroll/s1?scroll=1m", ""),
        ("/_search/scroll?scroll=1m&scroll_id=s1", ""),
        ("/_search/scroll", r#"{"scroll":"1m","scroll_id":"s1"}"#),
        ("/_search/scroll/other?scroll=7s", r#"{"scroll":"1m","scroll_id":"s1"}"#),
    ] {
        for method in ["GET", "POST"] {
            let page = node.ok(method, uri, body).await;
            assert_eq!(page["_scroll_id"], "s1", "{uri}");
            let request = node.fake.scrolled.lock().unwrap().clone().unwrap();
            assert_eq!(
                (request.id.as_str(), request.keep_alive),
                ("s1", Some(Duration::from_secs(60)))
            );
        }
    }
    let page = node
        .ok("GET", "/_search/scroll/s1?rest_total_hits_as_int=true", "")
        .await;
    assert_eq!(page["hits"]["total"], 7);
    assert_eq!(node.fake.scrolled.lock().unwrap().clone().unwrap().keep_alive, None);
    assert_eq!(
        node.fails("GET", "/_search/scroll", "").await,
        "400 action_request_validation_exception: Validation Failed: 1: scrollId is missing;"
    );
    assert_eq!(
        node.fails("POST", "/_search/scroll", r#"{"scroll_id":5}"#).await,
        "400 illegal_argument_exception: Unknown parameter [scroll_id] in request body or parameter is of the wrong \
         type[VALUE_NUMBER] "
    );
    node.ok("PUT", "/logs", "").await;
    node.ok("GET", "/logs/_search?scroll=1m", "").await;
    let request = node.fake.last_search.lock().unwrap().clone().unwrap();
    assert_eq!(request.scroll, Some(Duration::from_secs(60)));
    assert!(
        node.fails("GET", "/logs/_search?scroll=1m&from=1", "")
            .await
            .contains("using [from]")
    );
    assert!(
        node.fails("GET", "/logs/_search?scroll=1m&request_cache=true", "")
            .await
            .contains("[request_cache]")
    );
    assert!(
        node.fails("GET", "/logs/_search?scroll=abc", "")
            .await
            .starts_with("400")
    );
}

#[tokio::test]
async fn a_missing_context_has_elasticsearchs_shape() {
    let node = Node::new();
    let missing = Error::new(ErrorKind::SearchContextMissing, "No search context found for id [s1]");
    *node.fake.search_error.lock().unwrap() = Some(missing);
    let reason = json!({"type": "search_context_missing_exception", "reason": "No search context found for id [s1]"});
    let expected = json!({
        "error": {
            "root_cause": [reason],
            "type": "search_phase_execution_exception",
            "reason": "all shards failed",
            "phase": "query",
            "grouped": true,
            "failed_shards": [{"shard": -1, "index": null, "reason": reason}],
        },
        "status": 404,
    });
    for (uri, body) in [("/_search/scroll/s1", ""), ("/_search", r#"{"pit":{"id":"s1"}}"#)] {
        let answer = node.send("POST", uri, body).await;
        assert_eq!((answer.status(), answer.json()), (404, expected.clone()), "{uri}");
    }
}

#[tokio::test]
async fn scrolls_are_cleared() {
    let node = Node::new();
    let nothing = json!({"succeeded": true, "num_freed": 0});
    for (uri, body) in [
        ("/_search/scroll/s1,s2", ""),
        ("/_search/scroll?scroll_id=s1", ""),
        ("/_search/scroll", r#"{"scroll_id":["s1","s2"]}"#),
        ("/_search/scroll", r#"{"scroll_id":"s1"}"#),
        ("/_search/scroll/_all", ""),
    ] {
        let answer = node.send("DELETE", uri, body).await;
        assert_eq!((answer.status(), answer.json()), (404, nothing.clone()), "{uri}");
    }
    assert_eq!(
        node.fails("DELETE", "/_search/scroll", "").await,
        "400 action_request_validation_exception: Validation Failed: 1: no scroll ids specified;"
    );
}
