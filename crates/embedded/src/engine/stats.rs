//! Statistics of shards and of the node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_engine::RequestContext;
use firn_engine::admin::{IndexStats, NodeStats, ScrubStats, SegmentStats, ShardStats};
use firn_model::metadata::resolve;
use firn_model::{ErrorKind, Result};
use firn_query::search::IndexTarget;
use firn_search::{TenantRestriction, count_of_tenant};
use firn_segment::segment::Segment;

use super::addressing::restriction;
use super::services::Services;
use crate::mounts::MountedShard;
use crate::node::state::{IndexState, Served, ShardSlot};

impl Services {
    /// Returns the statistics of every shard of the target, by index name.
    pub(super) fn stats(&self, ctx: &RequestContext, target: &IndexTarget) -> Result<Vec<IndexStats>> {
        let state = self.node.state();
        let view = self.node.view(&state, &ctx.scope);
        let resolved = resolve(&target.expression, target.options, &view, self.node.now_ms())?;
        let mounted: Vec<_> = resolved
            .iter()
            .filter_map(|target| state.indices.get(&target.name))
            .flat_map(|index| index.shards.iter().filter_map(|slot| slot.mounted()))
            .collect();
        // An unreadable manifest is reported per shard.
        let _ = self
            .mounts
            .learn_manifests(&mounted.iter().collect::<Vec<_>>(), &ctx.cancel)?;
        let mut indices: Vec<IndexStats> = resolved
            .iter()
            .filter_map(|target| state.indices.get(&target.name))
            .map(|index| {
                let shards = index.shards.iter().map(|slot| match restriction(ctx, index).flatten() {
                    Some(tenant) => share_of(slot, &tenant),
                    None => Ok(self.shard_stats(index, slot)),
                });
                Ok(IndexStats {
                    index: index.name.to_string(),
                    uuid: index.metadata.uuid.clone(),
                    shards: shards.collect::<Result<_>>()?,
                })
            })
            .collect::<Result<_>>()?;
        indices.sort_by(|left, right| left.index.cmp(&right.index));
        Ok(indices)
    }

    fn shard_stats(&self, index: &IndexState, slot: &Arc<ShardSlot>) -> ShardStats {
        let counters = &slot.counters;
        let ms = |counter: &AtomicU64| counter.load(Ordering::Relaxed) / 1000;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = ShardStats {
            shard: slot.number,
            tier: match index.metadata.settings.is_mounted() {
                true => self.node.factory.tier_of_mounted(&index.metadata),
                false => index.metadata.tier_of(slot.number),
            },
            max_seq_no: -1,
            indexing_time_ms: ms(&counters.index_us),
            search_total: count(&counters.search_total),
            search_time_ms: ms(&counters.search_us),
            open_contexts: count(&counters.scrolls.current) + count(&counters.points_in_time.current),
            scroll_current: count(&counters.scrolls.current),
            scroll_total: count(&counters.scrolls.total),
            scroll_time_ms: ms(&counters.scrolls.open_us),
            point_in_time_current: count(&counters.points_in_time.current),
            point_in_time_total: count(&counters.points_in_time.total),
            point_in_time_time_ms: ms(&counters.points_in_time.open_us),
            get_total: count(&counters.get_total),
            is_recovering: slot.recovery.is_closed(),
            request_cache: slot.cache_account.stats(),
            refresh_time_ms: ms(&counters.refresh_us),
            flush_time_ms: ms(&counters.flush_us),
            ..ShardStats::default()
        };
        let shard = match slot.served() {
            Ok(Served::Written(shard)) => shard,
            Ok(Served::Mounted(shard)) => {
                self.add_mounted(&mut stats, &shard);
                return stats;
            }
            // Closed indices need no serving shards, so a shard that does not serve is not a failure.
            Err(error) if index.metadata.closed && error.kind() == ErrorKind::IndexClosed => return stats,
            Err(error) => {
                stats.failure = Some(error.to_string());
                return stats;
            }
        };
        let numbers = shard.stats();
        let failure = shard.failure().or_else(|| shard.damage().pop().map(|(_, error)| error));
        stats.failure = failure.map(|error| error.to_string());
        stats.store_size_bytes = numbers.store_bytes;
        stats.data_set_size_bytes = numbers.store_bytes;
        stats.translog_size_bytes = numbers.wal_bytes;
        stats.translog_operations = numbers.wal_ops;
        stats.max_seq_no = numbers.max_seq_no.map_or(-1, |seq_no| seq_no as i64);
        stats.indexing_total = numbers.index_total;
        stats.delete_total = numbers.delete_total;
        stats.refresh_total = numbers.refresh_total;
        stats.flush_total = numbers.flush_total;
        stats.merge_total = numbers.merge_total;
        stats.merge_time_ms = numbers.merge_ms_total;
        stats.merge_current = numbers.merges_current;
        stats.buffered_doc_count = numbers.buffer_doc_count;
        stats.buffer_size_bytes = numbers.buffer_bytes;
        stats.segments = shard
            .snapshot()
            .segments
            .iter()
            .map(|segment| segment_stats(segment))
            .collect();
        if !shard.has_uncommitted() {
            // The flags in a snapshot are as old as the snapshot; a flush since then committed all segments.
            for segment in &mut stats.segments {
                segment.committed = true;
            }
        }
        if stats.open_contexts > 0 {
            let live: Vec<u64> = stats.segments.iter().map(|segment| segment.generation).collect();
            stats.held_size_bytes = self.contexts.held_bytes(slot, &live);
        }
        stats.segments.sort_by_key(|segment| segment.generation);
        // Counts what a search finds now; a refresh may be about to change it.
        stats.doc_count = stats.segments.iter().map(|segment| segment.doc_count).sum();
        stats.deleted_count = stats.segments.iter().map(|segment| segment.deleted_count).sum();
        stats
    }

    /// Adds the statistics from a manifest. As in Elasticsearch, a shard that is read through the shared cache has a
    /// store size of 0.
    fn add_mounted(&self, stats: &mut ShardStats, shard: &MountedShard) {
        let Some(segments) = shard.segments().filter(|segments| !segments.missing) else {
            stats.failure = Some(format!(
                "the snapshot [{}:{}] cannot be read, or lacks the shard",
                shard.store.repository, shard.store.snapshot
            ));
            return;
        };
        for (number, segment) in (0..).zip(&segments.segments) {
            let deleted = segment.deletes.as_ref().map_or(0, |deletes| deletes.count);
            let own = SegmentStats {
                name: format!("_{number}"),
                generation: number,
                doc_count: u64::from(segment.split.docs - deleted.min(segment.split.docs)),
                deleted_count: u64::from(deleted),
                size_bytes: segment.split.len,
                committed: true,
                time_range_ms: segment.split.time_range_ms,
            };
            stats.doc_count += own.doc_count;
            stats.deleted_count += own.deleted_count;
            stats.data_set_size_bytes += own.size_bytes;
            let last = i64::try_from(segment.split.seq_no_range.1).unwrap_or(i64::MAX);
            stats.max_seq_no = stats.max_seq_no.max(last);
            stats.segments.push(own);
        }
        stats.store_size_bytes = match shard.store.partial {
            true => 0,
            false => self.mounts.local_bytes(shard),
        };
    }

    /// Returns the statistics of the node. Cheap.
    pub(super) fn node_stats(&self) -> NodeStats {
        let space = self.devices.hot.space();
        let search = self.pools.search.stats();
        let write = self.pools.write.stats();
        let (tripped, each_tripped) = self.searches.memory.tripped();
        NodeStats {
            search_memory_bytes: self.searches.memory.used(),
            search_memory_limit_bytes: self.node.config.search_memory_bytes_max_total,
            search_memory_each_limit_bytes: self.node.config.search_memory_bytes_max,
            search_memory_tripped: tripped,
            search_memory_each_tripped: each_tripped,
            disk_total_bytes: space.total_bytes,
            disk_available_bytes: space.available_bytes,
            write_block: self.devices.hot.block_reason(),
            search_active: search.active,
            search_queued: search.queued,
            search_rejected: search.rejected,
            search_completed: search.completed,
            search_threads: search.threads,
            write_active: write.active,
            write_queued: write.queued,
            write_rejected: write.rejected + self.writes.pressure.rejected(),
            write_completed: write.completed,
            write_threads: write.threads,
            write_bytes_in_flight: self.writes.pressure.bytes(),
            scrub: ScrubStats {
                bytes: self.scrub.bytes.load(Ordering::Relaxed),
                passes: self.scrub.passes.load(Ordering::Relaxed),
                last_pass_ms: self.scrub.last_pass_ms.load(Ordering::Relaxed),
                damaged: self.snapshots.damage.found.load(Ordering::Relaxed),
                repaired: self.snapshots.damage.repaired.load(Ordering::Relaxed),
            },
        }
    }
}

/// Returns the statistics of a tenant's documents in a shard: their number, and an estimate of their bytes: their
/// share, by number, of the segments they are in.
fn share_of(slot: &ShardSlot, tenant: &TenantRestriction) -> Result<ShardStats> {
    let mut stats = ShardStats {
        shard: slot.number,
        max_seq_no: -1,
        ..ShardStats::default()
    };
    let shard = match slot.served() {
        Ok(Served::Written(shard)) => shard,
        Ok(Served::Mounted(shard)) => {
            let segments = shard.segments().map_or(&[][..], |segments| &segments.segments);
            let own = segments.iter().filter_map(|segment| {
                let part = segment.split.tenant(tenant.tenant.as_str())?;
                Some((segment, u64::from(part.docs)))
            });
            for (segment, docs) in own {
                stats.doc_count += docs;
                let part = u128::from(segment.split.len) * u128::from(docs);
                stats.data_set_size_bytes += (part / u128::from(segment.split.docs.max(1))) as u64;
            }
            // How much of it is cached on this node depends on other tenants.
            stats.store_size_bytes = match shard.store.partial {
                true => 0,
                false => stats.data_set_size_bytes,
            };
            return Ok(stats);
        }
        Err(error) => {
            stats.failure = Some(error.to_string());
            stats.is_recovering = slot.recovery.is_closed();
            return Ok(stats);
        }
    };
    if let Some((_, error)) = shard.damage().pop() {
        stats.failure = Some(error.to_string());
        return Ok(stats);
    }
    for segment in &shard.snapshot().segments {
        let own = count_of_tenant(segment, tenant)?;
        stats.doc_count += own;
        stats.store_size_bytes +=
            (u128::from(segment.size_bytes) * u128::from(own) / u128::from(segment.max_doc.max(1))) as u64;
    }
    stats.data_set_size_bytes = stats.store_size_bytes;
    Ok(stats)
}

fn segment_stats(segment: &Segment) -> SegmentStats {
    SegmentStats {
        name: format!("_{}", segment.generation),
        generation: segment.generation,
        doc_count: u64::from(segment.max_doc - segment.deleted_count),
        deleted_count: u64::from(segment.deleted_count),
        size_bytes: segment.size_bytes,
        committed: segment.committed,
        time_range_ms: segment.time_range_ms,
    }
}
