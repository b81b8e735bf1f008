//! Searches that wait in the queue behind a job that blocks the only thread.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};

use firn_engine::Engine;
use firn_engine::context::OpenPointInTime;
use firn_model::metadata::Command;
use firn_query::search::{IndexTarget, TotalHits};
use firn_scheduler::Flow;
use firn_storage::disk::Disk;
use firn_storage::sim::SimDisk;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::config::EmbeddedConfig;
use crate::engine::Embedded;
use crate::engine::search_service::SearchService;

/// Starts a node with one search thread, and an index of two shards.
async fn start() -> (TempDir, Arc<Embedded>) {
    let folder = tempfile::tempdir().unwrap();
    let disk = SimDisk::new();
    disk.create_dir_all(folder.path()).unwrap();
    let mut config = EmbeddedConfig::new(folder.path(), Arc::new(disk), Arc::new(|| 0), 7);
    config.space = Some(Arc::new(|| Ok((1 << 40, 1 << 39))));
    (config.cores, config.search_threads) = (1, 1);
    let engine = Embedded::open(config).unwrap();
    let create = Command::CreateIndex {
        name: "logs".to_owned(),
        settings: json!({"number_of_shards": 2}),
        mappings: None,
        aliases: None,
    };
    engine.execute(&RequestContext::new(), create).await.unwrap();
    (folder, engine)
}

fn target(name: &str) -> IndexTarget {
    IndexTarget {
        expression: vec![name.to_owned()],
        ..IndexTarget::default()
    }
}

fn search(body: &Value) -> SearchRequest {
    SearchRequest::parse(target("logs"), Some(body)).unwrap()
}

fn hurried(body: &Value) -> SearchRequest {
    SearchRequest {
        timeout: Some(Duration::ZERO),
        ..search(body)
    }
}

/// Blocks the search thread until something is sent.
fn hold(engine: &Embedded) -> Sender<()> {
    let (go, gone) = channel();
    let (begin, begun) = channel();
    let job = move || {
        begin.send(()).unwrap();
        let _ = gone.recv();
    };
    engine.services.pools.search.spawn(&Flow::node(), job).unwrap();
    begun.recv().unwrap();
    go
}

#[tokio::test]
async fn a_search_that_times_out_in_the_queue_cancels_no_other_search_of_its_request() {
    let (_folder, engine) = start().await;
    let ctx = RequestContext::new();
    let go = hold(&engine);
    let late = async {
        let late = engine.search(&ctx, hurried(&json!({"profile": true}))).await;
        go.send(()).unwrap();
        late
    };
    let others = [(); 3].map(|()| engine.search(&ctx, search(&json!({}))));
    let (late, others) = tokio::join!(late, futures_util::future::join_all(others));
    let late = late.unwrap();
    assert!(late.timed_out && late.profile.is_some());
    for other in others {
        let other = other.unwrap();
        assert_eq!((other.timed_out, other.shards.successful), (false, 2));
    }
    assert!(!ctx.cancel.is_cancelled());
}

#[tokio::test]
async fn work_that_times_out_in_the_queue_never_runs() {
    let (_folder, engine) = start().await;
    let ctx = RequestContext::new();
    let go = hold(&engine);
    let ran = Arc::new(AtomicBool::new(false));
    let its_ran = Arc::clone(&ran);
    let work = move |_: &SearchService, _: &RequestContext, _: &str| {
        its_ran.store(true, Ordering::Relaxed);
        Ok(())
    };
    let outcome = in_time_on_search_pool(
        &engine.services.searches,
        &ctx,
        Some(Duration::ZERO),
        "the request",
        work,
    )
    .await;
    assert!(matches!(outcome, Ok(InTime::Late("the request"))));
    go.send(()).unwrap();
    // This search is behind the other in the queue.
    engine.search(&ctx, search(&json!({}))).await.unwrap();
    assert!(!ran.load(Ordering::Relaxed));
    assert_eq!(Arc::strong_count(&ran), 1, "it is gone");
}

#[tokio::test]
async fn a_search_that_times_out_in_the_queue_answers_with_its_shards() {
    let (_folder, engine) = start().await;
    let ctx = RequestContext::new();
    let point_in_time = OpenPointInTime {
        target: target("logs"),
        routing: Vec::new(),
        keep_alive: Duration::from_secs(60),
        index_filter: None,
        allow_partial_results: false,
    };
    let point_in_time = engine.open_point_in_time(&ctx, point_in_time).await.unwrap();
    let _go = hold(&engine);

    let body = json!({"aggs": {"hosts": {"terms": {"field": "host"}}}});
    let late = engine.search(&ctx, hurried(&body)).await.unwrap();
    assert!(late.timed_out && late.hits.is_empty());
    assert_eq!(late.total, Some(TotalHits { value: 0, exact: true }));
    assert_eq!((late.shards.total, late.shards.successful), (2, 2));
    assert_eq!(late.aggregations.unwrap()["hosts"]["buckets"], json!([]));

    let kind = async |request: SearchRequest| engine.search(&ctx, request).await.unwrap_err().kind();
    let missing = SearchRequest {
        target: target("missing"),
        ..hurried(&json!({}))
    };
    assert_eq!(kind(missing).await, ErrorKind::IndexNotFound);
    // Scrolls and points in time are read to the end by clients.
    let scroll = SearchRequest {
        scroll: Some(Duration::from_secs(60)),
        ..hurried(&json!({}))
    };
    assert_eq!(kind(scroll).await, ErrorKind::Rejected);
    let page = SearchRequest {
        target: IndexTarget::default(),
        ..hurried(&json!({"pit": {"id": point_in_time.id}}))
    };
    assert_eq!(kind(page).await, ErrorKind::Rejected);

    // A shard that fails is listed as always.
    let slot = Arc::clone(&engine.services.node.state().index("logs").unwrap().shards[1]);
    slot.replace(Err(Error::new(ErrorKind::ShardDamaged, "it is torn")));
    let late = engine.search(&ctx, hurried(&json!({}))).await.unwrap();
    assert_eq!((late.shards.total, late.shards.successful), (2, 1));
    let failed: Vec<_> = late
        .shards
        .failures
        .iter()
        .map(|(_, shard, error)| (*shard, error.kind()))
        .collect();
    assert_eq!(failed, [(1, ErrorKind::ShardDamaged)]);
    let whole = SearchRequest {
        allow_partial_results: false,
        ..hurried(&json!({}))
    };
    assert_eq!(kind(whole).await, ErrorKind::ShardDamaged);
}
