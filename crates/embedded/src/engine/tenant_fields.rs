//! Mappings as tenants see them: declared fields, and those dynamic fields for which
//! the tenant's documents have values.

use std::sync::Arc;

use firn_engine::RequestContext;
use firn_model::mapping::Mapping;
use firn_model::metadata::Metadata;
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::SearchRequest;
use firn_search::{FailedShard, ShardSearch, TenantRestriction, search_page};
use firn_segment::segment::ShardSnapshot;

use super::addressed::Addressed;
use super::addressing::restriction;
use super::search_service::SearchService;
use crate::mounts::Conditions;
use crate::node::state::{IndexState, Served, ShardSlot};

fn fail_all(addressed: &mut [Addressed], error: &Error) {
    for shard in addressed {
        if let Ok(search) = &shard.search {
            shard.search = Err(FailedShard {
                index: search.snapshot.index.to_string(),
                shard: search.snapshot.shard,
                error: error.clone(),
            });
        }
    }
}

impl SearchService {
    /// Gives a tenant's searches the mapping of the tenant: any other field behaves as if it did not exist,
    /// for queries, for wildcards over fields and for errors.
    ///
    /// If segments were not opened because they hold no match, fields that only they have are unknown. The hits are the
    /// same, but the request must not be refused because of that, nor accepted because of it: whether a segment is
    /// opened depends on the values of other tenants. So if the request is refused with the known fields, or with all
    /// fields of the index, it is checked against all fields of the tenant.
    pub(super) fn narrow_mappings(
        &self,
        ctx: &RequestContext,
        addressed: &mut [Addressed],
        request: Option<&SearchRequest>,
        now_ms: i64,
    ) -> Result<()> {
        let mut shared: Option<Arc<SearchRequest>> = None;
        for of_index in addressed.chunk_by_mut(|left, right| left.uuid == right.uuid) {
            match self.narrow_mapping(ctx, of_index, request, &mut shared, now_ms) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
                // The fields of its documents cannot be read; other indices are not affected.
                Err(error) => fail_all(of_index, &error),
            }
        }
        Ok(())
    }

    /// Narrows the mapping for the shards of one index.
    fn narrow_mapping(
        &self,
        ctx: &RequestContext,
        of_index: &mut [Addressed],
        request: Option<&SearchRequest>,
        shared: &mut Option<Arc<SearchRequest>>,
        now_ms: i64,
    ) -> Result<()> {
        let searches = of_index.iter().filter_map(|shard| shard.search.as_ref().ok());
        let Some(first) = searches.clone().next() else {
            return Ok(());
        };
        let Some(restriction) = first.tenant.clone() else {
            return Ok(());
        };
        let whole = Arc::clone(&first.mapping);
        let snapshots: Vec<_> = searches.map(|search| Arc::clone(&search.snapshot)).collect();
        let state = self.node.state();
        // Not older than the mapping of the search; if another index has the name by now, no declared field is known.
        let index = state.index(&first.snapshot.index).ok();
        let index = index.filter(|index| index.metadata.uuid == *of_index[0].uuid);
        let declared = index.and_then(|index| index.metadata.declared_fields.as_deref());
        let mut narrowed = self
            .narrowed_mappings
            .of(&of_index[0].uuid, &whole, declared, &restriction, &snapshots)?;
        if of_index.iter().any(|shard| shard.is_part) {
            let request = request.map(|request| shared.get_or_insert_with(|| Arc::new(request.clone())));
            let is_fine = |mapping: &Arc<Mapping>| match &request {
                Some(request) => self.is_answered(ctx, first, mapping, request, now_ms),
                None => false,
            };
            if !(is_fine(&narrowed) && is_fine(&whole)) {
                narrowed = self.known_mapping(ctx, self.node.state().index(&first.snapshot.index)?)?;
            }
        }
        for search in of_index.iter_mut().filter_map(|shard| shard.search.as_mut().ok()) {
            search.mapping = Arc::clone(&narrowed);
        }
        Ok(())
    }

    /// Whether a search of an empty shard with this mapping succeeds.
    fn is_answered(
        &self,
        ctx: &RequestContext,
        shard: &ShardSearch,
        mapping: &Arc<Mapping>,
        request: &Arc<SearchRequest>,
        now_ms: i64,
    ) -> bool {
        let empty = ShardSearch {
            snapshot: Arc::new(shard.snapshot.without_segments()),
            mapping: Arc::clone(mapping),
            cache: None,
            ..shard.clone()
        };
        let ctx = RequestContext {
            progress: None,
            ..ctx.clone()
        };
        let limits = self.search_limits();
        let outcome = search_page(
            vec![Ok(empty)],
            Arc::clone(request),
            &self.pools.search,
            &ctx,
            now_ms,
            limits,
            None,
        );
        outcome.is_ok_and(|(response, _)| response.shards.failures.is_empty())
    }

    /// Returns the metadata that a scope may see, with narrowed mappings.
    pub(super) fn view_with_mappings(&self, ctx: &RequestContext) -> Result<Arc<Metadata>> {
        let state = self.node.state();
        let view = self.node.view(&state, &ctx.scope);
        if ctx.scope.tenant_id().is_none() {
            return Ok(view);
        }
        let mut known = Metadata::clone(&view);
        for name in view.indices.keys() {
            let Ok(state) = state.index(name) else { continue };
            let mapping = self.known_mapping(ctx, state)?;
            known.indices.change(name, |index| index.mapping = mapping);
        }
        Ok(Arc::new(known))
    }

    fn known_mapping(&self, ctx: &RequestContext, index: &IndexState) -> Result<Arc<Mapping>> {
        let whole = &index.metadata.mapping;
        let Some(Some(restriction)) = restriction(ctx, index) else {
            return Ok(Arc::new(Mapping::default()));
        };
        let shards = index.metadata.shards_of_routing(restriction.tenant.as_str());
        let shards = shards
            .into_iter()
            .filter_map(|number| index.shards.get(number as usize));
        let snapshots = self.snapshots_for(ctx, &restriction, shards)?;
        let declared = index.metadata.declared_fields.as_deref();
        self.narrowed_mappings
            .of(&index.metadata.uuid, whole, declared, &restriction, &snapshots)
    }

    /// Returns the snapshots a tenant may read; shards that do not serve are left out.
    fn snapshots_for<'a>(
        &self,
        ctx: &RequestContext,
        restriction: &TenantRestriction,
        shards: impl Iterator<Item = &'a Arc<ShardSlot>>,
    ) -> Result<Vec<Arc<ShardSnapshot>>> {
        let mut snapshots = Vec::new();
        let mut mounted = Vec::new();
        let conditions = Arc::new(Conditions {
            tenants: Some(Arc::from([restriction.tenant.as_str().to_owned()])),
            ..Conditions::default()
        });
        for slot in shards {
            match slot.served() {
                Ok(Served::Written(shard)) => snapshots.push(shard.snapshot()),
                Ok(Served::Mounted(shard)) => mounted.push((shard, Arc::clone(&conditions))),
                Err(_) => {}
            }
        }
        if !mounted.is_empty() {
            let opened = self.mounts.open_mounted(&mounted, &ctx.cancel)?;
            snapshots.extend(opened.into_iter().filter_map(|opened| opened.ok()?.snapshot));
        }
        Ok(snapshots)
    }
}
