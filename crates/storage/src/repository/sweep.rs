//! Removing what nobody needs, while others write.
//!
//! A split is called by its content, so a writer may want to name the very object that somebody else is
//! about to remove. Hence a commit condemns objects before they go. Commits are in one order: whoever named
//! the object before that commit is seen by the sweeper, who leaves it alone; whoever names it after that
//! commit sees the sweep, waits for its end and writes the object again.

use std::collections::HashSet;
use std::time::Duration;

use firn_model::Result;
use futures_util::StreamExt;
use futures_util::stream;

use super::Repository;
use super::log::{ATTEMPTS_MAX, Change, State};
use super::references::Named;

/// Objects that one sweep removes. One commit names them all, 80 bytes each.
const KEYS_MAX: usize = 10_000;
/// Removals at a time.
const DELETES_MAX: usize = 16;
/// How long a sweep removes. One that takes longer gives up and leaves the rest to a cleanup, so that
/// nobody who saw it begin so long ago needs to fear it.
const SWEEP_TIME_MAX: Duration = Duration::from_secs(600);
/// How long one waits for another's sweep before it must be dead: twice what it may take.
const SWEEP_PATIENCE: Duration = Duration::from_secs(1200);
/// Between two looks whether a sweep has ended.
const SWEEP_LOOK_EVERY: Duration = Duration::from_millis(500);

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Objects.
    pub objects: u64,
    /// Their bytes, of those where they are known.
    pub bytes: u64,
}

impl Repository {
    /// Removes objects that no snapshot names when they are condemned.
    pub(super) async fn sweep(&self, candidates: Named) -> Result<Swept> {
        let mut swept = Swept::default();
        let all: Vec<(String, u64)> = candidates.into_iter().collect();
        for some in all.chunks(KEYS_MAX) {
            let one = self.sweep_some(some).await?;
            swept.objects += one.objects;
            swept.bytes += one.bytes;
        }
        Ok(swept)
    }

    async fn sweep_some(&self, candidates: &[(String, u64)]) -> Result<Swept> {
        let _sweeping = self.sweeping.lock().await;
        self.end_own_sweeps().await?;
        for _ in 0..ATTEMPTS_MAX {
            let state = self.state().await?;
            let named = self
                .named_by(state.snapshots.values().cloned().collect(), false)
                .await?;
            let doomed: Vec<&(String, u64)> = candidates.iter().filter(|(key, _)| !named.contains_key(key)).collect();
            if doomed.is_empty() {
                return Ok(Swept::default());
            }
            let sweep = (self.writer.fresh_id)();
            let keys: Vec<String> = doomed.iter().map(|(key, _)| key.clone()).collect();
            let begins = Change::SweepBegins {
                sweep: sweep.clone(),
                keys: keys.clone(),
            };
            if self.try_commit(&state, vec![begins]).await?.is_none() {
                continue;
            }
            self.remove_objects(keys).await?;
            self.end_sweep(&sweep).await?;
            return Ok(Swept {
                objects: doomed.len() as u64,
                bytes: doomed.iter().map(|(_, bytes)| bytes).sum(),
            });
        }
        Err(self.always_late())
    }

    async fn remove_objects(&self, keys: Vec<String>) -> Result<()> {
        let removed = stream::iter(keys)
            .map(|key| async move {
                let removed = self.store.delete(&key).await;
                removed.map_err(|error| self.failed("delete", error))
            })
            .buffer_unordered(DELETES_MAX)
            .fold(Ok(()), async |all, one| Result::and(all, one));
        match tokio::time::timeout(SWEEP_TIME_MAX, removed).await {
            Ok(removed) => removed,
            Err(_) => Err(self.error("cannot remove objects in time, the next cleanup goes on")),
        }
    }

    async fn end_sweep(&self, sweep: &str) -> Result<()> {
        for _ in 0..ATTEMPTS_MAX {
            let state = self.state().await?;
            let is_open = state.sweeps.contains_key(sweep);
            let ends = vec![Change::SweepEnds(sweep.to_owned())];
            if !is_open || self.try_commit(&state, ends).await?.is_some() {
                return Ok(());
            }
        }
        Err(self.always_late())
    }

    /// Keys that sweeps of others condemned which were open at `base`, or began since.
    pub(super) async fn condemned_since(&self, state: &State, base: u64) -> Result<HashSet<String>> {
        let open = state.sweeps.values().flat_map(|sweep| &sweep.keys);
        let mut keys: HashSet<String> = open.cloned().collect();
        for number in base + 1..=state.number {
            let commit = self.read_commit(number).await?;
            let changes = commit.into_iter().flat_map(|commit| commit.changes);
            for change in changes {
                if let Change::SweepBegins { keys: more, .. } = change {
                    keys.extend(more);
                }
            }
        }
        Ok(keys)
    }

    /// Waits until no sweep is open that condemns any of these objects. Sweeps that this writer left open
    /// before a restart are dead, and so is one that has been watched for longer than it may take.
    pub async fn wait_for_sweeps(&self, keys: &HashSet<String>) -> Result<()> {
        {
            let _sweeping = self.sweeping.lock().await;
            self.end_own_sweeps().await?;
        }
        let mut watched = Duration::ZERO;
        loop {
            let state = self.state().await?;
            let in_the_way: Vec<String> = state
                .sweeps
                .iter()
                .filter(|(_, sweep)| sweep.keys.iter().any(|key| keys.contains(key)))
                .map(|(id, _)| id.clone())
                .collect();
            if in_the_way.is_empty() {
                return Ok(());
            }
            if watched >= SWEEP_PATIENCE {
                for sweep in &in_the_way {
                    self.end_sweep(sweep).await?;
                }
                continue;
            }
            tokio::time::sleep(SWEEP_LOOK_EVERY).await;
            watched += SWEEP_LOOK_EVERY;
        }
    }

    /// Ends the sweeps that this writer left open when it was killed. `sweeping` must be held.
    async fn end_own_sweeps(&self) -> Result<()> {
        let state = self.state().await?;
        let own = state.sweeps.iter().filter(|(_, sweep)| sweep.writer == self.writer.id);
        for sweep in own.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.end_sweep(&sweep).await?;
        }
        Ok(())
    }
}
