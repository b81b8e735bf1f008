//! Removal of a deleted tenant's events from snapshots.
//!
//! Every snapshot in a writable repository is rewritten without the tenant's events, one after the other. Failed work
//! is retried with backoff: a repository that does not answer, a snapshot that is being restored. The statement names
//! what firn cannot change: read-only repositories and damaged snapshots.

use std::collections::{BTreeSet, HashMap};

use firn_engine::snapshot::{HoldingSnapshot, TenantSnapshots};
use firn_engine::{Capability, RequestContext};
use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};

use crate::deletion::Deletion;
use crate::erasure_statement::{RemainingSnapshot, SNAPSHOTS_NAMED_MAX};
use crate::retention_controller::RetentionController;

/// Each check reads the manifests of every snapshot, so the pause between checks grows while they fail.
const PAUSE_MS_MIN: i64 = 2_000;
const PAUSE_MS_MAX: i64 = 5 * 60 * 1000;

/// Backoff state: time of the next check of snapshots.
#[derive(Debug, Default)]
pub(crate) struct Pauses(HashMap<TenantId, Pause>);

#[derive(Debug)]
struct Pause {
    until_ms: i64,
    pause_ms: i64,
    /// Error of the last attempt.
    why: Option<Error>,
}

impl Pauses {
    /// Returns the result of the last attempt during the pause; `None`: try again.
    fn outcome(&self, tenant: &TenantId, now_ms: i64) -> Option<Result<()>> {
        let pause = self.0.get(tenant)?;
        // If the clock goes back, it waits once more, not forever.
        let is_over = !(pause.until_ms - pause.pause_ms..pause.until_ms).contains(&now_ms);
        match &pause.why {
            Some(why) if !is_over => Some(Err(why.clone())),
            Some(_) => None,
            None => Some(Ok(())),
        }
    }

    /// Records the result of an attempt; a successful one is the last until the final check.
    fn note(&mut self, tenant: &TenantId, outcome: &Result<()>, now_ms: i64) {
        let factor = if outcome.is_err() { 2 } else { 1 };
        let before = self.0.get(tenant);
        let pause_ms = before.map_or(PAUSE_MS_MIN, |pause| (pause.pause_ms * factor).min(PAUSE_MS_MAX));
        let pause = Pause {
            until_ms: now_ms + pause_ms,
            pause_ms,
            why: outcome.as_ref().err().cloned(),
        };
        self.0.insert(tenant.clone(), pause);
    }

    pub(crate) fn forget(&mut self, tenant: &TenantId) {
        self.0.remove(tenant);
    }
}

impl RetentionController {
    /// Removes the tenant's events from all snapshots that hold any, and stores each result. A snapshot that fails does
    /// not block the others; returns the first error, also during the pause before a retry.
    pub(crate) async fn remove_from_snapshots(
        &self,
        ctx: &RequestContext,
        tenant: &TenantId,
        deletion: &mut Deletion,
        now_ms: i64,
    ) -> Result<()> {
        if let Some(outcome) = self.pauses.lock().outcome(tenant, now_ms) {
            return outcome;
        }
        let outcome = self.rewrite_snapshots(ctx, tenant, deletion).await;
        self.pauses.lock().note(tenant, &outcome, now_ms);
        // Mounted indices may read a rewritten snapshot now.
        self.mount_pauses.lock().forget(tenant);
        outcome
    }

    /// Makes mounted indices read the current state of their snapshots, and fails if that holds events of the tenant.
    /// It retries with backoff, because each mounted index sends requests to its repository.
    pub(crate) async fn remove_from_mounts(
        &self,
        ctx: &RequestContext,
        tenant: &TenantId,
        deletion: &mut Deletion,
        now_ms: i64,
    ) -> Result<()> {
        if let Some(Err(why)) = self.mount_pauses.lock().outcome(tenant, now_ms) {
            return Err(why);
        }
        let outcome = self.remove_found(ctx, tenant, deletion, true).await;
        match &outcome {
            Ok(()) => self.mount_pauses.lock().forget(tenant),
            Err(_) => self.mount_pauses.lock().note(tenant, &outcome, now_ms),
        }
        outcome
    }

    async fn rewrite_snapshots(&self, ctx: &RequestContext, tenant: &TenantId, deletion: &mut Deletion) -> Result<()> {
        let found = self.find_snapshots(ctx, tenant, deletion).await?;
        // Left by a process that ended, or by a failed attempt.
        let unswept = deletion.unswept.clone();
        let writable = deletion.snapshots.iter().filter(|left| !left.is_readonly);
        let writable: Vec<(String, String)> = writable
            .map(|left| (left.repository.clone(), left.snapshot.clone()))
            .collect();
        let mut failure = awaited(&found);
        let mut failed = BTreeSet::new();
        for (repository, snapshot) in writable {
            if deletion.note_unswept(&repository) {
                self.records.note_deletion(tenant, deletion.clone())?;
            }
            let rewritten = self
                .engine
                .require_snapshot_erasure()?
                .remove_tenant_from_snapshot(ctx, tenant, &repository, &snapshot)
                .await;
            match rewritten {
                Ok(done) => {
                    tracing::info!(
                        %tenant, repository, snapshot, documents = done.documents,
                        "removed events of a deleted tenant from a snapshot"
                    );
                    deletion.note_rewritten(&repository, &snapshot, done);
                    self.records.note_deletion(tenant, deletion.clone())?;
                }
                // Another request removed the snapshot, or unregisters the repository.
                Err(error) if matches!(error.kind(), ErrorKind::SnapshotMissing | ErrorKind::RepositoryMissing) => {}
                Err(error) => {
                    failed.insert(repository);
                    failure = failure.or(Some(error));
                }
            }
        }
        let is_left = |repository: &String| unswept.contains(repository) || failed.contains(repository);
        deletion.unswept.retain(is_left);
        failure.map_or(Ok(()), Err)
    }

    /// Removes unreferenced objects with events of the tenant, from repositories that may have any.
    pub(crate) async fn remove_leftovers(&self, ctx: &RequestContext, deletion: &mut Deletion) -> Result<()> {
        for repository in deletion.unswept.clone() {
            let erasure = self.engine.require_snapshot_erasure()?;
            match erasure.remove_leftovers(ctx, &repository).await {
                Ok(0) => {}
                Ok(_) => {
                    let why =
                        "another operation writes to the repository: unreferenced objects are removed after it ends";
                    return Err(Error::new(
                        ErrorKind::SnapshotInProgress,
                        format!("[{repository}] {why}"),
                    ));
                }
                // The repository was unregistered.
                Err(error) if error.kind() == ErrorKind::RepositoryMissing => {}
                Err(error) => return Err(error),
            }
            deletion.unswept.retain(|name| *name != repository);
        }
        Ok(())
    }

    /// Final check: whether no snapshot holds events that could be removed, and none will.
    pub(crate) async fn check_snapshots(
        &self,
        ctx: &RequestContext,
        tenant: &TenantId,
        deletion: &mut Deletion,
        now_ms: i64,
    ) -> Result<()> {
        let outcome = self.look_at_snapshots(ctx, tenant, deletion).await;
        match &outcome {
            Ok(()) => self.pauses.lock().forget(tenant),
            Err(_) => self.pauses.lock().note(tenant, &outcome, now_ms),
        }
        outcome
    }

    async fn look_at_snapshots(&self, ctx: &RequestContext, tenant: &TenantId, deletion: &mut Deletion) -> Result<()> {
        self.remove_leftovers(ctx, deletion).await?;
        let found = self.find_snapshots(ctx, tenant, deletion).await?;
        if let Some(error) = awaited(&found) {
            return Err(error);
        }
        let running = found.running.iter().find(|running| {
            let is_older = |clean_ms| running.start_ms <= clean_ms;
            deletion.clean_ms.is_none_or(is_older)
        });
        if let Some(running) = running {
            return Err(Error::new(
                ErrorKind::SnapshotInProgress,
                format!(
                    "[{}:{}] the snapshot started while the tenant had events, and is still running",
                    running.repository, running.snapshot
                ),
            ));
        }
        match found.holding.iter().find(|held| !held.is_readonly) {
            None => Ok(()),
            Some(held) => Err(Error::new(
                ErrorKind::SnapshotInProgress,
                format!(
                    "[{}:{}] the snapshot holds events of the tenant, which are removed next",
                    held.repository, held.snapshot
                ),
            )),
        }
    }

    /// Finds and records the snapshots with events of the tenant. If the engine cannot tell, the statement says that,
    /// and the result is empty.
    pub(crate) async fn find_snapshots(
        &self,
        ctx: &RequestContext,
        tenant: &TenantId,
        deletion: &mut Deletion,
    ) -> Result<TenantSnapshots> {
        let Some(erasure) = self.engine.snapshot_erasure() else {
            deletion.note_unknown(Capability::SnapshotErasure);
            return Ok(TenantSnapshots::default());
        };
        let mut found = erasure.snapshots_of_tenant(ctx, tenant).await?;
        // Writable snapshots come first.
        found.holding.sort_by_key(|held| held.is_readonly);
        let left = |held: &HoldingSnapshot| RemainingSnapshot {
            repository: held.repository.clone(),
            snapshot: held.snapshot.clone(),
            indices: held.indices.clone(),
            documents: held.documents,
            is_readonly: held.is_readonly,
        };
        deletion.snapshots = found.holding.iter().map(left).take(SNAPSHOTS_NAMED_MAX).collect();
        let unread = found
            .unread
            .iter()
            .map(|unread| (unread.place.clone(), unread.error.clone()));
        deletion.snapshots_unread = unread.take(SNAPSHOTS_NAMED_MAX).collect();
        Ok(found)
    }
}

/// Returns the error for snapshots that could not be read, if a later attempt may succeed.
fn awaited(found: &TenantSnapshots) -> Option<Error> {
    let unread = found.unread.iter().find(|unread| unread.may_answer)?;
    Some(Error::new(
        ErrorKind::Unavailable,
        format!(
            "the snapshots of [{}] cannot be read now, and may hold events of the tenant: {}",
            unread.place, unread.error
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_tried_again_less_and_less_often() {
        let mut pauses = Pauses::default();
        let tenant = TenantId::parse("acme").unwrap();
        let failed = || Err(Error::new(ErrorKind::Unavailable, "no answer"));
        assert!(pauses.outcome(&tenant, 0).is_none(), "nothing was tried");
        let mut now_ms = 1_000_000;
        let mut waits = Vec::new();
        for _ in 0..10 {
            pauses.note(&tenant, &failed(), now_ms);
            let begun_ms = now_ms;
            while let Some(outcome) = pauses.outcome(&tenant, now_ms) {
                assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unavailable);
                now_ms += 1000;
            }
            waits.push((now_ms - begun_ms) / 1000);
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        pauses.note(&tenant, &failed(), now_ms);
        assert!(pauses.outcome(&tenant, 5).is_none(), "a clock that went back");
        pauses.note(&tenant, &Ok(()), now_ms);
        assert!(pauses.outcome(&tenant, now_ms + PAUSE_MS_MAX * 2).unwrap().is_ok());
        pauses.note(&tenant, &failed(), now_ms);
        let soon = pauses.outcome(&tenant, now_ms + PAUSE_MS_MIN);
        assert!(soon.unwrap().is_err(), "it goes well and fails in turns");
        pauses.forget(&tenant);
        assert!(pauses.outcome(&tenant, now_ms).is_none());
    }
}
