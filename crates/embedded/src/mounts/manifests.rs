//! What mounted indices read: the manifests of their snapshots, in memory once for all mounts of one.
//!
//! A manifest is read from the repository when an index is mounted, and kept in a file beside the indices, so that a
//! start with many thousands of mounts asks the repository for none. The file is a copy and nothing more: what is
//! missing or damaged is read again.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use firn_model::metadata::IndexMetadata;
use firn_model::settings::SnapshotStore;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::disk::Disk;
use firn_storage::repository::{IndexManifest, Repository, SnapshotManifest, SnapshotSegment, State};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::tables::{MountedTable, MountedTables};

/// Manifests of snapshots that are kept beyond their use: whoever mounts one index of a snapshot often mounts the next.
const SNAPSHOTS_KEPT: usize = 4;
/// Indices of snapshots that are kept for the next mount of the same.
const SOURCES_KEPT: usize = 64;

/// The shards of an index in a snapshot, by number.
#[derive(Debug)]
pub(crate) struct MountedIndex {
    pub(crate) shards: Vec<MountedSegments>,
    /// Tables that have filters of its splits.
    pub(super) tables: Vec<Arc<MountedTable>>,
    tenant_bytes: OnceLock<Vec<(Arc<str>, u64)>>,
}

/// A shard in a snapshot.
#[derive(Debug)]
pub(crate) struct MountedSegments {
    /// Newest first.
    pub(crate) segments: Vec<Arc<SnapshotSegment>>,
    /// The snapshot lacks it.
    pub(crate) missing: bool,
}

impl MountedIndex {
    fn new(manifest: IndexManifest, tables: &MountedTables) -> Self {
        let mut shards = manifest.shards;
        shards.sort_by_key(|shard| shard.shard);
        let shards = shards.into_iter().map(|shard| {
            let mut segments: Vec<_> = shard.segments.into_iter().map(Arc::new).collect();
            segments.sort_by_key(|segment| std::cmp::Reverse(segment.split.time_range_ms.map(|range| range.1)));
            MountedSegments {
                segments,
                missing: shard.missing,
            }
        });
        Self {
            shards: shards.collect(),
            tables: manifest.filters.into_iter().map(|table| tables.get(table)).collect(),
            tenant_bytes: OnceLock::new(),
        }
    }

    /// The part of its splits' bytes that each tenant has, by documents, as far as the manifest names tenants.
    pub(crate) fn tenant_bytes(&self) -> &[(Arc<str>, u64)] {
        self.tenant_bytes.get_or_init(|| {
            let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
            for segment in self.shards.iter().flat_map(|shard| &shard.segments) {
                let split = &segment.split;
                for tenant in split.tenants.iter().flatten() {
                    let part = u128::from(split.len) * u128::from(tenant.docs) / u128::from(split.docs.max(1));
                    *bytes.entry(&tenant.tenant).or_default() += part as u64;
                }
            }
            bytes
                .into_iter()
                .map(|(tenant, bytes)| (tenant.into(), bytes))
                .collect()
        })
    }
}

type Cell<T> = OnceCell<Arc<T>>;
/// The ids of a snapshot and of an index in it.
type Key = (String, String);

fn key_of(store: &SnapshotStore) -> Key {
    (store.snapshot_uuid.clone(), store.index_uuid.clone())
}

/// See the module.
pub(crate) struct Manifests {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    /// By the ids of snapshot and index. Whoever holds a cell holds what is in it.
    indices: Mutex<HashMap<Key, Weak<MountedIndex>>>,
    /// One that is being read has no value yet; others wait for it.
    reading: Mutex<HashMap<Key, Weak<Cell<MountedIndex>>>>,
    /// What was mounted last, newest at the end: many mounts of one index share its mapping.
    sources: Mutex<Vec<(Key, Arc<IndexMetadata>)>>,
    /// The last ones, newest at the end, by id.
    snapshots: Mutex<Vec<(String, Arc<Cell<SnapshotManifest>>)>>,
    tables: MountedTables,
}

impl Manifests {
    /// Those of the folder `mounts` in a data folder.
    pub(crate) fn new(path_data: &Path, disk: Arc<dyn Disk>) -> Self {
        Self {
            folder: path_data.join("mounts"),
            disk,
            indices: Mutex::default(),
            reading: Mutex::default(),
            sources: Mutex::default(),
            snapshots: Mutex::default(),
            tables: MountedTables::default(),
        }
    }

    /// What a mounted index reads: known, or in its file, or from the repository. Reads of the same one wait for each
    /// other.
    pub(crate) async fn get(
        &self,
        store: &SnapshotStore,
        repository: impl FnOnce() -> Result<Arc<Repository>>,
    ) -> Result<Arc<MountedIndex>> {
        let key = key_of(store);
        if let Some(known) = self.known(store) {
            return Ok(known);
        }
        let cell = {
            let mut reading = self.reading.lock();
            let known = reading.get(&key).and_then(Weak::upgrade);
            let cell = known.unwrap_or_default();
            reading.insert(key.clone(), Arc::downgrade(&cell));
            cell
        };
        let index = cell
            .get_or_try_init(|| async {
                let manifest = match self.read_copy(store) {
                    Some(manifest) => manifest,
                    None => {
                        let manifest = self.fetch_from(store, &*repository()?).await?;
                        self.keep(store, &manifest);
                        manifest
                    }
                };
                Ok::<_, Error>(self.share(&key, manifest))
            })
            .await?;
        self.reading.lock().remove(&key);
        Ok(Arc::clone(index))
    }

    /// What all mounts share of a manifest that was read: what others made of it meanwhile, if they did.
    fn share(&self, key: &Key, manifest: IndexManifest) -> Arc<MountedIndex> {
        let mut indices = self.indices.lock();
        if let Some(known) = indices.get(key).and_then(Weak::upgrade) {
            return known;
        }
        let index = Arc::new(MountedIndex::new(manifest, &self.tables));
        indices.insert(key.clone(), Arc::downgrade(&index));
        index
    }

    /// The manifest of a snapshot that the log of its repository names.
    pub(crate) async fn snapshot(
        &self,
        repository: &Repository,
        state: &State,
        name: &str,
    ) -> Result<Arc<SnapshotManifest>> {
        let Some(entry) = state.snapshots.get(name) else {
            return Err(firn_model::repository::snapshot_missing(repository.name(), name));
        };
        let cell = {
            let mut kept = self.snapshots.lock();
            match kept.iter().position(|(uuid, _)| *uuid == entry.uuid) {
                Some(place) => Arc::clone(&kept[place].1),
                None => {
                    let cell = Arc::new(Cell::new());
                    kept.push((entry.uuid.clone(), Arc::clone(&cell)));
                    if kept.len() > SNAPSHOTS_KEPT {
                        kept.remove(0);
                    }
                    cell
                }
            }
        };
        let manifest = cell
            .get_or_try_init(|| async { Ok::<_, Error>(Arc::new(repository.manifest(entry).await?)) })
            .await?;
        Ok(Arc::clone(manifest))
    }

    /// The manifest of an index from its repository, with its metadata.
    pub(crate) async fn fetch_from(&self, store: &SnapshotStore, repository: &Repository) -> Result<IndexManifest> {
        let state = repository.state().await?;
        let snapshot = self.snapshot(repository, &state, &store.snapshot).await?;
        let is_other = snapshot.uuid != store.snapshot_uuid;
        let entry = snapshot.indices.get(&store.index).filter(|_| !is_other);
        match entry.filter(|entry| entry.uuid == store.index_uuid) {
            Some(entry) => repository.index(entry).await,
            None => Err(Error::new(
                ErrorKind::SnapshotMissing,
                format!(
                    "[{}:{}/{}] is missing",
                    store.repository, store.snapshot, store.snapshot_uuid
                ),
            )),
        }
    }

    /// What somebody reads already.
    pub(crate) fn known(&self, store: &SnapshotStore) -> Option<Arc<MountedIndex>> {
        self.indices.lock().get(&key_of(store)).and_then(Weak::upgrade)
    }

    /// What somebody reads already, or what this node's copy says.
    pub(crate) fn known_here(&self, store: &SnapshotStore) -> Option<Arc<MountedIndex>> {
        let read = || Some(self.share(&key_of(store), self.read_copy(store)?));
        self.known(store).or_else(read)
    }

    /// An index as it was in its snapshot, to be mounted, with what will be read of it.
    pub(crate) async fn source(
        &self,
        store: &SnapshotStore,
        repository: &Repository,
    ) -> Result<(Arc<IndexMetadata>, Arc<MountedIndex>)> {
        let key = key_of(store);
        let kept = self.sources.lock().iter().find(|(own, _)| *own == key).cloned();
        if let (Some((_, source)), Some(known)) = (kept, self.known(store)) {
            return Ok((source, known));
        }
        let (source, index) = self.fetch(store, repository).await?;
        let mut sources = self.sources.lock();
        sources.retain(|(own, _)| *own != key);
        sources.push((key, Arc::clone(&source)));
        if sources.len() > SOURCES_KEPT {
            sources.remove(0);
        }
        Ok((source, index))
    }

    /// The same from the repository, whatever is known of it here: fails if it is not there any more.
    pub(crate) async fn fetch(
        &self,
        store: &SnapshotStore,
        repository: &Repository,
    ) -> Result<(Arc<IndexMetadata>, Arc<MountedIndex>)> {
        let manifest = self.fetch_from(store, repository).await?;
        let source = Arc::new(IndexMetadata::from_json(&manifest.index)?);
        self.keep(store, &manifest);
        Ok((source, self.share(&key_of(store), manifest)))
    }

    /// Removes the files that no mounted index needs.
    pub(crate) fn retain<'a>(&self, mounted: impl Iterator<Item = &'a SnapshotStore>) {
        let wanted: std::collections::HashSet<String> = mounted.map(file_name).collect();
        let Ok(entries) = self.disk.list(&self.folder) else {
            return;
        };
        for entry in entries.into_iter().filter(|entry| !wanted.contains(&entry.name)) {
            // It costs some kilobytes, and the next start tries again.
            let _ = self.disk.remove_file(&self.folder.join(entry.name));
        }
    }

    fn read_copy(&self, store: &SnapshotStore) -> Option<IndexManifest> {
        let bytes = self.disk.read(&self.folder.join(file_name(store))).ok()?;
        let (checksum, json) = bytes.split_first_chunk::<4>()?;
        match crc32c::crc32c(json) == u32::from_le_bytes(*checksum) {
            true => serde_json::from_slice(json).ok(),
            false => None,
        }
    }

    /// What is there of it and differs is damaged, and replaced. A manifest that cannot be kept is read from the
    /// repository at the next start.
    fn keep(&self, store: &SnapshotStore, manifest: &IndexManifest) {
        let path = self.folder.join(file_name(store));
        let written = serde_json::to_vec(manifest)
            .map_err(std::io::Error::from)
            .and_then(|json| {
                let mut bytes = crc32c::crc32c(&json).to_le_bytes().to_vec();
                bytes.extend_from_slice(&json);
                // Many mounts of one index share the file.
                if self.disk.read(&path).is_ok_and(|kept| kept == bytes) {
                    return Ok(());
                }
                self.disk.create_dir_all(&self.folder)?;
                self.disk.write_atomic(&path, &bytes)
            });
        if let Err(error) = written {
            tracing::warn!(%error, index = store.index, snapshot = store.snapshot, "cannot keep the manifest of a mounted index");
        }
    }
}

/// Ids are made of letters, digits, `-` and `_`, as firn draws them; whatever else a repository says is left out, so
/// that no name leads out of the folder.
fn file_name(store: &SnapshotStore) -> String {
    let plain = |id: &str| -> String {
        let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        id.chars().filter(is_plain).collect()
    };
    format!("{}.{}.mount", plain(&store.snapshot_uuid), plain(&store.index_uuid))
}
