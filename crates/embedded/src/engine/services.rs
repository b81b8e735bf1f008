//! Services of one node, as [`super::open`] connects them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use super::commands::CommandService;
use super::contexts::Contexts;
use super::metadata_copies::MetadataCopies;
use super::quarantine_service::QuarantineService;
use super::search_service::SearchService;
use super::shard_opener::ShardOpener;
use crate::bulk::service::WriteService;
use crate::lock::NodeLock;
use crate::mounts::MountService;
use crate::node::Node;
use crate::node::pools::Pools;
use crate::node::recovery_gates::RecoveryGates;
use crate::positions::SourcePositions;
use crate::scrub::Scrub;
use crate::snapshots::Repositories;
use crate::snapshots::service::SnapshotService;
use crate::ticker::Upkeep;
use crate::tiers::Devices;
use crate::tiers::relocations::Relocations;

/// All services. They depend on each other in the order of the fields.
pub(crate) struct Services {
    pub(crate) node: Arc<Node>,
    pub(crate) pools: Arc<Pools>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) gates: Arc<RecoveryGates>,
    pub(crate) repositories: Arc<Repositories>,
    pub(crate) mounts: Arc<MountService>,
    pub(crate) contexts: Arc<Contexts>,
    pub(crate) commands: Arc<CommandService>,
    pub(crate) opener: Arc<ShardOpener>,
    pub(crate) relocations: Arc<Relocations>,
    pub(crate) scrub: Arc<Scrub>,
    pub(crate) snapshots: Arc<SnapshotService>,
    pub(crate) metadata_copies: Arc<MetadataCopies>,
    pub(crate) quarantine: Arc<QuarantineService>,
    pub(crate) searches: Arc<SearchService>,
    pub(crate) positions: Arc<SourcePositions>,
    pub(crate) writes: Arc<WriteService>,
    pub(crate) upkeep: Arc<Upkeep>,
    /// Held until the engine is closed or dropped.
    pub(crate) lock: Mutex<Option<NodeLock>>,
    /// The engine was closed while a merge was still running.
    pub(crate) merges_left_behind: AtomicBool,
}
