//! Snapshots come and go, and with them what they name.

use std::collections::{BTreeMap, HashSet};
use std::pin::pin;

use firn_model::repository::{invalid_snapshot_name, snapshot_missing};
use firn_model::{ErrorKind, Result};
use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};

use super::log::{ATTEMPTS_MAX, Change, SnapshotEntry};
use super::manifest::{IndexEntry, IndexManifest, SnapshotManifest, snapshot_key};
use super::{Basis, Condemned, Repository, Swept};
use crate::object::ObjectErrorKind;

/// Manifests that are read at a time; the store has a limit of its own for all.
pub(super) const READS_MAX: usize = 32;

/// Objects that are looked for at a time.
const LOOKS_MAX: usize = 16;

/// Objects by key, with their bytes where known.
pub(super) type Named = BTreeMap<String, u64>;

/// What became of a snapshot that was to be committed.
#[derive(Debug, PartialEq, Eq)]
pub enum Added {
    /// It is there.
    Committed,
    /// These objects that it names are gone, or will be once the sweeps have ended that condemned them:
    /// wait for those ([`Repository::wait_for_sweeps`]), write the objects again, and commit on what that returns.
    Condemned(Condemned),
}

impl Repository {
    /// Commits a snapshot. `needed` has the key of every object that it names but for its own manifest, and `basis` is
    /// what its writer began to rely on.
    pub async fn add_snapshot(&self, entry: &SnapshotEntry, needed: &HashSet<String>, basis: &Basis) -> Result<Added> {
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

    /// Takes snapshots out of the log, all of them or none, then removes what only they needed.
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

    /// Every object that snapshots name that were taken out of the log. What cannot be read of them names nothing: it
    /// is removed by a cleanup.
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

    /// Of objects that somebody relies on, keys with bytes, those that are not there as they should be. Nobody removes
    /// them in the order of things; what lies in a store may still be lost or cut by hand.
    pub async fn lacking(&self, objects: Vec<(String, u64)>) -> Result<HashSet<String>> {
        let looks = stream::iter(objects).map(|(key, len)| async move {
            match self.store.info(&key).await {
                Ok(info) if info.len == len => Ok(None),
                Ok(_) => Ok(Some(key)),
                Err(error) if error.kind == ObjectErrorKind::NotFound => Ok(Some(key)),
                Err(error) => Err(self.failed("look for a split", error)),
            }
        });
        let lacking: Vec<Option<String>> = looks.buffer_unordered(LOOKS_MAX).try_collect().await?;
        Ok(lacking.into_iter().flatten().collect())
    }

    /// Manifests of snapshots, each with what became of reading it, in their order.
    pub async fn manifests(&self, entries: Vec<SnapshotEntry>) -> Vec<(SnapshotEntry, Result<SnapshotManifest>)> {
        self.read_manifests(entries).collect().await
    }

    /// Manifests of indices, each with what became of reading it, in their order.
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

/// `None`: it is damaged or gone.
fn readable<T>(manifest: Result<T>) -> Result<Option<T>> {
    match manifest {
        Err(error) if error.kind() == ErrorKind::Repository => Ok(None),
        read => read.map(Some),
    }
}

/// The objects that an index names, with their bytes.
pub(super) fn content_of(manifest: &IndexManifest) -> impl Iterator<Item = (String, u64)> {
    let segments = manifest.segments().map(|(_, segment)| segment);
    let splits = segments.clone().map(|segment| (segment.split.key(), segment.split.len));
    let deletes = segments.filter_map(|segment| segment.deletes.as_ref());
    let deletes = deletes.map(|deletes| (deletes.key(), deletes.len));
    let tables = manifest.filters.iter().map(|table| (table.key(), table.len));
    splits.chain(deletes).chain(tables)
}
