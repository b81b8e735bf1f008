//! Lengths of texts: how many terms the text of one path has in each document of a segment.
//!
//! Tantivy stores no lengths for text inside JSON fields, and firn indexes all text there. So the lengths are summed
//! from the postings when a query first scores by them: the frequencies of all terms of the path, a few nanoseconds
//! each, once per segment. That costs nothing at write time and nothing on disk, and works for every old segment.
//! Splits store the lengths, because reading all postings is expensive there. Queries that do not score never need
//! them.

use std::collections::HashMap;
use std::sync::Arc;

use firn_model::Result;
use parking_lot::{Mutex, MutexGuard};
use tantivy::SegmentReader;
use tantivy::schema::Field;

use crate::path_lengths::{PathLengths, count};
use crate::splits::OpenSplit;

/// Maximum of paths whose lengths a segment caches, at one byte per document. Few queries name more; then lengths are
/// counted again.
const PATHS_MAX: usize = 16;

/// Maximum of paths whose document counts a segment caches.
const COUNTS_MAX: usize = 1024;

/// A path: its field, and the prefix of its keys in the dictionary.
type Key = (Field, Vec<u8>);

/// Lengths and counts that queries needed so far.
#[derive(Default)]
pub struct Lengths {
    paths: Mutex<HashMap<Key, Arc<PathLengths>>>,
    docs: Mutex<HashMap<String, u64>>,
}

impl Lengths {
    /// Returns how many documents have a path; `count` computes it at the first call.
    pub fn docs(&self, path: &str, count: impl FnOnce() -> Result<u64>) -> Result<u64> {
        if let Some(docs) = self.docs.lock().get(path) {
            return Ok(*docs);
        }
        let docs = count()?;
        let mut known = self.docs.lock();
        if known.len() >= COUNTS_MAX {
            known.clear();
        }
        known.insert(path.to_owned(), docs);
        Ok(docs)
    }

    /// Returns the lengths of the path whose keys in the dictionary of `field` begin with `start`. `step` is called for
    /// every term and may stop the count.
    pub fn of(
        &self,
        reader: &SegmentReader,
        field: Field,
        start: &[u8],
        split: Option<&OpenSplit>,
        step: impl FnMut() -> Result<()>,
    ) -> Result<Arc<PathLengths>> {
        let key = (field, start.to_vec());
        let known = self.paths.lock();
        if let Some(lengths) = known.get(&key) {
            return Ok(Arc::clone(lengths));
        }
        let Some(split) = split else {
            // Held while counting: concurrent callers wait for the result instead of counting too.
            return Ok(keep(known, key, count(reader, field, start, step)?));
        };
        // Not held during reads from a store: a job that waits for the lock would keep its slot.
        drop(known);
        let lengths = match split.lengths(field, start)? {
            Some(lengths) => lengths,
            None => count(reader, field, start, step)?,
        };
        Ok(keep(self.paths.lock(), key, lengths))
    }
}

fn keep(mut known: MutexGuard<'_, HashMap<Key, Arc<PathLengths>>>, key: Key, lengths: PathLengths) -> Arc<PathLengths> {
    if known.len() >= PATHS_MAX {
        known.clear();
    }
    let lengths = Arc::new(lengths);
    known.insert(key, Arc::clone(&lengths));
    lengths
}
