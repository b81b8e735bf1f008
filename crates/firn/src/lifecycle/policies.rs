//! Clock of lifecycle policies: of indices ([`Ilm`]) and of snapshots ([`Slm`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_engine::{Engine, RequestContext};
use firn_lifecycle::ilm::{EngineEffects, Ilm, IlmParts, ListWork, WaitEnd, WorkQueue};
use firn_lifecycle::slm::{Slm, SlmParts, SlmWork};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::clock::now_ms;

/// Interval between checks. Most of them find nothing, in memory.
const TICK: Duration = Duration::from_secs(1);
/// Indices that take light steps concurrently: each step is a transaction of the catalog, which executes one at a time.
const LIGHT_MAX: usize = 4;
/// Indices that are merged, snapshotted or moved concurrently; each may use a whole core for long.
const HEAVY_MAX: usize = 2;
/// Setting for the interval between checks of policies; it may change while firn runs.
const POLL_INTERVAL: &str = "indices.lifecycle.poll_interval";

/// Returns the policies of an engine's indices; `list` lists their background work.
pub(crate) fn ilm(engine: &Arc<dyn Engine>, list: ListWork) -> Ilm {
    Ilm::new(IlmParts {
        effects: Arc::new(EngineEffects::new(Arc::clone(engine), Some(list))),
        now_ms: Arc::new(now_ms),
        random: Arc::new(|| fastrand::u64(..)),
        type_of: firn_api::error_type,
    })
}

/// Returns the policies of an engine's snapshots.
pub(crate) fn slm(engine: &Arc<dyn Engine>) -> Slm {
    Slm::new(SlmParts {
        engine: Arc::clone(engine),
        now_ms: Arc::new(now_ms),
        random: Arc::new(|| fastrand::u64(..)),
    })
}

/// Executes index lifecycle policies until the task is aborted. An interrupted step is repeated after the next start.
pub(crate) async fn run_ilm(ilm: Ilm, engine: Arc<dyn Engine>, poll_interval: Duration) {
    let ilm = Arc::new(ilm);
    let mut turns = WorkQueue::new(LIGHT_MAX, HEAVY_MAX);
    let orphans = Arc::new(Semaphore::new(1));
    // Aborts its tasks when it is dropped.
    let mut running = JoinSet::new();
    let mut polled: Option<Instant> = None;
    loop {
        let interval = poll_interval_of(engine.as_ref()).await.unwrap_or(poll_interval);
        let occasion = match polled {
            Some(polled) if polled.elapsed() < interval => WaitEnd::Between,
            _ => {
                polled = Some(Instant::now());
                WaitEnd::Poll
            }
        };
        match ilm.due(occasion).await {
            Ok(due) => {
                for (index, lane) in due {
                    turns.come(index, lane, occasion);
                }
            }
            Err(error) => tracing::warn!(%error, "cannot find indices whose lifecycle continues"),
        }
        if occasion == WaitEnd::Poll
            && let Ok(permit) = Arc::clone(&orphans).try_acquire_owned()
        {
            let ilm = Arc::clone(&ilm);
            running.spawn(async move {
                if let Err(error) = ilm.remove_orphans().await {
                    tracing::warn!(%error, "cannot remove snapshots of deleted indices");
                }
                drop(permit);
            });
        }
        let next_look = tokio::time::Instant::now() + TICK;
        loop {
            while let Some(turn) = turns.next_turn() {
                let ilm = Arc::clone(&ilm);
                running.spawn(async move { ilm.advance(&turn.index, turn.lane, turn.occasion).await });
            }
            // A finished task frees a slot for the next one.
            tokio::select! {
                () = tokio::time::sleep_until(next_look) => break,
                Some(_) = running.join_next() => {}
            }
        }
    }
}

/// Returns the interval from `_cluster/settings`.
async fn poll_interval_of(engine: &dyn Engine) -> Option<Duration> {
    let metadata = engine.metadata(&RequestContext::new()).await.ok()?;
    let text = metadata.cluster_setting(POLL_INTERVAL)?.as_str()?;
    let ms = firn_model::dates::parse_duration_ms(text).ok()?;
    Some(Duration::from_millis(ms))
}

/// Executes snapshot lifecycle policies until the task is aborted.
pub(crate) async fn run_slm(slm: Arc<Slm>) {
    if let Err(error) = slm.note_interrupted().await {
        tracing::warn!(%error, "cannot record that snapshots were interrupted");
    }
    // Each policy runs at most one snapshot; this semaphore does the same for the retention.
    let retention = Arc::new(Semaphore::new(1));
    let mut running = JoinSet::new();
    loop {
        match slm.due().await {
            Ok(due) => {
                for work in due {
                    let permit = match work {
                        SlmWork::Snapshot(_) => None,
                        SlmWork::Retention => match Arc::clone(&retention).try_acquire_owned() {
                            Ok(permit) => Some(permit),
                            Err(_) => continue,
                        },
                    };
                    let slm = Arc::clone(&slm);
                    running.spawn(async move {
                        slm.work(work).await;
                        drop(permit);
                    });
                }
            }
            Err(error) => tracing::warn!(%error, "cannot find snapshots that are due"),
        }
        while running.try_join_next().is_some() {}
        tokio::time::sleep(TICK).await;
    }
}
