//! `GET /_firn/rules/{id}/_coverage`: on which events of which pipelines a rule was evaluated, and where it has holes.

use std::sync::Arc;

use firn_detect::{DetectionRule, Mark};
use firn_engine::{Error, ErrorKind};
use firn_pipeline::rule_budget::HolePlace;
use firn_pipeline::rule_history::RuleLedger;
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::event_pipelines;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// Why a rule was not evaluated, if its owner's budget was exhausted.
const BUDGET_EXHAUSTED: &str = "budget exhausted";

pub(crate) async fn coverage(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let id = call.capture("id").to_owned();
    let metadata = edge.metadata(&call).await?;
    let definition = metadata.detection_rules.by_id.get(&id);
    let ledger = RuleLedger::read(&*edge.engine, &id).await?;
    if definition.is_none() && ledger.is_empty() {
        let reason = format!("detection rule [{id}] is missing");
        return Err(Error::new(ErrorKind::ResourceNotFound, reason).into());
    }
    let budget = event_pipelines::runner(&edge).ok().and_then(|runner| runner.budget());
    let not_filled = budget.map(|budget| budget.unfilled(&id)).unwrap_or_default();
    let (mut covered, mut holes) = (Vec::new(), Vec::new());
    for of_partition in ledger.partitions() {
        let (pipeline, partition) = (of_partition.pipeline.as_str(), of_partition.partition.as_str());
        let print = |from: &Mark, to: Option<&Mark>| {
            let mut printed = json!({"pipeline": pipeline, "from": print_mark(from)});
            if !partition.is_empty() {
                printed["partition"] = partition.into();
            }
            if let Some(to) = to {
                printed["to"] = print_mark(to);
            }
            printed
        };
        for interval in &of_partition.intervals {
            if let Some(version) = &interval.version {
                let mut printed = print(&interval.from, interval.to.as_ref());
                printed["version"] = version.as_str().into();
                covered.push(printed);
            }
        }
        for hole in of_partition.holes() {
            let interval = hole.interval;
            let mut printed = print(&interval.from, interval.to.as_ref());
            let indices = indices_of(&edge, pipeline);
            let is_filled = interval.to.is_some() && ledger.is_filled(&hole, &indices);
            let of_run = ledger.why_not_filled(&hole, &indices).filter(|_| !is_filled);
            if let Some(reason) = of_run {
                printed["not_filled"] = reason.into();
            }
            if interval.to.is_some() {
                printed["filled"] = is_filled.into();
            }
            if interval.is_throttled {
                printed["reason"] = BUDGET_EXHAUSTED.into();
                let place = HolePlace {
                    pipeline: pipeline.to_owned(),
                    partition: partition.to_owned(),
                    offset: interval.from.offset,
                    received: interval.from.received.clone(),
                };
                if let (false, Some(reason)) = (is_filled, not_filled.get(&place)) {
                    printed["not_filled"] = reason.as_str().into();
                }
            } else if interval.to.is_none() {
                printed["reason"] = reason(&id, definition.map(|body| &**body), pipeline).into();
            }
            holes.push(printed);
        }
    }
    Ok(Reply::ok(&json!({
        "coverage": covered, "holes": holes, "runs": ledger.runs, "partial": ledger.is_partial,
    })))
}

fn print_mark(mark: &Mark) -> Value {
    let mut printed = json!({"received": mark.received});
    if let Some(offset) = mark.offset {
        printed["offset"] = offset.into();
    }
    printed
}

/// Returns why a pipeline does not evaluate a rule now.
fn reason(id: &str, definition: Option<&serde_json::Map<String, Value>>, pipeline: &str) -> String {
    let Some(body) = definition else {
        return "the rule was deleted".to_owned();
    };
    match DetectionRule::parse(id, body) {
        Err(error) => error.reason().to_owned(),
        Ok(rule) if !rule.enabled => "the rule is disabled".to_owned(),
        Ok(rule) if !rule.is_for_pipeline(pipeline) => "the rule does not apply to this pipeline".to_owned(),
        Ok(_) => {
            "no event has arrived since the rule is evaluated again, or the pack has no log source for it".to_owned()
        }
    }
}

/// Returns the indices of the events of a pipeline; empty: there is no such pipeline any more.
fn indices_of(edge: &Edge, pipeline: &str) -> Vec<String> {
    let runner = event_pipelines::runner(edge).ok();
    let definition = runner.and_then(|runner| runner.definition(pipeline));
    definition.map_or_else(Vec::new, |definition| definition.event_indices().to_vec())
}
