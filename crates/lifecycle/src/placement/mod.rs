//! Placement proposals: from measured volumes to a placement table that balances shards.
//!
//! Pure: input are the volumes and the present table, output is a proposal with its reasons. It starts from the present
//! placement and moves as few tenants as possible, the heaviest first, because searches of a moved tenant read two
//! shards until its older indices are deleted. It never makes the fullest shard fuller.

mod balance;
mod bin_packing;
#[cfg(test)]
mod tests;

use firn_model::placement::Placement;

pub use self::balance::{Balance, ShardLoad};
pub use self::bin_packing::propose;

/// Measured volume of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantVolume {
    /// Its name: the value of the tenant field.
    pub tenant: String,
    /// Its documents.
    pub documents: u64,
    /// Its bytes on disk.
    pub bytes: u64,
    /// Time of its searches so far, microseconds.
    pub search_cost: u64,
}

/// Proposed table with its reasons.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// For indices created from then on.
    pub placement: Placement,
    /// Moved tenants, the heaviest first.
    pub moves: Vec<Move>,
    /// Text: what tenants were weighed by, and why if searches did not count.
    pub weighed_by: String,
    /// Load of shards with the present table.
    pub before: Balance,
    /// Load of shards with the proposed table.
    pub after: Balance,
}

/// Move of a tenant to other shards.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// The tenant.
    pub volume: TenantVolume,
    /// Its part of all load, 0 to 1.
    pub share: f64,
    /// Its shards with the present table.
    pub from: Vec<u32>,
    /// Its shards with the proposed one.
    pub to: Vec<u32>,
    /// Reason as text.
    pub reason: String,
}
