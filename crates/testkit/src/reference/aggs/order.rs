//! Sorting of buckets.

use std::cmp::Ordering;

use serde_json::Value as Json;

use super::pipeline;

/// Sorts printed buckets, which are in key order, by `order`; ties keep their order.
pub(super) fn sort(buckets: &mut Vec<Json>, order: &Json) {
    let keys: Vec<(&str, bool)> = match order {
        Json::Array(keys) => keys.iter().map(one).collect(),
        key => vec![one(key)],
    };
    assert!(!keys.is_empty(), "an order without keys");
    let mut places: Vec<(usize, Json)> = buckets.drain(..).enumerate().collect();
    places.sort_by(|left, right| {
        let mut orders = keys
            .iter()
            .map(|(path, ascending)| compare(left, right, path, *ascending));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    buckets.extend(places.into_iter().map(|(_, bucket)| bucket));
}

fn one(key: &Json) -> (&str, bool) {
    let (path, direction) = key.as_object().expect("a key").iter().next().expect("a key");
    (path, direction == "asc")
}

fn compare(left: &(usize, Json), right: &(usize, Json), path: &str, ascending: bool) -> Ordering {
    let turn = |order: Ordering| if ascending { order } else { order.reverse() };
    if path == "_key" {
        return turn(left.0.cmp(&right.0));
    }
    let value = |bucket: &Json| pipeline::value_at(bucket, path);
    match (value(&left.1), value(&right.1)) {
        (Some(left), Some(right)) => turn(left.total_cmp(&right)),
        // Missing values sort last in either direction.
        (left, right) => left.is_none().cmp(&right.is_none()),
    }
}

/// Compares numbers numerically, strings by bytes, lists element by element.
pub(super) fn compare_keys(left: &Json, right: &Json) -> Ordering {
    match (left, right) {
        (Json::String(left), Json::String(right)) => left.cmp(right),
        (Json::Array(left), Json::Array(right)) => {
            let mut orders = left.iter().zip(right).map(|(left, right)| compare_keys(left, right));
            orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        }
        (left, right) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => {
                let number = |key: &Json| key.as_f64().expect("a number");
                number(left).total_cmp(&number(right))
            }
        },
    }
}
