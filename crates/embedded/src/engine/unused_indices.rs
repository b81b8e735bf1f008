//! Removal of indices and data streams that a tenant's writes created and that hold no documents.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::RequestContext;
use firn_model::metadata::Command;
use firn_model::tenant::TenantId;
use firn_model::{ErrorKind, Result};

use super::services::Services;
use crate::node::state::{IndexState, ShardSlot};
use crate::operators::check_operator;

impl Services {
    /// Removes indices and data streams that a tenant's writes created and that hold no documents; returns the names of
    /// removed indices. Indices that do not serve, are closed or are mounted stay: their content is unknown or wanted.
    ///
    /// A write that finds its index removed creates it again. No acknowledged write is lost.
    pub(super) fn drop_unused_of(&self, ctx: &RequestContext, tenant: &TenantId) -> Result<Vec<String>> {
        check_operator(ctx)?;
        let metadata = Arc::clone(&self.node.state().metadata);
        let is_maker = |made_by: &Option<TenantId>| made_by.as_ref() == Some(tenant);
        let alone = metadata.indices.values().filter(|index| is_maker(&index.made_by));
        let alone = alone.map(|index| (None, vec![index.name.clone()]));
        let streams = metadata
            .data_streams
            .values()
            .filter(|stream| is_maker(&stream.made_by));
        let streams = streams.map(|stream| (Some(stream.name.clone()), stream.indices.clone()));
        let mut gone = Vec::new();
        for (stream, indices) in alone.chain(streams) {
            ctx.check()?;
            if self.drop_if_unused(tenant, stream, &indices)? {
                gone.extend(indices);
            }
        }
        Ok(gone)
    }

    fn drop_if_unused(&self, tenant: &TenantId, stream: Option<String>, names: &[String]) -> Result<bool> {
        let state = self.node.state();
        let indices: Vec<&Arc<IndexState>> = names.iter().filter_map(|name| state.index(name).ok()).collect();
        let slots = || indices.iter().flat_map(|index| index.shards.iter());
        // First check without locks, so that no write waits.
        if indices.len() < names.len() || !slots().all(|slot| is_empty(slot)) {
            return Ok(false);
        }
        // Writers and moves hold one shard at a time, so taking all locks cannot deadlock.
        let writes_wait: Vec<_> = slots().map(|slot| slot.stand_still()).collect();
        if !slots().all(|slot| is_empty(slot)) {
            return Ok(false);
        }
        let queued = self.commands.queue_command(Command::DropUnused {
            tenant: tenant.clone(),
            stream,
            indices: indices
                .iter()
                .map(|index| (index.name.to_string(), index.metadata.uuid.clone()))
                .collect::<BTreeMap<_, _>>(),
        });
        // Released before the files are removed, as that waits for a running move.
        match self.commands.finish_command_and(queued, || drop(writes_wait)) {
            Ok(outcome) => Ok(outcome.changed),
            Err(error) if error.kind() == ErrorKind::IndexNotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn is_empty(slot: &ShardSlot) -> bool {
    let Ok(shard) = slot.shard() else { return false };
    let refreshed = shard.refresh();
    let stats = shard.stats();
    refreshed.is_ok() && stats.doc_count == 0 && stats.buffer_doc_count == 0
}
