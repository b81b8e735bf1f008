//! Snapshots of what another snapshot holds.

use std::collections::HashSet;

use firn_model::repository::snapshot_missing;
use firn_model::{Error, ErrorKind, Result};

use super::log::SnapshotEntry;
use super::manifest::SnapshotManifest;
use super::references::content_of;
use super::{Added, Basis, Repository};

/// Times that a clone is begun anew because what it needs was removed.
const SWEPT_MAX: usize = 16;

impl Repository {
    /// Commits what `clone` makes of the manifest of a snapshot: some of its indices under another name.
    /// [`ErrorKind::SnapshotMissing`] if the source is gone before the clone is there.
    pub async fn clone_snapshot(
        &self,
        source: &str,
        clone: impl Fn(SnapshotManifest) -> Result<SnapshotManifest>,
    ) -> Result<()> {
        let writing = self.begin_writing().await?;
        let cloned = self.clone_while_writing(source, clone, writing.basis.clone()).await;
        // What is left of a clone that failed is small, and goes with the next cleanup.
        if let Err(error) = self.end_writing(writing).await {
            tracing::warn!(repository = self.name(), %error, "cannot take away the mark of a clone yet");
        }
        cloned
    }

    pub(super) async fn clone_while_writing(
        &self,
        source: &str,
        clone: impl Fn(SnapshotManifest) -> Result<SnapshotManifest>,
        mut basis: Basis,
    ) -> Result<()> {
        let missing = || snapshot_missing(self.name(), source);
        let first = basis.state().snapshots.get(source).ok_or_else(missing)?.clone();
        for _ in 0..SWEPT_MAX {
            // Another one may have got its name; one that was rewritten is still the same.
            let is_same = |entry: &&SnapshotEntry| entry.uuid == first.uuid;
            let entry = basis.state().snapshots.get(source).filter(is_same);
            let entry = entry.ok_or_else(missing)?.clone();
            let (own, needed) = match self.clone_manifest(&entry, &clone).await {
                Ok(made) => made,
                Err(error) => {
                    // What could not be read of a snapshot that was removed or rewritten meanwhile was no damage.
                    let Ok(state) = self.state().await else {
                        return Err(error);
                    };
                    if state.snapshots.get(source) == Some(&entry) {
                        return Err(error);
                    }
                    basis = Basis::of(state);
                    continue;
                }
            };
            match self.add_snapshot(&own, &needed, &basis).await? {
                Added::Committed => return Ok(()),
                // The objects belong to the source. Either it is gone, or they were condemned before it was made and are
                // there again: what its own commit vouches for need not be written.
                Added::Condemned(condemned) => {
                    self.wait_for_sweeps(condemned).await?;
                    basis = Basis::of(self.state().await?);
                }
            }
        }
        Err(Error::new(
            ErrorKind::SnapshotInProgress,
            format!(
                "[{}:{source}] what a clone needs is removed again and again",
                self.name()
            ),
        ))
    }

    /// Writes the manifest of the clone, and says what it names.
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
