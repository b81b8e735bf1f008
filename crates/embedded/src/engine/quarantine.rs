//! Quarantine API: list, adopt and remove folders.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use firn_engine::RequestContext;
use firn_engine::quarantine::{QuarantinedFolder, QuarantinedFolders};
use firn_model::metadata::{EmbeddedCommand, IndexMetadata};
use firn_model::{Error, Result};

use super::{Core, Embedded, run_on};
use crate::data_folder::{Quarantined, no_such_folder};
use crate::snapshots::check_operator;

#[async_trait]
impl QuarantinedFolders for Embedded {
    fn quarantined_count(&self, _ctx: &RequestContext) -> u64 {
        self.core.quarantined.lock().len() as u64
    }

    async fn quarantined_folders(&self, ctx: &RequestContext) -> Result<Vec<QuarantinedFolder>> {
        check_operator(ctx)?;
        Ok(self.core.quarantined.lock().clone())
    }

    async fn adopt_quarantined(&self, ctx: &RequestContext, id: &str, rename: Option<String>) -> Result<String> {
        check_operator(ctx)?;
        let (core, id) = (Arc::clone(&self.core), id.to_owned());
        run_on(&self.core.maintenance_pool, ctx, move || core.adopt(&id, rename)).await
    }

    async fn remove_quarantined(&self, ctx: &RequestContext, id: &str) -> Result<()> {
        check_operator(ctx)?;
        let (core, id) = (Arc::clone(&self.core), id.to_owned());
        run_on(&self.core.maintenance_pool, ctx, move || {
            let _one_at_a_time = core.quarantine_lock.lock();
            core.quarantine.remove(&id)?;
            core.look_into_quarantine()
        })
        .await
    }
}

impl Core {
    /// Reads the list of quarantined folders from disk.
    pub(crate) fn look_into_quarantine(&self) -> Result<()> {
        let found = self.quarantine.list()?.into_iter().map(print).collect();
        *self.quarantined.lock() = found;
        Ok(())
    }

    /// Moves the folders of an index back, adds it to the catalog, and opens its shards.
    fn adopt(&self, id: &str, rename: Option<String>) -> Result<String> {
        self.check_open()?;
        let one_at_a_time = self.quarantine_lock.lock();
        let all = self.quarantine.list()?;
        let folder = all
            .iter()
            .find(|folder| folder.id == id)
            .ok_or_else(|| no_such_folder(id))?;
        let record = folder.record.as_ref().ok_or_else(|| {
            Error::illegal_argument(format!(
                "folder [{id}] cannot be adopted: it has no [index.json] that can be read, so its mapping and settings are \
                 unknown"
            ))
        })?;
        let uuid = record.index.uuid.clone();
        if folder.reason.folder != uuid {
            return Err(Error::illegal_argument(format!(
                "folder [{id}] cannot be adopted: its original name was [{}], but it holds index [{uuid}]",
                folder.reason.folder
            )));
        }
        // Folders of the index on other devices belong to it.
        let own: Vec<&Quarantined> = all.iter().filter(|other| other.reason.folder == uuid).collect();
        let index = self.adopted_index(&record.index, rename)?;
        let mut moved: Vec<(PathBuf, PathBuf)> = Vec::new();
        let result = own
            .iter()
            .try_for_each(|folder| {
                let target = self.factory.index_dir_on(&uuid, folder.tier)?;
                if self.config.disk.exists(&target)? {
                    return Err(Error::illegal_argument(format!(
                        "folder [{id}] cannot be adopted: there is a folder [{}]",
                        target.display()
                    )));
                }
                self.move_folder(&folder.files, &target)?;
                moved.push((folder.files.clone(), target));
                Ok(())
            })
            .and_then(|()| {
                self.adopting.lock().insert(uuid.clone());
                let added = self.execute(EmbeddedCommand::AddIndices {
                    indices: vec![Arc::new(index.clone())],
                    data_streams: Vec::new(),
                    global: None,
                });
                self.adopting.lock().remove(&uuid);
                added
            });
        if let Err(error) = result {
            for (files, target) in moved {
                self.move_folder(&target, &files)?;
            }
            return Err(error);
        }
        for folder in own {
            self.quarantine.forget(folder)?;
        }
        drop(one_at_a_time);
        self.look_into_quarantine()?;
        self.open_waiting_shards();
        tracing::info!(index = index.name, uuid, "an index was adopted from the quarantine");
        Ok(index.name)
    }

    /// Returns the metadata of the adopted index.
    fn adopted_index(&self, index: &IndexMetadata, rename: Option<String>) -> Result<IndexMetadata> {
        let state = self.state();
        if let Some(known) = state.metadata.indices.values().find(|known| known.uuid == index.uuid) {
            return Err(Error::illegal_argument(format!(
                "index [{}] has the uuid [{}] of the folder",
                known.name, known.uuid
            )));
        }
        let mut index = index.clone();
        if let Some(name) = rename {
            firn_model::names::validate_index_name(&name)?;
            index.name = name;
        }
        // The data stream may have continued without it; `_data_stream/_modify` can add it again.
        index.data_stream = None;
        Ok(index)
    }

    fn move_folder(&self, from: &std::path::Path, to: &std::path::Path) -> Result<()> {
        let disk = &self.config.disk;
        disk.rename(from, to)?;
        for parent in [from.parent(), to.parent()].into_iter().flatten() {
            disk.sync_dir(parent)?;
        }
        Ok(())
    }
}

fn print(folder: Quarantined) -> QuarantinedFolder {
    QuarantinedFolder {
        id: folder.id,
        tier: folder.tier.name().to_owned(),
        path: folder.files.display().to_string(),
        found_ms: folder.reason.found_ms,
        reason: folder.reason.reason,
        index: folder.record.as_ref().map(|record| record.index.name.clone()),
        cluster_uuid: folder.record.map(|record| record.cluster_uuid),
        size_bytes: folder.size_bytes,
    }
}
