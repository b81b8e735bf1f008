//! Where tenants should lie: from measured volumes to a placement table that balances shards.
//!
//! Pure: volumes and the present table come in, a proposal with its reasons goes out. It starts from
//! what is and moves as few tenants as balance asks for, the heaviest first, because every tenant that
//! moves is asked for in two shards until its older indices are gone. It never makes the fullest shard
//! fuller.

mod balance;
mod pack;
#[cfg(test)]
mod tests;

use firn_model::placement::Placement;

pub use self::balance::{Balance, ShardLoad};
pub use self::pack::propose;

/// What a tenant weighs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantVolume {
    /// Its name: the value of the tenant field.
    pub tenant: String,
    /// Its documents.
    pub documents: u64,
    /// Its bytes on disk.
    pub bytes: u64,
    /// Time that its searches took so far, microseconds.
    pub search_cost: u64,
}

/// A table, and what speaks for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// For indices that are made from then on.
    pub placement: Placement,
    /// Tenants that lie elsewhere than before, the heaviest first.
    pub moves: Vec<Move>,
    /// What tenants were weighed by, and why if searches did not count, in words.
    pub weighed_by: String,
    /// Shards as they would fill with the present table.
    pub before: Balance,
    /// Shards as they fill with the proposed one.
    pub after: Balance,
}

/// A tenant that lies elsewhere than before.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// Who.
    pub volume: TenantVolume,
    /// Its part of all load, 0 to 1.
    pub share: f64,
    /// Its shards with the present table.
    pub from: Vec<u32>,
    /// Its shards with the proposed one.
    pub to: Vec<u32>,
    /// In words.
    pub reason: String,
}
