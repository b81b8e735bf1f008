//! Replacement of a snapshot's manifest: same name, id and start, other objects.
//!
//! One commit removes the old entry and adds the new one, so that every reader of the log sees exactly one of the two.
//! Objects that both manifests name are named by a snapshot at all times, so no sweep can condemn them.

use std::collections::HashSet;

use firn_model::Result;

use super::log::{ATTEMPTS_MAX, Change, SnapshotEntry};
use super::manifest::{IndexManifest, snapshot_key};
use super::references::content_of;
use super::{Condemned, Repository, Swept, WriteDependencies};

/// Outcome of a manifest replacement.
#[derive(Debug, PartialEq, Eq)]
pub enum Replaced {
    /// The snapshot has the new manifest; its new entry in the log.
    Committed(SnapshotEntry),
    /// As [`Added::Condemned`](super::Added::Condemned).
    Condemned(Condemned),
    /// The snapshot was removed in the meantime, or has another manifest than the one that was read.
    Gone,
}

impl IndexManifest {
    /// Returns the keys of all objects that it names.
    pub fn keys(&self) -> impl Iterator<Item = String> {
        content_of(self).map(|(key, _)| key)
    }
}

impl Repository {
    /// Commits `manifest`, an id from [`Repository::put_snapshot`], in place of a snapshot's current manifest. `needed`
    /// contains the key of every object that only the new manifest names, except the manifest itself. `basis` is the
    /// state on which its writer began to rely.
    pub async fn replace_snapshot(
        &self,
        old: &SnapshotEntry,
        manifest: String,
        needed: &HashSet<String>,
        basis: &WriteDependencies,
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

    /// Removes the objects that only the replaced manifest named.
    pub async fn sweep_replaced(&self, old: SnapshotEntry) -> Result<Swept> {
        self.begin_change("rewrite snapshot").await?;
        let candidates = self.content_of_removed(vec![old]).await?;
        self.sweep(candidates).await
    }
}
