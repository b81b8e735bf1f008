//! Snapshot lifecycle policies in Elasticsearch's JSON: when snapshots are made, and how long they stay.

mod cron;
mod retention;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

pub use cron::Schedule;
pub use retention::{Candidate, Retention};

use crate::ilm::OperationMode;
use crate::names::{problem_as_file_name, resolve_date_math};
use crate::repository::{SNAPSHOT_METADATA_BYTES_MAX, validate_snapshot_name};
use crate::{Error, Result};

/// Bytes of a policy's id, as of names of indices.
const ID_BYTES_MAX: usize = 255;
/// The key in a snapshot's metadata that names its policy, as Elasticsearch has it.
pub const POLICY: &str = "policy";

/// `PUT /_slm/policy/ID`.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotPolicy {
    /// When.
    pub schedule: Schedule,
    /// Of the snapshots, with date math; a unique end is added.
    pub name: String,
    /// Where.
    pub repository: String,
    /// What.
    pub config: Option<SnapshotConfig>,
    /// How long.
    pub retention: Option<Retention>,
}

/// `config` of a policy: as in the body of a snapshot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SnapshotConfig {
    /// As typed.
    typed: Map<String, Value>,
    /// Names and patterns; empty: all.
    pub indices: Vec<String>,
    /// Names that do not exist are no error.
    pub ignore_unavailable: bool,
    /// Templates and settings too (default true).
    pub include_global_state: bool,
    /// Go on without shards that do not serve.
    pub partial: bool,
    /// Kept with the snapshot.
    pub metadata: Map<String, Value>,
}

impl SnapshotPolicy {
    /// Reads the body.
    pub fn parse(id: &str, value: &Value) -> Result<Self> {
        check_id(id)?;
        let map = value
            .as_object()
            .ok_or_else(|| Error::parsing(format!("[snapshot_lifecycle] must be an object, not [{value}]")))?;
        let known = ["schedule", "name", "repository", "config", "retention"];
        if let Some(other) = map.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(Error::parsing(format!("[snapshot_lifecycle] unknown field [{other}]")));
        }
        let text = |name: &str| {
            let text = map.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.ok_or_else(|| Error::illegal_argument(format!("Required [{name}]")))
        };
        let part = |name: &str| map.get(name).filter(|value| !value.is_null());
        let (name, repository) = (text("name")?, text("repository")?);
        // Date math is checked where the time is known.
        if !name.starts_with('<') {
            validate_snapshot_name(repository, name)?;
        }
        Ok(Self {
            schedule: Schedule::parse(text("schedule")?)?,
            name: name.to_owned(),
            repository: repository.to_owned(),
            config: part("config").map(SnapshotConfig::parse).transpose()?,
            retention: part("retention").map(Retention::parse).transpose()?,
        })
    }

    /// What would keep every snapshot from being made, though the policy can be read: a name that no snapshot may have, or what
    /// is said in `config.metadata`.
    pub fn check(&self, now_ms: i64) -> Result<()> {
        validate_snapshot_name(&self.repository, &resolve_date_math(&self.name, now_ms)?)?;
        let Some(config) = &self.config else {
            return Ok(());
        };
        let invalid = |why: &str| {
            Err(Error::illegal_argument(format!(
                "invalid configuration.metadata: {why}"
            )))
        };
        if config.metadata.contains_key(POLICY) {
            return invalid("field name [policy] is reserved and will be added automatically");
        }
        let bytes = serde_json::to_string(&config.metadata).map_or(0, |text| text.len());
        match bytes > SNAPSHOT_METADATA_BYTES_MAX {
            true => invalid(&format!(
                "must be smaller than [{SNAPSHOT_METADATA_BYTES_MAX}] bytes, but is [{bytes}] bytes"
            )),
            false => Ok(()),
        }
    }

    /// The inverse of [`SnapshotPolicy::parse`].
    pub fn print(&self) -> Value {
        let mut out = json!({
            "name": self.name,
            "schedule": self.schedule.as_str(),
            "repository": self.repository,
        });
        if let Some(config) = &self.config {
            out["config"] = Value::Object(config.typed.clone());
        }
        if let Some(retention) = &self.retention {
            out["retention"] = retention.print();
        }
        out
    }
}

/// Whether a new policy may have this id. [`SnapshotPolicy::parse`] checks less, as older builds took more.
pub fn validate_policy_id(id: &str) -> Result<()> {
    let why = match id.chars().any(char::is_control) {
        true => Some("must not contain control characters"),
        false => problem_as_file_name(id),
    };
    match why {
        Some(why) => Err(Error::illegal_argument(format!("invalid policy id [{id}]: {why}"))),
        None => check_id(id),
    }
}

fn check_id(id: &str) -> Result<()> {
    let bad = |why: &str| Err(Error::illegal_argument(format!("invalid policy id [{id}]: {why}")));
    if id.is_empty() || id.len() > ID_BYTES_MAX {
        return bad("must have between 1 and 255 bytes");
    }
    if id.starts_with('_') {
        return bad("must not start with '_'");
    }
    if id.contains([' ', ',', '*', '?', '"', '<', '>', '|', '\\', '/', '#']) {
        return bad("must not contain the following characters [ , \", *, \\, <, |, ,, >, /, ?, #]");
    }
    Ok(())
}

impl SnapshotConfig {
    fn parse(value: &Value) -> Result<Self> {
        let map = value
            .as_object()
            .ok_or_else(|| Error::parsing(format!("[config] must be an object, not [{value}]")))?;
        let mut config = Self {
            typed: map.clone(),
            include_global_state: true,
            ..Self::default()
        };
        for (key, value) in map {
            let bad = || Error::illegal_argument(format!("[config] [{key}] cannot be [{value}]"));
            let flag = || match value {
                Value::Bool(flag) => Ok(*flag),
                Value::String(text) if text == "true" || text == "false" => Ok(text == "true"),
                _ => Err(bad()),
            };
            match key.as_str() {
                "indices" => {
                    config.indices = match value {
                        Value::String(text) => text.split(',').map(|name| name.trim().to_owned()).collect(),
                        Value::Array(list) => {
                            let names = list.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(bad));
                            names.collect::<Result<_>>()?
                        }
                        _ => return Err(bad()),
                    }
                }
                "ignore_unavailable" => config.ignore_unavailable = flag()?,
                "include_global_state" => config.include_global_state = flag()?,
                "partial" => config.partial = flag()?,
                "metadata" => config.metadata = value.as_object().cloned().ok_or_else(bad)?,
                // firn has no features with states of their own: none are kept, whichever are named.
                "feature_states" if value.is_array() => {}
                _ => return Err(bad()),
            }
        }
        Ok(config)
    }
}

/// What a policy has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolicyStats {
    /// Snapshots that were made.
    pub taken: u64,
    /// Those that were not.
    pub failed: u64,
    /// Those that retention removed.
    pub deleted: u64,
    /// Those that it could not remove.
    pub deletion_failures: u64,
}

/// A snapshot that a policy made, or failed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Its name.
    pub snapshot: String,
    /// When it began, ms since epoch UTC.
    pub start_ms: i64,
    /// When it ended.
    pub end_ms: i64,
    /// Why it failed.
    pub details: Option<String>,
}

/// A policy as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSnapshotPolicy {
    /// What it says.
    pub policy: SnapshotPolicy,
    /// From 1 on, one more with each change.
    pub version: u64,
    /// When it was written last, ms since epoch UTC.
    pub modified_ms: i64,
    /// The last snapshot that was made.
    pub last_success: Option<Invocation>,
    /// The last one that was not.
    pub last_failure: Option<Invocation>,
    /// The one being made: name, and since when.
    pub running: Option<(String, i64)>,
    /// What it has done.
    pub stats: PolicyStats,
}

/// Runs of retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionStats {
    /// How often.
    pub runs: u64,
    /// How often it could not remove everything.
    pub failed: u64,
    /// How long removing took, ms.
    pub deletion_ms: u64,
}

/// All snapshot lifecycle policies.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SnapshotPolicies {
    /// Whether they are carried out.
    pub mode: OperationMode,
    /// By id.
    pub by_id: BTreeMap<String, Arc<StoredSnapshotPolicy>>,
    /// Of all of them.
    pub retention: RetentionStats,
}

impl Invocation {
    fn to_json(&self) -> Value {
        json!({"snapshot": self.snapshot, "start_ms": self.start_ms, "end_ms": self.end_ms, "details": self.details})
    }

    fn from_json(json: &Value) -> Option<Self> {
        Some(Self {
            snapshot: json["snapshot"].as_str()?.to_owned(),
            start_ms: json["start_ms"].as_i64()?,
            end_ms: json["end_ms"].as_i64()?,
            details: json["details"].as_str().map(str::to_owned),
        })
    }
}

impl StoredSnapshotPolicy {
    fn to_json(&self) -> Value {
        let stats = &self.stats;
        json!({
            "policy": self.policy.print(),
            "version": self.version,
            "modified_ms": self.modified_ms,
            "last_success": self.last_success.as_ref().map(Invocation::to_json),
            "last_failure": self.last_failure.as_ref().map(Invocation::to_json),
            "running": self.running,
            "stats": [stats.taken, stats.failed, stats.deleted, stats.deletion_failures],
        })
    }

    fn from_json(id: &str, json: &Value) -> Result<Self> {
        let wrong = || Error::internal(format!("the stored snapshot lifecycle policy [{id}] cannot be read"));
        let number = |place: usize| json["stats"][place].as_u64().ok_or_else(wrong);
        let invocation = |name: &str| match &json[name] {
            Value::Null => Ok(None),
            stored => Invocation::from_json(stored).map(Some).ok_or_else(wrong),
        };
        Ok(Self {
            policy: SnapshotPolicy::parse(id, &json["policy"])?,
            version: json["version"].as_u64().ok_or_else(wrong)?,
            modified_ms: json["modified_ms"].as_i64().ok_or_else(wrong)?,
            last_success: invocation("last_success")?,
            last_failure: invocation("last_failure")?,
            running: match (json["running"][0].as_str(), json["running"][1].as_i64()) {
                (Some(name), Some(ms)) => Some((name.to_owned(), ms)),
                _ => None,
            },
            stats: PolicyStats {
                taken: number(0)?,
                failed: number(1)?,
                deleted: number(2)?,
                deletion_failures: number(3)?,
            },
        })
    }
}

impl SnapshotPolicies {
    /// `mode`, `policies`, `retention`.
    pub fn to_json(&self) -> Value {
        let policies: Map<String, Value> = self
            .by_id
            .iter()
            .map(|(id, stored)| (id.clone(), stored.to_json()))
            .collect();
        let retention = &self.retention;
        json!({
            "mode": self.mode.as_str(),
            "policies": policies,
            "retention": [retention.runs, retention.failed, retention.deletion_ms],
        })
    }

    /// The inverse of [`SnapshotPolicies::to_json`].
    pub fn from_json(json: &Value) -> Result<Self> {
        let wrong = || Error::internal("stored snapshot lifecycle policies cannot be read");
        let number = |place: usize| json["retention"][place].as_u64().ok_or_else(wrong);
        let policies = json["policies"].as_object().ok_or_else(wrong)?;
        Ok(Self {
            mode: json["mode"].as_str().and_then(OperationMode::find).ok_or_else(wrong)?,
            by_id: policies
                .iter()
                .map(|(id, stored)| Ok((id.clone(), Arc::new(StoredSnapshotPolicy::from_json(id, stored)?))))
                .collect::<Result<_>>()?,
            retention: RetentionStats {
                runs: number(0)?,
                failed: number(1)?,
                deletion_ms: number(2)?,
            },
        })
    }
}
