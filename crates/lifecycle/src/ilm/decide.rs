//! Decision about the next action of an index. Pure: depends only on the index, the policies and the time.

use firn_model::ilm::{ERROR, Execution, OperationMode, PhaseName, Policies, StepKey, first_of, steps_of};
use firn_model::metadata::IndexMetadata;
use firn_model::{Error, ErrorKind};

use super::{Lane, WaitEnd};

/// Next action of an index.
#[derive(Debug)]
pub(super) enum Decision {
    /// Nothing now.
    Wait,
    /// Store this state.
    Record(Box<Execution>),
    /// Store why nothing happens.
    Note(Error),
    /// Execute the current step.
    Perform(Box<Execution>),
}

/// Steps that check a condition; they are repeated only at the next poll.
const CHECKS: &[&str] = &[
    "check-rollover-ready",
    "check-not-write-index",
    "segment-count",
    "check-allocation",
    "check-migration",
    "wait-for-index-color",
    "wait-for-snapshot",
];

pub(super) fn decide(index: &IndexMetadata, policies: &Policies, now_ms: i64, occasion: WaitEnd) -> Decision {
    let Some(policy_name) = index.lifecycle_policy() else {
        return Decision::Wait;
    };
    if policies.mode != OperationMode::Running {
        return Decision::Wait;
    }
    let execution = index.execution.as_deref();
    let Some(stored) = policies.by_name.get(policy_name) else {
        return note(execution, occasion, format!("policy [{policy_name}] does not exist"));
    };
    let Some(origination_ms) = index.origination_ms() else {
        let reason = format!(
            "index name [{}] does not match pattern '^.*-{{date_format}}-\\d+'",
            index.name
        );
        return note(execution, occasion, reason);
    };
    let Some(execution) = execution else {
        return Decision::Record(Box::new(Execution::new(origination_ms, now_ms)));
    };
    if execution.key.step == ERROR {
        return match occasion {
            WaitEnd::Poll => Decision::Record(Box::new(execution.clone().tried_again(now_ms))),
            WaitEnd::Between => Decision::Wait,
        };
    }
    if execution.key.is_complete() {
        let Some((name, phase)) = stored.policy.phase_after(PhaseName::find(&execution.key.phase)) else {
            return Decision::Wait;
        };
        let age_ms = now_ms.saturating_sub(index.lifecycle_ms());
        if age_ms < i64::try_from(phase.min_age_ms).unwrap_or(i64::MAX) {
            return Decision::Wait;
        }
        let key = first_of(name, phase, None, None).unwrap_or_else(|| StepKey::complete(name.as_str()));
        return Decision::Record(Box::new(Execution {
            phase: stored.definition(policy_name, name),
            ..execution.clone().at(key, now_ms)
        }));
    }
    let known = execution
        .phase
        .as_ref()
        .is_some_and(|definition| steps_of(definition.name, &definition.phase).contains(&execution.key));
    if !known {
        return Decision::Record(Box::new(lost(execution, now_ms)));
    }
    // A light step has always checked before, but a heavy step may not have run yet.
    let is_light = Lane::of(Some(&execution.key)) == Lane::Light;
    let has_looked = is_light || execution.step_info.is_some();
    if occasion == WaitEnd::Between && has_looked && CHECKS.contains(&execution.key.step.as_str()) {
        return Decision::Wait;
    }
    Decision::Perform(Box::new(execution.clone()))
}

/// Handles a step that its phase does not have, because another version of firn stored it. The action starts again,
/// which is safe, or the phase ends.
fn lost(execution: &Execution, now_ms: i64) -> Execution {
    let definition = execution.phase.as_ref();
    let first = definition
        .and_then(|definition| first_of(definition.name, &definition.phase, Some(&execution.key.action), None));
    let key = first.unwrap_or_else(|| StepKey::complete(&execution.key.phase));
    execution.clone().at(key, now_ms)
}

fn note(execution: Option<&Execution>, occasion: WaitEnd, reason: String) -> Decision {
    // Once between two polls is enough.
    if occasion == WaitEnd::Between && execution.is_some() {
        return Decision::Wait;
    }
    Decision::Note(Error::new(ErrorKind::IllegalArgument, reason))
}
