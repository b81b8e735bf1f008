//! Tests of `profile`.

use serde_json::{Value, json};

use super::support::{run, shard};

fn profile(body: &Value) -> firn_query::search::ShardProfile {
    let mut body = body.clone();
    body["profile"] = json!(true);
    let response = run(vec![shard().ready()], &body).unwrap();
    response.profile.unwrap().shards.remove(0)
}

#[test]
fn segments_and_documents_are_counted() {
    // The second segment ends at 23:30 of the previous day.
    let pruned = profile(&json!({"query": {"range": {"@timestamp": {"gte": "2024-06-15T00:00:00Z"}}}}));
    let counts = pruned.segments;
    assert_eq!(
        (counts.total, counts.pruned, counts.read, counts.passed_over),
        (2, 1, 1, 0)
    );
    assert_eq!(
        (pruned.index.as_str(), pruned.shard, pruned.documents_matched),
        ("test", 0, 2)
    );
    assert!(pruned.times.compile > 0 && pruned.times.matching > 0 && pruned.times.fetch > 0);

    let all = profile(&json!({"query": {"match": {"message": "fox"}}, "size": 0, "aggs": {
        "a": {"terms": {"field": "host.name"}, "aggs": {"s": {"max": {"field": "size"}}}}, "b": {"max": {"field": "size"}}
    }}));
    assert_eq!((all.segments.read, all.documents_matched, all.blocks), (2, 3, 2));
    assert_eq!(all.times.fetch, 0);
    let aggregations: Vec<_> = all
        .aggregations
        .iter()
        .map(|aggregation| (aggregation.name.as_str(), aggregation.kind))
        .collect();
    assert_eq!(aggregations, [("a", "terms"), ("b", "max")]);
    let measured: u64 = all.aggregations.iter().map(|aggregation| aggregation.collect_ns).sum();
    assert!(measured > 0 && measured <= all.times.aggregate, "{all:?}");
}

#[test]
fn without_profile_nothing_is_measured() {
    assert!(run(vec![shard().ready()], &json!({})).unwrap().profile.is_none());
}
