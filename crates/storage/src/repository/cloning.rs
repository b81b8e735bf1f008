//! Clones: snapshots of the content of another snapshot.

use std::collections::HashSet;

use firn_model::repository::snapshot_missing;
use firn_model::{Error, ErrorKind, Result};

use super::log::SnapshotEntry;
use super::manifest::SnapshotManifest;
use super::references::content_of;
use super::{Added, Repository, WriteDependencies};

/// Maximum attempts of a clone whose needed objects are removed.
const SWEPT_MAX: usize = 16;

impl Repository {
    /// Commits a clone: `clone` converts the manifest of the source into one with some of its indices under another
    /// name. Fails with [`ErrorKind::SnapshotMissing`] if the source is removed before the clone is committed.
    pub async fn clone_snapshot(
        &self,
        source: &str,
        clone: impl Fn(SnapshotManifest) -> Result<SnapshotManifest>,
    ) -> Result<()> {
        let writing = self.begin_writing().await?;
        let cloned = self.clone_while_writing(source, clone, writing.basis.clone()).await;
        // The objects of a failed clone are small, and the next cleanup removes them.
        if let Err(error) = self.end_writing(writing).await {
            tracing::warn!(repository = self.name(), %error, "cannot remove the mark of a clone yet");
        }
        cloned
    }

    pub(super) async fn clone_while_writing(
        &self,
        source: &str,
        clone: impl Fn(SnapshotManifest) -> Result<SnapshotManifest>,
        mut basis: WriteDependencies,
    ) -> Result<()> {
        let missing = || snapshot_missing(self.name(), source);
        let first = basis.state().snapshots.get(source).ok_or_else(missing)?.clone();
        for _ in 0..SWEPT_MAX {
            // Another snapshot may have the same name now; a rewritten snapshot keeps its uuid.
            let is_same = |entry: &&SnapshotEntry| entry.uuid == first.uuid;
            let entry = basis.state().snapshots.get(source).filter(is_same);
            let entry = entry.ok_or_else(missing)?.clone();
            let (own, needed) = match self.clone_manifest(&entry, &clone).await {
                Ok(made) => made,
                Err(error) => {
                    // If the snapshot was removed or rewritten in the meantime, the read failure is not damage.
                    let Ok(state) = self.state().await else {
                        return Err(error);
                    };
                    if state.snapshots.get(source) == Some(&entry) {
                        return Err(error);
                    }
                    basis = WriteDependencies::of(state);
                    continue;
                }
            };
            match self.add_snapshot(&own, &needed, &basis).await? {
                Added::Committed => return Ok(()),
                // The objects belong to the source. Either it was removed, or they were condemned before its commit and
                // exist again: the commit of the source guarantees its objects, so they need not be written.
                Added::Condemned(condemned) => {
                    self.wait_for_sweeps(condemned).await?;
                    basis = WriteDependencies::of(self.state().await?);
                }
            }
        }
        Err(Error::new(
            ErrorKind::SnapshotInProgress,
            format!(
                "[{}:{source}] cannot clone: sweeps keep removing needed objects",
                self.name()
            ),
        ))
    }

    /// Writes the manifest of the clone and returns its entry with the names of its objects.
    async fn clone_manifest(
        &self,
        source: &SnapshotEntry,
        clone: impl Fn(SnapshotManifest) -> Result<SnapshotManifest>,
    ) -> Result<(SnapshotEntry, HashSet<String>)> {
        let clone = clone(self.manifest(source).await?)?;
        let mut needed = HashSet::new();
        for index in clone.indices.values() {
            needed.insert(index.key());
            needed.extend(content_of(&self.index(index).await?).map(|(key, _)| key));
        }
        let own = SnapshotEntry {
            name: clone.name.clone(),
            uuid: clone.uuid.clone(),
            start_ms: clone.start_ms,
            manifest: self.put_snapshot(&clone).await?,
        };
        Ok((own, needed))
    }
}
