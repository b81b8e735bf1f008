//! Mounting of indices from snapshots, and information about mounted indices.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use firn_engine::RequestContext;
use firn_engine::admin::ShardsOutcome;
use firn_engine::document::StoredDocument;
use firn_engine::mounts::{
    CachedKind, MountSnapshot, Mounted, MountedShardStats, MountedSplits, SearchableSnapshots, SharedCacheStats,
    Storage,
};
use firn_model::metadata::{Command, IndexMetadata, MountIndex, resolve};
use firn_model::repository::snapshot_missing;
use firn_model::settings::{SnapshotStore, flatten};
use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::{IndexTarget, SearchRequest};
use firn_search::search_page;
use firn_storage::repository::State;
use firn_storage::split::PartKind;
use serde_json::json;

use super::can_match::CanMatch;
use super::state::{IndexState, Served, ShardSlot};
use super::{Core, Embedded, panicked, run_on};
use crate::mounts::{MountedIndex, MountedShard};
use crate::snapshots::{Reading, Use, Work, check_holds_events, check_operator};

/// Mount whose snapshot has been read and checked.
struct Planned {
    command: MountIndex,
    /// Held until the index exists; then its shards hold it.
    manifest: Arc<MountedIndex>,
    /// Held until the index exists, which holds both from then on.
    _used: Use,
    _reading: Reading,
}

impl Core {
    async fn plan_mount(&self, request: &MountSnapshot) -> Result<Planned> {
        let settings = flatten(&request.index_settings, true)?;
        let (repository, used) = self.repository_for(&request.repository, Work::Mount)?;
        let manifests = &self.mounts.manifests;
        let state = repository.state().await?;
        let (_, reading) = self.read_snapshot(&repository, &state, &request.snapshot, Work::Mount)?;
        let snapshot = manifests.snapshot(&repository, &state, &request.snapshot).await?;
        let Some(entry) = snapshot.indices.get(&request.index) else {
            return Err(Error::index_not_found(&request.index));
        };
        let store = SnapshotStore {
            repository: request.repository.clone(),
            repository_uuid: state.uuid.clone(),
            snapshot: request.snapshot.clone(),
            snapshot_uuid: snapshot.uuid.clone(),
            index: request.index.clone(),
            index_uuid: entry.uuid.clone(),
            partial: request.storage == Storage::SharedCache,
        };
        let (index, manifest) = manifests.source(&store, &entry.manifest, &repository).await?;
        self.switch_mounts(&store, &manifest, Duration::ZERO);
        check_holds_events(&index, &store)?;
        self.open_tables(&manifest, &repository).await;
        // Reading may have taken long, and other nodes may have removed the snapshot meanwhile.
        let is_there = |state: &State| {
            let entry = state.snapshots.get(&request.snapshot);
            entry.is_some_and(|entry| entry.uuid == snapshot.uuid)
        };
        if !is_there(&*repository.state().await?) {
            return Err(snapshot_missing(&request.repository, &request.snapshot));
        }
        Ok(Planned {
            command: MountIndex {
                name: request.renamed_index.clone().unwrap_or_else(|| request.index.clone()),
                index,
                store,
                settings,
                ignored_settings: request.ignore_index_settings.clone(),
            },
            manifest,
            _used: used,
            _reading: reading,
        })
    }

    /// Returns the state of a mounted index.
    pub(super) fn new_mounted(
        &self,
        index: &Arc<IndexMetadata>,
        store: &Arc<SnapshotStore>,
    ) -> Result<Arc<IndexState>> {
        let now_ms = self.now_ms();
        let slot = |number| {
            let shard = self.mounted_shard(index, store, number);
            ShardSlot::new(number, Ok(Served::Mounted(shard)), now_ms)
        };
        IndexState::new(index, (0..index.settings.number_of_shards).map(slot).collect())
    }

    pub(crate) fn mounted_shard(
        &self,
        index: &IndexMetadata,
        store: &Arc<SnapshotStore>,
        number: u32,
    ) -> Arc<MountedShard> {
        let dir = self.factory.mounted_dir(index, number);
        let shard = MountedShard::new(index, store, number, dir);
        if let Some(known) = self.mounts.manifests.known(store) {
            shard.learn(known);
        }
        Arc::new(shard)
    }

    /// Puts a mounted shard into its slot: nothing can fail before the first read.
    pub(super) fn open_mounted_slot(
        &self,
        index: &IndexState,
        store: &Arc<SnapshotStore>,
        slot: &ShardSlot,
    ) -> Result<()> {
        slot.reopen.store(false, std::sync::atomic::Ordering::Release);
        let outcome = self.check_wanted(index);
        slot.replace(match &outcome {
            Ok(()) => Ok(Served::Mounted(self.mounted_shard(&index.metadata, store, slot.number))),
            Err(error) => Err(error.clone()),
        });
        outcome
    }

    /// Removes files that mounts of an earlier process left behind.
    pub(super) fn tidy_mounts(&self) {
        let state = self.state();
        let indices = state.metadata.indices.values();
        self.mounts
            .manifests
            .retain(indices.filter_map(|index| index.settings.snapshot.as_deref()));
    }

    /// Reads a document of a mounted index.
    pub(super) fn get_mounted(
        &self,
        ctx: &RequestContext,
        index: &IndexState,
        slot: &ShardSlot,
        shard: &Arc<MountedShard>,
        id: &str,
    ) -> Result<Option<StoredDocument>> {
        let tenant = super::addressing::restriction(ctx, index).flatten();
        let body = json!({
            "query": {"ids": {"values": [id]}}, "size": 1, "version": true, "seq_no_primary_term": true,
            "track_total_hits": false,
        });
        let mut request = SearchRequest::parse(IndexTarget::default(), Some(&body))?;
        let conditions = self.conditions(ctx, index, &[], Some(CanMatch::of(&request)), self.now_ms());
        let opened = self.open_mounted(&[(Arc::clone(shard), Arc::new(conditions))], ctx.waiting())?;
        let opened = opened.into_iter().next().ok_or_else(panicked)??;
        let Some(snapshot) = opened.snapshot else {
            return Ok(None);
        };
        request.allow_partial_results = false;
        let search = self.shard_search(index, slot, snapshot, &[], tenant);
        let limits = self.search_limits();
        let (response, _) = search_page(
            vec![Ok(search)],
            Arc::new(request),
            &self.search_pool,
            ctx,
            self.now_ms(),
            limits,
            None,
        )?;
        Ok(response.hits.into_iter().next().map(|hit| StoredDocument {
            source: hit.source.unwrap_or_default(),
            version: hit.version.unwrap_or(1),
            seq_no: hit.seq_no.map_or(0, |(seq_no, _)| seq_no),
            primary_term: hit.seq_no.map_or(1, |(_, term)| term),
            routing: hit.routing,
            ignored: hit.ignored,
        }))
    }

    /// Returns the mounted shards of a target.
    fn mounted_of(&self, ctx: &RequestContext, target: &IndexTarget) -> Result<Vec<Arc<MountedShard>>> {
        let state = self.state();
        let view = self.view(&state, &ctx.scope);
        let resolved = resolve(&target.expression, target.options, &view, self.now_ms())?;
        let indices = resolved.iter().filter_map(|target| state.indices.get(&target.name));
        let slots = indices.flat_map(|index| index.shards.iter());
        Ok(slots.filter_map(|slot| slot.mounted()).collect())
    }

    /// See [`SearchableSnapshots::pin_shared_cache`].
    fn pin_shared_cache(&self, ctx: &RequestContext, target: &IndexTarget, pinned: bool) -> Result<Vec<(String, u64)>> {
        let mut shards = self.mounted_of(ctx, target)?;
        shards.retain(|shard| shard.store.partial);
        let mut names: Vec<String> = shards.iter().map(|shard| shard.index.to_string()).collect();
        names.dedup();
        if names.is_empty() {
            let reason = "No searchable snapshots indices found that are mounted as [shared_cache]";
            return Err(Error::new(ErrorKind::ResourceNotFound, reason));
        }
        self.execute(Command::PutSettings {
            names: names.clone(),
            settings: json!({"index.store.snapshot.cache.pinned": pinned}),
            preserve_existing: false,
        })?;
        // Objects that are not known yet are pinned once the manifest is read.
        let _ = self.learn_manifests(&shards.iter().collect::<Vec<_>>(), &ctx.cancel)?;
        self.pin_mounted();
        let bytes_of = |name: &String| {
            let own = shards.iter().filter(|shard| *shard.index == **name);
            own.map(|shard| self.local_bytes(shard)).sum()
        };
        Ok(names
            .into_iter()
            .map(|name| {
                let bytes = bytes_of(&name);
                (name, bytes)
            })
            .collect())
    }

    fn mounted_stats(&self, shard: &Arc<MountedShard>) -> MountedShardStats {
        let splits = shard.segments().map(|segments| {
            let mut splits = MountedSplits {
                open: self.mounts.open_count(shard),
                local_bytes: self.local_bytes(shard),
                ..MountedSplits::default()
            };
            for segment in &segments.segments {
                splits.count += 1;
                splits.bytes += segment.split.len;
                splits.docs += u64::from(segment.split.docs);
                splits.segment_bytes += segment.split.segment_bytes;
            }
            splits
        });
        MountedShardStats {
            index: shard.index.to_string(),
            uuid: shard.uuid.to_string(),
            shard: shard.number,
            storage: match shard.store.partial {
                true => Storage::SharedCache,
                false => Storage::FullCopy,
            },
            snapshot_uuid: shard.store.snapshot_uuid.clone(),
            snapshot_index: shard.store.index.clone(),
            index_uuid: shard.store.index_uuid.clone(),
            splits,
        }
    }

    fn shared_cache_stats(&self) -> Result<SharedCacheStats> {
        let stats = self.mounts.regions()?.stats();
        let (open_splits, open_bytes) = self.mounts.open_usage();
        let kinds = PartKind::ALL.into_iter().map(|kind| {
            let own = stats.kind(kind);
            let cached = CachedKind {
                requested_bytes: own.requested_bytes,
                hit_bytes: own.hit_bytes,
                missed_bytes: own.missed_bytes,
                fetched_bytes: own.fetched_bytes,
                cached_bytes: own.cached_bytes,
                evicted_bytes: own.evicted_bytes,
            };
            (kind.name(), cached)
        });
        Ok(SharedCacheStats {
            size_bytes: stats.size_bytes,
            used_bytes: stats.used_bytes,
            pinned_bytes: stats.pinned_bytes,
            region_bytes: firn_storage::regions::REGION_BYTES,
            regions: stats.regions,
            regions_max: stats.regions_max,
            reads: stats.disk_reads,
            read_bytes: stats.disk_read_bytes,
            writes: stats.disk_writes,
            written_bytes: stats.disk_write_bytes,
            evictions: stats.evictions,
            store_requests: stats.store_requests,
            joined: stats.joined,
            damaged_pages: stats.damaged_pages + stats.store_damaged,
            bypassed_bytes: stats.bypassed_bytes,
            kinds: kinds.collect(),
            open_splits,
            open_bytes,
        })
    }
}

#[async_trait]
impl SearchableSnapshots for Embedded {
    async fn mount_snapshot(&self, ctx: &RequestContext, request: MountSnapshot) -> Result<Mounted> {
        self.core.check_open()?;
        check_operator(ctx)?;
        let core = Arc::clone(&self.core);
        let io = core.io()?.clone();
        let snapshot = request.snapshot.clone();
        let planned = io.spawn(async move { core.plan_mount(&request).await }).await;
        let planned = planned.unwrap_or_else(|_| Err(panicked()))?;
        let Planned {
            command,
            manifest,
            _used,
            _reading,
        } = planned;
        let index = command.name.clone();
        // Queued now, so that it is stored together with commands that already wait.
        let queued = self.core.queue_command(Command::MountIndex(Box::new(command)));
        let core = Arc::clone(&self.core);
        run_on(&self.core.maintenance_pool, ctx, move || core.finish_command(queued)).await?;
        let ahead = Arc::clone(&self.core).bring_footers(index.clone());
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
        let (core, its) = (Arc::clone(&self.core), ctx.clone());
        run_on(&self.core.get_pool, ctx, move || {
            let shards = core.mounted_of(&its, &target)?;
            Ok(shards.iter().map(|shard| core.mounted_stats(shard)).collect())
        })
        .await
    }

    async fn shared_cache_stats(&self, ctx: &RequestContext) -> Result<Option<SharedCacheStats>> {
        check_operator(ctx)?;
        match self.core.mounts.regions().is_ok() {
            true => self.core.shared_cache_stats().map(Some),
            false => Ok(None),
        }
    }

    async fn pin_shared_cache(
        &self,
        ctx: &RequestContext,
        target: IndexTarget,
        pinned: bool,
    ) -> Result<Vec<(String, u64)>> {
        self.core.check_open()?;
        check_operator(ctx)?;
        self.core.mounts.regions()?;
        let (core, its) = (Arc::clone(&self.core), ctx.clone());
        run_on(&self.core.maintenance_pool, ctx, move || {
            core.pin_shared_cache(&its, &target, pinned)
        })
        .await
    }

    fn set_shared_cache_quota(&self, tenant: &TenantId, bytes: Option<u64>) {
        if let Ok(regions) = self.core.mounts.regions() {
            regions.set_quota(tenant, bytes);
        }
    }

    async fn clear_shared_cache(&self, ctx: &RequestContext, target: IndexTarget) -> Result<ShardsOutcome> {
        check_operator(ctx)?;
        let (core, its) = (Arc::clone(&self.core), ctx.clone());
        run_on(&self.core.get_pool, ctx, move || {
            let shards = core.mounted_of(&its, &target)?;
            let partial: Vec<_> = shards.into_iter().filter(|shard| shard.store.partial).collect();
            core.clear_regions_of(&partial)?;
            Ok(ShardsOutcome {
                total: partial.len() as u32,
                successful: partial.len() as u32,
                failures: Vec::new(),
            })
        })
        .await
    }
}
