//! Steps of a phase, with Elasticsearch's names.

use std::fmt;

use serde_json::{Value, json};

use super::{Action, Phase, PhaseName, object, text, unknown_field};
use crate::{Error, Result};

/// Last step of a phase, and its action: nothing happens until the next phase is due.
pub const COMPLETE: &str = "complete";
/// Step name of an index whose step failed.
pub const ERROR: &str = "ERROR";
/// Phase of an index that was just assigned its policy.
pub const NEW: &str = "new";

/// Identifier of a step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StepKey {
    /// `new` or the name of a phase.
    pub phase: String,
    /// Kind of an action, or `complete`.
    pub action: String,
    /// `name` in JSON.
    pub step: String,
}

impl StepKey {
    /// Creates a step key from its parts.
    pub fn new(phase: &str, action: &str, step: &str) -> Self {
        Self {
            phase: phase.to_owned(),
            action: action.to_owned(),
            step: step.to_owned(),
        }
    }

    /// Returns the end of a phase.
    pub fn complete(phase: &str) -> Self {
        Self::new(phase, COMPLETE, COMPLETE)
    }

    /// Returns whether it is the end of its phase.
    pub fn is_complete(&self) -> bool {
        self.step == COMPLETE
    }

    /// Reads `{"phase": …, "action": …, "name": …}`.
    pub fn parse(value: &Value) -> Result<Self> {
        let mut parts: [Option<String>; 3] = Default::default();
        for (key, value) in object("step_key", value)? {
            let place = match key.as_str() {
                "phase" => 0,
                "action" => 1,
                "name" => 2,
                other => return Err(unknown_field("step_key", other)),
            };
            parts[place] = Some(text(key, value)?);
        }
        match parts {
            [Some(phase), Some(action), Some(step)] => Ok(Self { phase, action, step }),
            _ => Err(Error::illegal_argument(
                "Required [phase, action, name] of a step key are not all given",
            )),
        }
    }

    /// Prints the key; the inverse of [`StepKey::parse`].
    pub fn print(&self) -> Value {
        json!({"phase": self.phase, "action": self.action, "name": self.step})
    }
}

impl fmt::Display for StepKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print().fmt(formatter)
    }
}

/// Returns the steps of a phase in order, without its end.
pub fn steps_of(name: PhaseName, phase: &Phase) -> Vec<StepKey> {
    let mut steps = Vec::new();
    let mut add = |action: &str, names: &[&str]| {
        steps.extend(names.iter().map(|step| StepKey::new(name.as_str(), action, step)));
    };
    let has_migrated = phase.action("migrate").is_some();
    for kind in super::validate::allowed_in(name) {
        match phase.action(kind) {
            Some(action) => add(kind, names_of(action)),
            // Elasticsearch adds `migrate` to every phase that has a tier and whose actions do not choose the index's
            // place.
            None if *kind == "migrate" && !has_migrated && !says_where(phase) => add(kind, MIGRATE),
            None => {}
        }
    }
    steps
}

fn says_where(phase: &Phase) -> bool {
    phase.actions.iter().any(|action| match action {
        Action::SearchableSnapshot(_) => true,
        Action::Allocate(allocate) => !allocate.rules.is_empty(),
        _ => false,
    })
}

/// Step that Elasticsearch does not have: firn reads the snapshot back before anything depends on it.
pub const VERIFY: &str = "verify-snapshot";

const MIGRATE: &[&str] = &["migrate", "check-migration"];

fn names_of(action: &Action) -> &'static [&'static str] {
    match action {
        Action::Unfollow | Action::Migrate(false) => &[],
        Action::SetPriority(_) => &["set_priority"],
        Action::Rollover(_) => &[
            "check-rollover-ready",
            "attempt-rollover",
            "wait-for-active-shards",
            "update-rollover-lifecycle-date",
            "set-indexing-complete",
        ],
        Action::ReadOnly => &["check-not-write-index", "readonly"],
        Action::Shrink(_) => &["check-not-write-index", "shrink"],
        Action::ForceMerge(_) => &["check-not-write-index", "readonly", "forcemerge", "segment-count"],
        Action::Allocate(_) => &["allocate", "check-allocation"],
        Action::Migrate(true) => MIGRATE,
        Action::SearchableSnapshot(snapshot) if snapshot.force_merge_index => &[
            "check-not-write-index",
            "readonly",
            "forcemerge",
            "segment-count",
            "generate-snapshot-name",
            "cleanup-snapshot",
            "create-snapshot",
            VERIFY,
            "mount-snapshot",
            "wait-for-index-color",
            "swap-aliases",
        ],
        Action::SearchableSnapshot(_) => &[
            "check-not-write-index",
            "readonly",
            "generate-snapshot-name",
            "cleanup-snapshot",
            "create-snapshot",
            VERIFY,
            "mount-snapshot",
            "wait-for-index-color",
            "swap-aliases",
        ],
        Action::WaitForSnapshot(_) => &["wait-for-snapshot"],
        Action::Delete(_) => &["cleanup-snapshot", "delete"],
    }
}

/// Returns the step after `current`: the next of the phase, or its end. `None`: the phase has no such step.
pub fn step_after(steps: &[StepKey], current: &StepKey) -> Option<StepKey> {
    let place = steps.iter().position(|step| step == current)?;
    let next = steps.get(place + 1).cloned();
    Some(next.unwrap_or_else(|| StepKey::complete(&current.phase)))
}

/// Returns the first step of a phase, which may be its end; if given, of an action, or with a name in it.
pub fn first_of(name: PhaseName, phase: &Phase, action: Option<&str>, step: Option<&str>) -> Option<StepKey> {
    let end = StepKey::complete(name.as_str());
    let mut steps = steps_of(name, phase);
    steps.push(end);
    steps
        .into_iter()
        .find(|key| action.is_none_or(|action| key.action == action) && step.is_none_or(|step| key.step == step))
}
