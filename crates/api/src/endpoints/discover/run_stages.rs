//! Run of a Discover request: all stages concurrently, each posting its results.
//!
//! The stages start in the order of their cost, and the engine's queue runs the searches of one caller in that order.
//! So the sample is available before the counts of sixty fields start, and cheap stages do not wait for expensive ones.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use firn_engine::Error;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use serde_json::json;

use super::field_hints;
use super::request::DiscoverRequest;
use super::run::Run;
use super::stage_run::Step;
use super::stages;
use super::stages::outcome::Outcome;
use crate::state::disclosure::disclose_error;
use crate::state::partial_results::{PartialResult, ResultKey};
use crate::state::request_record::StageTiming;
use crate::wire::error::ApiError;

/// Runs all stages and posts the end.
pub(super) async fn run_all(run: Run, request: DiscoverRequest) {
    let steps = request.stages.iter().enumerate();
    join_all(steps.map(|(number, stage)| step(&run, Step::new(&run, number, stage)))).await;
    let took_ms = run.ctx.started.elapsed().as_millis() as u64;
    let json = json!({"event": "end", "took_ms": took_ms}).to_string().into();
    // A few bytes may fit where a result did not; if not, the end of the stream says it.
    let _ = run.board.post(ResultKey::End, PartialResult { event: "end", json });
    run.board.close();
}

/// Runs one stage. Its outcome is an event; other stages are not affected.
async fn step(run: &Run, step: Step<'_>) {
    let started = Instant::now();
    let outcome = AssertUnwindSafe(stages::run(&step))
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(Error::internal("a bug: the stage panicked, see the log").into()));
    let posted = match outcome {
        Ok(Outcome::Done(result)) => step.done(&result).map(|()| "done").map_err(ApiError::from),
        Ok(Outcome::Estimated(cost)) => step.estimated(&cost).map(|()| "estimate").map_err(ApiError::from),
        Err(error) => Err(error),
    };
    let outcome = posted.unwrap_or_else(|error| {
        step.failed(&disclose_error(&run.ctx, error));
        "failed"
    });
    run.ctx.work.add_done(&step.work.done());
    run.timings.push(StageTiming {
        stage: step.stage.name(),
        outcome,
        took: started.elapsed(),
    });
    if step.stage.begins_the_page() {
        post_hints(run).await;
    }
}

/// Posts hints about unknown fields of the query, after the first events, so that they delay nothing.
async fn post_hints(run: &Run) {
    let Some(typed) = &run.question.typed else {
        return;
    };
    let Ok(known) = run.known().await else {
        // The stages already report why the fields are unknown.
        return;
    };
    let in_use = || async { run.in_use().await.ok() };
    if let Some(json) = field_hints::print(typed, known, in_use).await {
        // If there is no memory for it, a stage fails for the same reason and reports it.
        let _ = run.board.post(ResultKey::Hints, PartialResult { event: "hints", json });
    }
}
