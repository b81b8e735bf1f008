//! Mappings as tenants know them: with the fields that their own documents have values for.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use firn_engine::RequestContext;
use firn_model::Result;
use firn_model::mapping::Mapping;
use firn_model::metadata::Metadata;
use firn_model::tenant::TenantId;
use parking_lot::Mutex;

use super::Core;
use super::searching::{Addressed, restriction};
use super::state::{IndexState, Served, ShardSlot};
use crate::mounts::Conditions;
use crate::search::{TenantRestriction, fields_of};
use crate::segment::ShardSnapshot;

/// Mappings that are kept, by index and tenant; each shares its fields with the index's own.
const KEPT_MAX: usize = 4096;

/// What was narrowed before.
#[derive(Default)]
pub(crate) struct NarrowedMappings(Mutex<HashMap<Key, Kept>>);

type Key = (String, TenantId);

struct Kept {
    /// What it was made from.
    snapshots: Vec<Weak<ShardSnapshot>>,
    whole: Weak<Mapping>,
    narrowed: Arc<Mapping>,
}

impl Kept {
    fn is_of(&self, snapshots: &[Arc<ShardSnapshot>], whole: &Arc<Mapping>) -> bool {
        let same = |(kept, snapshot): (&Weak<ShardSnapshot>, &Arc<ShardSnapshot>)| {
            std::ptr::eq(kept.as_ptr(), Arc::as_ptr(snapshot))
        };
        std::ptr::eq(self.whole.as_ptr(), Arc::as_ptr(whole))
            && self.snapshots.len() == snapshots.len()
            && self.snapshots.iter().zip(snapshots).all(same)
    }
}

impl Core {
    /// Gives a tenant's searches the mapping that it knows: any other field is as one that does not exist,
    /// for queries, for wildcards over fields and for errors.
    pub(super) fn narrow_mappings(&self, addressed: &mut [Addressed]) -> Result<()> {
        for of_index in addressed.chunk_by_mut(|left, right| left.uuid == right.uuid) {
            let searches = of_index.iter().filter_map(|shard| shard.search.as_ref().ok());
            let Some(first) = searches.clone().next() else {
                continue;
            };
            let Some(restriction) = first.tenant.clone() else {
                continue;
            };
            let whole = Arc::clone(&first.mapping);
            let snapshots: Vec<_> = searches.map(|search| Arc::clone(&search.snapshot)).collect();
            let narrowed = self.narrowed(&of_index[0].uuid, &whole, &restriction, &snapshots)?;
            for search in of_index.iter_mut().filter_map(|shard| shard.search.as_mut().ok()) {
                search.mapping = Arc::clone(&narrowed);
            }
        }
        Ok(())
    }

    /// What there is as far as a scope reaches, with the mappings that it may know.
    pub(super) fn view_with_mappings(&self, ctx: &RequestContext) -> Result<Arc<Metadata>> {
        let state = self.state();
        let view = self.view(&state, &ctx.scope);
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
        self.narrowed(&index.metadata.uuid, whole, &restriction, &snapshots)
    }

    /// What a tenant may see of shards, those that do not serve left out.
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
            let opened = self.open_mounted(&mounted, &ctx.cancel)?;
            snapshots.extend(opened.into_iter().filter_map(|opened| opened.ok()?.snapshot));
        }
        Ok(snapshots)
    }

    fn narrowed(
        &self,
        uuid: &str,
        whole: &Arc<Mapping>,
        restriction: &TenantRestriction,
        snapshots: &[Arc<ShardSnapshot>],
    ) -> Result<Arc<Mapping>> {
        let key = (uuid.to_owned(), restriction.tenant.clone());
        if let Some(kept) = self.narrowed_mappings.0.lock().get(&key)
            && kept.is_of(snapshots, whole)
        {
            return Ok(Arc::clone(&kept.narrowed));
        }
        let fields = fields_of(snapshots, whole, restriction)?;
        let mut narrowed = Arc::new(whole.narrowed(&|path| {
            fields.contains(path) || path == firn_model::metadata::TIMESTAMP || path == &*restriction.field
        }));
        let mut kept = self.narrowed_mappings.0.lock();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        // What was computed with an equal mapping stays good as long as it is the same one.
        if let Some(before) = kept.get(&key)
            && before.narrowed == narrowed
        {
            narrowed = Arc::clone(&before.narrowed);
        }
        let entry = Kept {
            snapshots: snapshots.iter().map(Arc::downgrade).collect(),
            whole: Arc::downgrade(whole),
            narrowed: Arc::clone(&narrowed),
        };
        kept.insert(key, entry);
        Ok(narrowed)
    }
}
