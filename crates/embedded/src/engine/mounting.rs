//! Mounting of indices from snapshots, and information about mounted indices.

use std::sync::Arc;

use async_trait::async_trait;
use firn_engine::RequestContext;
use firn_engine::admin::ShardsOutcome;
use firn_engine::mounts::{MountSnapshot, Mounted, MountedShardStats, SearchableSnapshots, SharedCacheStats};
use firn_model::metadata::Command;
use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::IndexTarget;
use serde_json::json;

use super::Embedded;
use super::services::Services;
use crate::mounts::Planned;
use crate::node::pools::{panicked, run_on};
use crate::operators::check_operator;

impl Services {
    /// See [`SearchableSnapshots::pin_shared_cache`].
    fn pin_shared_cache(&self, ctx: &RequestContext, target: &IndexTarget, pinned: bool) -> Result<Vec<(String, u64)>> {
        let mut shards = self.mounts.mounted_of(ctx, target)?;
        shards.retain(|shard| shard.store.partial);
        let mut names: Vec<String> = shards.iter().map(|shard| shard.index.to_string()).collect();
        names.dedup();
        if names.is_empty() {
            let reason = "No searchable snapshots indices found that are mounted as [shared_cache]";
            return Err(Error::new(ErrorKind::ResourceNotFound, reason));
        }
        self.commands.execute(Command::PutSettings {
            names: names.clone(),
            settings: json!({"index.store.snapshot.cache.pinned": pinned}),
            preserve_existing: false,
        })?;
        // Objects that are not known yet are pinned once the manifest is read.
        let _ = self
            .mounts
            .learn_manifests(&shards.iter().collect::<Vec<_>>(), &ctx.cancel)?;
        self.mounts.pin_mounted();
        let bytes_of = |name: &String| {
            let own = shards.iter().filter(|shard| *shard.index == **name);
            own.map(|shard| self.mounts.local_bytes(shard)).sum()
        };
        Ok(names
            .into_iter()
            .map(|name| {
                let bytes = bytes_of(&name);
                (name, bytes)
            })
            .collect())
    }
}

#[async_trait]
impl SearchableSnapshots for Embedded {
    async fn mount_snapshot(&self, ctx: &RequestContext, request: MountSnapshot) -> Result<Mounted> {
        self.services.node.check_open()?;
        check_operator(ctx)?;
        let services = Arc::clone(&self.services);
        let io = services.repositories.io()?.clone();
        let snapshot = request.snapshot.clone();
        let planned = io
            .spawn(async move { services.mounts.plan_mount(&request).await })
            .await;
        let planned = planned.unwrap_or_else(|_| Err(panicked()))?;
        let Planned {
            command,
            manifest,
            _used,
            _reading,
        } = planned;
        let index = command.name.clone();
        // Queued now, so that it is stored together with commands that already wait.
        let queued = self
            .services
            .commands
            .queue_command(Command::MountIndex(Box::new(command)));
        let services = Arc::clone(&self.services);
        run_on(&self.services.pools.maintenance, ctx, move || {
            services.commands.finish_command(queued)
        })
        .await?;
        let ahead = Arc::clone(&self.services.mounts).bring_footers(index.clone());
        // The index is mounted even if the prefetch failed.
        let _ = io.spawn(ahead).await;
        Ok(Mounted {
            snapshot,
            index,
            total_shards: manifest.shards.len() as u32,
            successful_shards: manifest.shards.iter().filter(|shard| !shard.missing).count() as u32,
        })
    }

    async fn mounted_shards(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Vec<MountedShardStats>> {
        check_operator(ctx)?;
        let (services, its) = (Arc::clone(&self.services), ctx.clone());
        run_on(&self.services.pools.get, ctx, move || {
            let shards = services.mounts.mounted_of(&its, &target)?;
            Ok(shards
                .iter()
                .map(|shard| services.mounts.mounted_stats(shard))
                .collect())
        })
        .await
    }

    async fn shared_cache_stats(&self, ctx: &RequestContext) -> Result<Option<SharedCacheStats>> {
        check_operator(ctx)?;
        match self.services.mounts.regions().is_ok() {
            true => self.services.mounts.shared_cache_stats().map(Some),
            false => Ok(None),
        }
    }

    async fn pin_shared_cache(
        &self,
        ctx: &RequestContext,
        target: IndexTarget,
        pinned: bool,
    ) -> Result<Vec<(String, u64)>> {
        self.services.node.check_open()?;
        check_operator(ctx)?;
        self.services.mounts.regions()?;
        let (services, its) = (Arc::clone(&self.services), ctx.clone());
        run_on(&self.services.pools.maintenance, ctx, move || {
            services.pin_shared_cache(&its, &target, pinned)
        })
        .await
    }

    fn set_shared_cache_quota(&self, tenant: &TenantId, bytes: Option<u64>) {
        if let Ok(regions) = self.services.mounts.regions() {
            regions.set_quota(tenant, bytes);
        }
    }

    async fn clear_shared_cache(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome> {
        check_operator(ctx)?;
        let (services, its) = (Arc::clone(&self.services), ctx.clone());
        run_on(&self.services.pools.get, ctx, move || {
            let shards = services.mounts.mounted_of(&its, &target)?;
            let partial: Vec<_> = shards.into_iter().filter(|shard| shard.store.partial).collect();
            services.mounts.clear_regions_of(&partial)?;
            Ok(ShardsOutcome {
                total: partial.len() as u32,
                successful: partial.len() as u32,
                failures: Vec::new(),
            })
        })
        .await
    }
}
