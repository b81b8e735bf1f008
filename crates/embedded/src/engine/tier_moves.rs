//! Tiers API: the devices of the node, and the shards that are to move between them.

use std::sync::Arc;

use async_trait::async_trait;
use firn_engine::RequestContext;
use firn_engine::admin::DeviceStats;
use firn_engine::tiers::{ShardMove, Tiers};
use firn_model::Result;
use firn_model::metadata::resolve;
use firn_query::search::IndexTarget;

use super::Embedded;
use super::services::Services;
use crate::node::pools::run_on;
use crate::node::state::Served;

#[async_trait]
impl Tiers for Embedded {
    async fn devices(&self, _ctx: &RequestContext) -> Result<Vec<DeviceStats>> {
        Ok(self.services.device_stats())
    }

    async fn moves(&self, ctx: &RequestContext, target: IndexTarget) -> Result<Vec<ShardMove>> {
        let (services, its) = (Arc::clone(&self.services), ctx.clone());
        run_on(&self.services.pools.get, ctx, move || services.moves(&its, &target)).await
    }
}

impl Services {
    /// Returns the moves of the target's shards, by index and number.
    fn moves(&self, ctx: &RequestContext, target: &IndexTarget) -> Result<Vec<ShardMove>> {
        let state = self.node.state();
        let view = self.node.view(&state, &ctx.scope);
        let resolved = resolve(&target.expression, target.options, &view, self.node.now_ms())?;
        let mut moves = Vec::new();
        for index in resolved.iter().filter_map(|target| state.indices.get(&target.name)) {
            for slot in index.shards.iter() {
                let Some(to) = self.relocations.move_of(index, slot.number) else {
                    continue;
                };
                let waits_for = match slot.served() {
                    Ok(Served::Written(shard)) => self.relocations.why_not_moved(slot, &shard, to),
                    Ok(Served::Mounted(_)) | Err(_) => None,
                };
                moves.push(ShardMove {
                    index: index.name.to_string(),
                    shard: slot.number,
                    to,
                    waits_for,
                });
            }
        }
        moves.sort_by(|left, right| (&left.index, left.shard).cmp(&(&right.index, right.shard)));
        Ok(moves)
    }
}
