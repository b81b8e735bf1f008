//! Statistics of the devices of a node.

use std::collections::BTreeMap;

use firn_engine::admin::DeviceStats;
use firn_model::tier::Tier;

use super::services::Services;

impl Services {
    /// Returns the statistics of every device, starting with the hot one.
    pub(crate) fn device_stats(&self) -> Vec<DeviceStats> {
        let mut used: BTreeMap<Tier, (u64, u64)> = BTreeMap::new();
        let state = self.node.state();
        for (index, slot) in state.written_slots() {
            let (shards, bytes) = used.entry(index.metadata.tier_of(slot.number)).or_default();
            *shards += 1;
            if let Ok(shard) = slot.shard() {
                let stats = shard.stats();
                *bytes += stats.store_bytes + stats.wal_bytes;
            }
        }
        for (index, slot) in state
            .mounted_slots()
            .filter(|(index, _)| !index.metadata.settings.is_frozen())
        {
            let (shards, bytes) = used
                .entry(self.node.factory.tier_of_mounted(&index.metadata))
                .or_default();
            *shards += 1;
            *bytes += slot.mounted().map_or(0, |shard| self.mounts.local_bytes(&shard));
        }
        let device = |tier| {
            let watch = self.devices.watch(tier)?;
            let path = match tier {
                Tier::Hot => &self.node.config.path_data,
                tier => self.node.config.tiers.of(tier)?,
            };
            let (shards, shard_bytes) = used.get(&tier).copied().unwrap_or_default();
            Some(DeviceStats {
                tier,
                path: path.display().to_string(),
                total_bytes: watch.space().total_bytes,
                available_bytes: watch.space().available_bytes,
                shards,
                shard_bytes,
                write_block: watch.block_reason(),
            })
        };
        Tier::ALL.into_iter().filter_map(device).collect()
    }
}
