//! Version of the catalog (number of its last change), stored beside the catalog and in every shard.
//!
//! The catalog's file has two roots; if the newer one is damaged, the store falls back to the older one. The number
//! outside of the file reveals that.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use firn_model::{Error, Result};
use firn_storage::checked_file;
use firn_storage::disk::Disk;
use serde::{Deserialize, Serialize};

const FILE: &str = "catalog.version";
const MAGIC: &str = "firn-catalog-version";
const FORMAT: u32 = 1;

/// Identity of the catalog and its last change.
#[derive(Debug, Default)]
pub struct CatalogVersion {
    cluster_uuid: String,
    version: AtomicU64,
}

/// Version of a catalog, as stored in another file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedVersion {
    /// Uuid of its cluster.
    pub cluster_uuid: String,
    /// Number of its last change.
    pub version: u64,
}

impl CatalogVersion {
    /// Creates the version of a catalog that was just read.
    pub fn new(cluster_uuid: &str, version: u64) -> Self {
        Self {
            cluster_uuid: cluster_uuid.to_owned(),
            version: AtomicU64::new(version),
        }
    }

    /// Returns the cluster's uuid.
    pub fn cluster_uuid(&self) -> &str {
        &self.cluster_uuid
    }

    /// Returns the last change that is durable in the catalog.
    pub fn get(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns both, for a file.
    pub fn noted(&self) -> NotedVersion {
        NotedVersion {
            cluster_uuid: self.cluster_uuid.clone(),
            version: self.get(),
        }
    }

    /// Records that a change is durable in the catalog.
    pub fn advance(&self, version: u64) {
        self.version.fetch_max(version, Ordering::AcqRel);
    }

    /// Writes the number into the data folder. The file is not synced: it survives the end of the process, and that is
    /// when a store falls back; after a power loss an older number is harmless.
    pub fn write(&self, disk: &dyn Disk, path_data: &Path) -> Result<()> {
        let bytes = checked_file::print(MAGIC, FORMAT, &serde_json::to_vec(&self.noted())?);
        let (path, beside) = (path(path_data), path_data.join(format!("{FILE}.tmp")));
        if disk.exists(&beside)? {
            disk.remove_file(&beside)?;
        }
        disk.create_append(&beside)?.append(&bytes)?;
        disk.rename(&beside, &path)?;
        Ok(())
    }
}

fn path(path_data: &Path) -> PathBuf {
    path_data.join(FILE)
}

/// Reads the number in the data folder; `None`: there is no such file, as with an earlier build. If the file is
/// damaged, the error names it.
pub fn read(disk: &dyn Disk, path_data: &Path) -> Result<Option<NotedVersion>> {
    let path = path(path_data);
    let bytes = match disk.read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // After a power loss a file may exist whose bytes were never synced.
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let noted = checked_file::parse(MAGIC, FORMAT, &bytes)
        .and_then(|body| serde_json::from_slice(body).map_err(|error| error.to_string()));
    noted
        .map(Some)
        .map_err(|reason| Error::internal(format!("[{}] is damaged: {reason}", path.display())))
}

#[cfg(test)]
mod tests {
    use firn_storage::sim::SimDisk;

    use super::*;

    #[test]
    fn the_number_is_read_back_and_an_error_names_a_damaged_file() {
        let (disk, path_data) = (SimDisk::new(), Path::new("/data"));
        disk.create_dir_all(path_data).unwrap();
        assert_eq!(read(&disk, path_data).unwrap(), None);
        let version = CatalogVersion::new("u1", 7);
        version.write(&disk, path_data).unwrap();
        version.advance(9);
        version.advance(8);
        version.write(&disk, path_data).unwrap();
        let expected = NotedVersion {
            cluster_uuid: "u1".to_owned(),
            version: 9,
        };
        assert_eq!(read(&disk, path_data).unwrap(), Some(expected));
        disk.damage(&path(path_data), |bytes| *bytes.last_mut().unwrap() ^= 1)
            .unwrap();
        let error = read(&disk, path_data).unwrap_err();
        assert!(error.reason().contains("catalog.version"), "{error}");
    }
}
