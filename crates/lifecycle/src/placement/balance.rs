//! Load of shards, and its balance.

use super::TenantVolume;

/// Distribution of load over shards.
#[derive(Debug, Clone, PartialEq)]
pub struct Balance {
    /// By shard number.
    pub shards: Vec<ShardLoad>,
    /// Load of the fullest shard divided by the mean; 1 is even.
    pub max_over_mean: f64,
    /// The same ratio, of bytes alone.
    pub bytes_max_over_mean: f64,
    /// The same ratio, of the cost of searches alone.
    pub search_max_over_mean: f64,
}

/// Load of one shard.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShardLoad {
    /// Its part of all load, 0 to 1, weighed as in [`crate::placement::Proposal::weighed_by`].
    pub share: f64,
    /// Bytes.
    pub bytes: f64,
    /// Cost of searches.
    pub search_cost: f64,
    /// Tenants, completely or in part.
    pub tenants: usize,
}

/// Minimum CPU time of all searches together, in microseconds, to be considered. It counts from the start of a process:
/// without the minimum, a few milliseconds soon after a start would make half of all load of the first tenant with a
/// search.
pub(super) const SEARCH_COST_MIN: u64 = 10_000_000;

/// Part of each tenant in the total.
pub(super) struct Shares {
    /// Part of all load, 0 to 1: half by bytes, half by the cost of searches. If the searches took less than
    /// [`SEARCH_COST_MIN`], by bytes alone; if there are no bytes, by searches alone. If there is neither, all tenants
    /// have the same weight.
    pub(super) load: Vec<f64>,
    /// Part of all bytes, 0 to 1.
    pub(super) bytes: Vec<f64>,
    /// What the load was weighed by.
    pub(super) by: &'static str,
}

pub(super) fn shares(volumes: &[TenantVolume]) -> Shares {
    let part = |of: &dyn Fn(&TenantVolume) -> u64| -> Vec<f64> {
        let all: f64 = volumes.iter().map(|volume| of(volume) as f64).sum();
        let all = if all > 0.0 { all } else { 1.0 };
        volumes.iter().map(|volume| of(volume) as f64 / all).collect()
    };
    let bytes = part(&|volume| volume.bytes);
    let searches = part(&|volume| volume.search_cost);
    let search_cost = volumes
        .iter()
        .fold(0u64, |sum, volume| sum.saturating_add(volume.search_cost));
    let has_bytes = volumes.iter().any(|volume| volume.bytes > 0);
    let (load, by) = match (has_bytes, search_cost >= SEARCH_COST_MIN) {
        (true, true) => {
            let halves = bytes
                .iter()
                .zip(&searches)
                .map(|(bytes, searches)| (bytes + searches) / 2.0);
            (halves.collect(), "by bytes and search time")
        }
        (true, false) => (bytes.clone(), "by bytes"),
        (false, true) => (searches, "by search time"),
        (false, false) => (vec![1.0 / volumes.len() as f64; volumes.len()], "by number"),
    };
    Shares { load, bytes, by }
}

/// Measures the load of shards; a tenant on several shards fills them evenly.
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
