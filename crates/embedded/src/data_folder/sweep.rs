//! Sweep of folders below `indices/` that the catalog does not name, at a start.
//!
//! Such folders remain from a crash between creating files and storing the index, between deleting an index and
//! removing its files, or during a move of a shard; or they were copied there by hand; or a lost catalog named them.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use firn_model::metadata::{IndexMetadata, Metadata};
use firn_model::tier::Tier;
use firn_model::{ErrorKind, Result};
use firn_shard::Shard;
use firn_storage::disk::Disk;

use super::index_record::RecordState;
use super::quarantine::Quarantine;
use super::start_check::{Evidence, IndexFolder};
use crate::node::state::ShardFactory;

/// Result of a sweep.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    /// Number of removed folders.
    pub(crate) removed: usize,
    /// Number of folders moved to the quarantine.
    pub(crate) quarantined: usize,
}

/// Sweeps every folder of the evidence. The catalog is known to be the newest.
pub(crate) fn sweep(
    factory: &ShardFactory,
    metadata: &Metadata,
    deleted: &HashSet<String>,
    evidence: &Evidence,
    quarantine: &Quarantine,
    now_ms: i64,
) -> Result<Swept> {
    let disk = &*factory.disk;
    let by_uuid: HashMap<&str, &IndexMetadata> = metadata
        .indices
        .values()
        .map(|index| (index.uuid.as_str(), &**index))
        .collect();
    let mut swept = Swept::default();
    for folder in &evidence.folders {
        if let Some(index) = by_uuid.get(folder.uuid.as_str()) {
            sweep_shards(factory, index, folder.tier, &folder.dir, quarantine, now_ms, &mut swept)?;
        } else if deleted.contains(&folder.uuid) {
            tracing::info!(path = %folder.dir.display(), "removing the files of an index that was deleted");
            factory.remove_dir(&folder.dir);
            swept.removed += 1;
        } else if let Some(why) = why_unfinished(disk, folder, &metadata.cluster_uuid)? {
            tracing::info!(path = %folder.dir.display(), "removing a folder without acknowledged events: {why}");
            factory.remove_dir(&folder.dir);
            swept.removed += 1;
        } else {
            let why = reason(folder, &metadata.cluster_uuid);
            set_aside(quarantine, folder.tier, &folder.dir, &why, now_ms, &mut swept)?;
        }
    }
    Ok(swept)
}

/// Returns why a folder is the work of a command that was never acknowledged; `None`: it may contain more.
fn why_unfinished(disk: &dyn Disk, folder: &IndexFolder, cluster_uuid: &str) -> Result<Option<&'static str>> {
    if is_without_files(disk, &folder.dir)? {
        return Ok(Some("it holds no file"));
    }
    let Ok(Some(record)) = &folder.record else {
        return Ok(None);
    };
    if record.cluster_uuid != cluster_uuid {
        return Ok(None);
    }
    match record.state {
        RecordState::Live => Ok(None),
        RecordState::Restoring => Ok(Some("a restore from a snapshot did not end")),
        RecordState::Creating => {
            for shard in disk.list(&folder.dir)?.iter().filter(|entry| entry.is_dir) {
                if !Shard::holds_nothing(disk, &folder.dir.join(&shard.name))? {
                    return Ok(None);
                }
            }
            Ok(Some("the creation of an index did not end"))
        }
    }
}

/// Moves a folder to the quarantine. On a full disk it stays, and the next start tries again.
fn set_aside(quarantine: &Quarantine, tier: Tier, dir: &Path, why: &str, now_ms: i64, swept: &mut Swept) -> Result<()> {
    match quarantine.take(tier, dir, why, now_ms) {
        Err(error) if error.kind() == ErrorKind::DiskFull => {
            tracing::error!(path = %dir.display(), %error, "cannot move a folder to the quarantine: {why}");
        }
        taken => {
            taken?;
            swept.quarantined += 1;
        }
    }
    Ok(())
}

/// Whether a folder has only subfolders and an incompletely written record.
fn is_without_files(disk: &dyn Disk, dir: &Path) -> Result<bool> {
    for entry in disk.list(dir)? {
        if entry.name == "index.json.tmp" {
            continue;
        }
        if !entry.is_dir || !is_without_files(disk, &dir.join(&entry.name))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn reason(folder: &IndexFolder, cluster_uuid: &str) -> String {
    match &folder.record {
        Ok(Some(record)) if record.cluster_uuid != cluster_uuid => format!(
            "it holds index [{}] of the node with cluster uuid [{}]",
            record.index.name, record.cluster_uuid
        ),
        Ok(Some(record)) => format!(
            "the catalog does not contain it; it holds index [{}]",
            record.index.name
        ),
        Ok(None) => "the catalog does not contain it, and it has no [index.json]".to_owned(),
        Err(error) => format!("the catalog does not contain it: {}", error.reason()),
    }
}

/// Removes complete folders of shards in `dir` that are on another device by the catalog.
fn sweep_shards(
    factory: &ShardFactory,
    index: &IndexMetadata,
    tier: Tier,
    dir: &Path,
    quarantine: &Quarantine,
    now_ms: i64,
    swept: &mut Swept,
) -> Result<()> {
    // With one device, no shard can be on another one.
    if factory.devices().count() == 1 {
        return Ok(());
    }
    let disk = &*factory.disk;
    let is_mounted = index.settings.is_mounted();
    for entry in disk.list(dir)? {
        let Ok(number) = entry.name.parse::<u32>() else {
            continue;
        };
        let named = match is_mounted {
            true => factory.tier_of_mounted(index),
            false => index.tier_of(number),
        };
        if named == tier {
            continue;
        }
        let other = dir.join(&entry.name);
        // Copies of splits can be fetched again. A shard is removed only if the one that the catalog names exists, or
        // if this one was never finished.
        let is_spare = is_mounted
            || !Shard::exists(disk, &other)?
            || match factory.shard_config(index, number) {
                Ok(config) => Shard::exists(disk, &config.dir)?,
                Err(_) => false,
            };
        match is_spare {
            true => {
                factory.remove_dir(&other);
                swept.removed += 1;
            }
            false => {
                let why = format!(
                    "shard [{}][{number}] is on tier [{named}] according to the catalog, but its files are missing there",
                    index.name
                );
                set_aside(quarantine, tier, &other, &why, now_ms, swept)?;
            }
        }
    }
    Ok(())
}
