//! Reading documents by id.

use std::sync::atomic::Ordering;

use firn_engine::RequestContext;
use firn_engine::document::{GetRequest, GetResult};
use firn_model::names::{IndicesOptions, resolve};
use firn_model::{Error, ErrorKind, Result};

use super::Core;
use super::searching::foreign_routing;
use super::state::IndexState;
use crate::bulk::{Located, locate, shard_of_id};

impl Core {
    /// One result per request, in their order.
    pub(super) fn get_all(&self, ctx: &RequestContext, requests: &[GetRequest]) -> Vec<Result<GetResult>> {
        let one = |request| self.get_one(ctx, request).map_err(|error| ctx.tell(error));
        requests.iter().map(one).collect()
    }

    fn get_one(&self, ctx: &RequestContext, request: &GetRequest) -> Result<GetResult> {
        let state = self.state();
        let view = self.view(&state, &ctx.scope);
        let options = IndicesOptions {
            allow_no_indices: false,
            ..IndicesOptions::default()
        };
        let expression = [request.index.clone()];
        let mut resolved = resolve(&expression, options, &view, self.now_ms())?;
        if resolved.len() > 1 {
            let names: Vec<_> = resolved.iter().map(|index| index.name.as_str()).collect();
            return Err(Error::illegal_argument(format!(
                "alias [{}] has more than one index associated with it [[{}]], can't execute a single index op",
                request.index,
                names.join(", ")
            )));
        }
        let resolved = resolved.pop().ok_or_else(|| Error::index_not_found(&request.index))?;
        let index = state.index(&resolved.name)?;
        let routing = request.routing.as_ref().or(resolved.routing.first());
        let located = find(ctx, index, routing.map(String::as_str), &request.id)?;
        let slot = &index.shards[located.shard as usize];
        slot.counters.get_total.fetch_add(1, Ordering::Relaxed);
        let key = located.key.as_deref().unwrap_or(&request.id);
        let found = match slot.mounted() {
            Some(shard) => self.get_mounted(ctx, index, slot, &shard, &request.id)?,
            None => slot.on_shard(|shard| shard.get(key, request.realtime))?,
        };
        if let (Some(wanted), Some(document)) = (request.version, &found)
            && wanted != document.version
        {
            return Err(Error::new(
                ErrorKind::VersionConflict,
                format!(
                    "[{}]: version conflict, current version [{}] is different than the one provided [{wanted}]",
                    request.id, document.version
                ),
            )
            .with_index(&*index.name));
        }
        Ok(GetResult {
            index: index.name.to_string(),
            id: request.id.clone(),
            found,
        })
    }
}

/// Where a document is.
fn find(ctx: &RequestContext, index: &IndexState, routing: Option<&str>, id: &str) -> Result<Located> {
    if index.metadata.settings.tenant_field.is_some() {
        let owner = match (ctx.scope.tenant_id(), routing) {
            (Some(tenant), Some(other)) if other != tenant.as_str() => {
                return Err(foreign_routing(other, tenant.as_str()));
            }
            (Some(tenant), _) => Some(tenant.as_str()),
            (None, routing) => routing,
        };
        return locate(index, owner, id);
    }
    let shard = match routing {
        Some(routing) => index.metadata.shard_of_routed_id(routing, id, index.tag),
        None if index.metadata.mapping.routing_required => {
            return Err(Error::new(
                ErrorKind::RoutingMissing,
                format!("routing is required for [{}]/[{id}]", index.name),
            )
            .with_index(&*index.name));
        }
        None => shard_of_id(id, index),
    };
    Ok(Located { shard, key: None })
}
