//! Addition and removal of snapshots, and of the objects that they name.

use std::collections::{BTreeMap, HashSet};
use std::pin::pin;

use firn_model::repository::{invalid_snapshot_name, snapshot_missing};
use firn_model::{ErrorKind, Result};
use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};

use super::log::{ATTEMPTS_MAX, Change, SnapshotEntry};
use super::manifest::{IndexEntry, IndexManifest, SnapshotManifest, snapshot_key};
use super::{Condemned, Repository, Swept, WriteDependencies};
use crate::object::ObjectErrorKind;

/// Manifests to read concurrently; the store has a separate limit for all requests.
pub(super) const READS_MAX: usize = 32;

/// Objects to look up concurrently.
const LOOKS_MAX: usize = 16;

/// Objects by key, with their bytes if known.
pub(super) type Named = BTreeMap<String, u64>;

/// Outcome of a snapshot commit.
#[derive(Debug, PartialEq, Eq)]
pub enum Added {
    /// The snapshot is committed.
    Committed,
    /// Sweeps have condemned these named objects; they are removed, or will be when the sweeps end. Wait for the sweeps
    /// ([`Repository::wait_for_sweeps`]), write the objects again, and commit on the returned basis.
    Condemned(Condemned),
}

impl Repository {
    /// Commits a snapshot. `needed` contains the key of every object that it names, except its manifest. `basis` is the
    /// state on which its writer began to rely.
    pub async fn add_snapshot(
        &self,
        entry: &SnapshotEntry,
        needed: &HashSet<String>,
        basis: &WriteDependencies,
    ) -> Result<Added> {
        self.check_writable("create snapshot")?;
        let manifest = snapshot_key(&entry.manifest);
        let mut condemned = basis.condemned(|key| needed.contains(key) || *key == manifest);
        for _ in 0..ATTEMPTS_MAX {
            let state = self.state().await?;
            if state.snapshots.contains_key(&entry.name) {
                let why = "snapshot with the same name already exists";
                return Err(invalid_snapshot_name(self.name(), &entry.name, why));
            }
            let is_needed = |key: &String| needed.contains(key) || *key == manifest;
            self.read_condemned(&mut condemned, &state, is_needed).await?;
            if !condemned.keys.is_empty() {
                return Ok(Added::Condemned(condemned));
            }
            if self
                .try_commit(&state, vec![Change::Add(entry.clone())])
                .await?
                .is_some()
            {
                return Ok(Added::Committed);
            }
        }
        Err(self.always_late())
    }

    /// Removes snapshots from the log, all of them or none, then removes the objects that only they named.
    pub async fn remove_snapshots(&self, names: &[String]) -> Result<Swept> {
        self.begin_change("delete snapshot").await?;
        for _ in 0..ATTEMPTS_MAX {
            let state = self.state().await?;
            let mut removed = Vec::new();
            for name in names {
                let entry = state.snapshots.get(name);
                removed.push(entry.cloned().ok_or_else(|| snapshot_missing(self.name(), name))?);
            }
            let changes = names.iter().cloned().map(Change::Remove).collect();
            if self.try_commit(&state, changes).await?.is_some() {
                let candidates = self.content_of_removed(removed).await?;
                return self.sweep(candidates).await;
            }
        }
        Err(self.always_late())
    }

    /// Returns every object that removed snapshots name. An unreadable manifest names nothing here: a cleanup removes
    /// its objects.
    pub(super) async fn content_of_removed(&self, snapshots: Vec<SnapshotEntry>) -> Result<Named> {
        let mut objects = Named::new();
        let mut indices = BTreeMap::new();
        let mut manifests = pin!(self.read_manifests(snapshots));
        while let Some((entry, manifest)) = manifests.next().await {
            objects.insert(snapshot_key(&entry.manifest), 0);
            let manifest = readable(manifest)?;
            let named = manifest.into_iter().flat_map(|manifest| manifest.indices.into_values());
            indices.extend(named.map(|index| (index.manifest.clone(), index)));
        }
        for index in indices.into_values() {
            objects.insert(index.key(), 0);
            let manifest = readable(self.index(&index).await)?;
            objects.extend(manifest.iter().flat_map(content_of));
        }
        Ok(objects)
    }

    fn read_manifests(
        &self,
        entries: Vec<SnapshotEntry>,
    ) -> impl Stream<Item = (SnapshotEntry, Result<SnapshotManifest>)> {
        let read = stream::iter(entries).map(move |entry| async move {
            let manifest = self.manifest(&entry).await;
            (entry, manifest)
        });
        read.buffered(READS_MAX)
    }

    /// Returns those objects (keys with bytes) that are missing or have another length. firn never removes them while
    /// they are in use, but a store may lose or truncate objects, or a person may remove them.
    pub async fn lacking(&self, objects: Vec<(String, u64)>) -> Result<HashSet<String>> {
        let looks = stream::iter(objects).map(|(key, len)| async move {
            match self.store.info(&key).await {
                Ok(info) if info.len == len => Ok(None),
                Ok(_) => Ok(Some(key)),
                Err(error) if error.kind == ObjectErrorKind::NotFound => Ok(Some(key)),
                Err(error) => Err(self.failed("look up an object", error)),
            }
        });
        let lacking: Vec<Option<String>> = looks.buffer_unordered(LOOKS_MAX).try_collect().await?;
        Ok(lacking.into_iter().flatten().collect())
    }

    /// Reads manifests of snapshots. Returns each with its result, in the same order.
    pub async fn manifests(&self, entries: Vec<SnapshotEntry>) -> Vec<(SnapshotEntry, Result<SnapshotManifest>)> {
        self.read_manifests(entries).collect().await
    }

    /// Reads manifests of indices. Returns each with its result, in the same order.
    pub async fn index_manifests(&self, entries: Vec<IndexEntry>) -> Vec<(IndexEntry, Result<IndexManifest>)> {
        stream::iter(entries)
            .map(|entry| async move {
                let manifest = self.index(&entry).await;
                (entry, manifest)
            })
            .buffered(READS_MAX)
            .collect()
            .await
    }
}

/// Returns `None` for a damaged or missing manifest.
fn readable<T>(manifest: Result<T>) -> Result<Option<T>> {
    match manifest {
        Err(error) if error.kind() == ErrorKind::Repository => Ok(None),
        read => read.map(Some),
    }
}

/// Returns the objects that an index names, with their bytes.
pub(super) fn content_of(manifest: &IndexManifest) -> impl Iterator<Item = (String, u64)> {
    let segments = manifest.segments().map(|(_, segment)| segment);
    let splits = segments.clone().map(|segment| (segment.split.key(), segment.split.len));
    let deletes = segments.filter_map(|segment| segment.deletes.as_ref());
    let deletes = deletes.map(|deletes| (deletes.key(), deletes.len));
    let tables = manifest.filters.iter().map(|table| (table.key(), table.len));
    splits.chain(deletes).chain(tables)
}
