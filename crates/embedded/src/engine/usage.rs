//! What tenants use of this node.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::TenantUsage;
use firn_model::{Error, Result};

use super::Core;
use super::state::IndexState;
use crate::search::column_name;
use crate::segment::Segment;
use crate::shard::Shard;

type ByTenant = BTreeMap<Arc<str>, TenantUsage>;

impl Core {
    /// All tenants that have or had anything, by name. Reads where documents were deleted, so it is for once in a
    /// while.
    pub(super) fn tenant_usage(&self) -> Result<Vec<TenantUsage>> {
        let mut usage = ByTenant::new();
        for (index, slot) in self.state().slots() {
            // What does not serve now is missing; it comes back with the shard.
            if let Ok(shard) = slot.shard() {
                add_shard(&mut usage, index, &shard)?;
            }
        }
        for (tenant, cpu) in self.search_pool.tenants_cpu_time() {
            entry(&mut usage, tenant.as_str().into()).search_cpu = cpu;
        }
        for (tenant, cpu) in self.write_pool.tenants_cpu_time() {
            entry(&mut usage, tenant.as_str().into()).write_cpu = cpu;
        }
        for (tenant, used) in &mut usage {
            used.cache_bytes = self.request_cache.tenant_bytes(tenant);
        }
        Ok(usage.into_values().collect())
    }
}

fn entry(usage: &mut ByTenant, tenant: Arc<str>) -> &mut TenantUsage {
    usage
        .entry(tenant)
        .or_insert_with_key(|tenant| TenantUsage::none(Arc::clone(tenant)))
}

fn add_shard(usage: &mut ByTenant, index: &IndexState, shard: &Shard) -> Result<()> {
    let Some(field) = index.metadata.settings.tenant_field.as_deref() else {
        return Ok(());
    };
    for segment in &shard.snapshot().segments {
        let Some(tenants) = &segment.tenants else { continue };
        let deleted = deleted_by_tenant(segment, field)?;
        for rows in &tenants.rows {
            let dead = deleted.get(&*rows.tenant).copied().unwrap_or(0);
            let part = u128::from(segment.size_bytes) * u128::from(rows.docs) / u128::from(segment.max_doc.max(1));
            let own = entry(usage, Arc::clone(&rows.tenant));
            own.events += u64::from(rows.docs.saturating_sub(dead));
            own.stored_bytes += part as u64;
        }
    }
    Ok(())
}

/// How many documents of each tenant are deleted.
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
