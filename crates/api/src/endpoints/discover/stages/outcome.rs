//! Outcome of a stage, and the parts of aggregations that stages ask for and read.

use firn_engine::cost::SearchCost;
use firn_query::search::SearchResponse;
use serde_json::{Value, json};

/// Outcome of a stage.
pub(crate) enum Outcome {
    /// Result as JSON.
    Done(Vec<u8>),
    /// The stage did not run, because of this cost.
    Estimated(SearchCost),
}

/// Returns a number of an aggregation.
pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Builds a search body with aggregations only. The engine counts all documents.
pub(super) fn aggregations(aggs: Value) -> Value {
    json!({"size": 0, "track_total_hits": true, "aggs": aggs})
}

/// Returns the buckets of an aggregation.
pub(super) fn buckets(aggregation: &Value) -> &[Value] {
    aggregation["buckets"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the readable value of a bucket.
pub(super) fn text(bucket: &Value) -> String {
    let shown = bucket.get("key_as_string").unwrap_or(&bucket["key"]);
    shown.as_str().map_or_else(|| shown.to_string(), str::to_owned)
}

/// Returns whether all shards answered completely.
pub(super) fn is_whole(response: &SearchResponse) -> bool {
    response.shards.failures.is_empty() && !response.timed_out
}
