//! Index lifecycle management: executes policies, one step of one index at a time.
//!
//! [`decide`] returns the next action of an index from the metadata and the time alone. [`Ilm`] executes it through
//! [`Effects`], and stores the state of the index before a step starts and after it has ended. Every step can be
//! repeated without harm, so after a crash the next start continues from the stored state.
//!
//! Events always have at least one copy. One transaction deletes the local index and puts its mounted snapshot in its
//! place. Before that, every byte of the index in the snapshot was read back from the store, and a search of the
//! mounted index found all events.

mod decide;
mod effects;
mod perform;
mod searchable;
mod snapshot_verification;
#[cfg(test)]
mod tests;
mod work_queue;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_model::ilm::{Execution, OperationMode, StepKey, VERIFY, step_after, steps_of};
use firn_model::metadata::{Command, IlmCommand, IndexMetadata};
use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub use effects::{Effects, EngineEffects, IndexSize, ListWork, MountedAs};
pub use work_queue::{QueuedIndex, WorkQueue};

use crate::Clock;
use decide::{Decision, decide};
use perform::{Outcome, perform};
use snapshot_verification::Verifying;

/// Maximum consecutive steps of one index. A policy has fewer, so an index with more is in a loop.
const STEPS_MAX: usize = 128;

/// Two kinds of work, so that a rollover never waits for a snapshot or a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Only short work on this node.
    Light,
    /// Also work that reads or writes a whole index, or sends requests to a repository, which may be slow.
    Heavy,
}

impl Lane {
    fn of(key: Option<&StepKey>) -> Self {
        let Some(key) = key else { return Self::Light };
        match key.step.as_str() {
            // Before a deletion this step sends no requests: the snapshot is removed later.
            "cleanup-snapshot" if key.action == "delete" => Self::Light,
            "forcemerge"
            | "cleanup-snapshot"
            | "create-snapshot"
            | VERIFY
            | "mount-snapshot"
            | "wait-for-index-color"
            | "swap-aliases"
            | "wait-for-snapshot"
            | "check-migration" => Self::Heavy,
            _ => Self::Light,
        }
    }
}

/// Reason for a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// `indices.lifecycle.poll_interval` has passed: conditions are checked, failed steps are retried.
    Poll,
    /// Between two polls: only work that does not wait for a condition.
    Between,
}

/// Dependencies of [`Ilm`].
#[derive(Clone)]
pub struct IlmParts {
    /// Its effects.
    pub effects: Arc<dyn Effects>,
    /// The wall clock.
    pub now_ms: Clock,
    /// Source of randomness for the names of snapshots.
    pub random: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Returns Elasticsearch's type of an error, which only the edge knows.
    pub type_of: fn(ErrorKind) -> &'static str,
}

/// Executes lifecycle policies. May be called concurrently; one call at a time works on an index.
pub struct Ilm {
    parts: IlmParts,
    /// Uuids of indices in progress.
    busy: Mutex<BTreeSet<String>>,
    verifying: Verifying,
}

impl Ilm {
    /// Creates it.
    pub fn new(parts: IlmParts) -> Self {
        Self {
            parts,
            busy: Mutex::default(),
            verifying: Verifying::default(),
        }
    }

    /// Returns the indices that have work now, with its lane. Completes a requested stop once nothing is in progress.
    pub async fn due(&self, occasion: WaitEnd) -> Result<BTreeMap<String, Lane>> {
        let metadata = self.parts.effects.metadata().await?;
        if metadata.ilm.mode == OperationMode::Stopping && self.busy.lock().is_empty() {
            let mode = OperationMode::Stopped;
            self.parts
                .effects
                .execute(Command::Ilm(IlmCommand::SetMode { mode }))
                .await?;
        }
        for request in self.verifying.unwanted(&metadata) {
            if let Err(error) = self.parts.effects.end_verification(&request).await {
                let (repository, snapshot) = (&request.repository, &request.snapshot);
                tracing::warn!(repository, snapshot, %error, "cannot end the verification of a snapshot");
            }
        }
        let now_ms = (self.parts.now_ms)();
        let busy = self.busy.lock().clone();
        let due = metadata
            .indices
            .values()
            .filter(|index| !busy.contains(&index.uuid))
            .filter(|index| !matches!(decide(index, &metadata.ilm, now_ms, occasion), Decision::Wait))
            .map(|index| (index.name.clone(), Lane::of(key_of(index))))
            .collect();
        Ok(due)
    }

    /// Deletes the snapshots of indices that lifecycles deleted; failures are retried.
    pub async fn remove_orphans(&self) -> Result<()> {
        let metadata = self.parts.effects.metadata().await?;
        for (repository, name) in &metadata.ilm.orphans {
            match self.parts.effects.delete_snapshot(repository, name).await {
                Ok(()) => {}
                // Snapshots cannot be accessed without their repository.
                Err(error) if error.kind() == ErrorKind::RepositoryMissing => {}
                Err(error) => {
                    tracing::warn!(repository, snapshot = name, %error, "cannot remove the snapshot of a deleted index");
                    continue;
                }
            }
            let snapshot = (repository.clone(), name.clone());
            let command = Command::Ilm(IlmCommand::ForgetOrphan { snapshot });
            self.parts.effects.execute(command).await?;
        }
        Ok(())
    }

    /// Executes the steps of an index while they are of this lane and wait for nothing.
    pub async fn advance(&self, index: &str, lane: Lane, occasion: WaitEnd) {
        if let Err(error) = self.try_advance(index, lane, occasion).await {
            tracing::warn!(index, %error, "a lifecycle failed and is retried");
        }
    }

    async fn try_advance(&self, name: &str, lane: Lane, occasion: WaitEnd) -> Result<()> {
        let mut uuid: Option<Busy<'_>> = None;
        let mut occasion = occasion;
        for _ in 0..STEPS_MAX {
            let metadata = self.parts.effects.metadata().await?;
            let Some(index) = metadata.indices.get(name) else {
                return Ok(());
            };
            match &uuid {
                None => match Busy::begin(&self.busy, &index.uuid) {
                    Some(busy) => uuid = Some(busy),
                    None => return Ok(()),
                },
                // The index was deleted and another one with its name was created.
                Some(busy) if busy.uuid != index.uuid => return Ok(()),
                Some(_) => {}
            }
            let now_ms = (self.parts.now_ms)();
            match decide(index, &metadata.ilm, now_ms, occasion) {
                Decision::Wait => return Ok(()),
                Decision::Record(to) => self.record(index, *to).await?,
                Decision::Note(error) => {
                    let noted = match &index.execution {
                        Some(execution) => Execution::clone(execution),
                        None => Execution::new(index.created_ms, now_ms),
                    };
                    let info = Some(self.info(&error));
                    if noted.step_info != info || index.execution.is_none() {
                        self.record(
                            index,
                            Execution {
                                step_info: info,
                                ..noted
                            },
                        )
                        .await?;
                    }
                    return Ok(());
                }
                Decision::Perform(execution) => {
                    if Lane::of(Some(&execution.key)) > lane {
                        return Ok(());
                    }
                    if !self.take_step(index, &execution).await? {
                        return Ok(());
                    }
                }
            }
            // The index has moved to another step, whose condition was not checked yet.
            occasion = WaitEnd::Poll;
        }
        Err(Error::internal(format!(
            "the lifecycle of index [{name}] takes too many steps"
        )))
    }

    /// Executes one step and stores its result. Returns whether the index may continue immediately.
    async fn take_step(&self, index: &IndexMetadata, execution: &Execution) -> Result<bool> {
        let Some(definition) = &execution.phase else {
            return Ok(false);
        };
        let steps = steps_of(definition.name, &definition.phase);
        let next = step_after(&steps, &execution.key).unwrap_or_else(|| StepKey::complete(&execution.key.phase));
        let outcome = perform(&self.parts, &self.verifying, index, execution, &definition.phase, &next).await;
        let now_ms = (self.parts.now_ms)();
        match outcome {
            Ok(Outcome::Done(facts)) => {
                self.record(index, facts.at(next, now_ms)).await?;
                Ok(true)
            }
            Ok(Outcome::Waiting(info)) => {
                if execution.step_info != info {
                    let waiting = Execution {
                        step_info: info,
                        ..execution.clone()
                    };
                    self.record(index, waiting).await?;
                }
                Ok(false)
            }
            Ok(Outcome::Again(step)) => {
                let key = StepKey::new(&execution.key.phase, &execution.key.action, step);
                self.record(index, execution.clone().at(key, now_ms)).await?;
                Ok(true)
            }
            Ok(Outcome::Gone) => Ok(false),
            Ok(Outcome::Back { step, error }) => {
                tracing::warn!(index = index.name, step = %execution.key, back_to = step, %error, "a lifecycle returned to an earlier step");
                let back = Execution {
                    key: StepKey::new(&execution.key.phase, &execution.key.action, step),
                    ..execution.clone()
                };
                self.record(index, back.failed(self.info(&error), now_ms)).await?;
                Ok(false)
            }
            Err(error) => {
                tracing::warn!(index = index.name, step = %execution.key, %error, "a step of a lifecycle failed");
                self.record(index, execution.clone().failed(self.info(&error), now_ms))
                    .await?;
                Ok(false)
            }
        }
    }

    async fn record(&self, index: &IndexMetadata, to: Execution) -> Result<()> {
        let command = IlmCommand::Advance {
            index: index.name.clone(),
            uuid: index.uuid.clone(),
            from: key_of(index).cloned(),
            to: Box::new(to),
        };
        self.parts.effects.execute(Command::Ilm(command)).await?;
        Ok(())
    }

    /// Prints an error as Elasticsearch stores it.
    fn info(&self, error: &Error) -> Value {
        json!({"type": (self.parts.type_of)(error.kind()), "reason": error.to_string()})
    }
}

fn key_of(index: &IndexMetadata) -> Option<&StepKey> {
    index.execution.as_ref().map(|execution| &execution.key)
}

/// Marks an index as in progress until it is dropped.
struct Busy<'a> {
    all: &'a Mutex<BTreeSet<String>>,
    uuid: String,
}

impl<'a> Busy<'a> {
    /// Starts work on an index; `None`: it is already in progress.
    fn begin(all: &'a Mutex<BTreeSet<String>>, uuid: &str) -> Option<Self> {
        let is_first = all.lock().insert(uuid.to_owned());
        is_first.then(|| Self {
            all,
            uuid: uuid.to_owned(),
        })
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.uuid);
    }
}
