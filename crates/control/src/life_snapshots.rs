//! The part of a tenant's deletion that is about snapshots.
//!
//! Each snapshot of a repository that may be written is rewritten without the tenant's events, one after the other. What
//! cannot be done now is tried again, less and less often: a repository that does not answer, a snapshot that is being
//! restored. What nobody here may do is said in the statement: repositories that are read-only, snapshots that are damaged.

use std::collections::{BTreeSet, HashMap};

use firn_engine::RequestContext;
use firn_engine::snapshot::{HoldingSnapshot, TenantSnapshots};
use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};

use crate::deletion::Deletion;
use crate::deletion_snapshots::{SNAPSHOTS_NAMED_MAX, SnapshotLeft};
use crate::life::Life;

/// Looks read the manifests of every snapshot, so they are made less often the longer something is in the way.
const PAUSE_MS_MIN: i64 = 2_000;
const PAUSE_MS_MAX: i64 = 5 * 60 * 1000;

/// When snapshots are looked at again.
#[derive(Debug, Default)]
pub(crate) struct Pauses(HashMap<TenantId, Pause>);

#[derive(Debug)]
struct Pause {
    until_ms: i64,
    pause_ms: i64,
    /// Why it was not done.
    why: Option<Error>,
}

impl Pauses {
    /// `Some` while it is not to be tried again: what the last attempt ended with.
    fn outcome(&self, tenant: &TenantId, now_ms: i64) -> Option<Result<()>> {
        let pause = self.0.get(tenant)?;
        // A clock that went back makes it wait once more, not for ever.
        let is_over = !(pause.until_ms - pause.pause_ms..pause.until_ms).contains(&now_ms);
        match &pause.why {
            Some(why) if !is_over => Some(Err(why.clone())),
            Some(_) => None,
            None => Some(Ok(())),
        }
    }

    /// Notes how an attempt ended; one that succeeded is the last until the final look.
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

impl Life {
    /// Removes the tenant's events from the snapshots that hold some, and writes down each. A snapshot that cannot be done
    /// holds up no other; the first such error comes back, also as long as it is not tried again.
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
        // They may read something else now.
        self.mount_pauses.lock().forget(tenant);
        outcome
    }

    /// Has indices that are mounted from snapshots read what those are now, and fails if that holds events of the tenant: then it is
    /// tried again less and less often, since each of them asks its repository.
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
        // Those were left so by a process that ended, or by an attempt that failed.
        let unswept = deletion.unswept.clone();
        let writable = deletion.snapshots.iter().filter(|left| !left.is_readonly);
        let writable: Vec<(String, String)> = writable
            .map(|left| (left.repository.clone(), left.snapshot.clone()))
            .collect();
        let mut failure = awaited(&found);
        let mut failed = BTreeSet::new();
        for (repository, snapshot) in writable {
            if deletion.note_unswept(&repository) {
                self.control.note_deletion(tenant, deletion.clone())?;
            }
            let rewritten = self
                .engine
                .remove_tenant_from_snapshot(ctx, tenant, &repository, &snapshot)
                .await;
            match rewritten {
                Ok(done) => {
                    tracing::info!(
                        %tenant, repository, snapshot, documents = done.documents,
                        "removed events of a deleted tenant from a snapshot"
                    );
                    deletion.note_rewritten(&repository, &snapshot, done);
                    self.control.note_deletion(tenant, deletion.clone())?;
                }
                // Somebody removed it, or takes the repository away.
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

    /// Removes the objects that hold events of the tenant and that no snapshot names, where some may be.
    pub(crate) async fn remove_leftovers(&self, ctx: &RequestContext, deletion: &mut Deletion) -> Result<()> {
        for repository in deletion.unswept.clone() {
            match self.engine.remove_leftovers(ctx, &repository).await {
                Ok(0) => {}
                Ok(_) => {
                    let why =
                        "somebody writes to the repository: what snapshots named before is removed when that has ended";
                    return Err(Error::new(
                        ErrorKind::SnapshotInProgress,
                        format!("[{repository}] {why}"),
                    ));
                }
                // It was taken away.
                Err(error) if error.kind() == ErrorKind::RepositoryMissing => {}
                Err(error) => return Err(error),
            }
            deletion.unswept.retain(|name| *name != repository);
        }
        Ok(())
    }

    /// The last look: whether no snapshot holds anything that could be removed, and none will.
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
                    "[{}:{}] the snapshot was begun when there were events of the tenant, and is still being made",
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

    /// Notes which snapshots hold events of the tenant.
    pub(crate) async fn find_snapshots(
        &self,
        ctx: &RequestContext,
        tenant: &TenantId,
        deletion: &mut Deletion,
    ) -> Result<TenantSnapshots> {
        let mut found = self.engine.snapshots_of_tenant(ctx, tenant).await?;
        // What can be done something about is named first.
        found.holding.sort_by_key(|held| held.is_readonly);
        let left = |held: &HoldingSnapshot| SnapshotLeft {
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

/// Why nobody knows whether snapshots hold anything, if that may be known another time.
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
