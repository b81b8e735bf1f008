//! Tests of indices that hold events by tenant: placement of documents, and searched shards.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::context::OpenPointInTime;
use firn_engine::document::{BulkItem, GetRequest};
use firn_engine::{Engine, ErrorKind, RequestContext, Scope};
use firn_model::metadata::Command;
use firn_model::placement::Placement;
use firn_model::routing::shard_for;
use firn_model::tenant::TenantId;
use firn_query::search::SearchRequest;
use serde_json::{Value, json};

use crate::node::{Node, add, ctx, index, target, update};

const SHARDS: u32 = 4;

/// Returns a node with the index `logs` of four shards, where the tenant `big` has dedicated shards.
fn with_tenants() -> Node {
    let node = Node::new();
    let table =
        json!({"number_of_shards": SHARDS, "tenants": {"big": [1, 3], "moved": [shard_for("moved", SHARDS) ^ 1]}});
    node.execute(Command::PutPlacement {
        placement: Some(Placement::parse(&table).unwrap()),
    })
    .unwrap();
    node.create(
        "logs",
        json!({"settings": {"index.number_of_shards": SHARDS, "index.tenant.field": "tenant"}}),
    )
    .unwrap();
    node
}

/// Returns the number of documents by shard.
fn counts(node: &Node) -> Vec<u64> {
    node.refresh("logs");
    let stats = node.run(node.engine.stats(&ctx(), target("logs"))).unwrap();
    stats[0].shards.iter().map(|shard| shard.doc_count).collect()
}

fn event(tenant: &str, n: u32) -> BulkItem {
    add("logs", json!({"tenant": tenant, "n": n}))
}

#[test]
fn events_of_a_tenant_are_in_its_shards() {
    let node = with_tenants();
    for response in node.bulk((0..40).map(|n| event("acme", n)).collect()) {
        response.result.unwrap();
    }
    let mut expect = vec![0; SHARDS as usize];
    expect[shard_for("acme", SHARDS) as usize] = 40;
    assert_eq!(counts(&node), expect);
    node.bulk((0..10).map(|n| event("moved", n)).collect());
    expect[shard_for("moved", SHARDS) as usize ^ 1] += 10;
    assert_eq!(counts(&node), expect);
    // The placement table may change; the index does not.
    node.execute(Command::PutPlacement { placement: None }).unwrap();
    let node = node.reopen();
    node.bulk((0..10).map(|n| event("moved", n)).collect());
    expect[shard_for("moved", SHARDS) as usize ^ 1] += 10;
    assert_eq!(counts(&node), expect);
}

#[test]
fn a_large_tenant_spreads_over_its_shards_and_is_found_by_id() {
    let node = with_tenants();
    let mut items: Vec<BulkItem> = (0..2000).map(|n| event("big", n)).collect();
    items.extend((0..40).map(|n| index("logs", &format!("id-{n}"), json!({"tenant": "big", "n": n}))));
    let responses = node.bulk(items);
    let ids: Vec<String> = responses
        .into_iter()
        .map(|response| {
            response.result.unwrap();
            response.id
        })
        .collect();
    let counts = counts(&node);
    assert_eq!((counts[0], counts[2]), (0, 0));
    assert!(counts[1] > 300 && counts[3] > 300, "{counts:?}");
    for (position, id) in ids
        .iter()
        .enumerate()
        .filter(|(position, _)| position % 100 == 7 || *position >= 2000)
    {
        let request = GetRequest {
            index: "logs".to_owned(),
            id: id.clone(),
            routing: Some("big".to_owned()),
            realtime: true,
            version: None,
        };
        let found = node.run(node.engine.get(&ctx(), vec![request])).unwrap().pop().unwrap();
        let document = found.unwrap().found.expect("the document is there");
        let source: Value = serde_json::from_slice(&document.source).unwrap();
        assert_eq!(source["n"], json!(position % 2000));
        assert_eq!(document.routing.as_deref(), Some("big"));
    }
}

#[test]
fn a_routing_that_is_not_the_tenant_is_refused() {
    let node = with_tenants();
    let routed = |item: BulkItem, routing: &str| BulkItem {
        routing: Some(routing.to_owned()),
        ..item
    };
    node.write(routed(event("acme", 1), "acme"));
    let error = node.write_error(routed(event("acme", 1), "zeta"));
    assert_eq!(error.kind(), ErrorKind::IllegalArgument);
    node.write(routed(index("logs", "a", json!({"tenant": "acme"})), "acme"));
    let change = |doc: Value| routed(update("logs", "a", doc), "acme");
    node.write(change(json!({"n": 2})));
    for other in [json!({"tenant": null}), json!({"tenant": "zeta"})] {
        assert_eq!(node.write_error(change(other)).kind(), ErrorKind::IllegalArgument);
    }
}

fn search(node: &Node, ctx: &RequestContext, routing: Option<&str>, query: Value) -> (u64, u32, u32) {
    let body = json!({"query": query, "size": 0, "track_total_hits": true});
    let mut request = SearchRequest::parse(target("logs"), Some(&body)).unwrap();
    request.routing.extend(routing.map(str::to_owned));
    let response = node.run(node.engine.search(ctx, request)).unwrap();
    (
        response.total.unwrap().value,
        response.shards.total,
        response.shards.skipped,
    )
}

#[test]
fn only_the_tenants_shards_are_searched() {
    let node = with_tenants();
    let mut items: Vec<BulkItem> = (0..20).map(|n| event("acme", n)).collect();
    items.extend((0..30).map(|n| event("big", n)));
    items.push(add("logs", json!({"n": 1})));
    node.bulk(items);
    node.refresh("logs");
    let all = json!({"match_all": {}});
    let of = |tenant: &str| json!({"bool": {"filter": {"term": {"tenant": tenant}}}});
    assert_eq!(search(&node, &ctx(), None, all.clone()), (51, 4, 0));
    assert_eq!(search(&node, &ctx(), None, of("acme")), (20, 4, 3));
    assert_eq!(search(&node, &ctx(), None, of("big")), (30, 4, 2));
    assert_eq!(
        search(&node, &ctx(), None, json!({"terms": {"tenant": ["acme", "big"]}})).0,
        50
    );
    assert_eq!(search(&node, &ctx(), Some("acme"), of("acme")), (20, 1, 0));

    let as_tenant = |tenant: &str| RequestContext {
        scope: Arc::new(Scope::tenant(TenantId::parse(tenant).unwrap())),
        ..RequestContext::new()
    };
    assert_eq!(search(&node, &as_tenant("acme"), None, all.clone()), (20, 1, 0));
    assert_eq!(search(&node, &as_tenant("big"), None, all.clone()), (30, 2, 0));
    assert_eq!(search(&node, &as_tenant("noname"), None, all), (0, 1, 0));
}

#[test]
fn nothing_is_written_for_a_tenant_that_is_being_deleted() {
    let node = with_tenants();
    node.write(event("acme", 1));
    let close = |closed| Command::SetTenantClosed {
        tenant: "acme".to_owned(),
        closed,
    };
    assert!(node.execute(close(true)).unwrap().changed);
    assert!(!node.execute(close(true)).unwrap().changed);
    let node = node.reopen();
    let error = node.write_error(event("acme", 2));
    assert_eq!(
        (error.kind(), error.reason()),
        (
            ErrorKind::Forbidden,
            "tenant [acme] is being deleted: it accepts no more writes"
        )
    );
    node.write(event("other", 1));
    node.execute(close(false)).unwrap();
    node.write(event("acme", 3));
}

#[test]
fn a_context_of_a_deleted_tenant_is_not_visible_to_the_next_of_its_name() {
    let node = with_tenants();
    node.write(event("acme", 1));
    node.refresh("logs");
    let acme = RequestContext {
        scope: Arc::new(Scope::tenant(TenantId::parse("acme").unwrap())),
        ..RequestContext::new()
    };
    let open = |ctx: &RequestContext| {
        let request = OpenPointInTime {
            target: target("logs"),
            routing: Vec::new(),
            keep_alive: Duration::from_secs(60),
            index_filter: None,
            allow_partial_results: false,
        };
        node.run(node.engine.open_point_in_time(ctx, request)).unwrap();
    };
    let count = |ctx: &RequestContext| node.run(node.engine.points_in_time(ctx)).unwrap().len();
    let close = |closed| {
        let command = Command::SetTenantClosed {
            tenant: "acme".to_owned(),
            closed,
        };
        node.execute(command).unwrap()
    };
    open(&acme);
    open(&ctx());
    close(true);
    assert_eq!(count(&ctx()), 1);
    // By a request that was already running.
    open(&acme);
    close(true);
    assert_eq!(count(&acme), 1);
    close(false);
    assert_eq!((count(&acme), count(&ctx())), (0, 1));
}
