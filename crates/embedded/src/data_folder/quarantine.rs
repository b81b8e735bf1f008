//! Quarantine: folders found below `indices/` that the catalog does not name, set aside for an operator.
//!
//! ```text
//! quarantine/ID/reason.json   when the folder was found, and why it was set aside
//! quarantine/ID/files/        the folder
//! ```
//!
//! `quarantine/` is on the device on which the folder was found, so that the move is a rename. `ID` is the
//! folder's name; a second one of that name gets a number.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_model::tier::Tier;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::disk::Disk;
use serde::{Deserialize, Serialize};

use super::index_record::IndexRecord;
use crate::tiers::TierPaths;

const DIR: &str = "quarantine";
const REASON: &str = "reason.json";
const FILES: &str = "files";

/// Quarantines of a node, one on each device.
pub(crate) struct Quarantine {
    disk: Arc<dyn Disk>,
    devices: Vec<(Tier, PathBuf)>,
}

/// Folder in quarantine.
pub(crate) struct Quarantined {
    pub(crate) id: String,
    pub(crate) tier: Tier,
    /// Path of the folder.
    pub(crate) files: PathBuf,
    pub(crate) reason: Reason,
    /// The record in the folder; `None`: there is none, or it cannot be read.
    pub(crate) record: Option<IndexRecord>,
    /// Size of all its files, bytes.
    pub(crate) size_bytes: u64,
}

/// Why a folder was set aside.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Reason {
    /// Time of the move, ms since epoch UTC.
    pub(crate) found_ms: i64,
    /// Original name of the folder.
    pub(crate) folder: String,
    pub(crate) reason: String,
}

impl Quarantine {
    /// Creates the quarantines of a node's devices.
    pub(crate) fn new(disk: Arc<dyn Disk>, path_data: &Path, tiers: &TierPaths) -> Self {
        let beside = tiers.beside_hot().map(|(tier, path)| (tier, path.to_owned()));
        Self {
            disk,
            devices: std::iter::once((Tier::Hot, path_data.to_owned()))
                .chain(beside)
                .collect(),
        }
    }

    /// Moves a folder of a device into quarantine durably.
    pub(crate) fn take(&self, tier: Tier, dir: &Path, why: &str, now_ms: i64) -> Result<()> {
        let root = self.root(tier)?;
        let folder = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut own = root.join(&folder);
        for number in 2.. {
            if !self.disk.exists(&own)? {
                break;
            }
            own = root.join(format!("{folder}.{number}"));
        }
        self.disk.create_dir_all(&own)?;
        let reason = Reason {
            found_ms: now_ms,
            folder,
            reason: why.to_owned(),
        };
        self.disk
            .write_atomic(&own.join(REASON), &serde_json::to_vec(&reason)?)?;
        self.disk.rename(dir, &own.join(FILES))?;
        self.disk.sync_dir(&own)?;
        self.disk.sync_dir(&root)?;
        for parent in [root.parent(), dir.parent()].into_iter().flatten() {
            self.disk.sync_dir(parent)?;
        }
        tracing::error!(
            folder = %dir.display(),
            quarantine = %own.display(),
            "a folder of indices is in quarantine: {why}. See GET /_firn/quarantine"
        );
        Ok(())
    }

    fn root(&self, tier: Tier) -> Result<PathBuf> {
        let device = self.devices.iter().find(|(own, _)| *own == tier);
        device
            .map(|(_, path)| path.join(DIR))
            .ok_or_else(|| crate::tiers::no_tier(tier))
    }

    /// Returns every folder in quarantine, by device and id.
    pub(crate) fn list(&self) -> Result<Vec<Quarantined>> {
        let mut found = Vec::new();
        for (tier, path) in &self.devices {
            let root = path.join(DIR);
            let entries = match self.disk.list(&root) {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            for entry in entries.into_iter().filter(|entry| entry.is_dir) {
                let own = root.join(&entry.name);
                let files = own.join(FILES);
                // A crash may leave a reason whose folder was not moved.
                if !self.disk.exists(&files)? {
                    continue;
                }
                let reason = self.disk.read(&own.join(REASON)).ok();
                let reason = reason.and_then(|bytes| serde_json::from_slice::<Reason>(&bytes).ok());
                found.push(Quarantined {
                    tier: *tier,
                    record: IndexRecord::read(&*self.disk, &files).unwrap_or_default(),
                    size_bytes: bytes_below(&*self.disk, &files)?,
                    files,
                    reason: reason.unwrap_or_else(|| Reason {
                        folder: entry.name.clone(),
                        reason: format!("[{REASON}] cannot be read"),
                        ..Reason::default()
                    }),
                    id: entry.name,
                });
            }
        }
        Ok(found)
    }

    /// Deletes a folder permanently.
    pub(crate) fn remove(&self, id: &str) -> Result<()> {
        let found = self.list()?;
        let own: Vec<&Quarantined> = found.iter().filter(|folder| folder.id == id).collect();
        if own.is_empty() {
            return Err(no_such_folder(id));
        }
        for folder in own {
            self.disk.remove_dir_all(&folder.files)?;
            self.forget(folder)?;
        }
        Ok(())
    }

    /// Removes the reason of a folder that was moved back.
    pub(crate) fn forget(&self, folder: &Quarantined) -> Result<()> {
        let Some(own) = folder.files.parent() else {
            return Ok(());
        };
        self.disk.remove_dir_all(own)?;
        if let Some(root) = own.parent() {
            self.disk.sync_dir(root)?;
        }
        Ok(())
    }
}

/// Returns the error for an id that is not in quarantine.
pub(crate) fn no_such_folder(id: &str) -> Error {
    Error::new(
        ErrorKind::ResourceNotFound,
        format!("no folder [{id}] is in quarantine"),
    )
}

fn bytes_below(disk: &dyn Disk, dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in disk.list(dir)? {
        bytes += match entry.is_dir {
            true => bytes_below(disk, &dir.join(&entry.name))?,
            false => entry.len,
        };
    }
    Ok(bytes)
}
