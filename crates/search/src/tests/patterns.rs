//! Tests of many patterns: compiled expressions count as memory.

use std::sync::Arc;
use std::sync::mpsc::channel;

use firn_engine::{RequestContext, Scope};
use firn_model::tenant::TenantId;
use firn_model::{ErrorKind, Result};
use firn_query::Cancel;
use firn_query::search::{IndexTarget, SearchRequest, SearchResponse};
use firn_scheduler::{Flow, Pool, PoolConfig};
use serde_json::{Value, json};

use super::support::{LIMITS, NOW_MS, Shard, mapping, shard};
use crate::compile::Compiler;
use crate::compile::limits::{Deadline, Guard, Stop};
use crate::run::memory::Memory;
use crate::{NodeMemory, SearchLimits, search};

/// Returns an expression that compiles to a few hundred kilobytes.
fn large(number: usize) -> String {
    format!(".*(a|b|c|{number}).{{1,200}}[a-z]*.*")
}

fn run(body: &Value, node: &Arc<NodeMemory>) -> Result<SearchResponse> {
    let limits = SearchLimits {
        memory_bytes_max: 8 << 20,
        node_memory: Some(Arc::clone(node)),
        ..LIMITS
    };
    let pool = Arc::new(Pool::new("test", 2, 100));
    let shards = vec![Ok(shard().ready()), Ok(shard().ready())];
    search(shards, request(body), &pool, &RequestContext::new(), NOW_MS, limits)
}

#[test]
fn many_compiled_patterns_count_as_memory() {
    let regexp = |number: usize| json!({"regexp": {"host.name": large(number)}});
    let clauses: Vec<Value> = (0..60).map(regexp).collect();
    let words: Vec<String> = (0..60).map(|number| format!("host.name:/{}/", large(number))).collect();
    let filters: serde_json::Map<String, Value> = (0..60).map(|number| (number.to_string(), regexp(number))).collect();
    let includes: serde_json::Map<String, Value> = (0..60)
        .map(|number| {
            let terms = json!({"terms": {"field": "host.name", "include": large(number)}});
            (number.to_string(), terms)
        })
        .collect();
    let same = vec![regexp(1); 60];
    let node = NodeMemory::new(1 << 30);
    for body in [
        json!({"query": {"bool": {"should": clauses}}}),
        json!({"query": {"bool": {"filter": [{"bool": {"must_not": clauses}}]}}}),
        json!({"query": {"query_string": {"query": words.join(" OR ")}}}),
        json!({"size": 0, "aggs": {"f": {"filters": {"filters": filters}}}}),
        json!({"size": 0, "aggs": includes}),
    ] {
        let error = run(&body, &node).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::CircuitBreaking, "{error}");
        assert_eq!(node.used(), 0, "all memory is released");
    }
    // The same expression is compiled once.
    run(&json!({"query": {"bool": {"should": same}}}), &node).unwrap();
    assert_eq!(node.used(), 0);
}

/// Returns searches that take long before their first document. Each has about as many clauses as a request may
/// have.
fn slow_to_open() -> Vec<Value> {
    let blocks: Vec<String> = (0..20_000)
        .map(|n| format!("10.{}.{}.0/24", n / 250, n % 250))
        .collect();
    let clauses: Vec<Value> = (0..5000)
        .map(|n| json!({"term": {"host.name": format!("web-{n}")}}))
        .collect();
    let expressions: Vec<Value> = (0..40)
        .map(|n| json!({"regexp": {"host.name": format!("{n}.{{1,90}}x")}}))
        .collect();
    vec![
        json!({"query": {"terms": {"host.ip": blocks}}}),
        json!({"query": {"bool": {"should": clauses}}}),
        json!({"query": {"bool": {"should": expressions}}}),
    ]
}

fn request(body: &Value) -> Arc<SearchRequest> {
    Arc::new(SearchRequest::parse(IndexTarget::default(), Some(body)).unwrap())
}

/// There is one slot; a search that arrives while the clauses of another are compiled and opened runs first.
#[test]
fn other_searches_run_before_the_first_document() {
    for body in slow_to_open() {
        let search_config = |name| PoolConfig {
            name,
            threads: 1,
            queue_limit: 10,
        };
        let [pool] = Pool::sharing("test", 1, [search_config("search")]);
        let pool = Arc::new(pool);
        let flow = |name: &str| Flow::of(&Scope::tenant(TenantId::parse(name).unwrap()));
        let (log, logged) = channel();
        let (begin, begun) = channel();
        let (queued, is_queued) = channel::<()>();
        let (own_pool, own_log, request) = (Arc::clone(&pool), log.clone(), request(&body));
        pool.spawn(&flow("heavy"), move || {
            begin.send(()).unwrap();
            is_queued.recv().unwrap();
            let shards = vec![Ok(shard().ready())];
            let outcome = search(shards, request, &own_pool, &RequestContext::new(), NOW_MS, LIMITS);
            own_log.send(("heavy", outcome.err())).unwrap();
        })
        .unwrap();
        begun.recv().unwrap();
        pool.spawn(&flow("light"), move || log.send(("light", None)).unwrap())
            .unwrap();
        queued.send(()).unwrap();
        let ended: Vec<_> = (0..2).map(|_| logged.recv().unwrap()).collect();
        assert_eq!((ended[0].0, ended[1].0), ("light", "heavy"));
        assert!(ended[1].1.is_none(), "{:?}", ended[1].1);
        pool.close();
    }
}

#[test]
fn compilation_ends_at_a_timeout_or_a_disconnect() {
    let pool = Arc::new(Pool::new("test", 1, 10));
    for mut body in slow_to_open() {
        let ctx = RequestContext::new();
        ctx.cancel.cancel();
        let stop = Stop::new(&ctx, Deadline::NONE, &Memory::new(1 << 26, None, Cancel::default()));
        let guard = Guard::new(&stop);
        let shard = shard().ready();
        let query = request(&body).query.clone();
        let error = Compiler::of_shard(&shard, NOW_MS, &guard)
            .compile(&query)
            .err()
            .unwrap();
        assert_eq!(error.kind(), ErrorKind::Cancelled);

        body["timeout"] = json!("1ms");
        let shards = vec![Ok(shard)];
        let response = search(shards, request(&body), &pool, &RequestContext::new(), NOW_MS, LIMITS).unwrap();
        assert!(response.timed_out);
    }
}

/// Many values are looked up by another algorithm than few values; both find the same documents.
#[test]
fn many_values_find_the_documents_of_each() {
    let mut many = Shard::new(&mapping());
    let document = |n: usize| json!({"id": format!("{n}"), "host": {"name": format!("n{n}")}});
    many.segment(&(0..900).map(document).collect::<Vec<_>>(), &[3, 300]);
    many.segment(&(900..1000).map(document).collect::<Vec<_>>(), &[]);
    let count = |query: Value| {
        let body = json!({"size": 0, "track_total_hits": true, "query": query});
        super::support::run(vec![many.ready()], &body)
            .unwrap()
            .total
            .unwrap()
            .value
    };
    let none: Vec<String> = (0..400).map(|n| format!("x{n}")).collect();
    let names = |from: usize, to: usize, step: usize| -> Vec<String> {
        (from..to).step_by(step).map(|n| format!("n{n}")).collect()
    };
    for wanted in [names(0, 1000, 1), names(0, 1000, 3), names(299, 302, 1), none] {
        let each: u64 = wanted
            .iter()
            .map(|name| count(json!({"term": {"host.name": name}})))
            .sum();
        assert_eq!(count(json!({"terms": {"host.name": wanted}})), each);
        let several: Vec<String> = wanted.iter().cloned().chain(names(1000, 1600, 1)).collect();
        assert_eq!(count(json!({"terms": {"host.name": several}})), each);
    }
}
