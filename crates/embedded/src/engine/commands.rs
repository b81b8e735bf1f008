//! Changing metadata: one command at a time, stored whole before anyone sees it.
//!
//! The order makes every crash harmless. New indices get their files, synced, before the catalog
//! names them; deleted ones lose theirs after the catalog forgot them. A crash in between leaves
//! folders that no index refers to, and the next start removes those.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_model::metadata::{Command, IndexMetadata, Metadata, Outcome, RolloverFacts};
use firn_model::{Error, ErrorKind, Result};

use super::cluster_settings::ClusterSettings;
use super::ids::fresh_uuid;
use super::open::index_state;
use super::state::{IndexState, ShardSlot, State, closed_error};
use super::{Core, closing_error};

impl Core {
    /// Takes one command: all of it is durable and published when this returns, or nothing.
    /// Blocks.
    pub(crate) fn execute(&self, command: Command) -> Result<Outcome> {
        let command = self.with_facts(command);
        let (outcome, gone) = self.store_and_publish(command)?;
        // Flushing and removing files takes its time, and other commands need not wait for it.
        for gone in &gone {
            self.end_shards(gone);
        }
        Ok(outcome)
    }

    /// Takes a command, and says which indices were deleted or closed by it.
    fn store_and_publish(&self, command: Command) -> Result<(Outcome, Vec<Gone>)> {
        let mut commands = self.commands.lock();
        let commands = &mut *commands;
        let catalog = commands.catalog.as_mut().ok_or_else(closing_error)?;
        let before = self.state();
        let random = &mut commands.random;
        let (after, mut outcome) = before
            .metadata
            .apply(&command, self.now_ms(), &mut || fresh_uuid(random))?;
        if !outcome.changed || after.version == before.metadata.version {
            outcome.metadata = Some(Arc::clone(&before.metadata));
            return Ok((outcome, Vec::new()));
        }
        if after.cluster_settings != before.metadata.cluster_settings {
            ClusterSettings::read(&after.cluster_settings)?;
        }
        let next = self.next_state(&before, &after)?;
        if let Err(failure) = catalog.store(&before.metadata, &after) {
            for index in created(&before, &next) {
                abandon(index);
                // Where it is unknown whether the index was stored its files stay: if it was not,
                // the next start finds them unreferenced.
                if !failure.maybe_stored {
                    self.factory.remove(&index.metadata.uuid);
                }
            }
            return Err(failure.error);
        }
        self.state.store(Arc::new(next));
        let next = self.state();
        outcome.metadata = Some(Arc::clone(&after));
        let gone = self.follow_up(&before, &next);
        Ok((outcome, gone))
    }

    /// The next state; the files of new indices exist, durably, when this returns.
    fn next_state(&self, before: &State, after: &Arc<Metadata>) -> Result<State> {
        let mut next = State {
            metadata: Arc::clone(after),
            indices: Default::default(),
        };
        for (name, index) in &after.indices {
            let state = match before.indices.get(name) {
                Some(old) if old.metadata.uuid == index.uuid => changed(old, index),
                _ => self.new_index(index),
            };
            match state {
                Ok(state) => {
                    next.indices.insert(name.clone(), state);
                }
                Err(error) => {
                    for index in created(before, &next) {
                        abandon(index);
                        self.factory.remove(&index.metadata.uuid);
                    }
                    return Err(error);
                }
            }
        }
        Ok(next)
    }

    fn new_index(&self, index: &Arc<IndexMetadata>) -> Result<Arc<IndexState>> {
        let now_ms = self.now_ms();
        let shards = self.factory.create(index)?;
        let slots = (0..)
            .zip(shards)
            .map(|(number, shard)| ShardSlot::new(number, Ok(shard), now_ms));
        index_state(index, slots.collect())
    }

    /// What follows from a change that is durable and published already. Nothing here fails the
    /// command; a start does all of it again. Returns the indices whose shards must be ended.
    fn follow_up(&self, before: &State, next: &State) -> Vec<Gone> {
        let mut gone = Vec::new();
        for (name, old) in &before.indices {
            let new = next
                .indices
                .get(name)
                .filter(|new| new.metadata.uuid == old.metadata.uuid);
            match new {
                None => {
                    take_away(old, || Error::index_not_found(&*old.name));
                    self.contexts.forget_index(&old.metadata.uuid);
                    gone.push(Gone::Deleted(Arc::clone(old)));
                }
                Some(new) if new.metadata.closed && !old.metadata.closed => {
                    take_away(new, || closed_error(&new.name));
                    self.contexts.forget_index(&new.metadata.uuid);
                    gone.push(Gone::Closed(Arc::clone(new)));
                }
                Some(new) if !new.metadata.closed && old.metadata.closed => self.reopen_shards(new),
                Some(new) if new.metadata.settings != old.metadata.settings => use_settings(new),
                Some(_) => {}
            }
        }
        if before.metadata.cluster_settings != next.metadata.cluster_settings
            && let Err(error) = self.use_cluster_settings(&next.metadata.cluster_settings)
        {
            tracing::error!(%error, "cannot use the cluster settings");
        }
        gone
    }

    /// Ends the shards of an index that was deleted or closed. The slots hold them no more, so
    /// whoever opens the index again meanwhile waits for the same shards.
    fn end_shards(&self, gone: &Gone) {
        match gone {
            Gone::Deleted(index) => {
                for slot in index.shards.iter() {
                    slot.release_waiters();
                    // Someone may be opening it who has not heard of the deletion, and makes files.
                    let _opening = slot.opening.lock();
                    slot.end_retired();
                }
                self.factory.remove(&index.metadata.uuid);
            }
            Gone::Closed(index) => {
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

    /// Opening may replay and replaying may need a command, so it waits until this command is
    /// through: [`Core::open_waiting_shards`].
    fn reopen_shards(&self, index: &IndexState) {
        for slot in index.shards.iter() {
            let not_yet = Error::new(ErrorKind::ShardDamaged, "the shard is not open yet").with_index(&*index.name);
            slot.replace(Err(not_yet));
            slot.reopen.store(true, Ordering::Release);
        }
    }

    /// Opens the shards of indices that were just opened.
    pub(crate) fn open_waiting_shards(&self) {
        let state = self.state();
        for (index, slot) in state.slots() {
            if slot.reopen.load(Ordering::Acquire)
                && let Err(error) = self.open_shard(index, slot)
            {
                tracing::error!(index = &*index.name, shard = slot.number, %error, "cannot open a shard");
            }
        }
    }

    /// Measures what rollover conditions are held against.
    fn with_facts(&self, mut command: Command) -> Command {
        if let Command::Rollover { target, facts, .. } = &mut command {
            let state = self.state();
            let write_index = firn_model::names::resolve_write(target, &state.metadata, self.now_ms());
            // A target that cannot be written to is refused by the command itself.
            if let Ok(write) = write_index
                && let Some(index) = state.indices.get(&write.index)
            {
                *facts = measure(index);
            }
        }
        command
    }
}

/// An index whose metadata may have changed, around the same slots.
fn changed(old: &Arc<IndexState>, index: &Arc<IndexMetadata>) -> Result<Arc<IndexState>> {
    if Arc::ptr_eq(&old.metadata, index) {
        return Ok(Arc::clone(old));
    }
    index_state(index, Arc::clone(&old.shards))
}

/// Indices of `next` that `before` lacks.
fn created<'a>(before: &'a State, next: &'a State) -> impl Iterator<Item = &'a Arc<IndexState>> {
    next.indices.iter().filter_map(|(name, index)| {
        let existed = before
            .indices
            .get(name)
            .is_some_and(|old| old.metadata.uuid == index.metadata.uuid);
        (!existed).then_some(index)
    })
}

/// An index whose shards take nothing more and are to be ended.
enum Gone {
    /// Its files go too.
    Deleted(Arc<IndexState>),
    /// What it took is made durable as segments first.
    Closed(Arc<IndexState>),
}

/// Nobody finds the index's shards any more; searches that hold a snapshot finish on it.
fn take_away(index: &IndexState, reason: impl Fn() -> Error) {
    for slot in index.shards.iter() {
        slot.replace(Err(reason()));
    }
}

/// Ends the shards of an index that was never published.
fn abandon(index: &IndexState) {
    take_away(index, || Error::index_not_found(&*index.name));
    for slot in index.shards.iter() {
        slot.end_retired();
    }
}

fn use_settings(index: &IndexState) {
    let settings = &index.metadata.settings;
    for slot in index.shards.iter() {
        if let Ok(shard) = slot.shard() {
            shard.set_durability(
                settings.durability,
                settings.sync_interval_ms,
                settings.flush_threshold_bytes,
            );
        }
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
