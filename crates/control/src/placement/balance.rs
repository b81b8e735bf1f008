//! How full shards are, and how evenly.

use super::TenantVolume;

/// How load lies on shards.
#[derive(Debug, Clone, PartialEq)]
pub struct Balance {
    /// By shard number.
    pub shards: Vec<ShardLoad>,
    /// The load of the fullest shard over that of the mean one; 1 is even.
    pub max_over_mean: f64,
    /// The same of bytes alone.
    pub bytes_max_over_mean: f64,
    /// The same of the cost of searches alone.
    pub search_max_over_mean: f64,
}

/// What lies on one shard.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShardLoad {
    /// Its part of all load, 0 to 1: half of it by bytes, half by the cost of searches.
    pub share: f64,
    /// Bytes.
    pub bytes: f64,
    /// Cost of searches.
    pub search_cost: f64,
    /// Tenants, in whole or in part.
    pub tenants: usize,
}

/// The part of all load that each tenant is, 0 to 1: half of it by bytes, half by the cost of searches;
/// by bytes alone where nothing was searched, and the other way round. Where there is nothing at all
/// everybody weighs the same.
pub(super) fn shares(volumes: &[TenantVolume]) -> Vec<f64> {
    let bytes: f64 = volumes.iter().map(|volume| volume.bytes as f64).sum();
    let searches: f64 = volumes.iter().map(|volume| volume.search_cost as f64).sum();
    let of = |part: u64, all: f64| if all > 0.0 { part as f64 / all } else { 0.0 };
    let measures = f64::from(u8::from(bytes > 0.0) + u8::from(searches > 0.0));
    volumes
        .iter()
        .map(|volume| match measures > 0.0 {
            true => (of(volume.bytes, bytes) + of(volume.search_cost, searches)) / measures,
            false => 1.0 / volumes.len() as f64,
        })
        .collect()
}

/// How tenants fill shards; a tenant on several fills them evenly.
pub(super) fn measure(volumes: &[TenantVolume], shares: &[f64], places: &[Vec<u32>], shard_count: u32) -> Balance {
    let mut shards = vec![ShardLoad::default(); shard_count as usize];
    for ((volume, share), place) in volumes.iter().zip(shares).zip(places) {
        let parts = place.len() as f64;
        for number in place {
            let shard = &mut shards[*number as usize];
            shard.share += share / parts;
            shard.bytes += volume.bytes as f64 / parts;
            shard.search_cost += volume.search_cost as f64 / parts;
            shard.tenants += 1;
        }
    }
    let ratio = |load: &dyn Fn(&ShardLoad) -> f64| {
        let sum: f64 = shards.iter().map(load).sum();
        let max = shards.iter().map(load).fold(0.0, f64::max);
        if sum > 0.0 {
            max * shards.len() as f64 / sum
        } else {
            1.0
        }
    };
    Balance {
        max_over_mean: ratio(&|shard| shard.share),
        bytes_max_over_mean: ratio(&|shard| shard.bytes),
        search_max_over_mean: ratio(&|shard| shard.search_cost),
        shards,
    }
}
