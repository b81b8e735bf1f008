//! Tests of aggregations that multiply the values of a document: few values give more combinations than any loop
//! can visit.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use firn_model::{ErrorKind, Result};
use firn_query::search::SearchResponse;
use serde_json::{Value, json};

use super::support::{Shard, mapping, run};

/// Returns a shard of `count` documents with the same values.
fn shard(count: usize, values: &[String]) -> Shard {
    let mut shard = Shard::new(&mapping());
    let document = json!({"host": {"name": values}, "status": 1});
    shard.segment(&vec![document; count], &[]);
    shard
}

/// Runs work with a time limit: a visit of every combination would take hours, and the test need not wait for it.
fn in_time(work: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = channel();
    let worker = std::thread::spawn(move || {
        work();
        let _ = sender.send(());
    });
    match receiver.recv_timeout(Duration::from_secs(120)) {
        Err(RecvTimeoutError::Timeout) => panic!("the search visits all combinations"),
        _ => worker
            .join()
            .unwrap_or_else(|panicked| std::panic::resume_unwind(panicked)),
    }
}

fn values(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("v{number:03}")).collect()
}

fn ask(shard: &Shard, aggregation: &Value) -> Result<SearchResponse> {
    run(vec![shard.ready()], &json!({"size": 0, "aggs": {"x": aggregation}}))
}

/// Returns `count` sources over the same field.
fn sources(count: usize, order: &str) -> Vec<Value> {
    let source = |number| json!({format!("s{number:02}"): {"terms": {"field": "host.name", "order": order}}});
    (0..count).map(source).collect()
}

/// Returns the last two parts of each key; all earlier parts must be `same`.
fn ends(response: &SearchResponse, same: &str) -> Vec<String> {
    let answer = response.aggregations.as_ref().unwrap();
    let end = |bucket: &Value| {
        assert_eq!(bucket["doc_count"], 3);
        assert_eq!(bucket["n"]["value"], 3, "{bucket}");
        let key = bucket["key"].as_object().unwrap();
        let parts: Vec<&str> = key.values().map(|part| part.as_str().unwrap()).collect();
        let (first, last) = parts.split_at(parts.len() - 2);
        assert!(first.iter().all(|part| *part == same), "{bucket}");
        last.join(" ")
    };
    answer["x"]["buckets"].as_array().unwrap().iter().map(end).collect()
}

#[test]
fn a_page_of_a_composite_skips_all_other_combinations() {
    in_time(page_through_a_composite);
}

fn page_through_a_composite() {
    let shard = shard(3, &values(5));
    for (order, same, pages) in [
        (
            "asc",
            "v000",
            [
                ["v000 v000", "v000 v001", "v000 v002"],
                ["v000 v003", "v000 v004", "v001 v000"],
            ],
        ),
        (
            "desc",
            "v004",
            [
                ["v004 v004", "v004 v003", "v004 v002"],
                ["v004 v001", "v004 v000", "v003 v004"],
            ],
        ),
    ] {
        let mut composite = json!({"size": 3, "sources": sources(32, order)});
        for page in pages {
            let aggregation = json!({"composite": composite, "aggs": {"n": {"value_count": {"field": "status"}}}});
            let response = ask(&shard, &aggregation).unwrap();
            assert_eq!(ends(&response, same), page, "{order}");
            composite["after"] = response.aggregations.unwrap()["x"]["after_key"].clone();
        }
    }
}

#[test]
fn pages_of_many_values_hold_each_combination_once() {
    let shard = shard(1, &values(4));
    let mut all = Vec::new();
    let mut composite = json!({"size": 7, "sources": [
        {"a": {"terms": {"field": "host.name", "order": "desc"}}},
        {"b": {"terms": {"field": "status", "missing_bucket": true}}},
        {"c": {"terms": {"field": "host.name"}}}
    ]});
    loop {
        let answer = ask(&shard, &json!({"composite": composite}))
            .unwrap()
            .aggregations
            .unwrap();
        let Some(after) = answer["x"].get("after_key") else {
            break;
        };
        composite["after"] = after.clone();
        for bucket in answer["x"]["buckets"].as_array().unwrap() {
            let part = |name: &str| bucket["key"][name].as_str().unwrap().to_owned();
            all.push(part("a") + " " + &part("c"));
        }
    }
    let mut expected = Vec::new();
    for a in values(4).iter().rev() {
        expected.extend(values(4).iter().map(|c| format!("{a} {c}")));
    }
    assert_eq!(all, expected);
}

#[test]
fn the_combinations_of_a_document_are_bounded_in_multi_terms() {
    let of = |count: usize| {
        let fields = vec![json!({"field": "host.name"}); 3];
        ask(
            &shard(1, &values(count)),
            &json!({"multi_terms": {"terms": fields, "size": 2}}),
        )
    };
    let answer = of(40).unwrap().aggregations.unwrap();
    assert_eq!(answer["x"]["sum_other_doc_count"], 40 * 40 * 40 - 2);
    let error = of(41).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::TooManyBuckets);
    assert!(error.reason().contains("combinations in [multi_terms]"), "{error}");
}

/// A block of documents with very many keys takes seconds; the timeout comes in the middle.
#[test]
fn a_timeout_ends_a_search_in_the_middle_of_a_document() {
    in_time(run_out_of_time);
}

fn run_out_of_time() {
    let shard = shard(500, &values(5));
    let terms = (0..10).fold(
        json!({"value_count": {"field": "status"}}),
        |below, _| json!({"terms": {"field": "host.name"}, "aggs": {"y": below}}),
    );
    for aggregation in [
        json!({"composite": {"size": 20_000, "sources": sources(32, "asc")}}),
        json!({"multi_terms": {"terms": vec![json!({"field": "host.name"}); 6]}}),
        terms,
    ] {
        let body = json!({"size": 0, "timeout": "200ms", "aggs": {"x": aggregation}});
        match run(vec![shard.ready()], &body) {
            Ok(response) => assert!(response.timed_out),
            // Memory ran out before the timeout, or the results so far have too many buckets.
            Err(error) => assert!(
                matches!(error.kind(), ErrorKind::CircuitBreaking | ErrorKind::TooManyBuckets),
                "{error}"
            ),
        }
    }
}
