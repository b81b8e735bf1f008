//! A snapshot in the place of itself: the same name, id and start, over other objects.
//!
//! One commit takes the old entry out and puts the new one in, so that whoever reads the log sees one of the two and
//! never neither. What both name is named by some snapshot all the time, and no sweep can condemn it.

use std::collections::HashSet;

use firn_model::Result;

use super::log::{ATTEMPTS_MAX, Change, SnapshotEntry};
use super::manifest::{IndexManifest, snapshot_key};
use super::references::content_of;
use super::{Basis, Condemned, Repository, Swept};

/// What became of a manifest that was to take the place of another.
#[derive(Debug, PartialEq, Eq)]
pub enum Replaced {
    /// The snapshot has it now: its entry in the log.
    Committed(SnapshotEntry),
    /// As [`Added::Condemned`](super::Added::Condemned).
    Condemned(Condemned),
    /// The snapshot was removed meanwhile, or has another manifest than the one that was read.
    Gone,
}

impl IndexManifest {
    /// The keys of all objects that it names.
    pub fn keys(&self) -> impl Iterator<Item = String> {
        content_of(self).map(|(key, _)| key)
    }
}

impl Repository {
    /// Commits `manifest`, an id of [`Repository::put_snapshot`], in the place of the one that a snapshot has. `needed` has
    /// the key of every object that it names and the old one does not, but for the manifest itself; `basis` is what its
    /// writer began to rely on.
    pub async fn replace_snapshot(
        &self,
        old: &SnapshotEntry,
        manifest: String,
        needed: &HashSet<String>,
        basis: &Basis,
    ) -> Result<Replaced> {
        self.check_writable("rewrite snapshot")?;
        let new = SnapshotEntry {
            manifest,
            ..old.clone()
        };
        let manifest = snapshot_key(&new.manifest);
        let is_needed = |key: &String| needed.contains(key) || *key == manifest;
        let mut condemned = basis.condemned(is_needed);
        for _ in 0..ATTEMPTS_MAX {
            let state = self.state().await?;
            if state.snapshots.get(&old.name) != Some(old) {
                return Ok(Replaced::Gone);
            }
            self.read_condemned(&mut condemned, &state, is_needed).await?;
            if !condemned.keys.is_empty() {
                return Ok(Replaced::Condemned(condemned));
            }
            let changes = vec![Change::Remove(old.name.clone()), Change::Add(new.clone())];
            if self.try_commit(&state, changes).await?.is_some() {
                return Ok(Replaced::Committed(new));
            }
        }
        Err(self.always_late())
    }

    /// Removes what only the manifest named that a snapshot had before.
    pub async fn sweep_replaced(&self, old: SnapshotEntry) -> Result<Swept> {
        self.begin_change("rewrite snapshot").await?;
        let candidates = self.content_of_removed(vec![old]).await?;
        self.sweep(candidates).await
    }
}
