//! Progress of an index in its lifecycle.

use serde_json::{Map, Value, json};

use super::{Phase, PhaseName, StepKey};
use crate::{Error, Result};

/// Lifecycle progress of an index, with the state that its next steps need. It is stored with the index, and only
/// commands change it, so that after a crash the index is either at the previous step or at the next one.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// Current step, due or running; its `step` is `ERROR` after a failure.
    pub key: StepKey,
    /// Time when the index entered the phase, ms since epoch UTC.
    pub phase_ms: i64,
    /// Time when the index entered the action.
    pub action_ms: i64,
    /// Time when the index entered the step.
    pub step_ms: i64,
    /// Start of the index's age, ms since epoch UTC: its creation, or its rollover.
    pub lifecycle_ms: i64,
    /// Definition of the phase at the time when the index entered it: a later change of the policy does not change the
    /// running phase.
    pub phase: Option<PhaseDefinition>,
    /// The failed step.
    pub failed_step: Option<String>,
    /// Number of retries.
    pub retries: u64,
    /// Information about what the step waits for, or the error.
    pub step_info: Option<Value>,
    /// `step_info` of the previous step or attempt.
    pub previous_step_info: Option<Value>,
    /// Searchable snapshot: the repository.
    pub snapshot_repository: Option<String>,
    /// Searchable snapshot: its name.
    pub snapshot_name: Option<String>,
    /// Searchable snapshot: the name of the index in it.
    pub snapshot_index: Option<String>,
}

/// Definition of a phase, as it was when an index entered it.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseDefinition {
    /// Name of the policy.
    pub policy: String,
    /// Version of the policy.
    pub version: u64,
    /// Time of that version, ms since epoch UTC.
    pub modified_ms: i64,
    /// Name of the phase.
    pub name: PhaseName,
    /// Content of the phase.
    pub phase: Phase,
}

impl Execution {
    /// Creates the execution of an index that was just assigned its policy.
    pub fn new(lifecycle_ms: i64, now_ms: i64) -> Self {
        Self {
            key: StepKey::complete(super::NEW),
            phase_ms: now_ms,
            action_ms: now_ms,
            step_ms: now_ms,
            lifecycle_ms,
            phase: None,
            failed_step: None,
            retries: 0,
            step_info: None,
            previous_step_info: None,
            snapshot_repository: None,
            snapshot_name: None,
            snapshot_index: None,
        }
    }

    /// Returns the execution at another step.
    #[must_use]
    pub fn at(mut self, key: StepKey, now_ms: i64) -> Self {
        if key.phase != self.key.phase {
            self.phase_ms = now_ms;
        }
        if key.phase != self.key.phase || key.action != self.key.action {
            self.action_ms = now_ms;
        }
        self.step_ms = now_ms;
        self.key = key;
        self.failed_step = None;
        self.retries = 0;
        self.previous_step_info = self.step_info.take();
        self
    }

    /// Returns the execution after its step failed.
    #[must_use]
    pub fn failed(mut self, info: Value, now_ms: i64) -> Self {
        if self.key.step != super::ERROR {
            self.failed_step = Some(std::mem::replace(&mut self.key.step, super::ERROR.to_owned()));
        }
        self.step_ms = now_ms;
        self.step_info = Some(info);
        self
    }

    /// Returns the execution at the failed step, for a retry.
    #[must_use]
    pub fn tried_again(mut self, now_ms: i64) -> Self {
        if let Some(step) = self.failed_step.take() {
            self.key.step = step;
            self.step_ms = now_ms;
            self.retries += 1;
            self.previous_step_info = self.step_info.take();
        }
        self
    }

    /// Prints the stored form; with Elasticsearch's names where they exist.
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        let mut put = |name: &str, value: Value| {
            if !value.is_null() {
                out.insert(name.to_owned(), value);
            }
        };
        put("phase", self.key.phase.as_str().into());
        put("action", self.key.action.as_str().into());
        put("step", self.key.step.as_str().into());
        put("phase_time", self.phase_ms.into());
        put("action_time", self.action_ms.into());
        put("step_time", self.step_ms.into());
        put("creation_date", self.lifecycle_ms.into());
        put(
            "phase_definition",
            self.phase.as_ref().map_or(Value::Null, PhaseDefinition::to_json),
        );
        put("failed_step", self.failed_step.clone().into());
        put(
            "failed_step_retry_count",
            (self.retries > 0).then_some(self.retries).into(),
        );
        put("step_info", self.step_info.clone().unwrap_or_default());
        put(
            "previous_step_info",
            self.previous_step_info.clone().unwrap_or_default(),
        );
        put("snapshot_repository", self.snapshot_repository.clone().into());
        put("snapshot_name", self.snapshot_name.clone().into());
        put("snapshot_index_name", self.snapshot_index.clone().into());
        Value::Object(out)
    }

    /// Reads the output of [`Execution::to_json`].
    pub fn from_json(json: &Value) -> Result<Self> {
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        let part = |name: &str| text(name).ok_or_else(|| wrong(name));
        let time = |name: &str| json[name].as_i64().ok_or_else(|| wrong(name));
        Ok(Self {
            key: StepKey {
                phase: part("phase")?,
                action: part("action")?,
                step: part("step")?,
            },
            phase_ms: time("phase_time")?,
            action_ms: time("action_time")?,
            step_ms: time("step_time")?,
            lifecycle_ms: time("creation_date")?,
            phase: match &json["phase_definition"] {
                Value::Null => None,
                definition => Some(PhaseDefinition::from_json(definition)?),
            },
            failed_step: text("failed_step"),
            retries: json["failed_step_retry_count"].as_u64().unwrap_or(0),
            step_info: json.get("step_info").cloned(),
            previous_step_info: json.get("previous_step_info").cloned(),
            snapshot_repository: text("snapshot_repository"),
            snapshot_name: text("snapshot_name"),
            snapshot_index: text("snapshot_index_name"),
        })
    }
}

impl PhaseDefinition {
    /// Prints the stored form; `_ilm/explain` shows the same under `phase_execution`.
    pub fn to_json(&self) -> Value {
        json!({
            "policy": self.policy,
            "phase": self.name.as_str(),
            "phase_definition": self.phase.print(),
            "version": self.version,
            "modified_date_in_millis": self.modified_ms,
        })
    }

    fn from_json(json: &Value) -> Result<Self> {
        let name = json["phase"].as_str().and_then(PhaseName::find);
        let name = name.ok_or_else(|| wrong("phase"))?;
        Ok(Self {
            policy: json["policy"].as_str().ok_or_else(|| wrong("policy"))?.to_owned(),
            version: json["version"].as_u64().ok_or_else(|| wrong("version"))?,
            modified_ms: json["modified_date_in_millis"]
                .as_i64()
                .ok_or_else(|| wrong("modified_date_in_millis"))?,
            name,
            phase: Phase::parse(name, &json["phase_definition"])?,
        })
    }
}

fn wrong(field: &str) -> Error {
    Error::internal(format!("a stored lifecycle execution lacks a valid [{field}]"))
}
