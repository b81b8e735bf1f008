//! Tests of progress reports of a running search.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::{Error, ErrorKind, Progress, RequestContext};
use firn_query::search::{IndexTarget, SearchRequest, SearchResponse};
use firn_scheduler::Pool;
use serde_json::{Value, json};

use super::support::{LIMITS, NOW_MS, Shard, documents, mapping, shard};
use crate::{FailedShard, ShardSearch, search};

/// Returns the answer of a search, and its last progress report.
fn run(shards: Vec<Result<ShardSearch, FailedShard>>, body: &Value) -> (SearchResponse, Arc<SearchResponse>) {
    let pool = Arc::new(Pool::new("test", 2, 100));
    let progress = Arc::new(Progress::every(Duration::ZERO));
    let ctx = RequestContext {
        progress: Some(Arc::clone(&progress)),
        ..RequestContext::new()
    };
    let request = SearchRequest::parse(IndexTarget::default(), Some(body)).unwrap();
    let response = search(shards, Arc::new(request), &pool, &ctx, NOW_MS, LIMITS).unwrap();
    (
        response,
        progress.latest().expect("a search reports at least its start"),
    )
}

fn other() -> ShardSearch {
    let mut other = Shard::named("other", 3, &mapping());
    other.segment(&documents(), &[]);
    other.ready()
}

#[test]
fn the_last_report_is_the_answer_without_hits() {
    let body = json!({"aggs": {
        "hosts": {"terms": {"field": "host.name"}, "aggs": {"newest": {"top_hits": {"size": 1}}}},
        "size": {"max": {"field": "size"}},
    }});
    let (response, reported) = run(vec![Ok(shard().ready()), Ok(other())], &body);
    assert!(!response.hits.is_empty() && reported.hits.is_empty());
    assert_eq!(reported.aggregations, response.aggregations);
    let (total, all) = (reported.total.unwrap(), response.total.unwrap());
    assert_eq!((total.value, total.exact), (all.value, false));
    assert_eq!((reported.shards.total, reported.shards.successful), (2, 2));
}

#[test]
fn a_shard_that_fails_is_named() {
    let failed = FailedShard {
        index: "gone".to_owned(),
        shard: 0,
        error: Error::new(ErrorKind::ShardDamaged, "damaged"),
    };
    let (_, reported) = run(vec![Err(failed), Ok(other())], &json!({"track_total_hits": false}));
    assert_eq!((reported.shards.total, reported.shards.successful), (2, 1));
    assert_eq!(reported.shards.failures[0].0, "gone");
    assert!(reported.total.is_none() && reported.aggregations.is_none());
}

#[test]
fn inner_searches_report_nothing() {
    let body = json!({"collapse": {"field": "id", "inner_hits": {"name": "all", "size": 5}}});
    let (response, reported) = run(vec![Ok(shard().ready())], &body);
    assert!(!response.hits[0].inner_hits.is_empty());
    assert_eq!(reported.total.unwrap().value, response.total.unwrap().value);
}

#[test]
fn aggregations_with_a_second_run_are_reported_only_at_the_end() {
    let body = json!({"size": 0, "aggs": {"all": {"global": {}, "aggs": {"n": {"value_count": {"field": "size"}}}}}});
    let (response, reported) = run(vec![Ok(shard().ready())], &body);
    assert!(response.aggregations.is_some() && reported.aggregations.is_none());
}
