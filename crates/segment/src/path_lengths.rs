//! Lengths of the texts of one path, counted from the postings.

use firn_model::{Error, Result};
use tantivy::SegmentReader;
use tantivy::directory::FileSlice;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::schema::{Field, IndexRecordOption};

use crate::columns::paths::end_of;

/// The lengths of one path in one segment.
pub struct PathLengths {
    /// By document, in the encoding of Lucene and Tantivy.
    pub norms: FieldNormReader,
    /// Sum of all lengths.
    pub tokens: u64,
    /// Documents with text in the path.
    pub docs: u64,
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
