//! Search for objects that no snapshot names.
//!
//! A sweep must know for each candidate whether a snapshot names it, among tens of thousands of snapshots that name
//! millions of objects. So it reads manifests one after the other and removes the named objects from the candidates. It
//! caches only fingerprints of the names: manifests never change, so the next sweep reads only new ones. If two objects
//! share a fingerprint, garbage may remain, but no used object is removed.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use firn_model::Result;
use futures_util::StreamExt;
use futures_util::stream;
use tokio::sync::Semaphore;

use super::Repository;
use super::log::{SnapshotEntry, State};
use super::manifest::{IndexEntry, IndexManifest, index_key, snapshot_key};
use super::references::{READS_MAX, content_of};

/// Maximum bytes of fingerprints; each sweep reads the manifests beyond that again. Three million objects fit, as of
/// hourly snapshots for years of indices that hardly change.
const CACHE_BYTES_MAX: usize = 32 << 20;
/// Maximum kilobytes of index manifests in memory at the same time. A larger manifest is read alone.
const READ_KB_MAX: u32 = 64 << 10;
/// Memory of a segment in a manifest, in KB, both as JSON and decoded.
const SEGMENT_KB: u32 = 2;

/// Indices of a snapshot, each with the maximum kilobytes for reading it.
type Indices = Arc<[(String, u32)]>;
/// Fingerprints of the names in an index manifest.
type Fingerprints = Arc<[u64]>;

/// Names in manifests that were read before, by manifest id.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    snapshots: HashMap<String, Indices>,
    indices: HashMap<String, Fingerprints>,
    bytes: usize,
}

impl Remembered {
    fn has_room(&mut self, bytes: usize) -> bool {
        let has_room = self.bytes + bytes <= CACHE_BYTES_MAX;
        if has_room {
            self.bytes += bytes;
        }
        has_room
    }

    fn add_snapshot(&mut self, id: &str, indices: &Indices) {
        let bytes = 100 + indices.iter().map(|(id, _)| id.len() + 40).sum::<usize>();
        if self.has_room(bytes) && self.snapshots.insert(id.to_owned(), Arc::clone(indices)).is_some() {
            self.bytes -= bytes;
        }
    }

    fn add_index(&mut self, id: &str, named: &Fingerprints) {
        let bytes = 200 + named.len() * 8;
        if self.has_room(bytes) && self.indices.insert(id.to_owned(), Arc::clone(named)).is_some() {
            self.bytes -= bytes;
        }
    }

    #[cfg(test)]
    pub(super) fn forget_indices(&mut self) {
        self.indices.clear();
    }

    /// Removes manifests that no snapshot of a state names any more.
    fn retain(&mut self, state: &State, indices: &HashMap<String, u32>) {
        let snapshots: HashSet<&str> = state.snapshots.values().map(|entry| entry.manifest.as_str()).collect();
        let before = std::mem::take(self);
        for (id, named) in before.snapshots {
            if snapshots.contains(id.as_str()) {
                self.add_snapshot(&id, &named);
            }
        }
        for (id, named) in before.indices {
            if indices.contains_key(&id) {
                self.add_index(&id, &named);
            }
        }
    }
}

fn fingerprint(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Estimates the kilobytes of an index manifest, from the snapshot's entry.
fn kilobytes(index: &IndexEntry) -> u32 {
    let segments = index.shards.saturating_mul(index.segments_per_shard_max);
    segments.saturating_mul(SEGMENT_KB).clamp(1, READ_KB_MAX)
}

impl Repository {
    /// Returns those candidates (keys with bytes) that no snapshot of a state names. An unreadable manifest is an
    /// error, because the objects that it names must stay.
    pub(super) async fn unnamed(&self, state: &State, candidates: Vec<(String, u64)>) -> Result<Vec<(String, u64)>> {
        let mut left: HashSet<u64> = candidates.iter().map(|(key, _)| fingerprint(key)).collect();
        let mut indices: HashMap<String, u32> = HashMap::new();
        let entries: Vec<SnapshotEntry> = state.snapshots.values().cloned().collect();
        let mut snapshots = stream::iter(entries)
            .map(|entry| async move { self.indices_of(&entry).await })
            .buffer_unordered(READS_MAX);
        while let Some(own) = snapshots.next().await {
            for (id, kilobytes) in own?.iter() {
                if !indices.contains_key(id) {
                    indices.insert(id.clone(), *kilobytes);
                }
            }
        }
        for entry in state.snapshots.values() {
            left.remove(&fingerprint(&snapshot_key(&entry.manifest)));
        }
        for id in indices.keys() {
            left.remove(&fingerprint(&index_key(id)));
        }
        let memory = &Semaphore::new(READ_KB_MAX as usize);
        let mut named = stream::iter(indices.clone())
            .map(|(id, kilobytes)| async move { self.named_in(&id, kilobytes, memory).await })
            .buffer_unordered(READS_MAX);
        while let Some(named) = named.next().await {
            named?.iter().for_each(|name| {
                left.remove(name);
            });
        }
        drop(named);
        self.remembered.lock().retain(state, &indices);
        let mut unnamed = candidates;
        unnamed.retain(|(key, _)| left.contains(&fingerprint(key)));
        Ok(unnamed)
    }

    async fn indices_of(&self, entry: &SnapshotEntry) -> Result<Indices> {
        let known = self.remembered.lock().snapshots.get(&entry.manifest).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let manifest = self.manifest(entry).await?;
        let indices = manifest.indices.into_values();
        let indices: Indices = indices
            .map(|index| (index.manifest.clone(), kilobytes(&index)))
            .collect();
        self.remembered.lock().add_snapshot(&entry.manifest, &indices);
        Ok(indices)
    }

    async fn named_in(&self, id: &str, kilobytes: u32, memory: &Semaphore) -> Result<Fingerprints> {
        let known = self.remembered.lock().indices.get(id).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        // The semaphore is never closed.
        let _memory = memory.acquire_many(kilobytes).await;
        let manifest: IndexManifest = self.read_object("index", &index_key(id), id).await?;
        let named: Fingerprints = content_of(&manifest).map(|(key, _)| fingerprint(&key)).collect();
        self.remembered.lock().add_index(id, &named);
        Ok(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_take_no_more_than_they_may() {
        let mut remembered = Remembered::default();
        let named: Fingerprints = (0..100_000).collect();
        for number in 0..100 {
            remembered.add_index(&format!("{number}"), &named);
            remembered.add_index(&format!("{number}"), &named);
        }
        let fit = CACHE_BYTES_MAX / (200 + 800_000);
        assert_eq!(remembered.indices.len(), fit);
        assert!(remembered.bytes <= CACHE_BYTES_MAX);
        // Forgotten manifests free space.
        let retained = HashMap::from([("1".to_owned(), 1)]);
        remembered.retain(&State::default(), &retained);
        assert_eq!((remembered.indices.len(), remembered.bytes), (1, 800_200));
    }
}
