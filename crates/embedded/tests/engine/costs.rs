//! Tests of cost estimates: estimated bytes of searches on mounted indices, compared with the bytes fetched.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use firn_embedded::EmbeddedConfig;
use firn_engine::cost::SearchCost;
use firn_engine::mounts::{MountSnapshot, SearchableSnapshots as _, Storage};
use firn_engine::{Engine as _, ErrorKind, RequestContext, Result, Scope};
use firn_model::tenant::TenantId;
use firn_query::search::SearchRequest;
use firn_storage::RealDisk;
use serde_json::{Value, json};

use crate::mounts::{mount_as, node_of, shards, use_cache};
use crate::node::{Node, ctx, index, target};
use crate::snapshots::snapshot;

/// Bytes of text in an event: enough for some tens of document blocks in each split.
const TEXT_BYTES: usize = 700;
const EVENTS: u64 = 1500;

/// Returns incompressible text.
fn text(random: &mut Rng) -> String {
    (0..TEXT_BYTES).map(|_| random.alphanumeric()).collect()
}

/// Writes three splits in time order, the last of which has a deleted document.
fn fill(node: &Node, draw: &mut Rng) {
    let mappings = json!({"properties": {
        "@timestamp": {"type": "date"}, "user": {"type": "keyword"}, "host": {"type": "keyword"}, "text": {"type": "text", "index": false}, "n": {"type": "long"}
    }});
    node.create(
        "logs",
        json!({"settings": {"number_of_shards": 1}, "mappings": mappings}),
    )
    .unwrap();
    for part in 0..3 {
        let events = (0..EVENTS).map(|number| {
            let at = 1_700_000_000_000 + (part * EVENTS + number) * 1000;
            let event = json!({
                "@timestamp": at, "user": format!("u{}", draw.u64(..400)), "host": format!("h{}", number % 3),
                "n": draw.u64(..1000), "text": text(draw),
            });
            index("logs", &format!("{part}-{number}"), event)
        });
        let outcomes = node.bulk(events.collect());
        assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
        node.flush("logs");
    }
    node.write(crate::node::delete("logs", "2-7"));
}

fn cost(node: &Node, body: &Value) -> SearchCost {
    let request = SearchRequest::parse(target("frozen"), Some(body)).unwrap();
    node.run(node.engine.search_cost(&ctx(), request))
        .unwrap()
        .require()
        .unwrap()
}

/// Runs a search and returns the number of hits and of fetched bytes.
fn run(node: &Node, body: &Value) -> Result<(usize, u64)> {
    let ctx = ctx();
    let mut request = SearchRequest::parse(target("frozen"), Some(body)).unwrap();
    // A cached response would fetch nothing.
    request.request_cache = Some(false);
    let response = node.run(node.engine.search(&ctx, request))?;
    assert!(!response.timed_out, "{body}");
    Ok((response.hits.len(), ctx.work.done().repository_bytes))
}

fn clear(node: &Node) {
    node.run(node.engine.clear_shared_cache(&ctx(), target("*"))).unwrap();
}

/// Returns a node that mounts data of another node.
fn frozen(repositories: &Path, draw: &mut Rng) -> Node {
    let writer = node_of(repositories);
    fill(&writer, draw);
    snapshot(&writer, "first", "logs").unwrap();
    let node = node_of(repositories);
    mount_as(&node, "frozen", Storage::SharedCache).unwrap();
    node
}

/// Returns the node after a kill, with or without a limit on the bytes of a search.
fn limited(node: Node, repositories: &Path, max: Option<u64>) -> Node {
    let folder = Arc::clone(&node.folder);
    drop(node);
    let change = |config: &mut EmbeddedConfig| {
        use_cache(repositories, config);
        config.search_repository_bytes_max = max;
    };
    Node::open(folder, Arc::new(RealDisk), change).unwrap()
}

fn newest() -> Value {
    json!({"sort": [{"@timestamp": "desc"}], "size": 50, "track_total_hits": false})
}

#[test]
fn a_fully_cached_search_costs_nothing_and_is_never_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = frozen(folder.path(), &mut Rng::with_seed(1));
    let questions = [
        newest(),
        json!({"query": {"term": {"user": "u7"}}, "size": 30}),
        json!({"query": {"range": {"n": {"lt": 20}}}, "sort": ["n"], "size": 40}),
        json!({"size": 0, "aggs": {"h": {"terms": {"field": "host"}, "aggs": {"t": {"top_hits": {"size": 2}}}}}}),
        json!({"collapse": {"field": "host", "inner_hits": {"name": "i", "size": 2}}, "size": 3}),
    ];
    for question in questions {
        node = limited(node, folder.path(), Some(1));
        clear(&node);
        let estimate = cost(&node, &question);
        assert!(estimate.bytes > 0, "{question}");
        let error = run(&node, &question).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IllegalArgument, "{question}");
        let details = error.details().unwrap();
        assert_eq!(details["limit"], "search.max_repository_bytes");
        assert!(details["estimate"]["bytes"].as_u64().unwrap() > 1, "{error}");
        node = limited(node, folder.path(), None);
        assert!(run(&node, &question).unwrap().1 > 1, "{question}");
        // After a restart only the disk cache has the data.
        node = limited(node, folder.path(), Some(1));
        assert_eq!(cost(&node, &question).bytes, 0, "{question}");
        let (hits, fetched) = run(&node, &question).unwrap();
        assert_eq!(fetched, 0, "{question}");
        assert_eq!(hits > 0, question["size"] != 0, "{question}");
    }
    clear(&node);
    assert!(run(&node, &newest()).is_err());
}

#[test]
fn the_estimate_depends_on_the_hits_to_fetch() {
    let folder = tempfile::tempdir().unwrap();
    let node = frozen(folder.path(), &mut Rng::with_seed(2));
    let one = cost(&node, &json!({"query": {"term": {"host": "h1"}}, "size": 1}));
    let store = |cost: &SearchCost| cost.kinds.iter().find(|(kind, _)| *kind == "store").unwrap().1.bytes;
    let all = cost(&node, &json!({"query": {"term": {"host": "h1"}}, "size": 5000}));
    // The estimate covers all documents, not one block per requested hit.
    assert!(store(&all) > 20 * store(&one), "{all:?}");
    assert!(store(&all) < 3 * EVENTS * 2 * TEXT_BYTES as u64, "{all:?}");
    // Only the newest of three splits.
    let newest = cost(&node, &newest());
    assert!(store(&newest) < store(&all) / 2, "{newest:?} of {all:?}");
    // Only a time window.
    let window = json!({"range": {"@timestamp": {"gte": 1_700_000_000_000_u64, "lt": 1_700_000_010_000_u64}}});
    let window = cost(&node, &json!({"query": window, "size": 5000}));
    assert!(store(&window) < store(&all) / 2, "{window:?} of {all:?}");
    let nothing = cost(
        &node,
        &json!({"query": {"term": {"host": "h1"}}, "stored_fields": "_none_", "size": 10}),
    );
    assert!(
        nothing
            .kinds
            .iter()
            .all(|(kind, cost)| *kind != "store" || cost.bytes == 0),
        "{nothing:?}"
    );
}

#[test]
fn no_search_fetches_more_than_its_estimate() {
    // With the second seed, a term and an exclusion restrict a column while only the term's postings are not cached.
    for seed in [firn_testkit::seed("costs of searches"), 14_339_556_283_034_319_051] {
        fetches_no_more_than_said(seed);
    }
}

fn fetches_no_more_than_said(seed: u64) {
    let mut draw = Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let node = frozen(folder.path(), &mut draw);
    let question = |draw: &mut Rng| {
        let query = match draw.u64(..6) {
            0 => json!({"match_all": {}}),
            1 => json!({"term": {"user": format!("u{}", draw.u64(..450))}}),
            2 => json!({"terms": {"host": ["h1", "h2"]}}),
            3 => json!({"range": {"n": {"gte": draw.u64(..1000)}}}),
            4 => {
                let from = 1_700_000_000_000 + draw.u64(..4500) * 1000;
                json!({"range": {"@timestamp": {"gte": from, "lt": from + draw.u64(..2_000_000)}}})
            }
            _ => {
                json!({"bool": {"filter": [{"term": {"host": "h0"}}], "must_not": [{"range": {"n": {"lt": draw.u64(..900)}}}]}})
            }
        };
        let size = [0, 1, 10, 200][draw.u64(..4) as usize];
        let mut body = json!({"query": query, "size": size});
        match draw.u64(..5) {
            0 => body["sort"] = json!([{"@timestamp": "desc"}]),
            1 => body["sort"] = json!([{"@timestamp": "asc"}, {"n": "desc"}]),
            2 => body["sort"] = json!(["n"]),
            _ => {}
        }
        match draw.u64(..6) {
            0 => body["aggs"] = json!({"a": {"terms": {"field": "user", "size": 5}}}),
            1 => body["aggs"] = json!({"a": {"terms": {"field": "host"}, "aggs": {"t": {"top_hits": {"size": 3}}}}}),
            2 => body["aggs"] = json!({"a": {"date_histogram": {"field": "@timestamp", "fixed_interval": "7m"}}}),
            3 => body["from"] = json!(draw.u64(..30)),
            4 => body["docvalue_fields"] = json!(["user", "n"]),
            _ => {}
        }
        body
    };
    let (mut fetching, mut free) = (0, 0);
    for round in 0..120 {
        if draw.u64(..3) == 0 {
            clear(&node);
        }
        let body = question(&mut draw);
        let estimate = cost(&node, &body);
        let (_, fetched) = run(&node, &body).unwrap();
        assert!(
            fetched <= estimate.bytes,
            "seed {seed}, round {round}: {fetched} of {estimate:?}, {body}"
        );
        let again = cost(&node, &body);
        assert_eq!(again.bytes, 0, "seed {seed}, round {round}: {again:?}, {body}");
        fetching += u32::from(fetched > 0);
        free += u32::from(fetched == 0);
    }
    assert!(fetching > 20 && free > 5, "seed {seed}: {fetching} and {free}");
}

fn acme() -> RequestContext {
    RequestContext {
        scope: Arc::new(Scope::tenant(TenantId::parse("acme").unwrap())),
        ..ctx()
    }
}

/// Writes fixed events of one tenant, and as many random ones of another; in two splits.
fn shared(repositories: &Path, mut draw: Rng) -> Node {
    let writer = node_of(repositories);
    let mappings = json!({"properties": {
        "@timestamp": {"type": "date"}, "user": {"type": "keyword"}, "host": {"type": "keyword"}, "text": {"type": "text"}, "n": {"type": "long"}
    }});
    let settings = json!({"number_of_shards": 1, "index.tenant.field": "tenant"});
    writer
        .create("logs", json!({"settings": settings, "mappings": mappings}))
        .unwrap();
    let mut own = Rng::with_seed(1);
    for part in 0..2u64 {
        let mut events = Vec::new();
        for number in 0..EVENTS {
            let at = 1_700_000_000_000 + (part * EVENTS + number) * 1000;
            let text = |draw: &mut Rng| (0..30).map(|_| draw.alphanumeric()).collect::<String>();
            let event = json!({
                "@timestamp": at, "tenant": "acme", "user": format!("acme-{}", own.u64(..400)), "host": format!("h{}", number % 3),
                "n": own.u64(..1000), "text": format!("{} event", text(&mut own)),
            });
            events.push(index("logs", &format!("a{part}-{number}"), event));
            let mut event = json!({
                "@timestamp": at, "tenant": "globex", "user": format!("{}-{}", text(&mut draw), draw.u64(..400)),
                "n": draw.i64(..), "text": text(&mut draw),
            });
            // Some have the same values as the other tenant, or none.
            match draw.u64(..4) {
                0 => event["host"] = json!(text(&mut draw)),
                1 => event["host"] = json!("h1"),
                2 => event["user"] = json!(format!("acme-{}", draw.u64(..400))),
                _ => {}
            }
            events.push(index("logs", &format!("g{part}-{number}"), event));
        }
        assert!(writer.bulk(events).iter().all(|outcome| outcome.result.is_ok()));
        writer.flush("logs");
    }
    snapshot(&writer, "first", "logs").unwrap();
    let node = node_of(repositories);
    mount_as(&node, "frozen", Storage::SharedCache).unwrap();
    node
}

/// Returns a random request of a tenant of [`shared`].
fn tenant_request(draw: &mut Rng) -> Value {
    let text: String = (0..draw.usize(1..6)).map(|_| draw.alphanumeric()).collect();
    let query = match draw.u64(..10) {
        0 => json!({"match_all": {}}),
        1 => json!({"term": {"user": format!("acme-{}", draw.u64(..450))}}),
        2 => json!({"term": {"user": text}}),
        3 => json!({"terms": {"host": ["h1", text, "zzzz"]}}),
        4 => json!({"match": {"text": format!("event {text}")}}),
        5 => json!({"prefix": {"user": text}}),
        6 => json!({"range": {"n": {"gte": draw.u64(..1000)}}}),
        7 => {
            let from = 1_700_000_000_000 + draw.u64(..3000) * 1000;
            json!({"range": {"@timestamp": {"gte": from, "lt": from + draw.u64(..2_000_000)}}})
        }
        8 => json!({"exists": {"field": "host"}}),
        _ => json!({"bool": {"filter": [{"term": {"host": "h0"}}], "must_not": [{"term": {"user": text}}]}}),
    };
    let size = [0, 1, 10, 200][draw.usize(..4)];
    let mut body = json!({"query": query, "size": size});
    match draw.u64(..5) {
        0 => body["sort"] = json!([{"@timestamp": "desc"}]),
        1 => body["sort"] = json!(["n"]),
        2 => body["sort"] = json!([{"user": "asc"}]),
        _ => {}
    }
    match draw.u64(..5) {
        0 => body["aggs"] = json!({"a": {"terms": {"field": "user", "size": 5}}}),
        1 => body["aggs"] = json!({"a": {"terms": {"field": "host"}, "aggs": {"t": {"top_hits": {"size": 3}}}}}),
        2 => body["aggs"] = json!({"a": {"date_histogram": {"field": "@timestamp", "fixed_interval": "7m"}}}),
        3 => body["docvalue_fields"] = json!(["user", "n"]),
        _ => {}
    }
    body
}

fn estimated_cost(node: &Node, ctx: &RequestContext, body: &Value) -> SearchCost {
    let request = SearchRequest::parse(target("frozen"), Some(body)).unwrap();
    node.run(node.engine.search_cost(ctx, request))
        .unwrap()
        .require()
        .unwrap()
}

#[test]
fn a_tenants_estimate_does_not_depend_on_other_tenants() {
    let seed = firn_testkit::seed("cost estimates of tenants");
    let mut draw = Rng::with_seed(seed);
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let nodes = [
        shared(folders[0].path(), draw.fork()),
        shared(folders[1].path(), draw.fork()),
    ];
    let mut fetching = 0;
    for round in 0..150 {
        let body = tenant_request(&mut draw);
        // The other tenants use the caches at random.
        for node in &nodes {
            match draw.u64(..4) {
                0 => clear(node),
                1 => drop(run(node, &tenant_request(&mut draw))),
                _ => {}
            }
        }
        let [one, other] = nodes.each_ref().map(|node| estimated_cost(node, &acme(), &body));
        assert_eq!(one, other, "seed {seed}, round {round}: {body}");
        let ctx = acme();
        let mut request = SearchRequest::parse(target("frozen"), Some(&body)).unwrap();
        request.request_cache = Some(false);
        if let Ok(response) = nodes[0].run(nodes[0].engine.search(&ctx, request)) {
            let fetched = ctx.work.done().repository_bytes;
            assert!(response.shards.failures.is_empty(), "{body}");
            assert!(
                fetched <= one.bytes,
                "seed {seed}, round {round}: {fetched} of {one:?}, {body}"
            );
            fetching += u32::from(fetched > 0);
        }
        assert_eq!(
            estimated_cost(&nodes[0], &acme(), &body),
            one,
            "seed {seed}, round {round}: {body}"
        );
    }
    assert!(fetching > 20, "seed {seed}: {fetching}");
}

#[test]
fn a_tenant_cannot_find_out_the_terms_of_other_tenants() {
    let folder = tempfile::tempdir().unwrap();
    let node = shared(folder.path(), Rng::with_seed(3));
    let of_term = |ctx: &RequestContext, term: &str| {
        estimated_cost(&node, ctx, &json!({"size": 0, "query": {"term": {"user": term}}}))
    };
    let [first, last] = ["a", "~"].map(|term| of_term(&acme(), term));
    assert_eq!(first, last);
    assert!(first.bytes > 0);
    assert_ne!(
        of_term(&ctx(), "a"),
        of_term(&ctx(), "~"),
        "an operator gets the exact estimate"
    );
    let limited = RequestContext {
        repository_bytes_max: Some(1),
        ..acme()
    };
    let body = json!({"size": 0, "query": {"term": {"user": "~"}}});
    let refused = |ctx: &RequestContext| {
        let request = SearchRequest::parse(target("frozen"), Some(&body)).unwrap();
        let error = node.run(node.engine.search(ctx, request)).unwrap_err();
        error.details().unwrap()["estimate"].clone()
    };
    assert_eq!(refused(&limited)["bytes"], last.bytes);
}

/// More splits than an estimate samples.
const MOUNTS: u64 = 70;
const OWN_EVENTS: u64 = 20;

/// Mounts a split of two tenants as `frozen` and, fully copied, as `copied-0` to `copied-69`; and `wide`, which
/// has as many remote splits.
fn copied(repositories: &Path) -> Node {
    let writer = node_of(repositories);
    let mappings = json!({"properties": {"user": {"type": "keyword"}, "n": {"type": "long"}}});
    let settings = json!({"number_of_shards": 1, "index.tenant.field": "tenant"});
    let body = json!({"settings": settings, "mappings": mappings});
    writer.create("logs", body).unwrap();
    let body = json!({"settings": {"number_of_shards": MOUNTS}, "mappings": mappings});
    writer.create("wide", body).unwrap();
    let mut events = Vec::new();
    for number in 0..OWN_EVENTS {
        for tenant in ["acme", "globex"] {
            let event = json!({"tenant": tenant, "user": format!("{tenant}-{number}"), "n": number});
            events.push(index("logs", &format!("{tenant}-{number}"), event));
        }
    }
    events
        .extend((0..MOUNTS * 20).map(|number| index("wide", &format!("{number}"), json!({"user": "u", "n": number}))));
    assert!(writer.bulk(events).iter().all(|outcome| outcome.result.is_ok()));
    for name in ["logs", "wide"] {
        writer.flush(name);
    }
    snapshot(&writer, "first", "logs,wide").unwrap();
    let node = node_of(repositories);
    mount_as(&node, "frozen", Storage::SharedCache).unwrap();
    let request = MountSnapshot {
        repository: "r".to_owned(),
        snapshot: "first".to_owned(),
        index: "wide".to_owned(),
        renamed_index: None,
        storage: Storage::SharedCache,
        index_settings: Value::Null,
        ignore_index_settings: Vec::new(),
    };
    node.run(node.engine.mount_snapshot(&ctx(), request)).unwrap();
    let is_here = |node: &Node, names: &str| {
        let copied = shards(node, names);
        let mut splits = copied.iter().map(|shard| shard.splits);
        splits.all(|splits| splits.is_some_and(|splits| splits.local_bytes == splits.bytes))
    };
    mount_as(&node, "copied-0", Storage::FullCopy).unwrap();
    for _ in 0..600 {
        if is_here(&node, "copied-0") {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    // A node copies two shards every few seconds: the files of the remaining ones are copied here.
    let copies: Vec<_> = std::fs::read_dir(node.shard_dir("copied-0", 0)).unwrap().collect();
    for number in 1..MOUNTS {
        let name = format!("copied-{number}");
        mount_as(&node, &name, Storage::FullCopy).unwrap();
        let own = node.shard_dir(&name, 0);
        std::fs::create_dir_all(&own).unwrap();
        for copy in copies.iter().flatten() {
            std::fs::copy(copy.path(), own.join(copy.file_name())).unwrap();
        }
    }
    let node = limited(node, repositories, None);
    // The manifests are read by the first search.
    let request = SearchRequest::parse(target("copied-*"), Some(&json!({"size": 0}))).unwrap();
    node.run(node.engine.search(&ctx(), request)).unwrap();
    let copied = shards(&node, "copied-*");
    assert_eq!(copied.len() as u64, MOUNTS);
    assert!(is_here(&node, "copied-*"), "{copied:?}");
    node
}

#[test]
fn splits_that_are_copied_as_a_whole_cost_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let node = copied(folder.path());
    let body =
        json!({"query": {"range": {"n": {"gte": 0}}}, "sort": [{"n": "desc"}], "size": 10, "track_total_hits": true});
    let cost = |node: &Node, ctx: &RequestContext, names: &str| {
        let request = SearchRequest::parse(target(names), Some(&body)).unwrap();
        let cost = node
            .run(node.engine.search_cost(ctx, request))
            .unwrap()
            .require()
            .unwrap();
        assert!(cost.sampled <= cost.splits, "{cost:?}");
        (cost.splits, cost.requests, cost.bytes, cost.rounds, cost.kinds)
    };
    let limited_to = |bytes: u64| RequestContext {
        repository_bytes_max: Some(bytes),
        ..acme()
    };
    let search = |node: &Node, ctx: &RequestContext, names: &str| {
        let request = SearchRequest::parse(target(names), Some(&body)).unwrap();
        let response = node.run(node.engine.search(ctx, request))?;
        Ok::<_, firn_engine::Error>(response.total.unwrap().value)
    };

    // All splits of the copies are local.
    for ctx in [acme(), ctx()] {
        let estimate = cost(&node, &ctx, "copied-*");
        assert_eq!(
            (estimate.0, estimate.1, estimate.2, estimate.3),
            (0, 0, 0, 0),
            "{estimate:?}"
        );
    }
    let zero_budget = limited_to(0);
    assert_eq!(search(&node, &zero_budget, "copied-*").unwrap(), MOUNTS * OWN_EVENTS);
    assert_eq!(zero_budget.work.done().repository_bytes, 0);

    // The remote mount has the same estimate alone and beside copies, independent of other tenants' reads.
    let alone = cost(&node, &acme(), "frozen");
    assert!(alone.0 == 1 && alone.2 > 0, "{alone:?}");
    let mixed = "copied-*,frozen";
    assert_eq!(cost(&node, &acme(), mixed), alone);
    assert!(search(&node, &limited_to(alone.2 - 1), mixed).is_err());
    assert_eq!(cost(&node, &acme(), mixed), alone);
    search(&node, &ctx(), mixed).unwrap();
    assert_eq!(cost(&node, &acme(), mixed), alone);
    let hits = search(&node, &limited_to(alone.2), mixed).unwrap();
    assert_eq!(hits, (MOUNTS + 1) * OWN_EVENTS);

    let mut node = Some(node);
    // The same where the estimate extrapolates from a sample of remote splits.
    let [alone, mixed] = ["wide", "wide,copied-*"].map(|names| {
        // No split is open after the restart.
        let own = node.take().unwrap();
        let own = node.insert(limited(own, folder.path(), None));
        let estimate = cost(own, &ctx(), names);
        clear(own);
        estimate
    });
    assert!(alone.0 == MOUNTS && alone.2 > 0, "{alone:?}");
    assert_eq!(mixed, alone);
}
