//! Commands of snapshot lifecycle policies, and the results of the policies.

use std::sync::Arc;

use serde_json::Value;

use super::change::Change;
use crate::dates::parse_duration_setting_ms;
use crate::ilm::OperationMode;
use crate::slm::{
    Invocation, PolicyStats, Schedule, SnapshotPolicies, SnapshotPolicy, StoredSnapshotPolicy, validate_policy_id,
};
use crate::{Error, ErrorKind, Result};

/// Elasticsearch's default.
const MINIMUM_INTERVAL: &str = "15m";

/// Change of snapshot lifecycle policies or of their results.
#[derive(Debug, Clone, PartialEq)]
pub enum SlmCommand {
    /// `PUT /_slm/policy/ID`.
    PutPolicy {
        /// The id.
        id: String,
        /// The body.
        policy: Value,
    },
    /// `DELETE /_slm/policy/ID`.
    DeletePolicy {
        /// The id.
        id: String,
    },
    /// `_slm/start` and `_slm/stop`.
    SetMode {
        /// The mode.
        mode: OperationMode,
    },
    /// A policy starts a snapshot.
    Begin {
        /// The policy.
        id: String,
        /// The snapshot's name.
        snapshot: String,
    },
    /// The snapshot of a policy succeeded or failed. Changes nothing if the policy was deleted in the meantime.
    End {
        /// The policy.
        id: String,
        /// Result.
        invocation: Invocation,
    },
    /// Retention has run.
    NoteRetention {
        /// For each policy: the number of removed snapshots, and of snapshots that could not be removed.
        removed: Vec<(String, u64, u64)>,
        /// Duration in ms.
        took_ms: u64,
    },
}

impl Change<'_> {
    pub(super) fn slm(&mut self, command: &SlmCommand) -> Result<()> {
        match command {
            SlmCommand::PutPolicy { id, policy } => self.put_snapshot_policy(id, policy),
            SlmCommand::DeletePolicy { id } => {
                if self.snapshot_policies().by_id.remove(id).is_none() {
                    return Err(policy_missing(id));
                }
                self.changed();
                Ok(())
            }
            SlmCommand::SetMode { mode } => {
                if self.next.slm.mode != *mode {
                    self.snapshot_policies().mode = *mode;
                    self.changed();
                }
                Ok(())
            }
            SlmCommand::Begin { id, snapshot } => {
                let now_ms = self.now_ms;
                let stored = self.stored(id).ok_or_else(|| policy_missing(id))?;
                if let Some((running, _)) = &stored.running {
                    let reason = format!("policy [{id}] is already creating snapshot [{running}]");
                    return Err(Error::new(ErrorKind::Conflict, reason));
                }
                stored.running = Some((snapshot.clone(), now_ms));
                self.changed();
                Ok(())
            }
            SlmCommand::End { id, invocation } => {
                let Some(stored) = self.stored(id) else {
                    return Ok(());
                };
                stored.running = None;
                match &invocation.details {
                    None => {
                        stored.stats.taken += 1;
                        stored.last_success = Some(invocation.clone());
                    }
                    Some(_) => {
                        stored.stats.failed += 1;
                        stored.last_failure = Some(invocation.clone());
                    }
                }
                self.changed();
                Ok(())
            }
            SlmCommand::NoteRetention { removed, took_ms } => {
                for (id, deleted, failed) in removed {
                    if let Some(stored) = self.stored(id) {
                        stored.stats.deleted += deleted;
                        stored.stats.deletion_failures += failed;
                    }
                }
                let retention = &mut self.snapshot_policies().retention;
                retention.runs += 1;
                retention.failed += u64::from(removed.iter().any(|(_, _, failed)| *failed > 0));
                retention.deletion_ms += took_ms;
                self.changed();
                Ok(())
            }
        }
    }

    fn snapshot_policies(&mut self) -> &mut SnapshotPolicies {
        Arc::make_mut(&mut self.next.slm)
    }

    fn stored(&mut self, id: &str) -> Option<&mut StoredSnapshotPolicy> {
        self.snapshot_policies().by_id.get_mut(id).map(Arc::make_mut)
    }

    fn put_snapshot_policy(&mut self, id: &str, policy: &Value) -> Result<()> {
        validate_policy_id(id)?;
        let policy = SnapshotPolicy::parse(id, policy)?;
        policy.check(self.now_ms)?;
        if !self.next.repositories.contains_key(&policy.repository) {
            return Err(Error::illegal_argument(format!(
                "no such repository [{}]",
                policy.repository
            )));
        }
        self.check_interval(&policy.schedule)?;
        let before = self.next.slm.by_id.get(id);
        let stored = match before {
            Some(before) => StoredSnapshotPolicy {
                policy,
                version: before.version + 1,
                modified_ms: self.now_ms,
                ..StoredSnapshotPolicy::clone(before)
            },
            None => StoredSnapshotPolicy {
                policy,
                version: 1,
                modified_ms: self.now_ms,
                last_success: None,
                last_failure: None,
                running: None,
                stats: PolicyStats::default(),
            },
        };
        self.snapshot_policies().by_id.insert(id.to_owned(), Arc::new(stored));
        self.changed();
        Ok(())
    }
}

impl Change<'_> {
    /// Checks `slm.minimum_interval`: a user who types seconds for minutes fills a repository.
    fn check_interval(&self, schedule: &Schedule) -> Result<()> {
        const SETTING: &str = "slm.minimum_interval";
        let set = self.next.cluster_setting(SETTING).and_then(Value::as_str);
        let shortest = set.unwrap_or(MINIMUM_INTERVAL);
        let shortest_ms = parse_duration_setting_ms(SETTING, shortest)?;
        let interval_ms = schedule.next_interval_ms(self.now_ms);
        if interval_ms.is_some_and(|ms| u64::try_from(ms).is_ok_and(|ms| ms < shortest_ms)) {
            return Err(Error::illegal_argument(format!(
                "invalid schedule [{}]: schedule would be too frequent, executing more than every [{shortest}]",
                schedule.as_str()
            )));
        }
        Ok(())
    }
}

fn policy_missing(id: &str) -> Error {
    Error::new(
        ErrorKind::ResourceNotFound,
        format!("snapshot lifecycle policy or policies [{id}] not found"),
    )
}
