//! Tests of the hits with the best scores: they are those of a search that reads all documents.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::support::*;
use crate::ShardSearch;

/// Several windows of documents.
const DOCS: usize = 15_000;

/// Returns documents with words of very different frequencies, and texts of different lengths.
fn documents_of(random: &mut fastrand::Rng, first: usize) -> Vec<Value> {
    let document = |number: usize| {
        let words: Vec<String> = (0..random.usize(1..12))
            .map(|_| format!("w{}", 60_f64.powf(random.f64()) as u32))
            .collect();
        json!({
            "id": (first + number).to_string(), "message": words.join(" "),
            "tenant": format!("t{}", number % 3 + 1), "@timestamp": 1_700_000_000_000_i64 + random.i64(0..100_000),
        })
    };
    (0..DOCS).map(document).collect()
}

fn search(shards: Vec<ShardSearch>, body: &Value) -> (Vec<(String, f32)>, Option<u64>) {
    let response = run(shards, body).unwrap();
    let hits = response.hits.iter().map(|hit| (hit.id.clone(), hit.score.unwrap()));
    (hits.collect(), response.total.map(|total| total.value))
}

fn check(shards: &[ShardSearch], query: &Value, size: usize, seed: u64) {
    // Aggregations need all documents.
    let all = json!({
        "query": query, "size": 10_000, "track_total_hits": true, "aggs": {"n": {"value_count": {"field": "id"}}}
    });
    let (all, total) = search(shards.to_vec(), &all);
    let scores: HashMap<&str, f32> = all.iter().map(|(id, score)| (id.as_str(), *score)).collect();
    for track in [json!(true), json!(false), json!(50)] {
        let body = json!({"query": query, "size": size, "track_total_hits": track});
        let (best, found) = search(shards.to_vec(), &body);
        let note = format!("seed {seed}: {body}");
        assert_eq!(best.len(), size.min(all.len()), "{note}");
        for ((id, score), (_, expected)) in best.iter().zip(&all) {
            assert!(
                (score - expected).abs() < 1e-4,
                "{note}: {id} has {score} instead of {expected}"
            );
            assert!((score - scores[id.as_str()]).abs() < 1e-4, "{note}: {id} has {score}");
        }
        match track {
            Value::Bool(true) => assert_eq!(found, total, "{note}"),
            Value::Bool(false) => assert_eq!(found, None, "{note}"),
            _ => assert_eq!(found, total.map(|total| total.min(50)), "{note}"),
        }
    }
}

#[test]
fn are_those_of_all_documents() {
    for seed in 0..3 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut mapping = mapping();
        mapping["properties"]["tenant"] = json!({"type": "keyword"});
        let gone: Vec<usize> = (0..DOCS).filter(|_| random.u8(0..8) == 0).collect();
        let mut shard = Shard::new(&mapping);
        let mut of_tenants = Shard::new(&mapping);
        of_tenants.by_tenant();
        shard.segment(&documents_of(&mut random, 0), &[]);
        shard.segment(&documents_of(&mut random, DOCS), &gone);
        of_tenants.clustered_segment(&documents_of(&mut random, 0), &gone);
        for round in 0..12 {
            let words: Vec<String> = (0..random.usize(2..5))
                .map(|_| format!("w{}", random.u32(0..70)))
                .collect();
            let any = json!({"match": {"message": words.join(" ")}});
            let boosted = words
                .iter()
                .map(|word| json!({"match": {"message": {"query": word, "boost": random.u8(1..3)}}}));
            let boosted: Vec<Value> = boosted.collect();
            let query = match round % 3 {
                0 | 1 => any,
                _ => json!({"bool": {"should": boosted}}),
            };
            let size = [1, 10, 300][random.usize(0..3)];
            check(&[shard.ready()], &query, size, seed);
            let of_one = json!({"bool": {"filter": [{"term": {"tenant": "t2"}}], "must": [query]}});
            check(&[of_tenants.ready()], &query, size, seed);
            check(&[of_tenants.ready()], &of_one, size, seed);
        }
    }
}
