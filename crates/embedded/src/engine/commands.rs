//! Execution of commands that change metadata: serial, and durable before they are visible.
//!
//! The order makes every crash harmless. The files of a new index are synced before the catalog names it; the files of
//! a deleted index are removed after the catalog has dropped it. A crash in between leaves folders that no index
//! refers to, and the next start removes those.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use firn_model::metadata::{Command, EmbeddedCommand, IndexMetadata, Metadata, Outcome, RolloverFacts};
use firn_model::shared_map::Difference;
use firn_model::{Error, Result};
use parking_lot::Mutex;

use super::cluster_settings::ClusterSettings;
use super::command_queue::{CommandQueue, Queued, Waiting, forgotten};
use super::contexts::Contexts;
use crate::catalog::{Catalog, StoreFailure};
use crate::mounts::MountService;
use crate::node::index_ids::fresh_uuid;
use crate::node::pools::Pools;
use crate::node::recovery_gate::recovering_error;
use crate::node::recovery_gates::RecoveryGates;
use crate::node::state::{IndexState, ShardSlot, State, closed_error};
use crate::node::{Node, closing_error};
use crate::snapshots::Repositories;
use crate::tiers::Devices;

/// See the module.
pub(crate) struct CommandService {
    pub(crate) node: Arc<Node>,
    pub(crate) pools: Arc<Pools>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) gates: Arc<RecoveryGates>,
    pub(crate) repositories: Arc<Repositories>,
    pub(crate) mounts: Arc<MountService>,
    pub(crate) contexts: Arc<Contexts>,
    /// Commands that wait for the catalog.
    pub(crate) queue: CommandQueue,
    pub(crate) serial: Mutex<Commands>,
    /// Uuids of indices being adopted: their folders exist before the catalog names them, and stay if the command
    /// fails.
    pub(crate) adopting: Mutex<HashSet<String>>,
    /// Current value of `search.max_buckets`.
    pub(crate) search_buckets_max: Arc<AtomicUsize>,
}

/// Data that only one command at a time may use.
pub(crate) struct Commands {
    /// `None` once the engine is closed.
    pub(crate) catalog: Option<Catalog>,
    pub(crate) random: fastrand::Rng,
}

impl CommandService {
    /// Executes one command: either all of it is durable and published when this returns, or nothing.
    /// Blocks.
    pub(crate) fn execute(&self, command: impl Into<EmbeddedCommand>) -> Result<Outcome> {
        self.finish_command(self.queue_command(command))
    }

    /// Queues a command for [`CommandService::finish_command`] or for a thread that finishes another command.
    pub(super) fn queue_command(&self, command: impl Into<EmbeddedCommand>) -> Queued {
        self.queue.push(command.into())
    }

    /// Executes batches of queued commands until this one has a result. Blocks.
    pub(super) fn finish_command(&self, queued: Queued) -> Result<Outcome> {
        self.finish_command_and(queued, || {})
    }

    /// As [`CommandService::finish_command`]; `release` frees resources held for the command, once it is published or
    /// refused.
    pub(super) fn finish_command_and(&self, queued: Queued, release: impl FnOnce()) -> Result<Outcome> {
        let answer = {
            let mut commands = self.serial.lock();
            loop {
                if let Some(answer) = queued.answer() {
                    break answer;
                }
                let batch = self.queue.take();
                if batch.is_empty() {
                    return Err(forgotten());
                }
                self.store_and_publish(&mut commands, batch);
            }
        };
        release();
        let (outcome, gone) = answer?;
        // Flushing and removing files takes time, and other commands need not wait for it.
        for gone in &gone {
            self.end_shards(gone);
        }
        Ok(outcome)
    }

    /// Applies commands one after the other and stores them in one transaction.
    fn store_and_publish(&self, commands: &mut Commands, batch: Vec<Waiting>) {
        let before = self.node.state();
        let mut current = Arc::clone(&before);
        let mut applied = Vec::new();
        for mut waiting in batch {
            let command = std::mem::replace(&mut waiting.command, Command::PutPlacement { placement: None }.into());
            match self.next_step(&current, command, &mut commands.random) {
                Ok(step) => {
                    current = Arc::clone(&step.after);
                    applied.push((waiting, step));
                }
                Err(error) => waiting.answer(Err(error)),
            }
        }
        if let Err(failure) = self.store(commands, &before, &current) {
            for (waiting, step) in applied.into_iter().rev() {
                self.abandon(&step.before, &step.after, failure.maybe_stored);
                waiting.answer(Err(failure.error.clone()));
            }
            return;
        }
        self.node.state.store(current);
        for (waiting, step) in applied {
            let gone = self.follow_up(&step.before, &step.after);
            waiting.answer(Ok((step.outcome, gone)));
        }
    }

    fn store(&self, commands: &mut Commands, before: &State, after: &State) -> Result<(), StoreFailure> {
        let not_stored = |error| StoreFailure {
            error,
            maybe_stored: false,
        };
        let catalog = commands.catalog.as_mut().ok_or_else(|| not_stored(closing_error()))?;
        if before.metadata.version == after.metadata.version {
            return Ok(());
        }
        catalog.store(&before.metadata, &after.metadata)?;
        let version = &self.node.factory.catalog;
        version.advance(after.metadata.version);
        // An older version number is harmless: it only makes the detection of a rolled-back catalog weaker.
        if let Err(error) = version.write(&*self.node.config.disk, &self.node.config.path_data) {
            tracing::debug!(%error, "cannot write [catalog.version]");
        }
        Ok(())
    }

    /// Applies one command to a state; the files of new indices are durable when this returns.
    fn next_step(&self, before: &Arc<State>, command: EmbeddedCommand, random: &mut fastrand::Rng) -> Result<Step> {
        let command = with_facts(command, before, self.node.now_ms());
        let (after, mut outcome) = before
            .metadata
            .apply_embedded(&command, self.node.now_ms(), &mut || fresh_uuid(random))?;
        if !outcome.changed || after.version == before.metadata.version {
            outcome.metadata = Some(Arc::clone(&before.metadata));
            return Ok(Step {
                before: Arc::clone(before),
                after: Arc::clone(before),
                outcome,
            });
        }
        self.repositories
            .restores
            .check_running_restores(&command, &before.metadata, &after, self.node.now_ms())?;
        let settings = after.effective_cluster_settings();
        if settings != before.metadata.effective_cluster_settings() {
            ClusterSettings::check(&settings)?;
        }
        outcome.metadata = Some(Arc::clone(&after));
        Ok(Step {
            after: Arc::new(self.next_state(before, &after)?),
            before: Arc::clone(before),
            outcome,
        })
    }

    /// Builds the next state. Skips unchanged indices: there may be many thousands.
    fn next_state(&self, before: &State, after: &Arc<Metadata>) -> Result<State> {
        let mut next = before.with_metadata(Arc::clone(after));
        for difference in before.metadata.indices.differences(&after.indices) {
            let state = match difference {
                Difference::Removed(name, _) => {
                    next.remove(name);
                    continue;
                }
                Difference::Changed(name, old, index) if old.uuid == index.uuid => {
                    let shards = before.index(name).map(|old| Arc::clone(&old.shards));
                    shards.and_then(|shards| IndexState::new(index, shards))
                }
                Difference::Changed(_, _, index) | Difference::Added(_, index) => self.new_index(index),
            };
            match state {
                Ok(state) => next.insert(state),
                Err(error) => {
                    self.abandon(before, &next, false);
                    return Err(error);
                }
            }
        }
        Ok(next)
    }

    /// Ends the new indices of a state that is not published. If it is unknown whether the transaction was stored, the
    /// files stay: if it was not, the next start finds that the command never finished.
    fn abandon(&self, before: &State, next: &State, maybe_stored: bool) {
        for index in created(before, next) {
            take_away(index, || Error::index_not_found(&*index.name));
            for slot in index.shards.iter() {
                slot.end_retired();
            }
            let is_adopted = self.adopting.lock().contains(&index.metadata.uuid);
            if !maybe_stored && !is_adopted {
                self.node.factory.remove(&index.metadata.uuid);
            }
        }
    }

    fn new_index(&self, index: &Arc<IndexMetadata>) -> Result<Arc<IndexState>> {
        if let Some(store) = &index.settings.snapshot {
            return self.mounts.new_mounted(index, store);
        }
        let now_ms = self.node.now_ms();
        if self.adopting.lock().contains(&index.uuid) {
            return self.adopted(index, now_ms);
        }
        let shards = match self.node.factory.is_restored(index)? {
            true => self.node.factory.open_restored(index)?,
            false => self.node.factory.create(index)?,
        };
        let slots = (0..)
            .zip(shards)
            .map(|(number, shard)| ShardSlot::new(number, Ok(shard.into()), now_ms));
        IndexState::new(index, slots.collect())
    }

    /// Returns the state of an index whose folder came out of the quarantine. Its shards are opened after this command,
    /// by the caller: opening may replay, and replay may need a command.
    fn adopted(&self, index: &Arc<IndexMetadata>, now_ms: i64) -> Result<Arc<IndexState>> {
        let slots = (0..index.settings.number_of_shards).map(|number| {
            let slot = ShardSlot::new(number, Err(recovering_error(&index.name, number)), now_ms);
            slot.reopen.store(true, Ordering::Release);
            slot
        });
        IndexState::new(index, slots.collect())
    }

    /// Applies the consequences of a change that is already durable and published. Nothing here fails the
    /// command; a start does all of it again. Returns the indices whose shards must be ended.
    fn follow_up(&self, before: &State, next: &State) -> Vec<ClosingIndex> {
        let mut gone = Vec::new();
        for difference in before.differences(next) {
            let (old, new) = match difference {
                Difference::Added(..) => continue,
                Difference::Changed(_, old, new) if old.metadata.uuid == new.metadata.uuid => (old, Some(new)),
                Difference::Changed(_, old, _) | Difference::Removed(_, old) => (old, None),
            };
            match new {
                None => {
                    take_away(old, || Error::index_not_found(&*old.name));
                    self.contexts.forget_index(&old.metadata.uuid);
                    gone.push(ClosingIndex::Deleted(Arc::clone(old)));
                }
                Some(new) if new.metadata.closed && !old.metadata.closed => {
                    take_away(new, || closed_error(&new.name));
                    self.contexts.forget_index(&new.metadata.uuid);
                    gone.push(ClosingIndex::Closed(Arc::clone(new)));
                }
                Some(new) if !new.metadata.closed && old.metadata.closed => self.reopen_shards(new),
                Some(new) if new.metadata.settings != old.metadata.settings => use_settings(new),
                Some(_) => {}
            }
        }
        // On closing and reopening of the name: a context that a request of the deleted tenant opened after the
        // deletion must not be visible to a new tenant of the same name.
        let (closed, closed_now) = (&before.metadata.closed_tenants, &next.metadata.closed_tenants);
        for tenant in closed.symmetric_difference(closed_now) {
            self.contexts.forget_tenant(tenant);
            self.pools.search.forget_tenant(tenant);
        }
        let settings = next.metadata.effective_cluster_settings();
        if before.metadata.effective_cluster_settings() != settings
            && let Err(error) = self.use_cluster_settings(&settings)
        {
            tracing::error!(%error, "cannot use the cluster settings");
        }
        gone
    }

    /// Ends the shards of an index that was deleted or closed. The slots no longer hold them, so a concurrent
    /// reopening of the index waits for the same shards to end.
    fn end_shards(&self, gone: &ClosingIndex) {
        match gone {
            ClosingIndex::Deleted(index) => {
                self.mounts.forget_index(&index.metadata.uuid);
                for slot in index.shards.iter() {
                    slot.release_waiters();
                    // Another thread may be opening the shard without knowing of the deletion, and create files.
                    let _opening = slot.opening.lock();
                    slot.end_retired();
                }
                self.node.factory.remove(&index.metadata.uuid);
            }
            ClosingIndex::Closed(index) => {
                for slot in index.shards.iter() {
                    slot.release_waiters();
                    if let Err(error) = slot.close_retired() {
                        tracing::warn!(index = &*index.name, shard = slot.number, %error, "cannot flush a shard that is closed");
                    }
                    slot.end_retired();
                }
            }
        }
    }

    /// Marks the shards for opening. They are opened after this command, by the caller: opening may
    /// replay, and replay may need a command.
    fn reopen_shards(&self, index: &IndexState) {
        for slot in index.shards.iter() {
            self.gates.expect_recovery(slot);
            slot.replace(Err(recovering_error(&index.name, slot.number)));
            slot.reopen.store(true, Ordering::Release);
        }
    }

    /// Applies settings that were changed while a shard was being opened and so did not reach it.
    pub(super) fn use_settings_of_now(&self, index: &IndexState, slot: &ShardSlot) {
        if let Some(now) = self.node.state().indices.get(&index.name) {
            use_settings_in(now, slot);
        }
    }
}

/// Command that is applied but not stored yet.
struct Step {
    before: Arc<State>,
    after: Arc<State>,
    outcome: Outcome,
}

/// Measures the values that rollover conditions are checked against.
fn with_facts(mut command: EmbeddedCommand, state: &State, now_ms: i64) -> EmbeddedCommand {
    if let EmbeddedCommand::Portable(Command::Rollover { target, facts, .. }) = &mut command {
        let write_index = firn_model::metadata::resolve_write(target, &state.metadata, now_ms);
        // If the target cannot be written to, the command itself refuses it.
        if let Ok(write) = write_index
            && let Ok(index) = state.index(&write.index)
        {
            *facts = measure(index);
        }
    }
    command
}

/// Returns the indices of `next` that `before` lacks.
fn created<'a>(before: &'a State, next: &'a State) -> impl Iterator<Item = &'a Arc<IndexState>> {
    before
        .differences(next)
        .into_iter()
        .filter_map(|difference| match difference {
            Difference::Added(_, index) => Some(index),
            Difference::Changed(_, old, new) if old.metadata.uuid != new.metadata.uuid => Some(new),
            _ => None,
        })
}

/// Index whose shards take no more writes and must be ended.
pub(super) enum ClosingIndex {
    /// Its files are deleted too.
    Deleted(Arc<IndexState>),
    /// Its buffered documents are flushed to segments first.
    Closed(Arc<IndexState>),
}

/// Removes the shards of the index from their slots; searches that hold a snapshot finish on it.
fn take_away(index: &IndexState, reason: impl Fn() -> Error) {
    for slot in index.shards.iter() {
        slot.replace(Err(reason()));
    }
}

fn use_settings(index: &IndexState) {
    for slot in index.shards.iter() {
        use_settings_in(index, slot);
    }
}

fn use_settings_in(index: &IndexState, slot: &ShardSlot) {
    let settings = &index.metadata.settings;
    if let Ok(shard) = slot.shard() {
        shard.set_durability(
            settings.durability,
            settings.sync_interval_ms,
            settings.flush_threshold_bytes,
        );
    }
}

fn measure(index: &IndexState) -> RolloverFacts {
    let mut facts = RolloverFacts::default();
    for slot in index.shards.iter() {
        if let Ok(shard) = slot.shard() {
            let stats = shard.stats();
            facts.doc_count += stats.doc_count;
            facts.size_bytes += stats.store_bytes;
            facts.shard_doc_count_max = facts.shard_doc_count_max.max(stats.doc_count);
            facts.shard_size_bytes_max = facts.shard_size_bytes_max.max(stats.store_bytes);
        }
    }
    facts
}
