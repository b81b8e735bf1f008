//! What is told of the events: one file for each stage, with the searches that it makes and what it makes of them.

mod cardinality;
mod counted;
mod histogram;
pub(super) mod sample;
mod top_values;

use firn_engine::cost::SearchCost;
use firn_engine::search::SearchResponse;
use serde_json::{Value, json};

use super::request::Stage;
use super::step::Step;
use crate::error::ApiError;

/// What a stage came to.
pub(super) enum Outcome {
    /// JSON.
    Done(Vec<u8>),
    /// It was not run, since it would cost so much.
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

/// A number of an answer's aggregations.
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// A search of aggregations only. The answers of shards are counted to the last document.
fn aggregations(aggs: Value) -> Value {
    json!({"size": 0, "track_total_hits": true, "aggs": aggs})
}

/// The buckets of an aggregation.
fn buckets(aggregation: &Value) -> &[Value] {
    aggregation["buckets"].as_array().map_or(&[], Vec::as_slice)
}

/// A bucket's value as people read it.
fn text(bucket: &Value) -> String {
    let shown = bucket.get("key_as_string").unwrap_or(&bucket["key"]);
    shown.as_str().map_or_else(|| shown.to_string(), str::to_owned)
}

/// Whether all shards have answered to the end.
fn is_whole(response: &SearchResponse) -> bool {
    response.shards.failures.is_empty() && !response.timed_out
}
