//! Splits and tables of filters that snapshots before have already.

use std::collections::{BTreeSet, HashMap, HashSet};

use firn_model::{ErrorKind, Result};
use firn_storage::filters::FilterTableRef;
use firn_storage::repository::{Repository, State};
use firn_storage::split::SplitRef;

/// Snapshots that are looked through for an index, newest first: those of one policy come one after the
/// other, and between them those of others.
const SNAPSHOTS_READ_MAX: usize = 256;
/// Manifests of snapshots read at a time.
const BATCH: usize = 32;

/// What may be named instead of being written.
#[derive(Default)]
pub(super) struct Known {
    /// The splits of segments, by the segment's id.
    pub(super) splits: HashMap<String, SplitRef>,
    /// Tables of filters by name of the index.
    pub(super) tables: HashMap<String, Vec<FilterTableRef>>,
    /// Keys of splits that are there for certain: written just now, or looked for.
    pub(super) seen: HashSet<String>,
}

impl Known {
    /// Looks for splits that a snapshot takes over from those before. What is gone is forgotten.
    pub(super) async fn has_all<'a>(
        &mut self,
        repository: &Repository,
        splits: impl Iterator<Item = &'a SplitRef>,
    ) -> Result<bool> {
        let unseen = splits.map(|split| (split.key(), split.len));
        let unseen: HashMap<String, u64> = unseen.filter(|(key, _)| !self.seen.contains(key)).collect();
        self.seen.extend(unseen.keys().cloned());
        let lacking = repository.lacking(unseen.into_iter().collect()).await?;
        if lacking.is_empty() {
            return Ok(true);
        }
        tracing::warn!(
            repository = repository.name(),
            splits = lacking.len(),
            "splits of older snapshots are gone from the repository: they are written anew, and what else names them is damaged"
        );
        self.forget(&lacking);
        Ok(false)
    }

    /// Forgets what is gone.
    pub(super) fn forget(&mut self, keys: &HashSet<String>) {
        self.splits.retain(|_, split| !keys.contains(&split.key()));
        self.seen.retain(|key| !keys.contains(key));
        for tables in self.tables.values_mut() {
            tables.retain(|table| !keys.contains(&table.key()));
        }
    }
}

/// What the newest snapshot that has each index names. Whoever makes a snapshot may name it too, if it commits on
/// a basis of `state` or of what came before.
pub(super) async fn known(
    repository: &Repository,
    state: &State,
    indices: impl Iterator<Item = String>,
) -> Result<Known> {
    let mut wanted: BTreeSet<String> = indices.collect();
    let mut entries: Vec<_> = state.snapshots.values().cloned().collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.start_ms));
    entries.truncate(SNAPSHOTS_READ_MAX);
    let mut known = Known::default();
    for batch in entries.chunks(BATCH) {
        if wanted.is_empty() {
            break;
        }
        let mut found = Vec::new();
        for (_, manifest) in repository.manifests(batch.to_vec()).await {
            let Some(manifest) = readable(manifest)? else { continue };
            let indices = manifest.indices;
            found.extend(indices.into_iter().filter(|(name, _)| wanted.remove(name)));
        }
        let (names, entries): (Vec<String>, Vec<_>) = found.into_iter().unzip();
        let manifests = repository.index_manifests(entries).await;
        for (name, (_, manifest)) in names.into_iter().zip(manifests) {
            let Some(manifest) = readable(manifest)? else { continue };
            for (_, segment) in manifest.segments() {
                known
                    .splits
                    .insert(segment.split.segment.clone(), segment.split.clone());
            }
            known.tables.insert(name, manifest.filters);
        }
    }
    Ok(known)
}

/// A manifest that is damaged or gone names nothing that could be taken over; its own snapshot says so to whoever needs
/// it.
fn readable<T>(manifest: Result<T>) -> Result<Option<T>> {
    match manifest {
        Err(error) if error.kind() == ErrorKind::Repository => {
            tracing::warn!(%error, "an older snapshot cannot be read, so its splits are written anew");
            Ok(None)
        }
        read => read.map(Some),
    }
}
