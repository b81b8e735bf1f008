//! Get and multi-get: reading documents by id.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_engine::RequestContext;
use firn_engine::document::{GetRequest, GetResult, StoredDocument};
use firn_model::metadata::resolve;
use firn_model::names::IndicesOptions;
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::{IndexTarget, SearchRequest};
use firn_scheduler::yield_now;
use firn_search::{Memory, search_page};
use serde_json::json;

use super::addressing::{foreign_routing, restriction};
use super::can_match::CanMatch;
use super::search_service::SearchService;
use super::searching::{on_search_pool, until_dropped};
use crate::bulk::{Located, locate, shard_of_id};
use crate::mounts::MountedShard;
use crate::node::pools::{panicked, run_on};
use crate::node::state::{IndexState, ShardSlot, for_readers};

/// Rough size of a result without its source, bytes.
const RESULT_BYTES: usize = 256;
/// Copies of a source in memory: as read, and in the answer.
const COPIES: usize = 2;

/// Whether this pass may read documents of mounted indices and of shards that are being opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mounted {
    Read,
    SampledOut,
}

/// Returns one result per request, in order. Documents of mounted indices are read on the search pool: a slow remote
/// store does not delay local documents, and the read ends when the future is dropped.
pub(super) async fn get_all(
    searches: &Arc<SearchService>,
    ctx: &RequestContext,
    requests: Vec<GetRequest>,
) -> Result<Vec<Result<GetResult>>> {
    let requests: Arc<[GetRequest]> = requests.into();
    let ctx = &RequestContext {
        cancel: ctx.cancel.part(),
        ..ctx.clone()
    };
    let (shared, its, all) = (Arc::clone(searches), ctx.clone(), Arc::clone(&requests));
    let limits = searches.search_limits();
    let memory = Memory::new(limits.memory_bytes_max, limits.node_memory, ctx.cancel.clone());
    let counted = memory.clone();
    let here = move || shared.get_some(&its, all.iter(), Mounted::SampledOut, &counted);
    let mut results = until_dropped(&ctx.cancel, run_on(&searches.pools.get, ctx, here)).await?;
    let far: Vec<usize> = (0..results.len()).filter(|place| results[*place].is_none()).collect();
    if !far.is_empty() {
        let places = far.clone();
        let read = move |searches: &SearchService, ctx: &RequestContext| {
            let wanted = places.iter().map(|place| &requests[*place]);
            searches.get_some(ctx, wanted, Mounted::Read, &memory)
        };
        let read = until_dropped(&ctx.cancel, on_search_pool(searches, ctx, read)).await?;
        for (place, result) in far.into_iter().zip(read) {
            results[place] = result;
        }
    }
    let results = results.into_iter();
    Ok(results
        .map(|result| result.unwrap_or_else(|| Err(panicked())))
        .collect())
}

impl SearchService {
    /// Returns one result per request, in order; `None`: a document of a mounted index that was left out. Fails as a
    /// whole with [`ErrorKind::CircuitBreaking`] if the documents exceed the memory of one request.
    fn get_some<'a>(
        &self,
        ctx: &RequestContext,
        requests: impl Iterator<Item = &'a GetRequest>,
        mounted: Mounted,
        memory: &Memory,
    ) -> Result<Vec<Option<Result<GetResult>>>> {
        let mut results = Vec::new();
        for request in requests {
            yield_now();
            memory.take(RESULT_BYTES)?;
            let result = self.get_one(ctx, request, mounted);
            if let Ok(Some(GetResult { found: Some(found), .. })) = &result {
                memory.take(COPIES * found.source.len())?;
            }
            results.push(result.transpose());
        }
        Ok(results)
    }

    fn get_one(&self, ctx: &RequestContext, request: &GetRequest, mounted: Mounted) -> Result<Option<GetResult>> {
        let state = self.node.state();
        let view = self.node.view(&state, &ctx.scope);
        let options = IndicesOptions {
            allow_no_indices: false,
            ..IndicesOptions::default()
        };
        let expression = [request.index.clone()];
        let mut resolved = resolve(&expression, options, &view, self.node.now_ms())?;
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
        if slot.recovery.is_closed() && mounted == Mounted::SampledOut {
            return Ok(None);
        }
        self.gates.wait_for_recovery(ctx, slot)?;
        let far = slot.mounted();
        if far.is_some() && mounted == Mounted::SampledOut {
            return Ok(None);
        }
        slot.counters.get_total.fetch_add(1, Ordering::Relaxed);
        let key = located.key.as_deref().unwrap_or(&request.id);
        let found = match far {
            Some(shard) => self.get_mounted(ctx, index, slot, &shard, &request.id)?,
            None => slot
                .on_shard(|shard| shard.get(key, request.realtime))
                .map_err(for_readers)?,
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
        Ok(Some(GetResult {
            index: index.name.to_string(),
            id: request.id.clone(),
            found,
        }))
    }

    /// Reads a document of a mounted index.
    pub(super) fn get_mounted(
        &self,
        ctx: &RequestContext,
        index: &IndexState,
        slot: &ShardSlot,
        shard: &Arc<MountedShard>,
        id: &str,
    ) -> Result<Option<StoredDocument>> {
        let tenant = restriction(ctx, index).flatten();
        let body = json!({
            "query": {"ids": {"values": [id]}}, "size": 1, "version": true, "seq_no_primary_term": true,
            "track_total_hits": false,
        });
        let mut request = SearchRequest::parse(IndexTarget::default(), Some(&body))?;
        let conditions = self.conditions(ctx, index, &[], Some(CanMatch::of(&request)), self.node.now_ms());
        let opened = self
            .mounts
            .open_mounted(&[(Arc::clone(shard), Arc::new(conditions))], ctx.waiting())?;
        let opened = opened.into_iter().next().ok_or_else(panicked)??;
        let Some(snapshot) = opened.snapshot else {
            return Ok(None);
        };
        request.allow_partial_results = false;
        let search = self.shard_search(index, slot, snapshot, &[], tenant);
        let limits = self.search_limits();
        let (response, _) = search_page(
            vec![Ok(search)],
            Arc::new(request),
            &self.pools.search,
            ctx,
            self.node.now_ms(),
            limits,
            None,
        )?;
        Ok(response.hits.into_iter().next().map(|hit| StoredDocument {
            source: hit.source.unwrap_or_default(),
            version: hit.version.unwrap_or(1),
            seq_no: hit.seq_no.map_or(0, |(seq_no, _)| seq_no),
            primary_term: hit.seq_no.map_or(1, |(_, term)| term),
            routing: hit.routing,
            ignored: hit.ignored,
        }))
    }
}

/// Locates a document.
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
