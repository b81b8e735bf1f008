//! Reading documents by id.

use std::sync::atomic::Ordering;

use firn_engine::document::{GetRequest, GetResult};
use firn_model::names::{IndicesOptions, resolve};
use firn_model::{Error, ErrorKind, Result};

use super::Core;
use crate::bulk::shard_of_id;

impl Core {
    /// One result per request, in their order.
    pub(super) fn get_all(&self, requests: &[GetRequest]) -> Vec<Result<GetResult>> {
        requests.iter().map(|request| self.get_one(request)).collect()
    }

    fn get_one(&self, request: &GetRequest) -> Result<GetResult> {
        let state = self.state();
        let options = IndicesOptions {
            allow_no_indices: false,
            ..IndicesOptions::default()
        };
        let expression = [request.index.clone()];
        let mut resolved = resolve(&expression, options, &state.metadata, self.now_ms())?;
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
        let number = match routing {
            Some(routing) => index.metadata.shard_of_routed_id(routing, &request.id, index.tag),
            None if index.metadata.mapping.routing_required => {
                return Err(Error::new(
                    ErrorKind::RoutingMissing,
                    format!("routing is required for [{}]/[{}]", index.name, request.id),
                )
                .with_index(&*index.name));
            }
            None => shard_of_id(&request.id, index),
        };
        let slot = &index.shards[number as usize];
        slot.counters.get_total.fetch_add(1, Ordering::Relaxed);
        let found = slot.shard()?.get(&request.id, request.realtime)?;
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
