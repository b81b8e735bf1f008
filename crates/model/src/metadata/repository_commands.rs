//! Commands for snapshot repositories, and for indices from their snapshots.

use std::sync::Arc;

use super::change::Change;
use super::{DataStream, GlobalState, IndexMetadata, Metadata};
use crate::repository::{RepositoryMetadata, repository_missing, validate_repository_name};
use crate::{Error, ErrorKind, Result};

/// Setting that names the repository of a mounted index.
const MOUNTED_FROM: &str = "index.store.snapshot.repository_name";
/// Maximum number of names in an error.
const NAMES_SHOWN_MAX: usize = 5;

impl Change<'_> {
    pub(super) fn put_repository(&mut self, name: &str, repository: &RepositoryMetadata) -> Result<()> {
        validate_repository_name(name)?;
        if let Some(before) = self.next.repositories.get(name) {
            if **before == *repository {
                return Ok(());
            }
            if !before.is_same_place(repository) {
                self.refuse_if_mounted(name)?;
            }
        }
        self.next
            .repositories
            .insert(name.to_owned(), Arc::new(repository.clone()));
        self.changed();
        Ok(())
    }

    pub(super) fn delete_repositories(&mut self, names: &[String]) -> Result<()> {
        for name in names {
            if !self.next.repositories.contains_key(name) {
                return Err(repository_missing(name));
            }
            self.refuse_if_mounted(name)?;
            self.next.repositories.remove(name);
            self.changed();
        }
        Ok(())
    }

    fn refuse_if_mounted(&self, name: &str) -> Result<()> {
        let mounted: Vec<&str> = self.next.mounted_from(name).map(|index| index.name.as_str()).collect();
        if mounted.is_empty() {
            return Ok(());
        }
        let shown = mounted[..mounted.len().min(NAMES_SHOWN_MAX)].join(",");
        let more = match mounted.len() > NAMES_SHOWN_MAX {
            true => ",...",
            false => "",
        };
        Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "[{name}] trying to modify or unregister repository that is currently used (found {} searchable \
                 snapshots indices that use the repository: [{shown}{more}])",
                mounted.len()
            ),
        ))
    }

    /// Adds all of the indices or none: an existing name is an error.
    pub(super) fn add_indices(
        &mut self,
        indices: &[Arc<IndexMetadata>],
        data_streams: &[Arc<DataStream>],
        global: Option<&GlobalState>,
    ) -> Result<()> {
        self.check_shard_limit(indices.iter().map(|index| &index.settings))?;
        for index in indices {
            self.refuse_taken_name(&index.name)?;
            for alias in index.aliases.keys() {
                self.check_alias_name(alias, &index.name)?;
            }
            self.next.indices.insert(Arc::clone(index));
            self.changed();
        }
        for index in indices {
            for alias in index.aliases.keys() {
                self.check_write_index(alias)?;
            }
        }
        for stream in data_streams {
            if self.next.has_name(&stream.name) {
                return Err(Error::new(
                    ErrorKind::ResourceAlreadyExists,
                    format!("data_stream [{}] already exists", stream.name),
                ));
            }
            self.next.data_streams.insert(stream.name.clone(), Arc::clone(stream));
            self.changed();
        }
        if let Some(global) = global {
            let next = &mut self.next;
            next.component_templates.extend(global.component_templates.clone());
            next.index_templates.extend(global.index_templates.clone());
            next.cluster_settings.extend(global.cluster_settings.clone());
            Arc::make_mut(&mut next.ilm).by_name.extend(global.ilm.by_name.clone());
            Arc::make_mut(&mut next.ingest)
                .by_id
                .extend(global.ingest.by_id.clone());
            self.changed();
        }
        Ok(())
    }
}

impl Metadata {
    /// Returns a registered repository, or [`ErrorKind::RepositoryMissing`].
    pub fn repository(&self, name: &str) -> Result<&Arc<RepositoryMetadata>> {
        self.repositories.get(name).ok_or_else(|| repository_missing(name))
    }

    /// Returns the indices that are mounted from snapshots of a repository.
    pub fn mounted_from<'a>(&'a self, repository: &'a str) -> impl Iterator<Item = &'a Arc<IndexMetadata>> {
        self.indices.values().filter(move |index| {
            let from = index.settings.typed.get(MOUNTED_FROM);
            from.and_then(|name| name.as_str()) == Some(repository)
        })
    }
}
