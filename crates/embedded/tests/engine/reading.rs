//! Tests of reading: by id, by search, through aliases, over shards that fail.

use firn_engine::document::GetRequest;
use firn_engine::{Engine, ErrorKind, RequestContext};
use serde_json::json;

use crate::node::{Node, add, ctx, index, target};

#[test]
fn aliases_filter_and_many_indices_answer_together() {
    let node = Node::new();
    for (name, tenant) in [("logs-1", "acme"), ("logs-2", "emca")] {
        node.create(
            name,
            json!({"mappings": {"properties": {"tenant": {"type": "keyword"}}},
                   "aliases": {"acme": {"filter": {"term": {"tenant": "acme"}}}}}),
        )
        .unwrap();
        node.bulk((0..10).map(|n| add(name, json!({"tenant": tenant, "n": n}))).collect());
    }
    assert_eq!(node.count("logs-*", json!({"match_all": {}})), 20);
    assert_eq!(node.count("acme", json!({"match_all": {}})), 10);
    assert_eq!(node.count("acme", json!({"range": {"n": {"gte": 5}}})), 5);
    let error = node.search("missing", json!({})).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IndexNotFound);
}

#[test]
fn an_alias_of_several_indices_has_no_single_document() {
    let node = Node::new();
    for name in ["logs-1", "logs-2"] {
        node.create(name, json!({"aliases": {"logs": {}}})).unwrap();
    }
    let error = node.try_get("logs", "a").unwrap_err();
    assert!(error.reason().contains("more than one index"), "{error}");
}

#[test]
fn a_get_knows_versions_and_what_is_searchable() {
    let node = Node::new();
    node.write(index("logs", "a", json!({"n": 1})));
    let request = |realtime, version| GetRequest {
        index: "logs".to_owned(),
        id: "a".to_owned(),
        routing: None,
        realtime,
        version,
    };
    let results = node
        .run(node.engine.get(
            &ctx(),
            vec![request(true, None), request(false, None), request(true, Some(2))],
        ))
        .unwrap();
    assert!(results[0].as_ref().unwrap().found.is_some());
    assert!(results[1].as_ref().unwrap().found.is_none());
    assert_eq!(results[2].as_ref().unwrap_err().kind(), ErrorKind::VersionConflict);
}

#[test]
fn many_documents_are_one_request_to_memory() {
    let node = Node::with(|config| config.search_memory_bytes_max = 4 << 20);
    node.write(index("logs", "a", json!({"text": "x".repeat(1 << 20)})));
    let get = |context: &RequestContext, count: usize| {
        let request = GetRequest {
            index: "logs".to_owned(),
            id: "a".to_owned(),
            routing: None,
            realtime: true,
            version: None,
        };
        node.run(node.engine.get(context, vec![request; count]))
    };
    assert_eq!(get(&ctx(), 1).unwrap().len(), 1);
    let error = get(&ctx(), 100).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CircuitBreaking, "{error}");
    assert_eq!(get(&ctx(), 1).unwrap().len(), 1, "the memory is released");
    let gone = RequestContext::new();
    gone.cancel.cancel();
    assert_eq!(get(&gone, 1).unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn a_search_whose_client_is_gone_stops() {
    let node = Node::new();
    node.write(index("logs", "a", json!({"n": 1})));
    let context = RequestContext::new();
    context.cancel.cancel();
    let request = firn_query::search::SearchRequest::parse(target("logs"), None).unwrap();
    let error = node.run(node.engine.search(&context, request)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn statistics_add_up() {
    let node = Node::new();
    node.create("logs", json!({"settings": {"number_of_shards": 2}}))
        .unwrap();
    node.bulk(
        (0..100)
            .map(|n| index("logs", &n.to_string(), json!({"n": n})))
            .collect(),
    );
    node.refresh("logs");
    node.search("logs", json!({})).unwrap();
    node.get("logs", "1");
    let stats = node.run(node.engine.stats(&ctx(), target("logs"))).unwrap();
    let shards = &stats[0].shards;
    assert_eq!(shards.len(), 2);
    assert_eq!(shards.iter().map(|shard| shard.doc_count).sum::<u64>(), 100);
    assert_eq!(shards.iter().map(|shard| shard.indexing_total).sum::<u64>(), 100);
    assert_eq!(shards.iter().map(|shard| shard.search_total).sum::<u64>(), 2);
    assert_eq!(shards.iter().map(|shard| shard.get_total).sum::<u64>(), 1);
    node.flush("logs");
    let stats = node.run(node.engine.stats(&ctx(), target("logs"))).unwrap();
    for shard in &stats[0].shards {
        assert_eq!(shard.translog_operations, 0);
        assert!(shard.store_size_bytes > 0);
        assert!(shard.segments.iter().all(|segment| segment.committed));
    }
}

#[test]
fn an_index_limits_docvalue_fields() {
    let node = Node::new();
    node.create("logs", json!({"settings": {"max_docvalue_fields_search": 2}}))
        .unwrap();
    node.write(index("logs", "a", json!({"n": 1})));
    node.refresh("logs");
    let fields = |count: usize| json!({"docvalue_fields": vec!["n"; count]});
    assert_eq!(node.search("logs", fields(2)).unwrap().hits.len(), 1);
    let error = node.search("logs", fields(3)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IllegalArgument);
    assert!(error.reason().contains("[2] but was [3]"), "{error}");
}
