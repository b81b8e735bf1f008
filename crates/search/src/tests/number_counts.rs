//! Tests of the counts of documents by number: they are those of a pass over the documents, from computed and from stored statistics.

use serde_json::{Value, json};

use super::splits::as_splits;
use super::support::*;
use crate::ShardSearch;

/// More than two blocks of a column.
const DOCS: usize = 9_000;

fn mapping_of_numbers() -> Value {
    json!({"properties": {
        "id": {"type": "keyword"}, "few": {"type": "integer"}, "some": {"type": "long"}, "wide": {"type": "long"},
        "far": {"type": "double"}, "codes": {"type": "long"}, "rising": {"type": "long"}, "ok": {"type": "boolean"},
        "at": {"type": "date"}
    }})
}

/// Returns documents with columns of few and many values, near and far ones, ordered ones, missing ones, and several of a document.
fn documents_of(seed: u64, first: usize) -> Vec<Value> {
    let mut random = fastrand::Rng::with_seed(seed);
    let document = |number: usize| {
        let mut document = json!({
            "id": (first + number).to_string(),
            "few": 200 + random.i64(0..5) * 100,
            "wide": random.i64(-1_000_000_000_000..1_000_000_000_000),
            "far": random.i64(0..40) as f64 * 1e7 + 0.5,
            "rising": (first + number) / 3,
            "ok": random.bool(),
            "at": 1_700_000_000_000_i64 + random.i64(0..50) * 1000,
        });
        if random.u8(0..4) > 0 {
            document["some"] = json!(random.i64(-20..300));
            document["codes"] = (0..random.usize(0..3)).map(|_| json!(random.i64(0..7))).collect();
        }
        document
    };
    (0..DOCS).map(document).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(values) => values.iter().flat_map(numbers).collect(),
        Value::Bool(value) => vec![f64::from(u8::from(*value))],
        value => vec![value.as_f64().unwrap()],
    }
}

/// Returns a query on a field, and the test that its documents pass.
fn query(random: &mut fastrand::Rng, documents: &[Value]) -> (Value, String, Box<dyn Fn(f64) -> bool>) {
    let fields = ["few", "some", "wide", "far", "codes", "rising", "at"];
    let field = random.choice(fields).unwrap();
    let value_of_some = |random: &mut fastrand::Rng| loop {
        if let [value, ..] = numbers(&random.choice(documents).unwrap()[field])[..] {
            break value;
        }
    };
    // One in three values is in no document, or seldom.
    let value = |random: &mut fastrand::Rng| value_of_some(random) + if random.u8(0..3) == 0 { 7.0 } else { 0.0 };
    let print = |value: f64| {
        if field == "far" {
            json!(value)
        } else {
            json!(value as i64)
        }
    };
    match random.u8(0..3) {
        0 => {
            let value = value(random);
            (
                json!({"term": {field: {"value": print(value)}}}),
                field.to_owned(),
                Box::new(move |other| other == value),
            )
        }
        1 => {
            let values: Vec<f64> = (0..random.usize(1..5)).map(|_| value(random)).collect();
            let printed: Vec<Value> = values.iter().map(|value| print(*value)).collect();
            (
                json!({"terms": {field: printed}}),
                field.to_owned(),
                Box::new(move |other| values.contains(&other)),
            )
        }
        _ => {
            let (one, other) = (value(random), value(random));
            let (low, high) = (one.min(other), one.max(other));
            let range = json!({"range": {field: {"gte": print(low), "lt": print(high)}}});
            (
                range,
                field.to_owned(),
                Box::new(move |other| low <= other && other < high),
            )
        }
    }
}

fn count(shards: Vec<ShardSearch>, query: &Value) -> u64 {
    let body = json!({"size": 0, "track_total_hits": true, "query": query});
    run(shards, &body).unwrap().total.unwrap().value
}

#[test]
fn are_those_of_a_pass_over_the_documents() {
    for seed in 0..3 {
        check(seed);
    }
}

fn check(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let parts = [documents_of(random.u64(..), 0), documents_of(random.u64(..), DOCS)];
    let gone: Vec<usize> = (0..DOCS).filter(|_| random.u8(0..10) == 0).collect();
    let mut whole = Shard::new(&mapping_of_numbers());
    let mut holed = Shard::new(&mapping_of_numbers());
    for documents in &parts {
        whole.segment(documents, &[]);
        holed.segment(documents, &gone);
    }
    let layouts = [
        (false, whole.ready()),
        (true, holed.ready()),
        (false, as_splits(&whole.ready())),
        (true, as_splits(&holed.ready())),
    ];
    for _ in 0..60 {
        let (query, field, matches) = query(&mut random, &parts[0]);
        for (has_deletes, shard) in &layouts {
            let documents = parts.iter().flat_map(|part| part.iter().enumerate());
            let expected = documents
                .filter(|(number, _)| !has_deletes || gone.binary_search(number).is_err())
                .filter(|(_, document)| numbers(&document[field.as_str()]).into_iter().any(&matches))
                .count() as u64;
            assert_eq!(count(vec![shard.clone()], &query), expected, "seed {seed}: {query}");
            // With another condition, so that the bounds of blocks decide what is read.
            let filtered = json!({"bool": {"filter": [query, {"range": {"rising": {"gte": 0}}}]}});
            assert_eq!(
                count(vec![shard.clone()], &filtered),
                expected,
                "seed {seed}: {filtered}"
            );
        }
    }
}
