//! Manifests of mounted indices, in memory once for all mounts of a snapshot.
//!
//! A manifest is read from the repository when an index is mounted, and stored in a file beside the indices, so that a
//! start with many thousands of mounts sends no request to the repository. The file is only a copy: a missing or
//! damaged one is read again.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use firn_model::metadata::IndexMetadata;
use firn_model::settings::SnapshotStore;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::disk::Disk;
use firn_storage::repository::{IndexManifest, Repository, SnapshotManifest, SnapshotSegment, State};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::filter_tables::{MountedTable, MountedTables};

/// Snapshot manifests cached beyond their use: clients that mount one index of a snapshot often mount the next.
const CACHED_SNAPSHOTS_MAX: usize = 4;
/// Indices of snapshots cached for the next mount of the same index.
const CACHED_SOURCES_MAX: usize = 64;

/// Length of an object id: a SHA-256 in hex digits.
const ID_BYTES: u64 = 64;

/// The shards of an index in a snapshot, by number.
#[derive(Debug)]
pub(crate) struct MountedIndex {
    pub(crate) shards: Vec<MountedSegments>,
    /// Filter tables that cover its splits.
    pub(super) tables: Vec<Arc<MountedTable>>,
    origin: Mutex<Origin>,
    tenant_bytes: OnceLock<Vec<(Arc<str>, u64)>>,
}

/// The version of the repository that a manifest was read from.
#[derive(Debug, Clone, Default)]
pub(super) struct Origin {
    /// Number of the newest commit in the repository's log at the read; 0: read from the copy on this node.
    as_of: u64,
    /// Id of the snapshot's manifest; `None`: an older build wrote the copy without it.
    pub(super) snapshot_manifest: Option<String>,
}

/// A manifest as read from its repository.
pub(super) struct Fetched {
    manifest: IndexManifest,
    origin: Origin,
}

/// A shard in a snapshot.
#[derive(Debug)]
pub(crate) struct MountedSegments {
    /// Newest first.
    pub(crate) segments: Vec<Arc<SnapshotSegment>>,
    /// The snapshot lacks the shard.
    pub(crate) missing: bool,
}

impl MountedIndex {
    fn new(manifest: IndexManifest, origin: Origin, tables: &MountedTables) -> Self {
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
            origin: Mutex::new(origin),
            tenant_bytes: OnceLock::new(),
        }
    }

    /// Returns every segment of every shard.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &Arc<SnapshotSegment>> {
        self.shards.iter().flat_map(|shard| &shard.segments)
    }

    /// Returns the newest version that this manifest was read from.
    pub(super) fn origin(&self) -> Origin {
        self.origin.lock().clone()
    }

    /// Whether both name the same documents: a snapshot is rewritten when a tenant's events are removed from it.
    fn reads_the_same(&self, other: &Self) -> bool {
        let named = |index: &Self| {
            let shards = index.shards.iter();
            let named = shards.map(|shard| {
                let segments = shard.segments.iter();
                let ids = segments.map(|segment| {
                    let deletes = segment.deletes.as_ref().map(|deletes| deletes.id.clone());
                    (segment.split.id.clone(), deletes)
                });
                let mut ids: Vec<_> = ids.collect();
                ids.sort_unstable();
                (shard.missing, ids)
            });
            named.collect::<Vec<_>>()
        };
        named(self) == named(other)
    }

    /// Returns the bytes of its splits by tenant, in proportion to documents, as far as the manifest names tenants.
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
/// The ids of a snapshot and of an index in it, and the name of its repository: a copied repository has the same ids,
/// but is rewritten independently.
type Key = (String, String, String);

fn key_of(store: &SnapshotStore) -> Key {
    (
        store.snapshot_uuid.clone(),
        store.index_uuid.clone(),
        store.repository.clone(),
    )
}

/// An index in a snapshot that was mounted.
#[derive(Clone)]
struct Source {
    key: Key,
    /// Id of its manifest.
    manifest: String,
    index: Arc<IndexMetadata>,
    read: Weak<MountedIndex>,
}

/// See the module.
pub(crate) struct Manifests {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    /// By the ids of snapshot and index. The users of a manifest keep it alive.
    indices: Mutex<HashMap<Key, Weak<MountedIndex>>>,
    /// Manifests that are being read. The cell has no value yet, and other callers wait for it.
    reading: Mutex<HashMap<Key, Weak<Cell<MountedIndex>>>>,
    /// The last mounted indices, newest at the end: many mounts of one index share its mapping.
    sources: Mutex<Vec<Source>>,
    /// The last snapshot manifests, newest at the end, by id.
    snapshots: Mutex<Vec<(String, Arc<Cell<SnapshotManifest>>)>>,
    tables: MountedTables,
    /// Held while a file is written.
    keeping: Mutex<()>,
    /// A copy was read that was not yet compared with its repository.
    unverified: AtomicBool,
}

impl Manifests {
    /// Opens the folder `mounts` of a data folder.
    pub(crate) fn new(path_data: &Path, disk: Arc<dyn Disk>) -> Self {
        Self {
            folder: path_data.join("mounts"),
            disk,
            indices: Mutex::default(),
            reading: Mutex::default(),
            sources: Mutex::default(),
            snapshots: Mutex::default(),
            tables: MountedTables::default(),
            keeping: Mutex::default(),
            unverified: AtomicBool::new(false),
        }
    }

    /// Returns the manifest of a mounted index: from memory, from its file, or from the repository. Concurrent reads of
    /// the same manifest are one read.
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
                if let Some(copy) = self.read_copy(store) {
                    return Ok::<_, Error>(self.share(&key, &copy));
                }
                let fetched = self.fetch_from(store, &*repository()?).await?;
                let index = self.share(&key, &fetched);
                self.keep(store, &fetched);
                Ok(index)
            })
            .await?;
        self.reading.lock().remove(&key);
        Ok(Arc::clone(index))
    }

    /// Returns the manifest that all mounts share: the one in memory, unless the snapshot was rewritten since it was
    /// read. In that case the caller replaces the shards that use the old one
    /// ([`MountService::switch_mounts`](crate::mounts::MountService::switch_mounts)).
    fn share(&self, key: &Key, read: &Fetched) -> Arc<MountedIndex> {
        let mut indices = self.indices.lock();
        let known = indices.get(key).and_then(Weak::upgrade);
        if let Some(known) = &known
            && known.origin.lock().as_of >= read.origin.as_of
        {
            return Arc::clone(known);
        }
        let index = MountedIndex::new(read.manifest.clone(), read.origin.clone(), &self.tables);
        if let Some(known) = known
            && known.reads_the_same(&index)
        {
            known.origin.lock().clone_from(&read.origin);
            return known;
        }
        let index = Arc::new(index);
        indices.insert(key.clone(), Arc::downgrade(&index));
        index
    }

    /// Returns the manifest of a snapshot that the log of its repository names.
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
            let mut cached = self.snapshots.lock();
            match cached.iter().position(|(id, _)| *id == entry.manifest) {
                Some(place) => Arc::clone(&cached[place].1),
                None => {
                    let cell = Arc::new(Cell::new());
                    cached.push((entry.manifest.clone(), Arc::clone(&cell)));
                    if cached.len() > CACHED_SNAPSHOTS_MAX {
                        cached.remove(0);
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

    /// Reads the manifest of an index from its repository, with its metadata.
    async fn fetch_from(&self, store: &SnapshotStore, repository: &Repository) -> Result<Fetched> {
        let state = repository.state().await?;
        let snapshot = self.snapshot(repository, &state, &store.snapshot).await?;
        let named = state.snapshots.get(&store.snapshot);
        let is_other = snapshot.uuid != store.snapshot_uuid;
        let entry = snapshot.indices.get(&store.index).filter(|_| !is_other);
        match entry.filter(|entry| entry.uuid == store.index_uuid) {
            Some(entry) => Ok(Fetched {
                manifest: repository.index(entry).await?,
                origin: Origin {
                    as_of: state.number,
                    snapshot_manifest: named.map(|named| named.manifest.clone()),
                },
            }),
            None => Err(Error::new(
                ErrorKind::SnapshotMissing,
                format!(
                    "[{}:{}/{}] is missing",
                    store.repository, store.snapshot, store.snapshot_uuid
                ),
            )),
        }
    }

    /// Returns a manifest that is in memory.
    pub(crate) fn known(&self, store: &SnapshotStore) -> Option<Arc<MountedIndex>> {
        self.indices.lock().get(&key_of(store)).and_then(Weak::upgrade)
    }

    /// Returns a manifest that is in memory or in a file of this node.
    pub(crate) fn known_here(&self, store: &SnapshotStore) -> Option<Arc<MountedIndex>> {
        let read = || Some(self.share(&key_of(store), &self.read_copy(store)?));
        self.known(store).or_else(read)
    }

    /// Returns an index as it was in its snapshot, for a mount, with its manifest. `manifest` is the id of the index
    /// manifest that the snapshot names now.
    pub(crate) async fn source(
        &self,
        store: &SnapshotStore,
        manifest: &str,
        repository: &Repository,
    ) -> Result<(Arc<IndexMetadata>, Arc<MountedIndex>)> {
        let key = key_of(store);
        let is_own = |source: &&Source| source.key == key && source.manifest == manifest;
        let cached = self.sources.lock().iter().find(is_own).cloned();
        if let Some(cached) = cached
            && let (Some(read), Some(known)) = (cached.read.upgrade(), self.known(store))
            && Arc::ptr_eq(&read, &known)
        {
            return Ok((cached.index, known));
        }
        let (source, index) = self.fetch(store, repository).await?;
        let mut sources = self.sources.lock();
        sources.retain(|own| own.key != key);
        sources.push(Source {
            key,
            manifest: manifest.to_owned(),
            index: Arc::clone(&source),
            read: Arc::downgrade(&index),
        });
        if sources.len() > CACHED_SOURCES_MAX {
            sources.remove(0);
        }
        Ok((source, index))
    }

    /// As [`Manifests::source`], but always from the repository. Fails if the snapshot no longer exists.
    pub(crate) async fn fetch(
        &self,
        store: &SnapshotStore,
        repository: &Repository,
    ) -> Result<(Arc<IndexMetadata>, Arc<MountedIndex>)> {
        let fetched = self.fetch_from(store, repository).await?;
        let source = Arc::new(IndexMetadata::from_json(&fetched.manifest.index)?);
        let index = self.share(&key_of(store), &fetched);
        self.keep(store, &fetched);
        Ok((source, index))
    }

    /// Reads the manifest that mounts use from now on from the repository, with the value for [`Manifests::keep`] after
    /// the switch.
    pub(super) async fn fetch_anew(
        &self,
        store: &SnapshotStore,
        repository: &Repository,
    ) -> Result<(Arc<MountedIndex>, Fetched)> {
        let fetched = self.fetch_from(store, repository).await?;
        Ok((self.share(&key_of(store), &fetched), fetched))
    }

    /// Whether a copy was read since the last call: its snapshot may have been rewritten by another node.
    pub(super) fn take_unverified(&self) -> bool {
        self.unverified.swap(false, Ordering::AcqRel)
    }

    /// Removes this node's copy of a manifest that is about to be replaced in its repository. If the process ends
    /// meanwhile, the next start reads the current one from the repository.
    pub(super) fn forget_copy(&self, store: &SnapshotStore) -> Result<()> {
        let _keeping = self.keeping.lock();
        for name in [file_name(store), file_name_before(store)] {
            match self.disk.remove_file(&self.folder.join(name)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        match self.disk.sync_dir(&self.folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            synced => Ok(synced?),
        }
    }

    /// Removes the files that no mounted index needs.
    pub(crate) fn retain<'a>(&self, mounted: impl Iterator<Item = &'a SnapshotStore>) {
        let names = mounted.flat_map(|store| [file_name(store), file_name_before(store)]);
        let wanted: std::collections::HashSet<String> = names.collect();
        let Ok(entries) = self.disk.list(&self.folder) else {
            return;
        };
        for entry in entries.into_iter().filter(|entry| !wanted.contains(&entry.name)) {
            // A remaining file costs some kilobytes, and the next start tries again.
            let _ = self.disk.remove_file(&self.folder.join(entry.name));
        }
    }

    fn read_copy(&self, store: &SnapshotStore) -> Option<Fetched> {
        let read = |name: String| self.disk.read(&self.folder.join(name));
        let bytes = read(file_name(store)).or_else(|_| read(file_name_before(store))).ok()?;
        let (checksum, body) = bytes.split_first_chunk::<4>()?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
            return None;
        }
        // Compact JSON has no line breaks.
        let (json, id) = match body.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => (&body[..end], Some(std::str::from_utf8(&body[end + 1..]).ok()?)),
            None => (body, None),
        };
        let manifest = serde_json::from_slice(json).ok()?;
        self.unverified.store(true, Ordering::Release);
        Some(Fetched {
            manifest,
            origin: Origin {
                as_of: 0,
                snapshot_manifest: id.map(str::to_owned),
            },
        })
    }

    /// Reads only the id of the snapshot's manifest from this node's copy; a damaged file may give any id. `None`:
    /// there is no copy, or it has no id.
    pub(super) fn id_in_copy(&self, store: &SnapshotStore) -> Option<String> {
        let path = self.folder.join(file_name(store));
        let len = self.disk.len(&path).ok()?;
        let end = self.disk.read_range(&path, len.checked_sub(ID_BYTES + 1)?..len).ok()?;
        let id = end.strip_prefix(b"\n")?;
        Some(std::str::from_utf8(id).ok()?.to_owned())
    }

    /// Writes the copy of a manifest. An existing file that differs is damaged or older, and is replaced. If this
    /// fails, the next start reads the manifest from the repository.
    pub(super) fn keep(&self, store: &SnapshotStore, fetched: &Fetched) {
        let Fetched { manifest, origin } = fetched;
        let _keeping = self.keeping.lock();
        // This manifest was read before the snapshot was rewritten.
        if self
            .known(store)
            .is_some_and(|known| known.origin.lock().as_of > origin.as_of)
        {
            return;
        }
        let path = self.folder.join(file_name(store));
        let written = serde_json::to_vec(manifest)
            .map_err(std::io::Error::from)
            .and_then(|mut body| {
                if let Some(id) = &origin.snapshot_manifest {
                    body.push(b'\n');
                    body.extend_from_slice(id.as_bytes());
                }
                let mut bytes = crc32c::crc32c(&body).to_le_bytes().to_vec();
                bytes.extend_from_slice(&body);
                // Many mounts of one index share the file.
                if self.disk.read(&path).is_ok_and(|existing| existing == bytes) {
                    return Ok(());
                }
                self.disk.create_dir_all(&self.folder)?;
                self.disk.write_atomic(&path, &bytes)?;
                // It may describe the snapshot before it was rewritten.
                match self.disk.remove_file(&self.folder.join(file_name_before(store))) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                }
            });
        if let Err(error) = written {
            tracing::warn!(%error, index = store.index, snapshot = store.snapshot, "cannot store a manifest of a mount");
        }
    }
}

/// Returns the file name of a manifest. Repository names may have any characters, so the file name contains their
/// checksum.
pub(crate) fn file_name(store: &SnapshotStore) -> String {
    let repository = crc32c::crc32c(store.repository.as_bytes());
    let (snapshot, index) = (plain(&store.snapshot_uuid), plain(&store.index_uuid));
    format!("{snapshot}.{index}.{repository:08x}.mount")
}

/// Returns the file name that older versions used, without the repository.
fn file_name_before(store: &SnapshotStore) -> String {
    format!("{}.{}.mount", plain(&store.snapshot_uuid), plain(&store.index_uuid))
}

/// Removes all characters but letters, digits, `-` and `_`, of which the ids of firn consist, so that no id from a
/// repository leads out of the folder.
fn plain(id: &str) -> String {
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    id.chars().filter(is_plain).collect()
}
