//! Sweep: removal of unreferenced objects while other writers work.
//!
//! A split is named by its content, so a writer may want to name the very object that another writer is about to
//! remove. Therefore a commit condemns objects before their removal. Commits have one order: the sweeper sees a writer
//! that named the object before that commit, and keeps the object; a writer that names it after that commit sees the
//! sweep, waits for its end and writes the object again.

use std::time::Duration;

use firn_model::Result;
use futures_util::StreamExt;
use futures_util::stream;

use super::log::{ATTEMPTS_MAX, Change, OpenSweep};
use super::references::Named;
use super::{Condemned, Repository, WriteDependencies};

/// Maximum number of objects per sweep. One commit names them all, 80 bytes each.
const KEYS_MAX: usize = 10_000;
/// Concurrent removals.
const DELETES_MAX: usize = 16;
/// Maximum duration of the removals. A longer sweep gives up and leaves the rest to a cleanup, so that other writers
/// need not wait for a sweep that began so long ago.
const SWEEP_TIME_MAX: Duration = Duration::from_secs(600);
/// Wait after which another writer's sweep counts as dead: twice its maximum duration.
const SWEEP_PATIENCE: Duration = Duration::from_secs(1200);
/// Interval of polls for the end of a sweep.
const SWEEP_LOOK_EVERY: Duration = Duration::from_millis(500);

/// Statistics of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Removed objects.
    pub objects: u64,
    /// Bytes of those removed objects whose length is known.
    pub bytes: u64,
}

impl Repository {
    /// Removes the candidates that no snapshot names at the moment of the condemnation.
    pub(super) async fn sweep(&self, candidates: Named) -> Result<Swept> {
        let mut swept = Swept::default();
        let mut all: Vec<(String, u64)> = candidates.into_iter().collect();
        if all.len() > KEYS_MAX {
            // Usually most of them are in use; this filter saves sweeps.
            all = self.unnamed(&*self.state().await?, all).await?;
        }
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
            let doomed = match self.unnamed(&state, candidates.to_vec()).await {
                Ok(doomed) => doomed,
                // The unreadable manifest may belong to a snapshot that was removed in the meantime.
                Err(_) if self.state().await?.number != state.number => continue,
                Err(error) => return Err(error),
            };
            if doomed.is_empty() {
                return Ok(Swept::default());
            }
            let sweep = (self.writer.fresh_id)();
            let keys: Vec<String> = doomed.iter().map(|(key, _)| key.clone()).collect();
            let begun_ms = (self.writer.now_ms)();
            let begins = Change::SweepBegins {
                sweep: sweep.clone(),
                keys: keys.clone(),
            };
            if self.try_commit(&state, vec![begins]).await?.is_none() {
                continue;
            }
            self.remove_objects(keys, begun_ms).await?;
            self.end_sweep(&sweep).await?;
            return Ok(Swept {
                objects: doomed.len() as u64,
                bytes: doomed.iter().map(|(_, bytes)| bytes).sum(),
            });
        }
        Err(self.always_late())
    }

    async fn remove_objects(&self, keys: Vec<String>, begun_ms: i64) -> Result<()> {
        let too_late = || self.error("cannot remove all objects in time; the next cleanup continues");
        let time_max_ms = SWEEP_TIME_MAX.as_millis() as i64;
        let removed = stream::iter(keys)
            .map(|key| async move {
                // After a suspend, timers continue where they were, but other machines did not sleep.
                if (self.writer.now_ms)() - begun_ms >= time_max_ms {
                    return Err(too_late());
                }
                let removed = self.store.delete(&key).await;
                removed.map_err(|error| self.failed("delete", error))
            })
            .buffer_unordered(DELETES_MAX)
            .fold(Ok(()), async |all, one| Result::and(all, one));
        match tokio::time::timeout(SWEEP_TIME_MAX, removed).await {
            Ok(removed) => removed,
            Err(_) => Err(too_late()),
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

    /// Waits until no open sweep condemns any of these objects. Returns the basis for writing them again. Open sweeps
    /// of this writer from before a restart are dead, and so is a sweep that exceeded its maximum duration during the
    /// wait.
    pub async fn wait_for_sweeps(&self, Condemned { keys, checked }: Condemned) -> Result<WriteDependencies> {
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
                return Ok(WriteDependencies::again(state, checked));
            }
            if watched >= SWEEP_PATIENCE {
                for sweep in &in_the_way {
                    self.end_sweep(sweep).await?;
                }
                continue;
            }
            let_others_go_on().await;
            watched += SWEEP_LOOK_EVERY;
        }
    }

    /// Ends open sweeps of this writer from before a kill, and failed sweeps of this instance. `sweeping` must be held.
    async fn end_own_sweeps(&self) -> Result<()> {
        let state = self.state().await?;
        let is_dead =
            |sweep: &OpenSweep| sweep.writer == self.writer.id && !self.instance.has_living_sibling(&sweep.instance);
        let own = state.sweeps.iter().filter(|(_, sweep)| is_dead(sweep));
        for sweep in own.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.end_sweep(&sweep).await?;
        }
        Ok(())
    }
}

/// Pauses between two polls.
async fn let_others_go_on() {
    #[cfg(not(test))]
    tokio::time::sleep(SWEEP_LOOK_EVERY).await;
    // In tests the pause takes no time and is deterministic.
    #[cfg(test)]
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
