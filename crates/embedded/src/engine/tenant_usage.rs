//! Resource usage of tenants on this node.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use firn_engine::TenantUsage;
use firn_model::tier::Tier;
use firn_model::{Error, Result};
use firn_segment::columns::paths::column_name;
use firn_segment::segment::Segment;
use firn_shard::Shard;

use super::services::Services;
use crate::mounts::MountedIndex;
use crate::node::state::IndexState;

type ByTenant = BTreeMap<Arc<str>, TenantUsage>;

impl Services {
    /// Returns the usage of all tenants that have or had data, by name. Reads which documents are deleted, so call it
    /// rarely.
    pub(super) fn tenant_usage(&self) -> Result<Vec<TenantUsage>> {
        let mut usage = ByTenant::new();
        for (index, slot) in self.node.state().slots() {
            // A shard that does not serve is missing until it serves again.
            if let Ok(shard) = slot.shard() {
                add_shard(&mut usage, index, slot.number, &shard)?;
            }
        }
        self.add_usage_of_mounted(&mut usage);
        for (tenant, cpu) in self.pools.search.tenants_cpu_time() {
            entry(&mut usage, tenant.as_str().into()).search_cpu = cpu;
        }
        for (tenant, cpu) in self.pools.write.tenants_cpu_time() {
            entry(&mut usage, tenant.as_str().into()).write_cpu = cpu;
        }
        for (tenant, used) in &mut usage {
            used.cache_bytes = self.searches.request_cache.tenant_bytes(tenant);
        }
        Ok(usage.into_values().collect())
    }
}

impl Services {
    /// Adds the usage of mounted indices. The data was read when the index was mounted: no store is read, so that
    /// writes do not wait for one.
    fn add_usage_of_mounted(&self, usage: &mut ByTenant) {
        let state = self.node.state();
        let by_tenant = |index: &&Arc<IndexState>| index.metadata.settings.tenant_field.is_some();
        let mut counted: HashSet<*const MountedIndex> = HashSet::new();
        for index in state.indices.values().filter(by_tenant) {
            let Some(shard) = index.shards.iter().find_map(|slot| slot.mounted()) else {
                continue;
            };
            let Some(mounted) = self.mounts.manifest_here(&shard) else {
                continue;
            };
            // Mounts that share a snapshot share its bytes, but each fully copied one has a separate copy.
            if shard.store.partial && !counted.insert(Arc::as_ptr(&mounted)) {
                continue;
            }
            for (tenant, bytes) in mounted.tenant_bytes() {
                let by_tier = &mut entry(usage, Arc::clone(tenant)).by_tier;
                match shard.store.partial {
                    true => by_tier.frozen += bytes,
                    false => by_tier.cold += bytes,
                }
            }
        }
    }
}

fn entry(usage: &mut ByTenant, tenant: Arc<str>) -> &mut TenantUsage {
    usage
        .entry(tenant)
        .or_insert_with_key(|tenant| TenantUsage::none(Arc::clone(tenant)))
}

fn add_shard(usage: &mut ByTenant, index: &IndexState, number: u32, shard: &Shard) -> Result<()> {
    let Some(field) = index.metadata.settings.tenant_field.as_deref() else {
        return Ok(());
    };
    let tier = index.metadata.tier_of(number);
    for segment in &shard.snapshot().segments {
        let Some(tenants) = &segment.tenants else { continue };
        let deleted = deleted_by_tenant(segment, field)?;
        for rows in &tenants.rows {
            let dead = deleted.get(&*rows.tenant).copied().unwrap_or(0);
            let part = u128::from(segment.size_bytes) * u128::from(rows.docs) / u128::from(segment.max_doc.max(1));
            let own = entry(usage, Arc::clone(&rows.tenant));
            own.events += u64::from(rows.docs.saturating_sub(dead));
            own.stored_bytes += part as u64;
            *match tier {
                Tier::Hot => &mut own.by_tier.hot,
                Tier::Warm => &mut own.by_tier.warm,
                Tier::Cold => &mut own.by_tier.cold,
            } += part as u64;
        }
    }
    Ok(())
}

/// Returns the number of deleted documents of each tenant.
fn deleted_by_tenant(segment: &Segment, field: &str) -> Result<BTreeMap<String, u32>> {
    let mut deleted = BTreeMap::new();
    let Some(alive) = segment.alive.as_ref().filter(|_| segment.deleted_count > 0) else {
        return Ok(deleted);
    };
    let columns = segment.reader.fast_fields();
    let names = columns
        .str(&column_name("kw", field))
        .map_err(|error| Error::internal(error.to_string()))?;
    let Some(names) = names else { return Ok(deleted) };
    let mut by_ordinal: BTreeMap<u64, u32> = BTreeMap::new();
    for doc in (0..segment.max_doc).filter(|&doc| alive.is_deleted(doc)) {
        for ordinal in names.ords().values_for_doc(doc) {
            *by_ordinal.entry(ordinal).or_default() += 1;
        }
    }
    for (ordinal, count) in by_ordinal {
        let mut name = String::new();
        if names.ord_to_str(ordinal, &mut name)? {
            deleted.insert(name, count);
        }
    }
    Ok(deleted)
}
