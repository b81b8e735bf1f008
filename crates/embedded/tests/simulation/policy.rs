//! Lifecycle policy of a run, executed through the engine's commands: an index is sealed, merged, copied to a snapshot,
//! verified, mounted, compared, replaced by the mount, and in the end deleted.
//!
//! As in a real lifecycle, a failed or interrupted step is repeated, and first checks whether it is already done.

use std::time::{Duration, Instant};

use firn_engine::Engine as _;
use firn_engine::admin::ForceMergeRequest;
use firn_engine::mounts::Storage;
use firn_engine::snapshot::{SnapshotVerification as _, Snapshots as _, VerificationState, VerifySnapshot};
use firn_model::ilm::Execution;
use firn_model::metadata::{Command, IlmCommand};
use serde_json::json;

use crate::model::{Kind, Presence};
use crate::node::{ctx, target};
use crate::run::Run;
use crate::snapshots::is_whole;

/// Maximum time of a verification; there is little to read.
const VERIFY_PATIENCE: Duration = Duration::from_secs(20);

/// Progress of an index in its policy.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    index: String,
    snapshot: String,
    mounted: String,
    step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Seal,
    Merge,
    Snapshot,
    Verify,
    Mount,
    Compare,
    Replace,
    Delete,
    RemoveSnapshot,
    Forget,
}

impl Run<'_> {
    /// Whether a policy needs the snapshot.
    pub(crate) fn is_of_a_policy(&self, snapshot: &str) -> bool {
        self.policy.as_ref().is_some_and(|policy| policy.snapshot == snapshot)
    }

    /// Takes the next steps of the index with a policy; if there is none, another index gets the policy.
    pub(crate) fn take_policy_steps(&mut self) {
        if self.policy.is_none() {
            let Some(index) = self.pick(|index| index.kind == Kind::Written) else {
                return;
            };
            let number = self.fresh();
            self.policy = Some(Policy {
                snapshot: format!("policy-{number}"),
                mounted: format!("partial-{number}-{index}"),
                index,
                step: Step::Seal,
            });
        }
        for _ in 0..self.random.usize(1..6) {
            if self.is_down() {
                return;
            }
            let Some(policy) = self.policy.clone() else { return };
            match self.take_step(&policy) {
                Some(Some(step)) => self.policy = Some(Policy { step, ..policy }),
                // The policy is complete, or its index is gone.
                Some(None) => self.policy = None,
                // The step will be repeated.
                None => return,
            }
        }
    }

    fn is_there(&self, name: &str) -> Option<bool> {
        let metadata = self.node().metadata().ok()?;
        Some(metadata.indices.contains_key(name))
    }

    /// Takes a step and returns the next one; the outer `None` if it failed.
    fn take_step(&mut self, policy: &Policy) -> Option<Option<Step>> {
        let Policy {
            index,
            snapshot,
            mounted,
            step,
        } = policy;
        if *step < Step::Delete && !self.is_there(index)? {
            // It was deleted, or it was replaced and the answer was lost.
            return Some(self.is_there(mounted)?.then_some(Step::Delete));
        }
        match step {
            Step::Seal => {
                let outcome = self.node().execute(Command::PutSettings {
                    names: vec![index.clone()],
                    settings: json!({"index.blocks.write": true}),
                    preserve_existing: false,
                });
                // The run writes nothing to it from here on, whether it was sealed or not.
                if let Some(index) = self.model.indices.get_mut(index) {
                    index.kind = Kind::Sealed;
                }
                self.taken(policy, &outcome)?;
                Some(Some(Step::Merge))
            }
            Step::Merge => {
                let request = ForceMergeRequest {
                    target: target(index),
                    max_num_segments: Some(1),
                    only_expunge_deletes: false,
                    flush: true,
                };
                let outcome = self.node().run(self.node().engine.force_merge(&ctx(), request));
                self.taken(policy, &outcome.as_ref().map(|outcome| outcome.failures.len()))?;
                let is_done = outcome.is_ok_and(|outcome| outcome.failures.is_empty());
                is_done.then_some(Some(Step::Snapshot))
            }
            Step::Snapshot => {
                let names = vec![snapshot.clone()];
                let found = self
                    .node()
                    .run(self.node().engine.list_snapshots(&ctx(), "r", &names, true));
                match found.ok()?.first() {
                    Some(info) if is_whole(info) => {
                        if let Some(snapshot) = self.model.snapshots.get_mut(snapshot) {
                            snapshot.presence = Presence::Certain;
                        }
                        Some(Some(Step::Verify))
                    }
                    Some(_) => {
                        self.remove_snapshot(snapshot);
                        None
                    }
                    None => {
                        let indices = vec![index.clone()];
                        self.snapshot(snapshot, &indices).then_some(Some(Step::Verify))
                    }
                }
            }
            Step::Verify => self.verify(policy).then_some(Some(Step::Mount)),
            Step::Mount => {
                if self.is_there(mounted)? {
                    return Some(Some(Step::Compare));
                }
                let storage = match self.random.bool() {
                    true => Storage::FullCopy,
                    false => Storage::SharedCache,
                };
                self.mount(snapshot, index, mounted, storage)
                    .then_some(Some(Step::Compare))
            }
            Step::Compare => {
                let count = |name: &str| self.node().documents(name).ok()?.ok().map(|found| found.len());
                let (before, after) = (count(index)?, count(mounted)?);
                if before == after {
                    return Some(Some(Step::Replace));
                }
                self.journal
                    .record(format!("policy: {before} and {after} events, anew"));
                let outcome = self.node().execute(Command::DeleteIndices {
                    names: vec![mounted.clone()],
                });
                let is_certain = self.presence_of(&outcome) == Presence::Certain;
                self.model.drop_index(mounted, is_certain);
                if is_certain {
                    self.remove_snapshot(snapshot);
                }
                // Its name may already be in use.
                Some(None)
            }
            Step::Replace => {
                if !self.is_there(mounted)? {
                    return Some(None);
                }
                let now_ms = self.now_ms();
                let outcome = self.node().execute(Command::Ilm(IlmCommand::Replace {
                    old: index.clone(),
                    new: mounted.clone(),
                    to: Box::new(Execution::new(now_ms, now_ms)),
                }));
                let is_certain = self.presence_of(&outcome) == Presence::Certain;
                self.model.drop_index(index, is_certain);
                self.taken(policy, &outcome)?;
                Some(Some(Step::Delete))
            }
            Step::Delete => {
                // Most mounts stay for a while.
                if self.random.u8(0..4) > 0 {
                    return None;
                }
                if self.is_there(mounted)? {
                    let outcome = self.node().execute(Command::Ilm(IlmCommand::Delete {
                        index: mounted.clone(),
                        snapshot: Some(("r".to_owned(), snapshot.clone())),
                    }));
                    let is_certain = self.presence_of(&outcome) == Presence::Certain;
                    self.model.drop_index(mounted, is_certain);
                    self.taken(policy, &outcome)?;
                }
                let kind = Kind::Mounted(snapshot.clone());
                let is_mounted = self.model.indices.values().any(|index| index.kind == kind);
                Some((!is_mounted).then_some(Step::RemoveSnapshot))
            }
            Step::RemoveSnapshot => self.remove_snapshot(snapshot).then_some(Some(Step::Forget)),
            Step::Forget => {
                let outcome = self.node().execute(Command::Ilm(IlmCommand::ForgetOrphan {
                    snapshot: ("r".to_owned(), snapshot.clone()),
                }));
                self.taken(policy, &outcome)?;
                Some(None)
            }
        }
    }

    /// Records a step in the journal; `None` if it failed or its answer was lost.
    fn taken<T, E: std::fmt::Display>(&self, policy: &Policy, outcome: &Result<T, E>) -> Option<()> {
        let result = outcome
            .as_ref()
            .err()
            .map_or_else(|| "done".to_owned(), ToString::to_string);
        self.journal
            .record(format!("policy {:?} of {}: {result}", policy.step, policy.index));
        (outcome.is_ok() && !self.is_down()).then_some(())
    }

    fn verify(&self, policy: &Policy) -> bool {
        let request = VerifySnapshot {
            repository: "r".to_owned(),
            snapshot: policy.snapshot.clone(),
            index: policy.index.clone(),
        };
        let until = Instant::now() + VERIFY_PATIENCE;
        let begun = self
            .node()
            .run(self.node().engine.begin_verification(&ctx(), request.clone()));
        if self.taken(policy, &begun).is_none() {
            return false;
        }
        while Instant::now() < until && !self.is_down() {
            match self.node().run(self.node().engine.verification(&ctx(), &request)) {
                Ok(Some(now)) if now.state == VerificationState::Running => {}
                Ok(Some(now)) => return now.state == VerificationState::Whole,
                _ => return false,
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }
}
