//! Index lifecycle policies in Elasticsearch's JSON, and the progress of an index in one.
//!
//! A [`Policy`] has phases, a phase has actions, and an action runs as a sequence of steps ([`steps_of`]). The current
//! step of an index is in its [`Execution`], which is stored with the index. `firn-control` decides the next step from
//! these alone.

mod actions;
mod execution;
mod steps;
mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

pub use actions::{Action, Allocate, ForceMerge, SearchableSnapshot};
pub use execution::{Execution, PhaseDefinition};
pub use steps::{COMPLETE, ERROR, NEW, StepKey, VERIFY, first_of, step_after, steps_of};
pub use validate::validate_policy_name;

use crate::dates::{DateFormat, Zone, parse_duration_setting_ms};
use crate::{Error, Result};

/// Setting with the name of an index's policy.
pub const NAME: &str = "index.lifecycle.name";
/// Setting with the alias whose write index is rolled over, for an index without a data stream.
pub const ROLLOVER_ALIAS: &str = "index.lifecycle.rollover_alias";
/// Setting that firn sets when an index has rolled over; a user can set it to prevent the rollover.
pub const INDEXING_COMPLETE: &str = "index.lifecycle.indexing_complete";
/// Setting with the start of an index's age (ms since epoch UTC), instead of its creation.
pub const ORIGINATION_DATE: &str = "index.lifecycle.origination_date";
/// Setting that takes the start of the age from a date in the index's name.
pub const PARSE_ORIGINATION_DATE: &str = "index.lifecycle.parse_origination_date";

/// Phase of a lifecycle. Phases follow each other in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PhaseName {
    /// The index receives writes.
    Hot,
    /// No more writes, frequent searches.
    Warm,
    /// Rare searches; a mounted snapshot with a full local copy.
    Cold,
    /// Rare searches; a mounted snapshot read through the cache.
    Frozen,
    /// The index is deleted.
    Delete,
}

impl PhaseName {
    /// All phases, in order.
    pub const ALL: [Self; 5] = [Self::Hot, Self::Warm, Self::Cold, Self::Frozen, Self::Delete];

    /// Returns the name in the policy's JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Warm => "warm",
            Self::Cold => "cold",
            Self::Frozen => "frozen",
            Self::Delete => "delete",
        }
    }

    /// Returns the phase with a name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == name)
    }
}

/// Phase definition: the actions on an index from a given age on.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// As the user typed it (`24h`).
    min_age: String,
    /// The same in ms.
    pub min_age_ms: u64,
    /// In execution order, each kind at most once.
    pub actions: Vec<Action>,
}

impl Phase {
    /// Reads `{"min_age": "24h", "actions": {…}}`, both optional, and checks that the phase allows those actions.
    pub fn parse(name: PhaseName, value: &Value) -> Result<Self> {
        let map = object(name.as_str(), value)?;
        let mut phase = Self {
            min_age: "0ms".to_owned(),
            min_age_ms: 0,
            actions: Vec::new(),
        };
        for (key, value) in map {
            match key.as_str() {
                "min_age" => {
                    let text = text(key, value)?;
                    phase.min_age_ms = parse_duration_setting_ms(key, &text)?;
                    phase.min_age = text;
                }
                "actions" => {
                    for (kind, body) in object("actions", value)? {
                        phase.actions.push(Action::parse(name, kind, body)?);
                    }
                }
                other => return Err(unknown_field(name.as_str(), other)),
            }
        }
        phase
            .actions
            .sort_by_key(|action| validate::order_of(name, action.kind()));
        Ok(phase)
    }

    /// Prints the phase; the inverse of [`Phase::parse`].
    pub fn print(&self) -> Value {
        let actions: Map<String, Value> = self
            .actions
            .iter()
            .map(|action| (action.kind().to_owned(), action.print()))
            .collect();
        json!({"min_age": self.min_age, "actions": actions})
    }

    /// Returns the action of a kind.
    pub fn action(&self, kind: &str) -> Option<&Action> {
        self.actions.iter().find(|action| action.kind() == kind)
    }
}

/// `PUT /_ilm/policy/NAME`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policy {
    /// In order.
    pub phases: BTreeMap<PhaseName, Phase>,
    /// Stored as written.
    pub meta: Option<Value>,
    /// Note for users.
    pub deprecated: Option<bool>,
}

impl Policy {
    /// Reads the `policy` object of the body, and checks that phases and actions are compatible.
    pub fn parse(value: &Value) -> Result<Self> {
        let mut policy = Self::default();
        for (key, value) in object("policy", value)? {
            match key.as_str() {
                "phases" => {
                    for (name, body) in object("phases", value)? {
                        let phase = PhaseName::find(name).ok_or_else(|| {
                            Error::illegal_argument(format!("Timeseries lifecycle does not support phase [{name}]"))
                        })?;
                        policy.phases.insert(phase, Phase::parse(phase, body)?);
                    }
                }
                "_meta" => policy.meta = (!value.is_null()).then(|| value.clone()),
                "deprecated" => policy.deprecated = value.as_bool(),
                other => return Err(unknown_field("policy", other)),
            }
        }
        if value.get("phases").is_none() {
            return Err(Error::illegal_argument("Required [phases]"));
        }
        validate::check(&policy)?;
        Ok(policy)
    }

    /// Prints the policy; the inverse of [`Policy::parse`].
    pub fn print(&self) -> Value {
        let phases: Map<String, Value> = self
            .phases
            .iter()
            .map(|(name, phase)| (name.as_str().to_owned(), phase.print()))
            .collect();
        let mut out = json!({"phases": phases});
        if let Some(meta) = &self.meta {
            out["_meta"] = meta.clone();
        }
        if let Some(deprecated) = self.deprecated {
            out["deprecated"] = deprecated.into();
        }
        out
    }

    /// Returns the phase after a given one; for `None`, the first.
    pub fn phase_after(&self, phase: Option<PhaseName>) -> Option<(PhaseName, &Phase)> {
        self.phases
            .iter()
            .find(|(name, _)| phase.is_none_or(|before| **name > before))
            .map(|(name, phase)| (*name, phase))
    }
}

/// Stored form of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPolicy {
    /// The policy.
    pub policy: Policy,
    /// Starts at 1; each change increments it.
    pub version: u64,
    /// Time of the last change, ms since epoch UTC.
    pub modified_ms: i64,
}

impl StoredPolicy {
    /// Prints `version`, `modified_ms`, `policy`.
    pub fn to_json(&self) -> Value {
        json!({"version": self.version, "modified_ms": self.modified_ms, "policy": self.policy.print()})
    }

    /// Reads the output of [`StoredPolicy::to_json`].
    pub fn from_json(json: &Value) -> Result<Self> {
        let wrong = || Error::internal("a stored lifecycle policy lacks its version or date");
        Ok(Self {
            policy: Policy::parse(&json["policy"])?,
            version: json["version"].as_u64().ok_or_else(wrong)?,
            modified_ms: json["modified_ms"].as_i64().ok_or_else(wrong)?,
        })
    }

    /// Returns the definition of a phase for an index that enters it; `name` is the policy's name.
    pub fn definition(&self, name: &str, phase: PhaseName) -> Option<PhaseDefinition> {
        Some(PhaseDefinition {
            policy: name.to_owned(),
            version: self.version,
            modified_ms: self.modified_ms,
            name: phase,
            phase: self.policy.phases.get(&phase)?.clone(),
        })
    }

    /// Returns the time of the last change as Elasticsearch prints it.
    pub fn modified_date(&self) -> String {
        DateFormat::default_millis().print_ms(self.modified_ms, &Zone::utc())
    }
}

/// Whether ILM or SLM executes policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OperationMode {
    /// Policies are executed.
    #[default]
    Running,
    /// Running work is finished; nothing new starts.
    Stopping,
    /// No policy is executed.
    Stopped,
}

impl OperationMode {
    /// Returns the name in `_ilm/status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Stopping => "STOPPING",
            Self::Stopped => "STOPPED",
        }
    }

    /// Returns the mode with a name; the inverse of [`OperationMode::as_str`].
    pub fn find(name: &str) -> Option<Self> {
        [Self::Running, Self::Stopping, Self::Stopped]
            .into_iter()
            .find(|mode| mode.as_str() == name)
    }
}

/// All index lifecycle policies of a node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policies {
    /// Whether policies are executed.
    pub mode: OperationMode,
    /// By name.
    pub by_name: BTreeMap<String, Arc<StoredPolicy>>,
    /// Repositories and names of snapshots of indices that a lifecycle deleted; they can be removed.
    pub orphans: BTreeSet<(String, String)>,
}

impl Policies {
    /// Prints `mode`, `policies`, and `orphans` if there are any.
    pub fn to_json(&self) -> Value {
        let policies: Map<String, Value> = self
            .by_name
            .iter()
            .map(|(name, policy)| (name.clone(), policy.to_json()))
            .collect();
        let mut json = json!({"mode": self.mode.as_str(), "policies": policies});
        if !self.orphans.is_empty() {
            json["orphans"] = self
                .orphans
                .iter()
                .map(|(repository, name)| json!([repository, name]))
                .collect();
        }
        json
    }

    /// Reads the output of [`Policies::to_json`].
    pub fn from_json(json: &Value) -> Result<Self> {
        let wrong = || Error::internal("stored lifecycle policies cannot be read");
        let mode = json["mode"].as_str().and_then(OperationMode::find).ok_or_else(wrong)?;
        let by_name = json["policies"]
            .as_object()
            .ok_or_else(wrong)?
            .iter()
            .map(|(name, policy)| Ok((name.clone(), Arc::new(StoredPolicy::from_json(policy)?))))
            .collect::<Result<_>>()?;
        let orphan = |pair: &Value| {
            let text = |place: usize| pair.get(place)?.as_str().map(str::to_owned);
            Some((text(0)?, text(1)?))
        };
        let orphans = match &json["orphans"] {
            Value::Null => BTreeSet::new(),
            Value::Array(list) => list.iter().map(orphan).collect::<Option<_>>().ok_or_else(wrong)?,
            _ => return Err(wrong()),
        };
        Ok(Self { mode, by_name, orphans })
    }
}

fn object<'a>(what: &str, value: &'a Value) -> Result<&'a Map<String, Value>> {
    value
        .as_object()
        .ok_or_else(|| Error::parsing(format!("[{what}] must be an object, not [{value}]")))
}

fn text(what: &str, value: &Value) -> Result<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(Error::parsing(format!("[{what}] cannot be [{other}]"))),
    }
}

fn unknown_field(what: &str, field: &str) -> Error {
    Error::parsing(format!("[{what}] unknown field [{field}]"))
}

#[cfg(test)]
mod tests;
