//! Service of snapshots: what its files, one for each kind of work, need.

use std::sync::Arc;

use super::damage_counters::DamageCounters;
use super::repositories::Repositories;
use crate::engine::commands::CommandService;
use crate::engine::shard_opener::ShardOpener;
use crate::mounts::MountService;
use crate::node::Node;
use crate::node::pools::Pools;
use crate::tiers::Devices;

/// Returns an error if a long task should stop.
pub(super) type GoOn<'a> = &'a dyn Fn() -> firn_model::Result<()>;

/// Snapshots, restores, rewrites, verifications and repairs.
pub(crate) struct SnapshotService {
    pub(crate) node: Arc<Node>,
    pub(crate) pools: Arc<Pools>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) repositories: Arc<Repositories>,
    pub(crate) mounts: Arc<MountService>,
    pub(crate) commands: Arc<CommandService>,
    pub(crate) opener: Arc<ShardOpener>,
    pub(crate) damage: DamageCounters,
}
