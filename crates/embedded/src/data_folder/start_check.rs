//! Start check: compares the catalog with the files beside it, to detect a lost or old catalog before a start
//! changes anything.

use std::path::{Path, PathBuf};

use firn_model::metadata::Metadata;
use firn_model::tier::Tier;
use firn_model::{Error, Result};
use firn_segment::catalog_version;
use firn_segment::catalog_version::NotedVersion;
use firn_shard::Shard;
use firn_storage::disk::Disk;

use super::index_record::{IndexRecord, RecordState};
use super::{CATALOG_FILE, CatalogCopy};
use crate::tiers::TierPaths;

/// Folder of an index on one device.
pub(crate) struct IndexFolder {
    /// Name of the folder.
    pub(crate) uuid: String,
    pub(crate) tier: Tier,
    pub(crate) dir: PathBuf,
    /// Its record; `None`: it has none. An error names the damaged file.
    pub(crate) record: Result<Option<IndexRecord>>,
    /// Catalog versions in the commit points of its shards.
    pub(crate) committed: Vec<NotedVersion>,
}

/// Content of the files beside the catalog.
pub(crate) struct Evidence {
    pub(crate) noted: Option<NotedVersion>,
    /// Version and cluster of the copy of all metadata.
    pub(crate) copy: Option<NotedVersion>,
    pub(crate) folders: Vec<IndexFolder>,
    /// Files that cannot be read, each with its path. They affect no decision.
    pub(crate) damaged: Vec<String>,
}

/// Returns every `indices/` folder of a node.
pub(crate) fn indices_dirs<'a>(path_data: &'a Path, tiers: &'a TierPaths) -> Vec<(Tier, PathBuf)> {
    let beside = tiers.beside_hot().map(|(tier, path)| (tier, path.join("indices")));
    std::iter::once((Tier::Hot, path_data.join("indices")))
        .chain(beside)
        .collect()
}

impl Evidence {
    /// Reads all files. Changes nothing.
    pub(crate) fn gather(disk: &dyn Disk, path_data: &Path, tiers: &TierPaths) -> Result<Self> {
        let mut damaged = Vec::new();
        let noted = catalog_version::read(disk, path_data).unwrap_or_else(|error| {
            damaged.push(error.reason().to_owned());
            None
        });
        let copy = CatalogCopy::read_version(disk, path_data).unwrap_or_else(|error| {
            damaged.push(error.reason().to_owned());
            None
        });
        let mut folders = Vec::new();
        for (tier, indices) in indices_dirs(path_data, tiers) {
            folders.extend(folders_in(disk, tier, &indices)?);
        }
        for folder in &folders {
            if let Err(error) = &folder.record {
                damaged.push(error.reason().to_owned());
            }
        }
        Ok(Self {
            noted,
            copy,
            folders,
            damaged,
        })
    }
}

/// Returns the index folders below one `indices/`, which may not exist.
pub(crate) fn folders_in(disk: &dyn Disk, tier: Tier, indices: &Path) -> Result<Vec<IndexFolder>> {
    let entries = match disk.list(indices) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut folders = Vec::new();
    for entry in entries.into_iter().filter(|entry| entry.is_dir) {
        let dir = indices.join(&entry.name);
        let mut committed = Vec::new();
        for shard in disk.list(&dir)?.iter().filter(|shard| shard.is_dir) {
            committed.extend(Shard::committed_catalog(disk, &dir.join(&shard.name)));
        }
        folders.push(IndexFolder {
            record: IndexRecord::read(disk, &dir),
            uuid: entry.name,
            tier,
            dir,
            committed,
        });
    }
    Ok(folders)
}

/// Fails if there is no catalog beside files that only a node with a catalog writes. `what` describes the catalog's
/// state.
pub(crate) fn refuse_lost_catalog(what: &str, path_data: &Path, evidence: &Evidence) -> Result<()> {
    let path = path_data.join(CATALOG_FILE);
    let found = found_beside(evidence);
    if found.is_empty() {
        return Ok(());
    }
    Err(refusal(format!(
        "the catalog [{}] {what}, but the data folder holds {}",
        path.display(),
        found.join(" and ")
    )))
}

fn found_beside(evidence: &Evidence) -> Vec<String> {
    let mut found = Vec::new();
    match &evidence.folders[..] {
        [] => {}
        [folder] => found.push(format!("the index folder [{}]", folder.dir.display())),
        [first, ..] => found.push(format!(
            "{} index folders, the first of them [{}]",
            evidence.folders.len(),
            first.dir.display()
        )),
    }
    if let Some(noted) = &evidence.noted
        && noted.version > 0
    {
        found.push(format!("[catalog.version], which says version {}", noted.version));
    }
    if let Some(copy) = &evidence.copy {
        found.push(format!("[catalog.copy] of version {}", copy.version));
    }
    found
}

/// Fails if a file beside the catalog was written at a higher version than the catalog has now: then its
/// newest changes are lost.
pub(crate) fn refuse_old_catalog(metadata: &Metadata, path_data: &Path, evidence: &Evidence) -> Result<()> {
    let path = path_data.join(CATALOG_FILE);
    let (uuid, version) = (metadata.cluster_uuid.as_str(), metadata.version);
    let is_new = uuid.is_empty();
    if is_new {
        let found = found_beside(evidence);
        return match found.is_empty() {
            true => Ok(()),
            false => Err(refusal(format!(
                "the catalog [{}] is new, but the data folder holds {}",
                path.display(),
                found.join(" and ")
            ))),
        };
    }
    let older = |what: String, newest: u64| {
        refusal(format!(
            "the catalog [{}] has version {version}, but {what} was written at version {newest}: the catalog lost its \
             newest changes",
            path.display()
        ))
    };
    for (file, noted) in [("catalog.version", &evidence.noted), ("catalog.copy", &evidence.copy)] {
        let Some(noted) = noted else { continue };
        if noted.cluster_uuid != uuid {
            return Err(refusal(format!(
                "the catalog [{}] is that of cluster uuid [{uuid}], but [{file}] belongs to [{}]",
                path.display(),
                noted.cluster_uuid
            )));
        }
        if noted.version > version {
            return Err(older(format!("[{file}]"), noted.version));
        }
    }
    for folder in &evidence.folders {
        // The sweep quarantines a folder of another node, and an unfinished folder says nothing about the catalog.
        if let Ok(Some(record)) = &folder.record {
            if record.cluster_uuid != uuid || record.state != RecordState::Live {
                continue;
            }
            if record.catalog_version > version {
                let what = format!("[{}] of index [{}]", folder.dir.display(), record.index.name);
                return Err(older(what, record.catalog_version));
            }
        }
        for committed in folder
            .committed
            .iter()
            .filter(|committed| committed.cluster_uuid == uuid)
        {
            if committed.version > version {
                let what = format!("a commit point in [{}]", folder.dir.display());
                return Err(older(what, committed.version));
            }
        }
    }
    Ok(())
}

fn refusal(reason: String) -> Error {
    Error::internal(format!(
        "refusing to start: {reason}. Nothing was changed. Put back the catalog from a backup of this data folder, or see \
         what `firn catalog rebuild` can make of the files that are there"
    ))
}
