//! What mounted indices read: the manifests of their snapshots, in memory once for all mounts of one.
//!
//! A manifest is read from the repository when an index is mounted, and kept in a file beside the indices, so that a
//! start with many thousands of mounts asks the repository for none. The file is a copy and nothing more: what is
//! missing or damaged is read again.

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

use super::tables::{MountedTable, MountedTables};

/// Manifests of snapshots that are kept beyond their use: whoever mounts one index of a snapshot often mounts the next.
const SNAPSHOTS_KEPT: usize = 4;
/// Indices of snapshots that are kept for the next mount of the same.
const SOURCES_KEPT: usize = 64;

/// An id of an object: a SHA-256 in hex digits.
const ID_BYTES: u64 = 64;

/// The shards of an index in a snapshot, by number.
#[derive(Debug)]
pub(crate) struct MountedIndex {
    pub(crate) shards: Vec<MountedSegments>,
    /// Tables that have filters of its splits.
    pub(super) tables: Vec<Arc<MountedTable>>,
    origin: Mutex<Origin>,
    tenant_bytes: OnceLock<Vec<(Arc<str>, u64)>>,
}

/// Who said what there is to read.
#[derive(Debug, Clone, Default)]
pub(super) struct Origin {
    /// The commit of the repository's log that was the newest then; 0: a copy on this node said so.
    as_of: u64,
    /// The id of the manifest that the snapshot had; `None`: the copy is of a build that did not keep it.
    pub(super) snapshot_manifest: Option<String>,
}

/// A manifest as its repository has it.
pub(super) struct Fetched {
    manifest: IndexManifest,
    origin: Origin,
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

    /// Every segment of every shard.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &Arc<SnapshotSegment>> {
        self.shards.iter().flat_map(|shard| &shard.segments)
    }

    /// Who said so last.
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
/// The ids of a snapshot and of an index in it, and the name of its repository: a repository that was copied has the same
/// ids, and is rewritten for itself.
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
    /// The id of its manifest.
    manifest: String,
    index: Arc<IndexMetadata>,
    read: Weak<MountedIndex>,
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
    sources: Mutex<Vec<Source>>,
    /// The last ones, newest at the end, by the id of the manifest.
    snapshots: Mutex<Vec<(String, Arc<Cell<SnapshotManifest>>)>>,
    tables: MountedTables,
    /// Held by whoever writes a file.
    keeping: Mutex<()>,
    /// A copy was read that nobody has held against its repository yet.
    unverified: AtomicBool,
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
            keeping: Mutex::default(),
            unverified: AtomicBool::new(false),
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

    /// What all mounts share of a manifest that was read: what others made of it meanwhile, unless the snapshot was rewritten
    /// since they read it. Then whoever asked puts shards that read the new one in the place of theirs
    /// ([`Core::switch_mounts`](crate::engine::Core::switch_mounts)).
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
            match kept.iter().position(|(id, _)| *id == entry.manifest) {
                Some(place) => Arc::clone(&kept[place].1),
                None => {
                    let cell = Arc::new(Cell::new());
                    kept.push((entry.manifest.clone(), Arc::clone(&cell)));
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

    /// What somebody reads already.
    pub(crate) fn known(&self, store: &SnapshotStore) -> Option<Arc<MountedIndex>> {
        self.indices.lock().get(&key_of(store)).and_then(Weak::upgrade)
    }

    /// What somebody reads already, or what this node's copy says.
    pub(crate) fn known_here(&self, store: &SnapshotStore) -> Option<Arc<MountedIndex>> {
        let read = || Some(self.share(&key_of(store), &self.read_copy(store)?));
        self.known(store).or_else(read)
    }

    /// An index as it was in its snapshot, to be mounted, with what will be read of it. `manifest` is the id of what the snapshot
    /// says of it now.
    pub(crate) async fn source(
        &self,
        store: &SnapshotStore,
        manifest: &str,
        repository: &Repository,
    ) -> Result<(Arc<IndexMetadata>, Arc<MountedIndex>)> {
        let key = key_of(store);
        let is_own = |source: &&Source| source.key == key && source.manifest == manifest;
        let kept = self.sources.lock().iter().find(is_own).cloned();
        if let Some(kept) = kept
            && let (Some(read), Some(known)) = (kept.read.upgrade(), self.known(store))
            && Arc::ptr_eq(&read, &known)
        {
            return Ok((kept.index, known));
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
        let fetched = self.fetch_from(store, repository).await?;
        let source = Arc::new(IndexMetadata::from_json(&fetched.manifest.index)?);
        let index = self.share(&key_of(store), &fetched);
        self.keep(store, &fetched);
        Ok((source, index))
    }

    /// What mounts are to read from now on, from the repository, with what to [`Manifests::keep`] once they do.
    pub(super) async fn fetch_anew(
        &self,
        store: &SnapshotStore,
        repository: &Repository,
    ) -> Result<(Arc<MountedIndex>, Fetched)> {
        let fetched = self.fetch_from(store, repository).await?;
        Ok((self.share(&key_of(store), &fetched), fetched))
    }

    /// Whether a copy was read since this was asked last: it may say what its snapshot was before another node rewrote it.
    pub(super) fn take_unverified(&self) -> bool {
        self.unverified.swap(false, Ordering::AcqRel)
    }

    /// Removes this node's copy of a manifest that is about to be replaced in its repository: a process that ends meanwhile
    /// asks the repository which of the two it is.
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
            // It costs some kilobytes, and the next start tries again.
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
        // JSON as it is printed here has no line breaks.
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

    /// The id of the snapshot's manifest that this node's copy is of, without reading all of it; whatever a damaged one has
    /// there. `None`: there is no copy, or one that does not say.
    pub(super) fn kept_of(&self, store: &SnapshotStore) -> Option<String> {
        let path = self.folder.join(file_name(store));
        let len = self.disk.len(&path).ok()?;
        let end = self.disk.read_range(&path, len.checked_sub(ID_BYTES + 1)?..len).ok()?;
        let id = end.strip_prefix(b"\n")?;
        Some(std::str::from_utf8(id).ok()?.to_owned())
    }

    /// What is there of it and differs is damaged or of a commit before, and replaced. A manifest that cannot be kept is read from the
    /// repository at the next start.
    pub(super) fn keep(&self, store: &SnapshotStore, fetched: &Fetched) {
        let Fetched { manifest, origin } = fetched;
        let _keeping = self.keeping.lock();
        // Read before the snapshot was rewritten.
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
                if self.disk.read(&path).is_ok_and(|kept| kept == bytes) {
                    return Ok(());
                }
                self.disk.create_dir_all(&self.folder)?;
                self.disk.write_atomic(&path, &bytes)?;
                // It may say what the snapshot was before it was rewritten.
                match self.disk.remove_file(&self.folder.join(file_name_before(store))) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                }
            });
        if let Err(error) = written {
            tracing::warn!(%error, index = store.index, snapshot = store.snapshot, "cannot keep the manifest of a mounted index");
        }
    }
}

/// Names of repositories are whatever their users like, so their checksum stands for them.
pub(crate) fn file_name(store: &SnapshotStore) -> String {
    let repository = crc32c::crc32c(store.repository.as_bytes());
    let (snapshot, index) = (plain(&store.snapshot_uuid), plain(&store.index_uuid));
    format!("{snapshot}.{index}.{repository:08x}.mount")
}

/// As files were called that did not tell repositories apart.
fn file_name_before(store: &SnapshotStore) -> String {
    format!("{}.{}.mount", plain(&store.snapshot_uuid), plain(&store.index_uuid))
}

/// Ids are made of letters, digits, `-` and `_`, as firn draws them; whatever else a repository says is left out, so
/// that no name leads out of the folder.
fn plain(id: &str) -> String {
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    id.chars().filter(is_plain).collect()
}
