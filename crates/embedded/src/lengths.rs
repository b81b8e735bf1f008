//! How many terms the text of one path has in each document of a segment.
//!
//! Tantivy keeps no lengths for text inside JSON fields, which is where all text of an index is. So
//! they are added up from the postings when a query first scores by them: the frequencies of all
//! terms of the path, a few nanoseconds each, for every segment once. That costs nothing at writing
//! time and nothing on disk, and works for every segment there ever was. Splits keep them, as there reading all
//! postings is dear. Queries that do not score
//! never come here.

use std::collections::HashMap;
use std::sync::Arc;

use firn_model::{Error, Result};
use parking_lot::{Mutex, MutexGuard};
use tantivy::SegmentReader;
use tantivy::directory::FileSlice;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::schema::{Field, IndexRecordOption};

use crate::search::end_of;
use crate::splits::OpenSplit;

/// Paths whose lengths a segment keeps, a byte per document each. Few queries name more, and they
/// are counted anew then.
const PATHS_MAX: usize = 16;

/// The lengths of one path in one segment.
pub(crate) struct PathLengths {
    /// By document, in Lucene's encoding, which Tantivy's is too.
    pub(crate) norms: FieldNormReader,
    /// All of them together.
    pub(crate) tokens: u64,
    /// Documents that have any.
    pub(crate) docs: u64,
}

/// Paths of which a segment keeps how many documents have them.
const COUNTS_MAX: usize = 1024;

/// A path by its field and what its keys in the dictionary begin with.
type Key = (Field, Vec<u8>);

/// What queries asked for so far.
#[derive(Default)]
pub(crate) struct Lengths {
    paths: Mutex<HashMap<Key, Arc<PathLengths>>>,
    docs: Mutex<HashMap<String, u64>>,
}

impl Lengths {
    /// How many documents have a path, which `count` finds out if nobody asked before.
    pub(crate) fn docs(&self, path: &str, count: impl FnOnce() -> Result<u64>) -> Result<u64> {
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

    /// Those of the path whose keys in the dictionary of `field` begin with `start`. `step` is
    /// called for every term and may stop the count.
    pub(crate) fn of(
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
            // Held while counting: whoever wants the same waits for it instead of counting too.
            return Ok(keep(known, key, count(reader, field, start, step)?));
        };
        // Not held while bytes of a store are waited for: who waits for the lock keeps others from their turn.
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

/// Counts them.
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
