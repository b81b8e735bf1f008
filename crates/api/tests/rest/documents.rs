//! Single documents and bulks over HTTP.

use serde_json::json;

use crate::fake::Node;

#[tokio::test]
async fn writes_and_reads_documents() {
    let node = Node::new();
    let created = node.send("PUT", "/i/_doc/1?refresh", r#"{"a": 1}"#).await;
    assert_eq!(created.status(), 201);
    insta::assert_snapshot!(created.text(), @r#"{"_index":"i","_id":"1","_version":1,"result":"created","_shards":{"total":1,"successful":1,"failed":0},"_seq_no":0,"_primary_term":1}"#);
    insta::assert_snapshot!(node.send("GET", "/i/_doc/1", "").await.text(), @r#"{"_index":"i","_id":"1","_version":1,"_seq_no":0,"_primary_term":1,"found":true,"_source":{"a": 1}}"#);
    assert_eq!(node.send("GET", "/i/_source/1", "").await.text(), r#"{"a": 1}"#);
    assert_eq!(node.send("HEAD", "/i/_source/1", "").await.status(), 200);
    let missing = node.send("GET", "/i/_doc/2", "").await;
    assert_eq!(missing.status(), 404);
    assert_eq!(missing.text(), r#"{"_index":"i","_id":"2","found":false}"#);
    assert_eq!(node.send("HEAD", "/i/_doc/2", "").await.status(), 404);
    assert_eq!(
        node.fails("GET", "/i/_source/2", "").await,
        "404 resource_not_found_exception: Document not found [i]/[2]"
    );
    let updated = node.ok("POST", "/i/_update/1", r#"{"doc":{"a":2}}"#).await;
    assert_eq!(
        (&updated["result"], &updated["_version"]),
        (&json!("updated"), &json!(2))
    );
    assert_eq!(node.ok("DELETE", "/i/_doc/1", "").await["result"], "deleted");
    let gone = node.send("DELETE", "/i/_doc/1", "").await;
    assert_eq!(
        (gone.status(), gone.json()["result"].clone()),
        (404, json!("not_found"))
    );
    let made = node.ok("POST", "/i/_doc", "{}").await;
    assert!(made["_id"].is_string());
}

#[tokio::test]
async fn refuses_contradictory_writes() {
    let node = Node::new();
    node.ok("PUT", "/i/_create/1", "{}").await;
    for (method, uri, body, expected) in [
        (
            "PUT",
            "/i/_create/1",
            "{}",
            "409 version_conflict_engine_exception: [1]: version conflict, document already exists (current version [1])",
        ),
        ("PUT", "/i/_doc/1", "", "400 parse_exception: request body is required"),
        (
            "PUT",
            "/i/_doc/1?version=3",
            "{}",
            "400 action_request_validation_exception: Validation Failed: 1: internal versioning can not be used for optimistic concurrency control. Please use `if_seq_no` and `if_primary_term` instead;",
        ),
        (
            "PUT",
            "/i/_doc/1?if_seq_no=3",
            "{}",
            "400 action_request_validation_exception: Validation Failed: 1: ifSeqNo is set to [3], but primary term is [0];",
        ),
        (
            "PUT",
            "/i/_create/1?version=3&version_type=external",
            "{}",
            "400 action_request_validation_exception: Validation Failed: 1: create operations only support internal versioning. use index instead;",
        ),
        (
            "POST",
            "/i/_update/1",
            r#"{"script":"ctx._source.a = 1"}"#,
            "400 not_implemented_exception: [script] of [_update] is not implemented by firn",
        ),
        (
            "POST",
            "/i/_update/1",
            "{}",
            "400 action_request_validation_exception: Validation Failed: 1: script or doc is missing;",
        ),
        (
            "POST",
            "/i/_update/9",
            r#"{"doc":{}}"#,
            "404 document_missing_exception: [9]: document missing",
        ),
        (
            "PUT",
            "/i/_doc/1?refresh=maybe",
            "{}",
            "400 illegal_argument_exception: Unknown value for refresh: [maybe].",
        ),
        (
            "PUT",
            "/i/_doc/1?wait_for_active_shards=2",
            "{}",
            "400 illegal_argument_exception: invalid wait_for_active_shards[2]: cannot be greater than number of shard copies [1]",
        ),
    ] {
        assert_eq!(node.fails(method, uri, body).await, expected);
    }
}

#[tokio::test]
async fn bulks_answer_item_by_item() {
    let node = Node::new();
    let body = concat!(
        r#"{"index":{"_index":"i","_id":"1"}}"#,
        "\n",
        r#"{"a":1}"#,
        "\n",
        r#"{"create":{"_index":"i","_id":"1"}}"#,
        "\n",
        r#"{"a":2}"#,
        "\n",
        r#"{"index":{"_index":"i","_id":"2"}}"#,
        "\n",
        "{broken\n",
        r#"{"update":{"_index":"i","_id":"1"}}"#,
        "\n",
        r#"{"doc":"#,
        "\n",
        r#"{"delete":{"_index":"i","_id":"1"}}"#,
        "\n",
    );
    let answer = node
        .ok(
            "POST",
            "/_bulk?filter_path=errors,items.*.status,items.*.error.type",
            body,
        )
        .await;
    assert_eq!(
        answer,
        json!({
            "errors": true,
            "items": [
                {"index": {"status": 201}},
                {"create": {"status": 409, "error": {"type": "version_conflict_engine_exception"}}},
                {"index": {"status": 400, "error": {"type": "document_parsing_exception"}}},
                {"update": {"status": 400, "error": {"type": "x_content_parse_exception"}}},
                {"delete": {"status": 200}},
            ]
        })
    );
}

#[tokio::test]
async fn a_malformed_action_applies_nothing() {
    let node = Node::new();
    let body = "{\"index\":{\"_id\":\"1\"}}\n{}\n{\"index\":7}\n{}\n";
    assert_eq!(
        node.fails("POST", "/i/_bulk", body).await,
        "400 illegal_argument_exception: Malformed action/metadata line [3], expected START_OBJECT but found [VALUE_NUMBER]"
    );
    assert_eq!(node.send("HEAD", "/i", "").await.status(), 404);
    assert_eq!(
        node.fails("POST", "/_bulk", "").await,
        "400 parse_exception: request body is required"
    );
}

#[tokio::test]
async fn reads_several_documents() {
    let node = Node::new();
    node.ok("PUT", "/i/_doc/1", r#"{"a":1,"b":2}"#).await;
    let answer = node
        .send(
            "POST",
            "/_mget",
            r#"{"docs":[{"_index":"i","_id":"1","_source":["b"]},{"_index":"i","_id":"2"},{"_index":"x","_id":"1"}]}"#,
        )
        .await;
    insta::assert_snapshot!(answer.text(), @r#"{"docs":[{"_index":"i","_id":"1","_version":1,"_seq_no":0,"_primary_term":1,"found":true,"_source":{"b":2}},{"_index":"i","_id":"2","found":false},{"_index":"x","_id":"1","error":{"type":"index_not_found_exception","reason":"no such index [x]","resource.type":"index_or_alias","resource.id":"x","index_uuid":"_na_","index":"x","root_cause":[{"type":"index_not_found_exception","reason":"no such index [x]","resource.type":"index_or_alias","resource.id":"x","index_uuid":"_na_","index":"x"}]}}]}"#);
    assert_eq!(
        node.fails("POST", "/_mget", r#"{"ids":["1"]}"#).await,
        "400 action_request_validation_exception: Validation Failed: 1: index is missing for doc 0;"
    );
}
