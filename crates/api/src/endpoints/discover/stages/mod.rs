//! Stages of a Discover request: one file per stage, with its searches and its result.

mod cardinality;
mod exact_counts;
mod histogram;
pub(super) mod sample;
mod top_values;

use firn_engine::cost::SearchCost;
use firn_query::search::SearchResponse;
use serde_json::{Value, json};

use super::request::Stage;
use super::stage_run::Step;
use crate::wire::error::ApiError;

/// Outcome of a stage.
pub(super) enum Outcome {
    /// Result as JSON.
    Done(Vec<u8>),
    /// The stage did not run, because of this cost.
    Estimated(SearchCost),
}

/// Runs a stage.
pub(super) async fn run(step: &Step<'_>) -> Result<Outcome, ApiError> {
    match step.stage {
        Stage::Sample { size, search_after, .. } => sample::run(step, *size, search_after.as_ref()).await,
        Stage::Histogram {
            split_by,
            splits,
            width_px,
            interval,
        } => histogram::run(step, split_by, *splits, *width_px, interval.as_deref()).await,
        Stage::Cardinality { fields } => cardinality::run(step, fields.as_deref()).await,
        Stage::TopValues { field, size } => top_values::run(step, field, *size).await,
    }
}

/// Returns a number of an aggregation.
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Builds a search body with aggregations only. The engine counts all documents.
fn aggregations(aggs: Value) -> Value {
    json!({"size": 0, "track_total_hits": true, "aggs": aggs})
}

/// Returns the buckets of an aggregation.
fn buckets(aggregation: &Value) -> &[Value] {
    aggregation["buckets"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the readable value of a bucket.
fn text(bucket: &Value) -> String {
    let shown = bucket.get("key_as_string").unwrap_or(&bucket["key"]);
    shown.as_str().map_or_else(|| shown.to_string(), str::to_owned)
}

/// Returns whether all shards answered completely.
fn is_whole(response: &SearchResponse) -> bool {
    response.shards.failures.is_empty() && !response.timed_out
}
