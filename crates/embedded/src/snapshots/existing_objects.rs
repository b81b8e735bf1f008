//! Splits and filter tables that earlier snapshots hold already.

use std::collections::{BTreeSet, HashMap, HashSet};

use firn_model::{ErrorKind, Result};
use firn_storage::filters::FilterTableRef;
use firn_storage::repository::{Repository, State};
use firn_storage::split::SplitRef;

/// Snapshots searched for an index, newest first: the snapshots of one policy follow each other, with those of other
/// policies between them.
const SNAPSHOTS_READ_MAX: usize = 256;
/// Snapshot manifests read in one batch.
const BATCH: usize = 32;

/// Objects that a new snapshot may name instead of writing them.
#[derive(Default)]
pub(super) struct ExistingObjects {
    /// Splits by the id of their segment.
    pub(super) splits: HashMap<String, SplitRef>,
    /// Filter tables by index name.
    pub(super) tables: HashMap<String, Vec<FilterTableRef>>,
    /// Keys of splits that certainly exist: written by this snapshot, or checked in the store.
    pub(super) seen: HashSet<String>,
}

impl ExistingObjects {
    /// Checks that the splits which a snapshot takes over from earlier ones still exist. Forgets the missing ones and
    /// then returns false.
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
            "splits are missing in the repository: they are written again, older snapshots are damaged"
        );
        self.forget(&lacking);
        Ok(false)
    }

    /// Forgets objects by their keys.
    pub(super) fn forget(&mut self, keys: &HashSet<String>) {
        self.splits.retain(|_, split| !keys.contains(&split.key()));
        self.seen.retain(|key| !keys.contains(key));
        for tables in self.tables.values_mut() {
            tables.retain(|table| !keys.contains(&table.key()));
        }
    }
}

/// Returns what the newest snapshot of each index names. A new snapshot may name it too, if it commits on a basis of
/// `state` or of an earlier state.
pub(super) async fn known(
    repository: &Repository,
    state: &State,
    indices: impl Iterator<Item = String>,
) -> Result<ExistingObjects> {
    let mut wanted: BTreeSet<String> = indices.collect();
    let mut entries: Vec<_> = state.snapshots.values().cloned().collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.start_ms));
    entries.truncate(SNAPSHOTS_READ_MAX);
    let mut known = ExistingObjects::default();
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

/// Searches the snapshots of an index, newest first, for the splits of segments. The newest snapshot may lack a segment
/// that an older one holds: a snapshot leaves out a shard that it cannot read.
///
/// `go_on` is called before each batch of reads, and may end the search.
pub(super) async fn splits_of(
    repository: &Repository,
    state: &State,
    index: &str,
    segments: &HashSet<&str>,
    go_on: impl Fn() -> Result<()>,
) -> Result<HashMap<String, SplitRef>> {
    let mut entries: Vec<_> = state.snapshots.values().cloned().collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.start_ms));
    let mut found = HashMap::new();
    // Snapshots of an unchanged index have the same manifest.
    let mut seen = HashSet::new();
    for batch in entries.chunks(BATCH) {
        if found.len() == segments.len() {
            break;
        }
        go_on()?;
        let mut of_index = Vec::new();
        for (_, manifest) in repository.manifests(batch.to_vec()).await {
            let Some(mut manifest) = readable(manifest)? else {
                continue;
            };
            let entry = manifest.indices.remove(index);
            of_index.extend(entry.filter(|entry| seen.insert(entry.manifest.clone())));
        }
        for (_, manifest) in repository.index_manifests(of_index).await {
            let Some(manifest) = readable(manifest)? else { continue };
            for (_, segment) in manifest.segments() {
                let id = segment.split.segment.as_str();
                if segments.contains(id) {
                    found.entry(id.to_owned()).or_insert_with(|| segment.split.clone());
                }
            }
        }
    }
    Ok(found)
}

/// Turns an unreadable manifest into `None`: nothing can be taken over from it. A reader of its snapshot gets the error
/// itself.
fn readable<T>(manifest: Result<T>) -> Result<Option<T>> {
    match manifest {
        Err(error) if error.kind() == ErrorKind::Repository => {
            tracing::warn!(%error, "cannot read an older snapshot: its splits are written again");
            Ok(None)
        }
        read => read.map(Some),
    }
}
