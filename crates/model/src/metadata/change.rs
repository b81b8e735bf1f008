//! Execution of one command: the next state, and the external inputs of the command.

use std::sync::Arc;

use super::cluster_commands::Lifetime;
use super::{Command, EmbeddedCommand, IndexMetadata, Metadata, Outcome};
use crate::names::resolve_date_math;
use crate::{Error, Result};

pub(super) struct Change<'a> {
    pub(super) next: Metadata,
    pub(super) now_ms: i64,
    pub(super) fresh_id: &'a mut dyn FnMut() -> String,
    pub(super) outcome: Outcome,
}

impl Change<'_> {
    pub(super) fn run(&mut self, command: &Command) -> Result<()> {
        match command {
            Command::CreateIndex {
                name,
                settings,
                mappings,
                aliases,
            } => self.create_index_command(name, settings, mappings.as_ref(), aliases.as_ref()),
            Command::CreateOwnIndex {
                name,
                tenant,
                settings,
                mappings,
            } => self.create_own_index(name, tenant, settings, mappings.as_ref()),
            Command::AutoCreate { name, tenant } => {
                let name = self.date_math(name)?;
                match tenant {
                    Some(tenant) => self.auto_create_for(&name, tenant),
                    None => self.auto_create(&name, None),
                }
            }
            Command::DeleteIndices { names } => self.delete_indices(names),
            Command::DropUnused {
                tenant,
                stream,
                indices,
            } => {
                self.drop_unused(tenant, stream.as_deref(), indices);
                Ok(())
            }
            Command::SetClosed { names, closed } => self.set_closed(names, *closed),
            Command::PutMapping { names, mapping } => self.put_mapping(names, mapping),
            Command::PutSettings {
                names,
                settings,
                preserve_existing,
            } => self.put_settings(names, settings, *preserve_existing),
            Command::UpdateAliases { actions } => self.update_aliases(actions),
            Command::PutComponentTemplate { name, body, create } => self.put_component_template(name, body, *create),
            Command::DeleteComponentTemplate { names } => self.delete_component_templates(names),
            Command::PutIndexTemplate { name, body, create } => self.put_index_template(name, body, *create),
            Command::DeleteIndexTemplate { names } => self.delete_index_templates(names),
            Command::CreateDataStream { name } => self.create_data_stream(name, None),
            Command::CreateBackingIndices { stream, times_ms } => self.create_backing_indices(stream, times_ms),
            Command::PutDataStreamLifecycle { names, lifecycle } => {
                self.put_data_stream_lifecycle(names, lifecycle.as_ref())
            }
            Command::DeleteDataStream { names } => self.delete_data_streams(names),
            Command::Rollover {
                target,
                new_index,
                conditions,
                body,
                dry_run,
                facts,
            } => self.rollover(target, new_index.as_deref(), conditions, body, *dry_run, facts),
            Command::Ilm(command) => self.ilm(command),
            Command::Slm(command) => self.slm(command),
            Command::Ingest(command) => self.ingest(command),
            Command::EventPipeline(command) => self.event_pipeline(command),
            Command::Detection(command) => {
                self.outcome.changed |= command.apply(&mut self.next)?;
                Ok(())
            }
            Command::EnrichPolicy(command) => self.enrich_policy(command),
            Command::MountIndex(mount) => self.mount_index(mount),
            Command::PutPlacement { placement } => {
                self.put_placement(placement.as_ref());
                Ok(())
            }
            Command::SetTenantClosed { tenant, closed } => {
                self.set_tenant_closed(tenant, *closed);
                Ok(())
            }
            Command::PutRepository { name, repository } => self.put_repository(name, repository),
            Command::DeleteRepositories { names } => self.delete_repositories(names),
            Command::PutClusterSettings { settings } => self.put_cluster_settings(settings, Lifetime::Persistent),
            Command::PutTransientSettings { settings } => self.put_cluster_settings(settings, Lifetime::Transient),
        }
    }

    pub(super) fn run_embedded(&mut self, command: &EmbeddedCommand) -> Result<()> {
        match command {
            EmbeddedCommand::Portable(command) => self.run(command),
            EmbeddedCommand::AddDynamicFields { name, mapping } => self.add_dynamic_fields(name, mapping),
            EmbeddedCommand::MoveShard {
                index,
                uuid,
                shard,
                tier,
            } => self.move_shard(index, uuid, *shard, *tier),
            EmbeddedCommand::AddIndices {
                indices,
                data_streams,
                global,
            } => self.add_indices(indices, data_streams, global.as_deref()),
        }
    }

    pub(super) fn date_math(&self, name: &str) -> Result<String> {
        resolve_date_math(name, self.now_ms)
    }

    pub(super) fn index(&self, name: &str) -> Result<&Arc<IndexMetadata>> {
        self.next.indices.get(name).ok_or_else(|| Error::index_not_found(name))
    }

    /// Changes an index.
    pub(super) fn change_index(&mut self, name: &str, change: impl FnOnce(&mut IndexMetadata)) -> Result<()> {
        if !self.next.indices.change(name, change) {
            return Err(Error::index_not_found(name));
        }
        self.changed();
        Ok(())
    }

    pub(super) fn changed(&mut self) {
        self.outcome.changed = true;
    }
}
