//! The order of buckets.

use std::cmp::Ordering;

use serde_json::Value as Json;

use super::pipeline;

/// Sorts printed buckets by `order`, ties by where they stand (by key, ascending).
pub(super) fn sort(buckets: &mut [Json], order: &Json) {
    let keys: Vec<(&str, bool)> = match order {
        Json::Array(keys) => keys.iter().map(one).collect(),
        key => vec![one(key)],
    };
    buckets.sort_by(|left, right| {
        let mut orders = keys
            .iter()
            .map(|(path, ascending)| compare(left, right, path, *ascending));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
}

fn one(key: &Json) -> (&str, bool) {
    let (path, direction) = key.as_object().expect("a key").iter().next().expect("a key");
    (path, direction == "asc")
}

fn compare(left: &Json, right: &Json, path: &str, ascending: bool) -> Ordering {
    let turn = |order: Ordering| if ascending { order } else { order.reverse() };
    if path == "_key" {
        return turn(compare_keys(&left["key"], &right["key"]));
    }
    let value = |bucket: &Json| pipeline::value_at(bucket, path);
    match (value(left), value(right)) {
        (Some(left), Some(right)) => turn(left.total_cmp(&right)),
        // What has no value comes last in either direction.
        (left, right) => left.is_none().cmp(&right.is_none()),
    }
}

/// Numbers as numbers, strings by their bytes, lists part by part.
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
