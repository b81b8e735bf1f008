//! Limits of the shards that tenants' writes may create. A writer can invent names that match a template, and must not
//! use up the shards that other tenants need for their next events.

use std::sync::Arc;

use super::change::Change;
use super::{IndexMetadata, IndexTemplate, TemplateContent};
use crate::settings::IndexSettings;
use crate::tenant::TenantId;
use crate::{Error, ErrorKind, Result};

/// Maximum part of the shards for indices created by one tenant's writes: one in this many.
const PART_OF_TENANT: u64 = 4;
/// Part of the shards reserved for operators and for existing data streams: one in this many.
const SPARED_PART: u64 = 10;

impl Change<'_> {
    /// Checks whether a tenant's write may create an index or data stream that tenants share. Of a data stream only the
    /// newest index counts, because the tenant does not control its retention.
    pub(super) fn check_room_to_share(&self, tenant: &TenantId, content: Option<&TemplateContent>) -> Result<()> {
        let held = self.shards_made_by(tenant, false);
        let limit = (self.shards_max() / PART_OF_TENANT).max(1);
        if held + shards_of(content)? > limit {
            return Err(quota(format!(
                "indices and data streams created by this tenant's writes hold [{held}] shards, the limit is \
                 [{limit}], a quarter of [cluster.max_shards_per_node]: an operator can create more"
            )));
        }
        self.check_spared(content)
    }

    /// Checks that a new name of a tenant does not use reserved shards.
    pub(super) fn check_spared(&self, content: Option<&TemplateContent>) -> Result<()> {
        self.leave_spared(shards_of(content)?, "this write would create a new index")
    }

    /// Checks whether a data stream may create a backing index. A data stream of an operator, or of a tenant whose
    /// writes created little, may use the last shard.
    pub(super) fn check_room_for_period(&self, stream: &str, template: &IndexTemplate) -> Result<()> {
        let maker = self
            .next
            .data_streams
            .get(stream)
            .and_then(|stream| stream.made_by.as_ref());
        match maker {
            Some(maker) if self.shards_made_by(maker, true) > self.shards_max() / PART_OF_TENANT => {
                let content = self.next.compose(template)?;
                let what = format!("events would create a new backing index of data stream [{stream}]");
                self.leave_spared(shards_of(Some(&content))?, &what)
            }
            _ => Ok(()),
        }
    }

    /// Marks an index as the operator's, because an operator changed it by hand. firn then keeps it even without
    /// documents, and does not count it for any tenant.
    pub(super) fn adopt(&mut self, index: &str) {
        self.next.indices.change(index, |index| index.made_by = None);
        let stream = self.next.indices.get(index).and_then(|index| index.data_stream.clone());
        if let Some(stream) = stream {
            self.adopt_stream(&stream);
        }
    }

    /// Does the same for a data stream.
    pub(super) fn adopt_stream(&mut self, name: &str) {
        if let Some(stream) = self
            .next
            .data_streams
            .get_mut(name)
            .filter(|stream| stream.made_by.is_some())
        {
            Arc::make_mut(stream).made_by = None;
        }
    }

    fn leave_spared(&self, more: u64, what: &str) -> Result<()> {
        let (open, limit) = (self.next.indices.open_shards().normal, self.shards_max());
        if open + more > limit - limit / SPARED_PART {
            return Err(quota(format!(
                "{what}, but the last tenth of the [{limit}] shards of [cluster.max_shards_per_node] is reserved for \
                 operators and for existing data streams"
            )));
        }
        Ok(())
    }

    /// Counts the open shards created by a tenant's writes; of data streams either the newest index or all indices.
    fn shards_made_by(&self, tenant: &TenantId, whole: bool) -> u64 {
        let is_maker = |made_by: &Option<TenantId>| made_by.as_ref() == Some(tenant);
        let indices = self.next.indices.values();
        let alone = indices
            .filter(|index| is_maker(&index.made_by))
            .map(|index| shards(index));
        let streams = self
            .next
            .data_streams
            .values()
            .filter(|stream| is_maker(&stream.made_by));
        let backing = streams.flat_map(|stream| {
            let counted = if whole { stream.indices.len() } else { 1 };
            stream.indices.iter().rev().take(counted)
        });
        let backing = backing.filter_map(|name| self.next.indices.get(name));
        alone.sum::<u64>() + backing.map(|index| shards(index)).sum::<u64>()
    }
}

fn shards(index: &IndexMetadata) -> u64 {
    match index.closed || index.settings.is_frozen() {
        true => 0,
        false => u64::from(index.settings.number_of_shards),
    }
}

fn shards_of(content: Option<&TemplateContent>) -> Result<u64> {
    match content {
        Some(content) => Ok(IndexSettings::from_flat(content.settings.clone())?
            .number_of_shards
            .into()),
        None => Ok(1),
    }
}

fn quota(reason: String) -> Error {
    Error::new(ErrorKind::QuotaExceeded, reason)
}
