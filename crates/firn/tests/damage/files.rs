//! Files that firn writes, by class, and copies of whole folders.

use std::fs;
use std::path::{Path, PathBuf};

/// Class of a file. Each class has a separate way to detect damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    Catalog,
    /// Files that identify a lost or old catalog, and copies of its content; the mark of a control file, and reserved
    /// space.
    CatalogCopy,
    Control,
    SavedObject,
    SavedList,
    Keystore,
    Lock,
    TierFile,
    CommitPoint,
    Wal,
    /// Notes on the synced length of a log.
    WalNotes,
    /// Log of source positions, on which no answer of this test depends.
    SourcePositions,
    Deletes,
    /// Tantivy's files of a segment, and their checksums.
    Segment,
    IdFilter,
    TenantStatistics,
    DistinctCounts,
    MountManifest,
    LocalCopy,
    RegionData,
    RegionJournal,
    RepositoryLog,
    RepositoryDone,
    RepositorySnapshot,
    RepositoryIndex,
    RepositorySplit,
    RepositoryDeletes,
    RepositoryFilters,
}

impl Class {
    pub const ALL: [Self; 28] = [
        Self::Catalog,
        Self::CatalogCopy,
        Self::Control,
        Self::SavedObject,
        Self::SavedList,
        Self::Keystore,
        Self::Lock,
        Self::TierFile,
        Self::CommitPoint,
        Self::Wal,
        Self::WalNotes,
        Self::SourcePositions,
        Self::Deletes,
        Self::Segment,
        Self::IdFilter,
        Self::TenantStatistics,
        Self::DistinctCounts,
        Self::MountManifest,
        Self::LocalCopy,
        Self::RegionData,
        Self::RegionJournal,
        Self::RepositoryLog,
        Self::RepositoryDone,
        Self::RepositorySnapshot,
        Self::RepositoryIndex,
        Self::RepositorySplit,
        Self::RepositoryDeletes,
        Self::RepositoryFilters,
    ];

    /// Returns the class of a file by its path below the prepared folder. `None`: a kind of file that this test does
    /// not know.
    pub fn of(path: &Path) -> Option<Self> {
        let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        Some(match parts[..] {
            [_, "catalog.redb"] => Self::Catalog,
            [_, "catalog.copy" | "catalog.version" | "control.exists" | "reserve"] => Self::CatalogCopy,
            [_, "indices", _, "index.json"] => Self::CatalogCopy,
            [_, "control", "control"] => Self::Control,
            [_, "control", "saved", _, "_list"] => Self::SavedList,
            [_, "control", "saved", ..] => Self::SavedObject,
            [_, "firn.keystore"] => Self::Keystore,
            [_, "node.lock"] => Self::Lock,
            [_, "tier.json"] => Self::TierFile,
            [_, "mounts", _] => Self::MountManifest,
            [_, "regions", "regions.journal"] => Self::RegionJournal,
            [_, "regions", _] => Self::RegionData,
            [_, "positions", _] => Self::SourcePositions,
            [_, "indices", _, _, "wal", name] if name.ends_with(".durable") => Self::WalNotes,
            [_, "indices", _, _, "wal", _] => Self::Wal,
            [_, "indices", _, _, "segments", _, "ids.filter"] => Self::IdFilter,
            [_, "indices", _, _, "segments", _, "tenants.bin"] => Self::TenantStatistics,
            [_, "indices", _, _, "segments", _, "distinct.bin"] => Self::DistinctCounts,
            [_, "indices", _, _, "segments", _, _] => Self::Segment,
            [_, "indices", _, _, "segments", _] => Self::Deletes,
            [_, "indices", _, _, name] if name.starts_with("commit-") => Self::CommitPoint,
            [_, "indices", _, _, name] if name.ends_with(".split") => Self::LocalCopy,
            ["repositories", _, "log", name] if name.ends_with(".done") => Self::RepositoryDone,
            ["repositories", _, "log", _] => Self::RepositoryLog,
            ["repositories", _, "snapshots", _] => Self::RepositorySnapshot,
            ["repositories", _, "indices", _] => Self::RepositoryIndex,
            ["repositories", _, "splits", _, _] => Self::RepositorySplit,
            ["repositories", _, "deletes", _, _] => Self::RepositoryDeletes,
            ["repositories", _, "filters", _, _] => Self::RepositoryFilters,
            _ => return None,
        })
    }

    /// Returns whether other files have the same content, so that answers must not change.
    pub fn is_copy(self) -> bool {
        matches!(
            self,
            Self::CatalogCopy
                | Self::SavedList
                | Self::Lock
                | Self::WalNotes
                | Self::SourcePositions
                | Self::MountManifest
                | Self::LocalCopy
                | Self::RegionData
                | Self::RegionJournal
                | Self::RepositoryDone
        )
    }
}

/// Returns all files below `root`, as relative paths, sorted.
pub fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path().strip_prefix(root).unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

/// Returns the folders of shards, as paths below `root`: `data/indices/UUID/SHARD`.
pub fn shard_folders(root: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = files(root)
        .into_iter()
        .filter_map(|path| {
            let parts: Vec<_> = path.iter().collect();
            let is_of_shard = parts.len() > 4 && parts[1] == "indices";
            is_of_shard.then(|| parts[..4].iter().collect())
        })
        .collect();
    found.dedup();
    found
}
