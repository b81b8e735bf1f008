//! Splits that snapshots before have already.

use std::collections::{BTreeSet, HashMap};

use firn_model::Result;
use firn_storage::repository::{Repository, State};
use firn_storage::split::SplitRef;

/// Snapshots that are looked through for an index, newest first: those of one policy come one after the
/// other, and between them those of others.
const SNAPSHOTS_READ_MAX: usize = 256;
/// Manifests of snapshots read at a time.
const BATCH: usize = 32;

/// The splits of segments, by the segment's id, from the newest snapshot that has each index. Whoever makes a
/// snapshot may name those instead of writing them, if it commits on `state` or on what came after.
pub(super) async fn known_splits(
    repository: &Repository,
    state: &State,
    indices: impl Iterator<Item = String>,
) -> Result<HashMap<String, SplitRef>> {
    let mut wanted: BTreeSet<String> = indices.collect();
    let mut entries: Vec<_> = state.snapshots.values().cloned().collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.start_ms));
    entries.truncate(SNAPSHOTS_READ_MAX);
    let mut splits = HashMap::new();
    for batch in entries.chunks(BATCH) {
        if wanted.is_empty() {
            break;
        }
        let mut found = Vec::new();
        for (_, manifest) in repository.manifests(batch.to_vec()).await {
            let indices = manifest?.indices;
            found.extend(
                indices
                    .into_iter()
                    .filter(|(name, _)| wanted.remove(name))
                    .map(|(_, index)| index),
            );
        }
        for (_, manifest) in repository.index_manifests(found).await {
            for (_, segment) in manifest?.segments() {
                splits.insert(segment.split.segment.clone(), segment.split.clone());
            }
        }
    }
    Ok(splits)
}
