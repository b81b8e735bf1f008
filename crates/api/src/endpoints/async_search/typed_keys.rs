//! Removal of type prefixes from the names of aggregations.
//!
//! A client sets `typed_keys` when it fetches the answer, after the search has run. So the search always runs with
//! types, and an answer without them is a converted copy.

use serde_json::{Map, Value};

/// Returns aggregations without types: `sterms#users` becomes `users`.
pub(super) fn without_types(aggregations: &Value) -> Value {
    match aggregations {
        Value::Object(named) => Value::Object(untyped(named)),
        other => other.clone(),
    }
}

/// Converts a level of named aggregations, or a bucket with sub-aggregations among its keys. Keys of a bucket have no
/// `#`, and neither has a type, so the first `#` ends the type.
fn untyped(object: &Map<String, Value>) -> Map<String, Value> {
    let entry = |(key, value): (&String, &Value)| match (key.split_once('#'), value) {
        (Some((_, name)), Value::Object(aggregation)) => (name.to_owned(), Value::Object(of_aggregation(aggregation))),
        _ => (key.clone(), value.clone()),
    };
    object.iter().map(entry).collect()
}

/// Converts one aggregation: its buckets, or its sub-aggregations if it is a single bucket.
fn of_aggregation(aggregation: &Map<String, Value>) -> Map<String, Value> {
    let of_bucket = |bucket: &Value| match bucket {
        Value::Object(bucket) => Value::Object(untyped(bucket)),
        other => other.clone(),
    };
    let mut whole = untyped(aggregation);
    // Bucket keys are data even if they look like typed names.
    if let Some(buckets) = whole.get_mut("buckets") {
        *buckets = match &*buckets {
            Value::Array(buckets) => buckets.iter().map(of_bucket).collect(),
            Value::Object(buckets) => Value::Object(
                buckets
                    .iter()
                    .map(|(key, bucket)| (key.clone(), of_bucket(bucket)))
                    .collect(),
            ),
            other => other.clone(),
        };
    }
    whole
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_go_and_data_stays() {
        let typed = json!({
            "sterms#users#1": {
                "meta": {"a#b": {}},
                "buckets": [{"key": "x#y", "doc_count": 1, "max#top": {"value": 1.0}}],
            },
            "filters#kinds": {"buckets": {"a#b": {"doc_count": 2, "filter#inner": {"doc_count": 1, "min#m": {"value": 0.0}}}}},
            "top_hits#hits": {"hits": {"hits": [{"_source": {"a#b": {"c#d": {}}}}]}},
        });
        assert_eq!(
            without_types(&typed),
            json!({
                "users#1": {
                    "meta": {"a#b": {}},
                    "buckets": [{"key": "x#y", "doc_count": 1, "top": {"value": 1.0}}],
                },
                "kinds": {"buckets": {"a#b": {"doc_count": 2, "inner": {"doc_count": 1, "m": {"value": 0.0}}}}},
                "hits": {"hits": {"hits": [{"_source": {"a#b": {"c#d": {}}}}]}},
            })
        );
    }
}
