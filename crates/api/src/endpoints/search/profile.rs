//! `profile` of an answer, in Elasticsearch's shape.
//!
//! firn runs a query as a whole and not as a tree of Lucene scorers, so there is one entry per shard with the query as
//! its description. `breakdown` has those parts of Elasticsearch that firn has too; `debug` has the outcome of the
//! segments.

use firn_query::search::{Profile, ShardProfile};
use serde_json::{Map, Value, json};

/// Builds the value of `profile`.
pub(super) fn profile_object(profile: &Profile, node_id: &str) -> Value {
    let Profile { query, shards } = profile;
    let kind = query.as_object().and_then(|query| query.keys().next());
    let kind = kind.map_or("match_all", String::as_str);
    let description = query.to_string();
    let one = |shard: &ShardProfile| shard_object(shard, kind, &description, node_id);
    json!({"shards": shards.iter().map(one).collect::<Vec<_>>()})
}

fn shard_object(shard: &ShardProfile, kind: &str, description: &str, node_id: &str) -> Value {
    let (times, segments) = (&shard.times, &shard.segments);
    let opened = segments.read + segments.passed_over;
    json!({
        "id": format!("[{node_id}][{}][{}]", shard.index, shard.shard),
        "node_id": node_id,
        "shard_id": shard.shard,
        "index": shard.index,
        "cluster": "(local)",
        "searches": [{
            "query": [{
                "type": kind,
                "description": description,
                "time_in_nanos": times.compile + times.open + times.matching,
                "breakdown": {
                    "create_weight": times.compile,
                    "create_weight_count": 1,
                    "build_scorer": times.open,
                    "build_scorer_count": opened,
                    "next_doc": times.matching,
                    "next_doc_count": shard.documents_matched,
                },
                "debug": {
                    "segments_total": segments.total,
                    "segments_pruned": segments.pruned,
                    "segments_pruned_by_tenant": segments.pruned_by_tenant,
                    "segments_pruned_by_filter": segments.pruned_by_filter,
                    "segments_from_statistics": segments.from_statistics,
                    "segments_from_cache": segments.from_cache,
                    "segments_passed_over": segments.passed_over,
                    "segments_read": segments.read,
                    "blocks": shard.blocks,
                },
            }],
            "rewrite_time": times.prune,
            "collector": [collector(shard)],
        }],
        "aggregations": shard.aggregations.iter().map(|aggregation| json!({
            "type": aggregation.kind,
            "description": aggregation.name,
            "time_in_nanos": aggregation.collect_ns,
            "breakdown": {"collect": aggregation.collect_ns, "collect_count": shard.blocks},
        })).collect::<Vec<_>>(),
        "fetch": {
            "type": "fetch",
            "description": "",
            "time_in_nanos": times.fetch,
            "breakdown": {"load_stored_fields": times.fetch},
        },
    })
}

fn collector(shard: &ShardProfile) -> Value {
    let times = &shard.times;
    let one = |name: &str, reason: &str, ns: u64| json!({"name": name, "reason": reason, "time_in_nanos": ns});
    let hits = one("TopHits", "search_top_hits", times.collect);
    if shard.aggregations.is_empty() {
        return hits;
    }
    let aggregations = one("Aggregations", "aggregation", times.aggregate + times.finish);
    let mut all = Map::new();
    all.insert("name".into(), "QueryPhase".into());
    all.insert("reason".into(), "search_multi".into());
    all.insert(
        "time_in_nanos".into(),
        (times.collect + times.aggregate + times.finish).into(),
    );
    all.insert("children".into(), vec![hits, aggregations].into());
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use firn_query::search::{AggregationProfile, PartTimes, SegmentCounts};

    use super::*;

    #[test]
    fn parts_stand_where_elasticsearch_has_them() {
        let shard = ShardProfile {
            index: "logs".to_owned(),
            shard: 2,
            segments: SegmentCounts {
                total: 9,
                pruned: 5,
                pruned_by_tenant: 4,
                pruned_by_filter: 7,
                from_statistics: 2,
                from_cache: 6,
                passed_over: 1,
                read: 3,
            },
            documents_matched: 70,
            blocks: 4,
            times: PartTimes {
                compile: 1,
                prune: 2,
                open: 10,
                matching: 100,
                collect: 1000,
                aggregate: 10_000,
                finish: 100_000,
                fetch: 5,
            },
            aggregations: vec![AggregationProfile {
                name: "hosts".to_owned(),
                kind: "terms",
                collect_ns: 9000,
            }],
        };
        let profile = Profile {
            query: json!({"term": {"a": {"value": 1}}}),
            shards: vec![shard],
        };
        let printed = profile_object(&profile, "n1");
        let shard = &printed["shards"][0];
        assert_eq!(shard["id"], "[n1][logs][2]");
        let search = &shard["searches"][0];
        assert_eq!(search["query"][0]["type"], "term");
        assert_eq!(search["query"][0]["description"], r#"{"term":{"a":{"value":1}}}"#);
        assert_eq!(search["query"][0]["time_in_nanos"], 111);
        assert_eq!(search["query"][0]["breakdown"]["build_scorer_count"], 4);
        assert_eq!(search["query"][0]["debug"]["segments_pruned"], 5);
        assert_eq!(search["query"][0]["debug"]["segments_pruned_by_filter"], 7);
        assert_eq!(search["rewrite_time"], 2);
        assert_eq!(search["collector"][0]["time_in_nanos"], 111_000);
        assert_eq!(search["collector"][0]["children"][1]["time_in_nanos"], 110_000);
        assert_eq!(shard["aggregations"][0]["description"], "hosts");
        assert_eq!(shard["fetch"]["time_in_nanos"], 5);
    }
}
