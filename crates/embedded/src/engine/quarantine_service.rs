//! Folders that the catalog does not name: their list, adoption and removal.

use std::path::PathBuf;
use std::sync::Arc;

use firn_engine::quarantine::QuarantinedFolder;
use firn_model::metadata::{EmbeddedCommand, IndexMetadata};
use firn_model::{Error, Result};
use parking_lot::Mutex;

use super::commands::CommandService;
use super::shard_opener::ShardOpener;
use crate::data_folder::{Quarantine, Quarantined, no_such_folder};
use crate::node::Node;

/// See the module.
pub(crate) struct QuarantineService {
    pub(crate) node: Arc<Node>,
    pub(crate) commands: Arc<CommandService>,
    pub(crate) opener: Arc<ShardOpener>,
    pub(crate) folders: Quarantine,
    /// Content of the quarantine.
    pub(crate) listed: Mutex<Vec<QuarantinedFolder>>,
    /// Serializes changes of the quarantine.
    pub(crate) changing: Mutex<()>,
}

impl QuarantineService {
    /// Removes a folder of the quarantine.
    pub(crate) fn remove(&self, id: &str) -> Result<()> {
        let _one_at_a_time = self.changing.lock();
        self.folders.remove(id)?;
        self.look_into_quarantine()
    }

    /// Reads the list of quarantined folders from disk.
    pub(crate) fn look_into_quarantine(&self) -> Result<()> {
        let found = self.folders.list()?.into_iter().map(print).collect();
        *self.listed.lock() = found;
        Ok(())
    }

    /// Moves the folders of an index back, adds it to the catalog, and opens its shards.
    pub(super) fn adopt(&self, id: &str, rename: Option<String>) -> Result<String> {
        self.node.check_open()?;
        let one_at_a_time = self.changing.lock();
        let all = self.folders.list()?;
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
                let target = self.node.factory.index_dir_on(&uuid, folder.tier)?;
                if self.node.config.disk.exists(&target)? {
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
                self.commands.adopting.lock().insert(uuid.clone());
                let added = self.commands.execute(EmbeddedCommand::AddIndices {
                    indices: vec![Arc::new(index.clone())],
                    data_streams: Vec::new(),
                    global: None,
                });
                self.commands.adopting.lock().remove(&uuid);
                added
            });
        if let Err(error) = result {
            for (files, target) in moved {
                self.move_folder(&target, &files)?;
            }
            return Err(error);
        }
        for folder in own {
            self.folders.forget(folder)?;
        }
        drop(one_at_a_time);
        self.look_into_quarantine()?;
        self.opener.open_waiting_shards();
        tracing::info!(index = index.name, uuid, "an index was adopted from the quarantine");
        Ok(index.name)
    }

    /// Returns the metadata of the adopted index.
    fn adopted_index(&self, index: &IndexMetadata, rename: Option<String>) -> Result<IndexMetadata> {
        let state = self.node.state();
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
        let disk = &self.node.config.disk;
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
