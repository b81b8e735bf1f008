//! Removal of a tenant's events from every index that holds events by tenant.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use firn_engine::RequestContext;
use firn_engine::admin::{PurgeOutcome, PurgeRequest, PurgedIndex};
use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};

use super::services::Services;
use crate::mounts::MountedShard;
use crate::node::state::ShardSlot;

/// Maximum time for which searches may read a snapshot from before the removal.
const READERS_PATIENCE: Duration = Duration::from_secs(30);

impl Services {
    /// Removes the events. Shards that fail are listed in the outcome; the remaining shards are purged.
    pub(super) fn purge_tenant(&self, ctx: &RequestContext, request: &PurgeRequest) -> Result<PurgeOutcome> {
        if !ctx.scope.is_unlimited() {
            return Err(Error::new(
                ErrorKind::Forbidden,
                "only an operator may remove the events of a tenant",
            ));
        }
        let state = self.node.state();
        let mut outcome = PurgeOutcome::default();
        for index in state.indices.values() {
            let is_other = request.index.as_ref().is_some_and(|name| **name != *index.name);
            if is_other || index.metadata.settings.tenant_field.is_none() {
                continue;
            }
            let mut purged = PurgedIndex {
                index: index.name.to_string(),
                documents: 0,
                segments: 0,
            };
            for slot in index.shards.iter() {
                ctx.cancel.check()?;
                if slot.mounted().is_some() {
                    outcome.shards.total += 1;
                    // A retention of the tenant does not apply to mounted indices: their events go with the index, by
                    // its policy.
                    if request.before_ms.is_some() {
                        outcome.shards.successful += 1;
                        continue;
                    }
                    match self.check_purged(ctx, slot, &request.tenant) {
                        Ok(()) => outcome.shards.successful += 1,
                        Err(error) => outcome.shards.failures.push((purged.index.clone(), slot.number, error)),
                    }
                    continue;
                }
                let result = slot.on_shard(|shard| shard.purge_tenant(request.tenant.as_str(), request.before_ms));
                match result {
                    Ok(own) => {
                        slot.changed.store(true, Ordering::Relaxed);
                        purged.documents += own.documents;
                        purged.segments += own.segments;
                        outcome.shards.successful += 1;
                    }
                    // The index was deleted meanwhile, with all its events.
                    Err(error) if error.kind() == ErrorKind::IndexNotFound => continue,
                    Err(error) => outcome.shards.failures.push((purged.index.clone(), slot.number, error)),
                }
                outcome.shards.total += 1;
            }
            outcome.documents += purged.documents;
            if purged.segments > 0 {
                outcome.indices.push(purged);
            }
        }
        outcome.indices.sort_by(|one, other| one.index.cmp(&other.index));
        Ok(outcome)
    }

    /// Checks that a mounted index has no events of the tenant. They are removed from the snapshot, not from the index;
    /// the index may still read the state of the snapshot before that.
    fn check_purged(&self, ctx: &RequestContext, slot: &ShardSlot, tenant: &TenantId) -> Result<()> {
        let Some(shard) = slot.mounted() else {
            return Ok(());
        };
        if !self.mounted_holds(ctx, &shard, tenant)? {
            return self.mounts.forget_other_copies(&shard.store);
        }
        self.mounts.reread_mounted(&shard.store, READERS_PATIENCE)?;
        let Some(shard) = slot.mounted() else {
            return Ok(());
        };
        match self.mounted_holds(ctx, &shard, tenant)? {
            false => Ok(()),
            true => Err(Error::new(
                ErrorKind::IndexBlocked,
                format!(
                    "index [{}] is mounted from snapshot [{}:{}], which holds events of the tenant that were not removed: delete \
                     the index, and the snapshot",
                    shard.index, shard.store.repository, shard.store.snapshot
                ),
            )
            .with_index(&*shard.index)),
        }
    }

    /// Whether a mounted shard may read events of a tenant.
    fn mounted_holds(&self, ctx: &RequestContext, shard: &Arc<MountedShard>, tenant: &TenantId) -> Result<bool> {
        self.mounts
            .learn_manifests(&[shard], &ctx.cancel)?
            .into_iter()
            .collect::<Result<Vec<()>>>()?;
        let segments = shard.segments().map_or(&[][..], |segments| &segments.segments);
        let tenant = tenant.as_str();
        Ok(segments.iter().any(|segment| match &segment.split.tenants {
            Some(_) => segment.split.tenant(tenant).is_some(),
            None => self.repositories.is_unknown(tenant, &segment.split.id),
        }))
    }
}
