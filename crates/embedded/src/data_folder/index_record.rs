//! Record of an index: its metadata in the index folder, so that the folder can be used without the catalog.

use std::path::Path;

use firn_model::metadata::IndexMetadata;
use firn_model::{Error, Result};
use firn_storage::checked_file;
use firn_storage::disk::Disk;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const FILE: &str = "index.json";
const MAGIC: &str = "firn-index";
const FORMAT: u32 = 1;

/// Progress of the command that created the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RecordState {
    /// The index is being created: the catalog does not name it yet, and no write was acknowledged.
    Creating,
    /// The index is being restored: the folder contains only data of a snapshot.
    Restoring,
    /// The catalog has named the index.
    Live,
}

/// Content of `index.json`.
#[derive(Debug, Clone)]
pub(crate) struct IndexRecord {
    pub(crate) cluster_uuid: String,
    /// Version of the catalog when the record was written.
    pub(crate) catalog_version: u64,
    pub(crate) state: RecordState,
    pub(crate) index: IndexMetadata,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    cluster_uuid: String,
    catalog_version: u64,
    state: RecordState,
    index: Value,
}

impl IndexRecord {
    /// Replaces the record in the folder of an index durably.
    pub(crate) fn write(&self, disk: &dyn Disk, index_dir: &Path) -> Result<()> {
        let stored = Stored {
            cluster_uuid: self.cluster_uuid.clone(),
            catalog_version: self.catalog_version,
            state: self.state,
            index: self.index.to_json(),
        };
        let bytes = checked_file::print(MAGIC, FORMAT, &serde_json::to_vec(&stored)?);
        disk.write_atomic(&index_dir.join(FILE), &bytes)?;
        Ok(())
    }

    /// Reads the record of a folder; `None`: there is none, as with an earlier build. If it is damaged, the error names
    /// the file.
    pub(crate) fn read(disk: &dyn Disk, index_dir: &Path) -> Result<Option<Self>> {
        let path = index_dir.join(FILE);
        let bytes = match disk.read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let damaged = |reason: String| Error::internal(format!("[{}] is damaged: {reason}", path.display()));
        let body = checked_file::parse(MAGIC, FORMAT, &bytes).map_err(damaged)?;
        let stored: Stored = serde_json::from_slice(body).map_err(|error| damaged(error.to_string()))?;
        Ok(Some(Self {
            cluster_uuid: stored.cluster_uuid,
            catalog_version: stored.catalog_version,
            state: stored.state,
            index: IndexMetadata::from_json(&stored.index).map_err(|error| damaged(error.to_string()))?,
        }))
    }
}
