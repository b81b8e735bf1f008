//! Stages of a Discover request: one file per stage, with its searches and its result.

mod cardinality;
mod exact_counts;
mod histogram;
pub(super) mod outcome;
pub(super) mod sample;
mod top_values;

use self::outcome::Outcome;
use super::request::Stage;
use super::stage_run::Step;
use crate::wire::error::ApiError;

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
