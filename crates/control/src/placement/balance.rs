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
    /// Its part of all load, 0 to 1, as [`super::Proposal::weighed_by`] says.
    pub share: f64,
    /// Bytes.
    pub bytes: f64,
    /// Cost of searches.
    pub search_cost: f64,
    /// Tenants, in whole or in part.
    pub tenants: usize,
}

/// CPU time of all searches together, in microseconds, from which on they count. It is counted from the start of a process: soon
/// after that a few milliseconds would make half of all load of whoever asked first.
pub(super) const SEARCH_COST_MIN: u64 = 10_000_000;

/// What part of everything each tenant is.
pub(super) struct Shares {
    /// Of all load, 0 to 1: half of it by bytes, half by the cost of searches; by bytes alone as long as those took less
    /// than [`SEARCH_COST_MIN`], and the other way round where there are none. Where there is nothing at all everybody weighs
    /// the same.
    pub(super) load: Vec<f64>,
    /// Of all bytes, 0 to 1.
    pub(super) bytes: Vec<f64>,
    /// What load was weighed by.
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
