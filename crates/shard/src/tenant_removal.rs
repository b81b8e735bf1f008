//! Copy of a snapshot's segment without one tenant's documents.
//!
//! The segment becomes a temporary shard in a private folder and is purged like any other.
//! The documents of other tenants keep their order, so that the deletes of the snapshot can be mapped to the new ids.

use firn_model::{Error, Result};
use firn_segment::deletes::DeleteSet;
use firn_segment::frozen_segment::FrozenSegment;

use super::Shard;
use super::config::ShardConfig;
use super::from_splits::RestoredSegment;
use super::purge::documents_of;

/// Result of the removal.
pub struct RemainingDocs {
    /// `None`: the segment had no other documents.
    pub left: Option<FrozenSegment>,
    /// Documents of the tenant, by their old ids.
    pub dropped: DeleteSet,
}

impl Shard {
    /// Writes a segment without the documents that name a tenant, alive or deleted, into a new folder that the caller
    /// removes. Deleted documents of other tenants stay. `None`: the segment has no document of the tenant. `stop` is
    /// called regularly and cancels by returning an error.
    pub fn without_tenant(
        config: ShardConfig,
        segment: RestoredSegment,
        tenant: &str,
        stop: &dyn Fn() -> Result<()>,
    ) -> Result<Option<RemainingDocs>> {
        let config = ShardConfig {
            // Clustering would reorder documents.
            cluster_docs_min: u32::MAX,
            own_docs_min: u32::MAX,
            ..config
        };
        let segment = RestoredSegment {
            deletes: None,
            ..segment
        };
        Self::restore(&config, &[segment], 0, stop)?;
        stop()?;
        let nothing_to_replay = |_: &_| Err(Error::internal("a restored shard has an operation in its WAL"));
        let shard = Self::open(config, &nothing_to_replay)?;
        let without = shard.drop_tenant(tenant);
        shard.abandon();
        shard.quiesce();
        without
    }

    fn drop_tenant(&self, tenant: &str) -> Result<Option<RemainingDocs>> {
        let Some(tenant_field) = self.config.tenant_field.as_deref() else {
            return Ok(None);
        };
        let open = match &self.state.lock().segments[..] {
            [only] => only.open.clone(),
            _ => return Err(Error::internal("a shard of one segment has more segments")),
        };
        let mut dropped = DeleteSet::default();
        for doc in documents_of(&open, tenant_field, tenant, None)? {
            dropped.insert(doc);
        }
        if dropped.count() == 0 {
            return Ok(None);
        }
        let docs = open.meta.docs;
        drop(open);
        self.purge_tenant(tenant, None)?;
        let mut frozen = self.freeze()?;
        let left = frozen.pop();
        let left_docs = left.as_ref().map_or(0, |left| left.docs() - left.deleted_count());
        let names_tenant = |segment: &FrozenSegment| {
            let tenants = segment.tenants.as_ref();
            tenants.is_some_and(|tenants| tenants.rows.iter().any(|rows| *rows.tenant == *tenant))
        };
        match frozen.is_empty() && left_docs == docs - dropped.count() && !left.as_ref().is_some_and(names_tenant) {
            true => Ok(Some(RemainingDocs { left, dropped })),
            false => Err(Error::internal("the rewritten segment has unexpected documents")),
        }
    }
}
