//! Lengths of texts: how many terms the text of one path has in each document of a segment.
//!
//! Tantivy stores no lengths for text inside JSON fields, and firn indexes all text there. So the lengths are summed
//! from the postings when a query first scores by them: the frequencies of all terms of the path, a few nanoseconds
//! each, once per segment. That costs nothing at write time and nothing on disk, and works for every old segment.
//! Splits store the lengths, because reading all postings is expensive there. Queries that do not score never need
//! them.

use std::collections::HashMap;
use std::sync::Arc;

use firn_model::{Error, Result};
use parking_lot::{Mutex, MutexGuard};
use tantivy::SegmentReader;
use tantivy::directory::FileSlice;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::schema::{Field, IndexRecordOption};

use crate::columns::paths::end_of;
use crate::splits::OpenSplit;

/// Maximum of paths whose lengths a segment caches, at one byte per document. Few queries name more; then lengths are
/// counted again.
const PATHS_MAX: usize = 16;

/// The lengths of one path in one segment.
pub struct PathLengths {
    /// By document, in the encoding of Lucene and Tantivy.
    pub norms: FieldNormReader,
    /// Sum of all lengths.
    pub tokens: u64,
    /// Documents with text in the path.
    pub docs: u64,
}

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

/// Counts the lengths.
pub(crate) fn count(
    reader: &SegmentReader,
    field: Field,
    start: &[u8],
    mut step: impl FnMut() -> Result<()>,
) -> Result<PathLengths> {
    let failed = |error: &dyn std::fmt::Display| Error::internal(format!("reading a segment failed: {error}"));
    let mut lengths = vec![0u32; reader.max_doc() as usize];
    let index = reader.inverted_index(field).map_err(|error| failed(&error))?;
    let mut terms = index
        .terms()
        .range()
        .ge(start)
        .lt(end_of(start))
        .into_stream()
        .map_err(|error| failed(&error))?;
    while terms.advance() && terms.key().starts_with(start) {
        step()?;
        let mut block = index
            .read_block_postings_from_terminfo(terms.value(), IndexRecordOption::WithFreqs)
            .map_err(|error| failed(&error))?;
        while !block.docs().is_empty() {
            for (&doc, &frequency) in block.docs().iter().zip(block.freqs()) {
                lengths[doc as usize] += frequency;
            }
            block.advance();
        }
    }
    let tokens = lengths.iter().map(|length| u64::from(*length)).sum();
    let docs = lengths.iter().filter(|length| **length > 0).count() as u64;
    let codes: Vec<u8> = lengths.into_iter().map(FieldNormReader::fieldnorm_to_id).collect();
    Ok(PathLengths {
        norms: FieldNormReader::open(FileSlice::from(codes)).map_err(|error| failed(&error))?,
        tokens,
        docs,
    })
}
