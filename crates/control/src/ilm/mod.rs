//! Carries out index lifecycle policies: one step of one index at a time.
//!
//! [`decide`] says from the metadata and the time alone what an index needs next. [`Ilm`] does that
//! through [`Effects`] and writes down where the index is before a step begins and after it has
//! ended. Every step can be taken twice without harm, so wherever a crash hits, the next start goes on
//! from what is written.
//!
//! Events never have zero copies: the index on local disk goes in the same transaction that puts its
//! mounted snapshot in its place, and that only after every byte that the snapshot has of it was read back
//! from the store, and the mounted index was searched and found all events.

mod decide;
mod effects;
mod perform;
mod searchable;
#[cfg(test)]
mod tests;
mod turns;
mod verifying;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_model::ilm::{Execution, OperationMode, StepKey, VERIFY, step_after, steps_of};
use firn_model::metadata::{Command, IlmCommand, IndexMetadata};
use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub use effects::{Effects, EngineEffects, IndexSize, ListWork, MountedAs};
pub use turns::{Turn, Turns};

use crate::control::Clock;
use decide::{Decision, decide};
use perform::{Outcome, perform};
use verifying::Verifying;

/// Steps of one index in a row. A policy has fewer, so whoever needs more goes round in a circle.
const STEPS_MAX: usize = 128;

/// Two kinds of work, so that a rollover never waits for somebody's snapshot or for a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Only what is done in no time, on this node alone.
    Light,
    /// Also what reads or writes all of an index, or asks a repository, which may take its time to answer.
    Heavy,
}

impl Lane {
    fn of(key: Option<&StepKey>) -> Self {
        let Some(key) = key else { return Self::Light };
        match key.step.as_str() {
            // That of a deletion asks nobody: the snapshot is removed later.
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

/// When waiting is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// `indices.lifecycle.poll_interval` has passed: conditions are looked at, what failed is tried again.
    Poll,
    /// In between: only what need not wait.
    Between,
}

/// What an [`Ilm`] is made of.
#[derive(Clone)]
pub struct IlmParts {
    /// Its hands.
    pub effects: Arc<dyn Effects>,
    /// The wall clock.
    pub now_ms: Clock,
    /// For the names of snapshots.
    pub random: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Elasticsearch's type of an error, which only the edge knows.
    pub type_of: fn(ErrorKind) -> &'static str,
}

/// Carries out lifecycle policies. May be called concurrently; an index is worked on by one at a time.
pub struct Ilm {
    parts: IlmParts,
    /// Uuids of indices that are worked on.
    busy: Mutex<BTreeSet<String>>,
    verifying: Verifying,
}

impl Ilm {
    /// Over an engine.
    pub fn new(parts: IlmParts) -> Self {
        Self {
            parts,
            busy: Mutex::default(),
            verifying: Verifying::default(),
        }
    }

    /// The indices that need something now, and in which lane. Ends a stop that was asked for once nothing
    /// is under way.
    pub async fn due(&self, occasion: Occasion) -> Result<BTreeMap<String, Lane>> {
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
                tracing::warn!(repository, snapshot, %error, "cannot end that a snapshot is read back");
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

    /// Removes snapshots of indices that lifecycles deleted; what cannot be removed now is tried again.
    pub async fn remove_orphans(&self) -> Result<()> {
        let metadata = self.parts.effects.metadata().await?;
        for (repository, name) in &metadata.ilm.orphans {
            match self.parts.effects.delete_snapshot(repository, name).await {
                Ok(()) => {}
                // Nothing can be reached through a repository that is gone.
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

    /// Takes the steps of an index as long as they are of this lane and nothing has to be waited for.
    pub async fn advance(&self, index: &str, lane: Lane, occasion: Occasion) {
        if let Err(error) = self.try_advance(index, lane, occasion).await {
            tracing::warn!(index, %error, "a lifecycle cannot go on and is tried again");
        }
    }

    async fn try_advance(&self, name: &str, lane: Lane, occasion: Occasion) -> Result<()> {
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
                // Somebody deleted it and made another one.
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
            // It is somewhere else now, where nobody has looked yet.
            occasion = Occasion::Poll;
        }
        Err(Error::internal(format!(
            "the lifecycle of index [{name}] takes too many steps"
        )))
    }

    /// Takes one step and writes down what came of it. Whether the index may go on at once.
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
                tracing::warn!(index = index.name, step = %execution.key, back_to = step, %error, "a lifecycle goes back");
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

    /// An error as Elasticsearch keeps it.
    fn info(&self, error: &Error) -> Value {
        json!({"type": (self.parts.type_of)(error.kind()), "reason": error.to_string()})
    }
}

fn key_of(index: &IndexMetadata) -> Option<&StepKey> {
    index.execution.as_ref().map(|execution| &execution.key)
}

/// An index that is worked on, until this is dropped.
struct Busy<'a> {
    all: &'a Mutex<BTreeSet<String>>,
    uuid: String,
}

impl<'a> Busy<'a> {
    /// `None`: somebody else does.
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
