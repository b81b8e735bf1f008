//! Paths of the devices, and checks that the devices belong to this node.
//!
//! A device must never be mistaken for that of another node: its `tier.json` names the owner, and the version of the
//! catalog when the device was last used.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use firn_model::tier::Tier;
use firn_model::{Error, Result};
use firn_segment::catalog_version::NotedVersion;
use firn_storage::disk::Disk;
use serde::{Deserialize, Serialize};

use crate::lock::NodeLock;

/// The data paths of tiers.
#[derive(Debug, Clone, Default)]
pub struct TierPaths {
    /// Paths of tiers other than the hot one.
    by_tier: BTreeMap<Tier, PathBuf>,
    /// Path of the region cache; `None`: beside the catalog.
    frozen: Option<PathBuf>,
}

impl TierPaths {
    /// Adds a path for `tier`. The path of the hot tier is `path_data`.
    #[must_use]
    pub fn with(mut self, tier: Tier, path: PathBuf) -> Self {
        self.by_tier.insert(tier, path);
        self
    }

    /// Adds a path for the region cache.
    #[must_use]
    pub fn with_frozen(mut self, path: PathBuf) -> Self {
        self.frozen = Some(path);
        self
    }

    /// Returns the path of a tier; `None`: the node does not have it, or it is the hot one.
    pub(crate) fn of(&self, tier: Tier) -> Option<&Path> {
        self.by_tier.get(&tier).map(PathBuf::as_path)
    }

    /// Whether the node has a tier.
    pub(crate) fn has(&self, tier: Tier) -> bool {
        tier == Tier::Hot || self.by_tier.contains_key(&tier)
    }

    /// Returns every path but that of the hot tier.
    pub(crate) fn beside_hot(&self) -> impl Iterator<Item = (Tier, &Path)> {
        let others = self.by_tier.iter().filter(|(tier, _)| **tier != Tier::Hot);
        others.map(|(tier, path)| (*tier, path.as_path()))
    }

    /// Returns the path of the region cache, if it is not beside the catalog.
    pub(crate) fn frozen(&self) -> Option<&Path> {
        self.frozen.as_deref()
    }
}

/// File that names the owner of a device.
const OWNER_FILE: &str = "tier.json";
/// The only format so far.
const FORMAT: u32 = 1;

/// Content of [`OWNER_FILE`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    format: u32,
    cluster_uuid: String,
    tier: String,
    /// 0 in files of earlier builds.
    #[serde(default)]
    catalog_version: u64,
}

/// Creates the folder of a device and locks it. Fails if it belongs to another node, or to another tier of this one.
pub(super) fn claim(disk: &dyn Disk, tier: Tier, path: &Path, catalog: &NotedVersion) -> Result<NodeLock> {
    let setting = format!("[path.data.{tier}] is [{}]", path.display());
    disk.create_dir_all(path)
        .map_err(|error| Error::internal(format!("{setting}, which cannot be created")).caused_by(error))?;
    let lock = NodeLock::take(disk, path)?;
    check_owner(disk, tier, path, catalog)
        .map_err(|error| Error::new(error.kind(), format!("{setting}: {}", error.reason())))?;
    Ok(lock)
}

fn check_owner(disk: &dyn Disk, tier: Tier, path: &Path, catalog: &NotedVersion) -> Result<()> {
    let cluster_uuid = &catalog.cluster_uuid;
    let own = Owner {
        format: FORMAT,
        cluster_uuid: cluster_uuid.clone(),
        tier: tier.name().to_owned(),
        catalog_version: catalog.version,
    };
    let (file, indices) = (path.join(OWNER_FILE), path.join("indices"));
    disk.create_dir_all(&indices)?;
    if disk.exists(&file)? {
        let owner: Owner = serde_json::from_slice(&disk.read(&file)?)
            .map_err(|error| Error::internal(format!("[{OWNER_FILE}] cannot be read: {error}")))?;
        if (owner.format, &owner.cluster_uuid, &owner.tier) != (own.format, &own.cluster_uuid, &own.tier) {
            return Err(Error::illegal_argument(format!(
                "[{OWNER_FILE}]: it is tier [{}] of the node with cluster uuid [{}], not tier [{tier}] of [{cluster_uuid}]",
                owner.tier, owner.cluster_uuid
            )));
        }
        if owner.catalog_version > own.catalog_version {
            return Err(Error::internal(format!(
                "refusing to start: the catalog has version {}, but [{OWNER_FILE}] was written at version {}: the catalog \
                 lost its newest changes; restore it from a backup, or see `firn catalog rebuild`",
                own.catalog_version, owner.catalog_version
            )));
        }
        // Not if nothing changed, and not on a full disk: an older number detects less and does no harm.
        if owner.catalog_version < own.catalog_version
            && let Err(error) = disk.write_atomic(&file, &serde_json::to_vec(&own)?)
        {
            tracing::warn!(%error, path = %file.display(), "cannot store the version of the catalog");
        }
        return Ok(());
    }
    if !disk.list(&indices)?.is_empty() {
        return Err(Error::illegal_argument(format!(
            "it holds indices but no [{OWNER_FILE}], so their owner is unknown"
        )));
    }
    disk.write_atomic(&file, &serde_json::to_vec(&own)?)?;
    for dir in [Some(path), path.parent()].into_iter().flatten() {
        if !dir.as_os_str().is_empty() {
            disk.sync_dir(dir)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use firn_storage::disk::RealDisk;

    use super::*;

    #[test]
    fn a_device_belongs_to_one_tier_of_one_node() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("warm");
        let claim_at = |tier, uuid: &str, version| {
            let catalog = NotedVersion {
                cluster_uuid: uuid.to_owned(),
                version,
            };
            claim(&RealDisk, tier, &path, &catalog)
        };
        let claim = |tier, uuid: &str| claim_at(tier, uuid, 4);
        let lock = claim(Tier::Warm, "u1").unwrap();
        assert!(claim(Tier::Warm, "u1").is_err(), "it is locked");
        drop(lock);
        drop(claim(Tier::Warm, "u1").unwrap());
        drop(claim_at(Tier::Warm, "u1", 6).unwrap());
        let error = claim(Tier::Warm, "u1").unwrap_err();
        assert!(error.reason().contains("version 4"), "{error}");
        drop(claim_at(Tier::Warm, "u1", 6).unwrap());
        for (tier, uuid) in [(Tier::Cold, "u1"), (Tier::Warm, "u2")] {
            let error = claim_at(tier, uuid, 6).unwrap_err();
            assert!(
                error
                    .reason()
                    .contains("it is tier [warm] of the node with cluster uuid [u1]"),
                "{error}"
            );
        }
    }

    #[test]
    fn indices_without_an_owner_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let shard = folder.path().join("indices/u/0");
        std::fs::create_dir_all(&shard).unwrap();
        let error = claim(&RealDisk, Tier::Cold, folder.path(), &NotedVersion::default()).unwrap_err();
        assert!(error.reason().contains("their owner is unknown"), "{error}");
        assert!(shard.exists());
    }
}
