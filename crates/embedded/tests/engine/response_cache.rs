//! Tests of the response cache: the same request is sent again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_engine::{Engine, RequestContext, Scope};
use firn_model::tenant::TenantId;
use firn_query::search::{SearchRequest, SearchResponse};
use serde_json::{Value, json};

use crate::node::{Node, START_MS, add, ctx, target};

/// Runs a search after a refresh.
fn ask(node: &Node, ctx: &RequestContext, body: &Value) -> SearchResponse {
    node.refresh("logs*");
    ask_of(node, ctx, "logs*", body)
}

fn ask_of(node: &Node, ctx: &RequestContext, names: &str, body: &Value) -> SearchResponse {
    let request = SearchRequest::parse(target(names), Some(body)).unwrap();
    node.run(node.engine.search(ctx, request)).unwrap()
}

/// Returns the request cache hits of all shards.
fn hit_count(node: &Node) -> u64 {
    let stats = node.run(node.engine.stats(&ctx(), target("logs*"))).unwrap();
    let shards = stats.iter().flat_map(|index| &index.shards);
    shards.map(|shard| shard.request_cache.hit_total).sum()
}

/// Whether the second response is the cached first one.
fn is_cached(first: &SearchResponse, second: &SearchResponse) -> bool {
    match (&first.aggregations, &second.aggregations) {
        (Some(first), Some(second)) => Arc::ptr_eq(first, second),
        _ => false,
    }
}

fn page() -> Value {
    json!({"size": 10, "sort": [{"n": "desc"}], "query": {"range": {"n": {"gte": 3}}},
           "aggs": {"most": {"max": {"field": "n"}}}})
}

fn totals(response: &SearchResponse) -> (u64, usize, String) {
    let aggregations = response.aggregations.as_ref().unwrap();
    (
        response.total.unwrap().value,
        response.hits.len(),
        aggregations.to_string(),
    )
}

fn node_of(count: u64) -> Node {
    let node = Node::new();
    node.create("logs-1", json!({"settings": {"number_of_shards": 2}}))
        .unwrap();
    node.bulk((0..count).map(|n| add("logs-1", json!({"n": n}))).collect());
    node
}

#[test]
fn a_repeated_request_returns_the_cached_page() {
    let node = node_of(10);
    let first = ask(&node, &ctx(), &page());
    let before = hit_count(&node);
    let second = ask(&node, &ctx(), &page());
    assert!(is_cached(&first, &second));
    assert_eq!(totals(&second), (7, 7, r#"{"most":{"value":9.0}}"#.to_owned()));
    assert_eq!(second.hits[0].source, first.hits[0].source);
    let third = ask(&node, &ctx(), &page());
    let printed = [&second, &third].map(|answer| answer.printed.as_ref().expect("a cached response"));
    assert!(Arc::ptr_eq(printed[0], printed[1]), "both share the printed response");
    assert!(first.printed.is_none(), "an uncached response is not printed");
    assert_eq!(hit_count(&node), before + 4, "one for each shard and answer");
    let mut other = page();
    other["size"] = 5.into();
    assert_eq!(totals(&ask(&node, &ctx(), &other)).1, 5);
}

#[test]
fn changes_invalidate_the_cache() {
    let node = node_of(10);
    let first = ask(&node, &ctx(), &page());
    node.bulk(vec![add("logs-1", json!({"n": 10}))]);
    let second = ask(&node, &ctx(), &page());
    assert_eq!(totals(&second), (8, 8, r#"{"most":{"value":10.0}}"#.to_owned()));
    // Another index matches the pattern.
    node.create("logs-2", json!({})).unwrap();
    node.bulk(vec![add("logs-2", json!({"n": 11}))]);
    let third = ask(&node, &ctx(), &page());
    assert_eq!(totals(&third).2, r#"{"most":{"value":11.0}}"#);
    assert!(!is_cached(&first, &second) && !is_cached(&second, &third));
    let target = target("logs-2");
    node.run(node.engine.clear_cache(&ctx(), target)).unwrap();
    assert!(
        !is_cached(&third, &ask(&node, &ctx(), &page())),
        "a cleared response is not returned"
    );
}

#[test]
fn responses_with_other_dependencies_are_not_cached() {
    let node = node_of(10);
    for (what, body) in [
        ("the clock", json!({"query": {"range": {"@timestamp": {"lte": "now"}}}})),
        ("its own times", json!({"profile": true})),
    ] {
        let mut request = page();
        request
            .as_object_mut()
            .unwrap()
            .extend(body.as_object().unwrap().clone());
        let first = ask(&node, &ctx(), &request);
        assert!(!is_cached(&first, &ask(&node, &ctx(), &request)), "{what}");
    }
    let uncached = |node: &Node| {
        let mut request = SearchRequest::parse(target("logs*"), Some(&page())).unwrap();
        request.request_cache = Some(false);
        node.run(node.engine.search(&ctx(), request)).unwrap()
    };
    let first = uncached(&node);
    assert!(!is_cached(&first, &uncached(&node)));
}

/// The cache looked for the letters `now` and `andom` in the text of the request.
#[test]
fn names_and_values_with_the_letters_of_now_are_cached() {
    let node = Node::new();
    node.create("snow-1", json!({})).unwrap();
    let documents = (0..10).map(|n| add("snow-1", json!({"n": n, "state": "known", "random": "nowak"})));
    node.bulk(documents.collect());
    node.refresh("snow-1");
    for (names, query, count) in [
        ("snow-1", json!({"match_all": {}}), 10),
        ("snow-1", json!({"term": {"state": "known"}}), 10),
        (
            "snow*",
            json!({"query_string": {"query": "random:nowak AND n:[3 TO *]"}}),
            7,
        ),
        ("snow-1", json!({"kql": {"query": "random: nowa*"}}), 10),
    ] {
        let body = json!({"query": query, "aggs": {"know_random": {"max": {"field": "n"}}}});
        let first = ask_of(&node, &ctx(), names, &body);
        assert_eq!(first.total.unwrap().value, count, "{body}");
        assert!(is_cached(&first, &ask_of(&node, &ctx(), names, &body)), "{body}");
    }
    let most = json!({"max": {"field": "n"}});
    for (names, body) in [
        (
            "snow-1",
            json!({"query": {"range": {"@timestamp": {"gte": "now-1d"}}}, "aggs": {"most": most}}),
        ),
        (
            "snow-1",
            json!({"query": {"kql": {"query": "not @timestamp >= now/d"}}, "aggs": {"most": most}}),
        ),
        (
            "snow-1",
            json!({"post_filter": {"term": {"state": "now"}}, "aggs": {"most": most}}),
        ),
        ("snow-1,<logs-{now/d}*>", json!({"aggs": {"most": most}})),
    ] {
        let first = ask_of(&node, &ctx(), names, &body);
        assert!(!is_cached(&first, &ask_of(&node, &ctx(), names, &body)), "{body}");
    }
}

#[test]
fn filters_of_aliases_may_depend_on_the_clock() {
    let node = Node::new();
    let last_hour = json!({"range": {"@timestamp": {"gte": "now-1h"}}});
    let aliases = json!({"recent": {"filter": last_hour}, "known": {"filter": {"term": {"state": "known"}}}});
    let mappings = json!({"properties": {"@timestamp": {"type": "date"}}});
    node.create("logs-1", json!({"aliases": aliases, "mappings": mappings}))
        .unwrap();
    let event = |n: i64| json!({"n": n, "state": "known", "@timestamp": START_MS - n * 60_000});
    node.bulk((0..10).map(|n| add("logs-1", event(n))).collect());
    node.refresh("logs-1");
    let body = json!({"aggs": {"most": {"max": {"field": "n"}}}});
    let first = ask_of(&node, &ctx(), "known", &body);
    assert!(is_cached(&first, &ask_of(&node, &ctx(), "known", &body)));
    assert_eq!(ask_of(&node, &ctx(), "recent", &body).total.unwrap().value, 10);
    node.clock.fetch_add(55 * 60_000 + 30_000, Ordering::Relaxed);
    assert_eq!(ask_of(&node, &ctx(), "recent", &body).total.unwrap().value, 5);
}

#[test]
fn tenants_do_not_share_cached_responses() {
    let node = Node::new();
    let tenants = json!({"settings": {"index.tenant.field": "tenant"},
                         "mappings": {"properties": {"tenant": {"type": "keyword"}}}});
    node.create("logs-1", tenants).unwrap();
    for (tenant, count) in [("acme", 5), ("emca", 9)] {
        node.bulk(
            (0..count)
                .map(|n| add("logs-1", json!({"tenant": tenant, "n": n})))
                .collect(),
        );
    }
    let scope = |tenant| {
        let mut ctx = RequestContext::new();
        ctx.scope = Scope::tenant(TenantId::parse(tenant).unwrap()).into();
        ctx
    };
    for _ in 0..2 {
        assert_eq!(totals(&ask(&node, &scope("acme"), &page())).0, 2);
        assert_eq!(totals(&ask(&node, &scope("emca"), &page())).0, 6);
        assert_eq!(totals(&ask(&node, &ctx(), &page())).0, 8);
    }
}
