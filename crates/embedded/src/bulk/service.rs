//! Service of writes: what a bulk needs.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::pressure::Pressure;
use crate::engine::commands::CommandService;
use crate::merge_schedule::MergeService;
use crate::node::Node;
use crate::node::pools::Pools;
use crate::node::recovery_gates::RecoveryGates;
use crate::positions::SourcePositions;
use crate::tiers::Devices;

/// Writes of documents.
pub(crate) struct WriteService {
    pub(crate) node: Arc<Node>,
    pub(crate) pools: Arc<Pools>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) gates: Arc<RecoveryGates>,
    pub(crate) commands: Arc<CommandService>,
    pub(crate) merges: Arc<MergeService>,
    pub(crate) pressure: Arc<Pressure>,
    pub(crate) positions: Arc<SourcePositions>,
    /// Picks the shard of documents with a generated id.
    pub(crate) next_shard: AtomicU64,
}
