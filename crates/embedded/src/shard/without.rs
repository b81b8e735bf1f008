//! A segment of a snapshot without a tenant's documents.
//!
//! The segment becomes a shard of its own for a moment, in a folder that nobody else knows, and is purged like any other.
//! The documents of others keep their order, so that those of them that a snapshot deleted are found again.

use firn_model::{Error, Result};

use super::config::ShardConfig;
use super::deletes::DeleteSet;
use super::purge::documents_of;
use super::restored::RestoredSegment;
use super::{FrozenSegment, Shard};

/// What is left of a segment.
pub(crate) struct Without {
    /// `None`: it held nothing else.
    pub(crate) left: Option<FrozenSegment>,
    /// The documents of the tenant, as the segment numbered them.
    pub(crate) dropped: DeleteSet,
}

impl Shard {
    /// Writes a segment without the documents that name a tenant, alive or deleted, into a folder that is not there yet and
    /// that the caller removes. Deleted documents of others stay. `None`: the segment holds nothing of the tenant. `stop` is
    /// called now and then and ends it by failing.
    pub(crate) fn without_tenant(
        config: ShardConfig,
        segment: RestoredSegment,
        tenant: &str,
        stop: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Without>> {
        let config = ShardConfig {
            // An order of its own would move documents.
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

    fn drop_tenant(&self, tenant: &str) -> Result<Option<Without>> {
        let Some(tenant_field) = self.config.tenant_field.as_deref() else {
            return Ok(None);
        };
        let open = match &self.state.lock().segments[..] {
            [only] => only.open.clone(),
            _ => return Err(Error::internal("a shard of one segment has others")),
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
            true => Ok(Some(Without { left, dropped })),
            false => Err(Error::internal("a segment was not rewritten as it should be")),
        }
    }
}
