//! Tiers of a node: its devices, and the moves of shards between them.

use async_trait::async_trait;
use firn_model::Result;
use firn_model::tier::Tier;
use firn_query::search::IndexTarget;

use crate::RequestContext;
use crate::admin::DeviceStats;

/// Shard whose files are to move to another tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardMove {
    /// Index name.
    pub index: String,
    /// Shard number.
    pub shard: u32,
    /// Tier that the files are to move to.
    pub to: Tier,
    /// Why the move cannot run now, as text; `None`: it can.
    pub waits_for: Option<String>,
}

/// Operations of an engine that keeps shards on devices of several tiers.
#[async_trait]
pub trait Tiers: Send + Sync {
    /// Returns the data paths of this node, starting with the hot one.
    async fn devices(&self, ctx: &RequestContext) -> Result<Vec<DeviceStats>>;

    /// Returns the shards of the target that are to move to another tier, by index and number.
    async fn moves(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Vec<ShardMove>>;
}
