//! Damaged segments are repaired from snapshots that hold the same segments.
//!
//! A split is made from one segment and named by its id, so whichever snapshot names it has what the damaged segment had. It
//! is downloaded while the shard is at work; then the shard is flushed, exchanges the segments by a new commit point,
//! and is opened again, which replays whatever was acknowledged meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use firn_model::{Error, ErrorKind, Result};
use firn_storage::repository::{Repository, SnapshotSegment};
use firn_storage::split::SplitRef;

use super::create::Scratch;
use super::known::known;
use super::{Use, Work};
use crate::engine::Core;
use crate::engine::state::{IndexState, ShardSlot};
use crate::pool::Flow;
use crate::shard::{Replacement, Shard};
use crate::splits::WholeSplit;
use crate::ticker::Lowered;

/// Splits by the segments that they were made from, with the repository they lie in.
#[derive(Default)]
struct Found {
    splits: HashMap<String, (Arc<Repository>, SplitRef)>,
    /// Nobody unregisters the repositories meanwhile.
    _used: Vec<Use>,
}

impl Core {
    /// Queues the repair of a shard in which damage was found, unless it is queued, or failed just now.
    pub(crate) fn repair_in_background(self: &Arc<Self>, index: &Arc<IndexState>, slot: &Arc<ShardSlot>) {
        let has_repository = !self.state().metadata.repositories.is_empty() && self.io().is_ok();
        if !has_repository || !slot.repair_backoff.is_over(Instant::now()) {
            return;
        }
        if slot.repairing.swap(true, Ordering::AcqRel) {
            return;
        }
        let (core, index, shared) = (Arc::clone(self), Arc::clone(index), Arc::clone(slot));
        let queued = self.snapshot_pool.spawn(&Flow::node(), move || {
            let _lowered = Lowered(&shared.repairing);
            let repaired = core.repair(&index, &shared);
            shared.repair_backoff.note(repaired.is_ok(), Instant::now());
            let (index, shard) = (&*index.name, shared.number);
            match repaired {
                Ok(0) => {}
                Ok(segments) => {
                    core.damage.repaired.fetch_add(segments, Ordering::Relaxed);
                    tracing::info!(index, shard, segments, "the shard was repaired from a snapshot");
                }
                Err(error) => tracing::error!(index, shard, %error, "the shard cannot be repaired"),
            }
        });
        if queued.is_err() {
            slot.repairing.store(false, Ordering::Release);
        }
    }

    /// Exchanges the damaged segments of a shard for those of snapshots, and says how many.
    fn repair(&self, index: &IndexState, slot: &ShardSlot) -> Result<u64> {
        let damaged = self.damaged_segments(index, slot)?;
        if damaged.is_empty() {
            return Ok(0);
        }
        let config = self.wanted_config(index, slot)?;
        let committed = Shard::committed_segments(&config)?;
        let committed: HashMap<u64, String> = committed.into_iter().map(|own| (own.generation, own.segment)).collect();
        let wanted: Vec<(u64, &String)> = damaged
            .iter()
            .filter_map(|generation| Some((*generation, committed.get(generation)?)))
            .collect();
        let found = self.find_splits(&index.name, &wanted)?;
        let mut scratches = Vec::new();
        let mut replacements = Vec::new();
        for (generation, segment) in &wanted {
            let Some((repository, split)) = found.splits.get(*segment) else {
                continue;
            };
            let scratch = Scratch::new(
                &self.config.disk,
                &self.config.path_data,
                &self.repositories.fresh_uuid(),
            )?;
            let wanted = SnapshotSegment {
                split: split.clone(),
                deletes: None,
            };
            self.download(repository, &wanted, &scratch.path, &|_| {}, &|| self.check_open())?;
            let object = self.config.disk.map(&scratch.path)?;
            scratches.push(scratch);
            replacements.push(Replacement {
                generation: *generation,
                bytes: Arc::new(WholeSplit::new(object, split.salt)),
                split: split.clone(),
            });
        }
        // What no commit point names is made anew from the WAL when the shard is opened again.
        if replacements.is_empty() && wanted.len() == damaged.len() {
            let reason = "no snapshot of a registered repository holds the damaged segments";
            return Err(Error::new(ErrorKind::ShardDamaged, reason).with_index(&*index.name));
        }
        self.exchange(index, slot, &replacements)?;
        Ok(replacements.len() as u64)
    }

    /// The generations of damaged segments: those in which a shard that serves found damage, or what is found by reading
    /// all files of one that cannot be opened.
    fn damaged_segments(&self, index: &IndexState, slot: &ShardSlot) -> Result<Vec<u64>> {
        if let Ok(shard) = slot.shard() {
            return Ok(shard.damage().into_iter().map(|(generation, _)| generation).collect());
        }
        let _opening = slot.opening.lock();
        match slot.shard() {
            Err(error) if error.kind() == ErrorKind::ShardDamaged => {
                let config = self.wanted_config(index, slot)?;
                Shard::find_damaged(&config, &|| self.check_open())
            }
            // The next look comes soon.
            _ => Ok(Vec::new()),
        }
    }

    fn wanted_config(&self, index: &IndexState, slot: &ShardSlot) -> Result<crate::shard::ShardConfig> {
        self.check_wanted(index)?;
        self.config_of(index, slot.number)
    }

    /// Looks for splits in the newest snapshot of each repository that has the index.
    fn find_splits(&self, index: &str, wanted: &[(u64, &String)]) -> Result<Found> {
        let mut found = Found::default();
        let names: Vec<String> = self.state().metadata.repositories.keys().cloned().collect();
        for name in names {
            self.check_open()?;
            let looked = self
                .repository_for(&name, Work::Restore)
                .and_then(|(repository, used)| {
                    let io = self.io()?;
                    let state = io.block_on(repository.state())?;
                    let known = io.block_on(known(&repository, &state, std::iter::once(index.to_owned())))?;
                    Ok((repository, used, known.splits))
                });
            match looked {
                Ok((repository, used, mut splits)) => {
                    for (_, segment) in wanted {
                        if let Some(split) = splits.remove(*segment) {
                            let own = (Arc::clone(&repository), split);
                            found.splits.entry((*segment).clone()).or_insert(own);
                        }
                    }
                    found._used.push(used);
                }
                Err(error) => tracing::warn!(repository = name, %error, "cannot look for segments to repair a shard"),
            }
        }
        Ok(found)
    }

    /// Ends the shard, exchanges its segments and opens it again, also if that failed.
    fn exchange(&self, index: &IndexState, slot: &ShardSlot, replacements: &[Replacement]) -> Result<()> {
        let exchanged = {
            let _opening = slot.opening.lock();
            let config = self.wanted_config(index, slot)?;
            if let Ok(shard) = slot.shard() {
                // Less to replay. If it fails, the WAL has everything.
                if let Err(error) = shard.flush() {
                    tracing::warn!(index = &*index.name, shard = slot.number, %error, "a flush before a repair failed");
                }
                let reason = "the shard is being repaired";
                slot.replace(Err(Error::new(ErrorKind::ShardDamaged, reason).with_index(&*index.name)));
                slot.end_retired();
            }
            match replacements.is_empty() {
                true => Ok(()),
                false => Shard::replace_segments(&config, replacements, &|| self.check_open()),
            }
        };
        let opened = self.open_shard(index, slot);
        exchanged.and(opened)
    }
}
