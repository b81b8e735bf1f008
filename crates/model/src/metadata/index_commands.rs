//! Commands that change and delete indices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::change::Change;
use super::parse::parse_mapping;
use super::private_indices::check_own_bytes;
use super::templates::check_timestamp;
use super::tenant_indices::add_tenant_field;
use crate::mapping::Mapping;
use crate::settings::flatten;
use crate::tenant::TenantId;
use crate::{Error, Result};

impl Change<'_> {
    pub(super) fn delete_indices(&mut self, names: &[String]) -> Result<()> {
        let names: BTreeSet<&String> = names.iter().collect();
        for name in &names {
            let index = self.index(name)?;
            if let Some(stream) = &index.data_stream
                && self.is_stream_write_index(stream, name)
            {
                return Err(Error::illegal_argument(format!(
                    "index [{name}] is the write index for data stream [{stream}] and cannot be deleted"
                )));
            }
        }
        for name in names {
            self.remove_index(name);
        }
        Ok(())
    }

    pub(super) fn drop_unused(&mut self, tenant: &TenantId, stream: Option<&str>, indices: &BTreeMap<String, String>) {
        let is_maker = |made_by: &Option<TenantId>| made_by.as_ref() == Some(tenant);
        let is_same = |name: &String, uuid: &String| {
            let index = self.next.indices.get(name);
            index.is_some_and(|index| {
                index.uuid == *uuid
                    && index.data_stream.as_deref() == stream
                    // Backing indices belong to the creator of the data stream.
                    && (stream.is_some() || is_maker(&index.made_by))
            })
        };
        let is_whole = match stream.map(|name| self.next.data_streams.get(name)) {
            None => true,
            Some(stream) => stream.is_some_and(|stream| {
                is_maker(&stream.made_by) && stream.indices.iter().all(|name| indices.contains_key(name))
            }),
        };
        if !is_whole || !indices.iter().all(|(name, uuid)| is_same(name, uuid)) {
            return;
        }
        for name in indices.keys() {
            self.remove_index(name);
        }
        if let Some(stream) = stream {
            self.next.data_streams.remove(stream);
        }
    }

    pub(super) fn is_stream_write_index(&self, stream: &str, index: &str) -> bool {
        let stream = self.next.data_streams.get(stream);
        stream.is_some_and(|stream| stream.indices.last().is_some_and(|last| last == index))
    }

    /// Removes an index from the state and from its data stream.
    pub(super) fn remove_index(&mut self, name: &str) {
        let Some(index) = self.next.indices.remove(name) else {
            return;
        };
        if let Some(stream) = &index.data_stream
            && let Some(stream) = self.next.data_streams.get_mut(stream)
        {
            Arc::make_mut(stream).indices.retain(|backing| backing != name);
        }
        self.changed();
    }

    pub(super) fn set_closed(&mut self, names: &[String], closed: bool) -> Result<()> {
        for name in names {
            let index = self.index(name)?;
            if index.closed == closed {
                continue;
            }
            if let Some(stream) = &index.data_stream
                && closed
                && self.is_stream_write_index(stream, name)
            {
                return Err(Error::illegal_argument(format!(
                    "cannot close the following data stream write indices [{name}]"
                )));
            }
            if !closed {
                self.check_shard_limit([&index.settings])?;
            }
            self.change_index(name, |index| index.closed = closed)?;
        }
        Ok(())
    }

    pub(super) fn put_mapping(&mut self, names: &[String], mapping: &Value) -> Result<()> {
        let new = parse_mapping(mapping)?;
        for name in names {
            let index = self.index(name)?;
            let mut merged = index
                .mapping
                .merge(&new)
                .map_err(|error| error.with_index(name.as_str()))?;
            let declared = index.settings.tenant_field.as_ref().map(|_| {
                let (new, before) = (new.fields(), index.declared_fields.clone().unwrap_or_default());
                match new.is_subset(&before) {
                    true => before,
                    false => Arc::new(before.union(&new).cloned().collect()),
                }
            });
            let declared = declared.filter(|fields| index.declared_fields.is_some() || !fields.is_empty());
            if merged == *index.mapping && declared == index.declared_fields {
                continue;
            }
            if let Some(field) = &index.settings.tenant_field {
                add_tenant_field(&mut merged, field)?;
            }
            merged.validate()?;
            merged.check_limits(index.settings.total_fields_limit, index.settings.depth_limit)?;
            if index.settings.tenant_owner.is_some() {
                check_own_bytes("mapping", &merged.print())?;
            }
            if index.data_stream.is_some() {
                check_timestamp(&merged)?;
            }
            self.change_index(name, |index| {
                // A new `Arc` even if the mapping is equal: the cache of tenants' mappings compares pointers.
                index.mapping = Arc::new(merged);
                index.declared_fields = declared;
            })?;
            self.adopt(name);
        }
        Ok(())
    }

    pub(super) fn add_dynamic_fields(&mut self, name: &str, additions: &Mapping) -> Result<()> {
        let index = self.index(name)?;
        let settings = &index.settings;
        let merged = index
            .mapping
            .add_missing(additions, settings.total_fields_limit, settings.depth_limit);
        if let Some(merged) = merged {
            self.change_index(name, |index| index.mapping = Arc::new(merged))?;
        }
        Ok(())
    }

    pub(super) fn put_settings(&mut self, names: &[String], settings: &Value, preserve_existing: bool) -> Result<()> {
        let changes = flatten(settings, true)?;
        if changes.is_empty() {
            return Err(Error::new(
                crate::ErrorKind::RequestValidation,
                "Validation Failed: 1: no settings to update;",
            ));
        }
        for name in names {
            let index = self.index(name)?;
            let updated = index
                .settings
                .update(&changes, preserve_existing, index.closed, name, &index.uuid)?;
            if updated != index.settings {
                // ILM sets the settings of backing indices, so a change of these does not show that an operator made
                // it.
                let by_hand = index.data_stream.is_none();
                self.change_index(name, |index| index.settings = updated)?;
                if by_hand {
                    self.adopt(name);
                }
            }
        }
        Ok(())
    }
}
