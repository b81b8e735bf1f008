//! Repair of damaged segments from snapshots that hold the same segments.
//!
//! A split is made from one segment and named by the id of the segment, so every snapshot that names the split has the
//! content of the damaged segment. The split is downloaded while the shard serves requests. Then the shard is flushed,
//! replaces the segments with a new commit point, and is opened again, which replays the writes that were acknowledged
//! meanwhile.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use firn_model::{Error, ErrorKind, Result};
use firn_scheduler::Flow;
use firn_segment::splits::WholeSplit;
use firn_shard::{Replacement, Shard};
use firn_storage::repository::{Repository, SnapshotSegment};
use firn_storage::split::SplitRef;

use super::create::Scratch;
use super::existing_objects::splits_of;
use super::service::SnapshotService;
use super::{Use, Work};
use crate::background::Lowered;
use crate::node::state::{IndexState, ShardSlot};

/// Splits by the id of their segment, each with its repository.
#[derive(Default)]
struct Found {
    splits: HashMap<String, (Arc<Repository>, SplitRef)>,
    /// Prevents that the repositories are unregistered meanwhile.
    _used: Vec<Use>,
}

/// Replaces the generation for a shard that cannot be opened.
const NOT_OPEN: u64 = u64::MAX;

impl SnapshotService {
    /// Counts damage of a shard that is new since the last check, and starts its repair.
    pub(crate) fn watch_damage(self: &Arc<Self>, index: &Arc<IndexState>, slot: &Arc<ShardSlot>) {
        // The shard is being opened or repaired; the next check sees the result.
        if slot.repairing.load(Ordering::Acquire) || slot.opening.try_lock().is_none() {
            return;
        }
        let damaged: Vec<u64> = match slot.shard() {
            Ok(shard) => shard.damage().into_iter().map(|(generation, _)| generation).collect(),
            Err(error) if error.kind() == ErrorKind::ShardDamaged => vec![NOT_OPEN],
            Err(_) => return,
        };
        let mut known = slot.damaged.lock();
        let new = damaged.iter().filter(|generation| !known.contains(generation)).count();
        self.damage.found.fetch_add(new as u64, Ordering::Relaxed);
        known.retain(|generation| damaged.contains(generation));
        known.extend(&damaged);
        drop(known);
        if !damaged.is_empty() {
            self.repair_in_background(index, slot);
        }
    }

    /// Queues the repair of a damaged shard, unless the repair is queued already or failed recently (backoff).
    pub(crate) fn repair_in_background(self: &Arc<Self>, index: &Arc<IndexState>, slot: &Arc<ShardSlot>) {
        let has_repository = !self.node.state().metadata.repositories.is_empty() && self.repositories.io().is_ok();
        if !has_repository || !slot.repair_backoff.is_over(Instant::now()) {
            return;
        }
        if slot.repairing.swap(true, Ordering::AcqRel) {
            return;
        }
        let (service, index, shared) = (Arc::clone(self), Arc::clone(index), Arc::clone(slot));
        let queued = self.pools.snapshot.spawn(&Flow::node(), move || {
            let _lowered = Lowered(&shared.repairing);
            let repaired = service.repair(&index, &shared);
            shared.repair_backoff.note(repaired.is_ok(), Instant::now());
            let (index, shard) = (&*index.name, shared.number);
            match repaired {
                Ok(0) => {}
                Ok(segments) => {
                    service.damage.repaired.fetch_add(segments, Ordering::Relaxed);
                    tracing::info!(index, shard, segments, "repaired the shard from a snapshot");
                }
                Err(error) => tracing::error!(index, shard, %error, "cannot repair the shard"),
            }
        });
        if queued.is_err() {
            slot.repairing.store(false, Ordering::Release);
        }
    }

    /// Replaces the damaged segments of a shard with those of snapshots. Returns their number.
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
                &self.node.config.disk,
                &self.node.config.path_data,
                &self.repositories.fresh_uuid(),
            )?;
            let wanted = SnapshotSegment {
                split: split.clone(),
                deletes: None,
            };
            self.download(repository, &wanted, &scratch.path, &|_| {}, &|| self.node.check_open())?;
            let object = self.node.config.disk.map(&scratch.path)?;
            scratches.push(scratch);
            replacements.push(Replacement {
                generation: *generation,
                bytes: Arc::new(WholeSplit::new(object, split.salt)),
                split: split.clone(),
            });
        }
        // Segments that no commit point names are rebuilt from the WAL when the shard is opened again.
        if replacements.is_empty() && wanted.len() == damaged.len() {
            let reason = "no snapshot of a registered repository holds the damaged segments";
            return Err(Error::new(ErrorKind::ShardDamaged, reason).with_index(&*index.name));
        }
        self.exchange(index, slot, &replacements)?;
        Ok(replacements.len() as u64)
    }

    /// Returns the generations of the damaged segments: for an open shard those whose damage a read found, for a shard
    /// that cannot be opened those that fail a read of all files.
    fn damaged_segments(&self, index: &IndexState, slot: &ShardSlot) -> Result<Vec<u64>> {
        if let Ok(shard) = slot.shard() {
            return Ok(shard.damage().into_iter().map(|(generation, _)| generation).collect());
        }
        let _opening = slot.opening.lock();
        match slot.shard() {
            Err(error) if error.kind() == ErrorKind::ShardDamaged => {
                let config = self.wanted_config(index, slot)?;
                Shard::find_damaged(&config, &|| self.node.check_open())
            }
            // The next attempt comes soon.
            _ => Ok(Vec::new()),
        }
    }

    fn wanted_config(&self, index: &IndexState, slot: &ShardSlot) -> Result<firn_shard::ShardConfig> {
        self.node.check_wanted(index)?;
        self.node.config_of(index, slot.number)
    }

    /// Searches the snapshots of the index in all repositories.
    fn find_splits(&self, index: &str, wanted: &[(u64, &String)]) -> Result<Found> {
        let mut found = Found::default();
        let mut missing: HashSet<&str> = wanted.iter().map(|(_, segment)| segment.as_str()).collect();
        let names: Vec<String> = self.node.state().metadata.repositories.keys().cloned().collect();
        for name in names {
            if missing.is_empty() {
                break;
            }
            self.node.check_open()?;
            let looked = self
                .repositories
                .repository_for(&name, Work::Restore)
                .and_then(|(repository, used)| {
                    let io = self.repositories.io()?;
                    let state = io.block_on(repository.state())?;
                    let go_on = || self.node.check_open();
                    let splits = io.block_on(splits_of(&repository, &state, index, &missing, go_on))?;
                    Ok((repository, used, splits))
                });
            match looked {
                Ok((repository, used, splits)) => {
                    for (segment, split) in splits {
                        missing.remove(segment.as_str());
                        found.splits.insert(segment, (Arc::clone(&repository), split));
                    }
                    found._used.push(used);
                }
                Err(error) => tracing::warn!(repository = name, %error, "cannot search for segments to repair a shard"),
            }
        }
        Ok(found)
    }

    /// Closes the shard, replaces its segments and opens it again, also if the replacement failed.
    fn exchange(&self, index: &IndexState, slot: &ShardSlot, replacements: &[Replacement]) -> Result<()> {
        let exchanged = {
            let _opening = slot.opening.lock();
            let config = self.wanted_config(index, slot)?;
            if let Ok(shard) = slot.shard() {
                // Shortens the replay. If the flush fails, the WAL holds everything.
                if let Err(error) = shard.flush() {
                    tracing::warn!(index = &*index.name, shard = slot.number, %error, "cannot flush a shard before its repair");
                }
                let reason = "the shard is being repaired";
                slot.replace(Err(Error::new(ErrorKind::ShardDamaged, reason).with_index(&*index.name)));
                slot.end_retired();
            }
            match replacements.is_empty() {
                true => Ok(()),
                false => Shard::replace_segments(&config, replacements, &|| self.node.check_open()),
            }
        };
        let opened = self.opener.open_shard(index, slot);
        exchanged.and(opened)
    }
}
