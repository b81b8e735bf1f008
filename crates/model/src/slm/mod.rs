//! Snapshot lifecycle policies in Elasticsearch's JSON: schedule and retention of snapshots.

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

/// Maximum bytes of a policy's id, the same as for names of indices.
const ID_BYTES_MAX: usize = 255;
/// Key in a snapshot's metadata that names its policy, as in Elasticsearch.
pub const POLICY: &str = "policy";

/// `PUT /_slm/policy/ID`.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotPolicy {
    /// When to create snapshots.
    pub schedule: Schedule,
    /// Name of the snapshots, with date math; firn appends a unique suffix.
    pub name: String,
    /// Target repository.
    pub repository: String,
    /// Content of the snapshots.
    pub config: Option<SnapshotConfig>,
    /// Retention of the snapshots.
    pub retention: Option<Retention>,
}

/// `config` of a policy: as in the body of a snapshot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SnapshotConfig {
    /// As the user typed it.
    typed: Map<String, Value>,
    /// Names and patterns; empty: all.
    pub indices: Vec<String>,
    /// Ignore names that do not exist.
    pub ignore_unavailable: bool,
    /// Include templates and settings (default true).
    pub include_global_state: bool,
    /// Continue without shards that do not serve.
    pub partial: bool,
    /// Stored with the snapshot.
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

    /// Checks what parsing does not: problems that would make every snapshot fail. These are an invalid snapshot name,
    /// or invalid entries in `config.metadata`.
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

    /// Prints the policy; the inverse of [`SnapshotPolicy::parse`].
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

/// Checks whether a new policy may have this id. [`SnapshotPolicy::parse`] checks less, because older builds accepted
/// more.
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
                // firn has no features with state, so it stores none, for all names.
                "feature_states" if value.is_array() => {}
                _ => return Err(bad()),
            }
        }
        Ok(config)
    }
}

/// Counters of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolicyStats {
    /// Created snapshots.
    pub taken: u64,
    /// Failed snapshots.
    pub failed: u64,
    /// Snapshots that retention removed.
    pub deleted: u64,
    /// Snapshots that retention could not remove.
    pub deletion_failures: u64,
}

/// Finished snapshot of a policy, successful or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Its name.
    pub snapshot: String,
    /// Start time, ms since epoch UTC.
    pub start_ms: i64,
    /// End time, ms since epoch UTC.
    pub end_ms: i64,
    /// Reason of the failure.
    pub details: Option<String>,
}

/// Stored form of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSnapshotPolicy {
    /// The policy.
    pub policy: SnapshotPolicy,
    /// Starts at 1; each change increments it.
    pub version: u64,
    /// Time of the last change, ms since epoch UTC.
    pub modified_ms: i64,
    /// Last successful snapshot.
    pub last_success: Option<Invocation>,
    /// Last failed snapshot.
    pub last_failure: Option<Invocation>,
    /// Running snapshot: its name and start time.
    pub running: Option<(String, i64)>,
    /// Counters.
    pub stats: PolicyStats,
}

/// Counters of retention runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionStats {
    /// Number of runs.
    pub runs: u64,
    /// Number of runs that could not remove everything.
    pub failed: u64,
    /// Time spent on removal, ms.
    pub deletion_ms: u64,
}

/// All snapshot lifecycle policies.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SnapshotPolicies {
    /// Whether policies are executed.
    pub mode: OperationMode,
    /// By id.
    pub by_id: BTreeMap<String, Arc<StoredSnapshotPolicy>>,
    /// Counters of all policies together.
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
    /// Prints `mode`, `policies`, `retention`.
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

    /// Reads the output of [`SnapshotPolicies::to_json`].
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
