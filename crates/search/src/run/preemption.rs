//! Preemption of long work on a segment before its first document: many clauses to open, many terms to look up.

use firn_segment::columns::column::into_tantivy;
use firn_segment::splits::dry_run::or_later;
use tantivy::postings::TermInfo;
use tantivy::query::{Explanation, Scorer, Weight};
use tantivy::{DocId, InvertedIndexReader, Score, SegmentReader, Term};

use crate::compile::limits::Stop;
use crate::compile::weight::{Compiled, no_explanation};

/// Most terms that are looked up one by one.
const MERGED_MIN: usize = 256;
/// Skipping a term in a dictionary is this many times cheaper than a lookup.
const MERGED_TIMES: usize = 64;
/// Cost of a lookup, as steps of a [`crate::compile::limits::Pace`].
pub(crate) const LOOKUP_STEPS: usize = 512;
/// Cost of skipping a term.
const PASSED_STEPS: usize = 8;

/// Wrapper of a weight that yields to other work, and checks for cancellation, before it opens the weight.
struct PreemptibleWeight {
    inner: Box<dyn Weight>,
    stop: Stop,
}

/// Wraps a compiled query that may be one of many clauses.
pub(crate) fn in_turn(compiled: Compiled, stop: &Stop) -> Compiled {
    match compiled {
        Compiled::Some(inner) => Compiled::Some(Box::new(PreemptibleWeight {
            inner,
            stop: stop.clone(),
        })),
        other => other,
    }
}

impl Weight for PreemptibleWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        self.stop.turn().map_err(into_tantivy)?;
        self.inner.scorer(reader, boost)
    }

    fn explain(&self, _reader: &SegmentReader, _doc: DocId) -> tantivy::Result<Explanation> {
        no_explanation()
    }

    fn count(&self, reader: &SegmentReader) -> tantivy::Result<u32> {
        self.stop.turn().map_err(into_tantivy)?;
        self.inner.count(reader)
    }
}

/// Finds which of some ascending terms a dictionary has. If they are a large part of the dictionary, it is read
/// once.
pub(crate) fn look_up(
    index: &InvertedIndexReader,
    keys: &[Term],
    stop: &Stop,
    found: &mut dyn FnMut(&TermInfo) -> tantivy::Result<()>,
) -> tantivy::Result<()> {
    let pace = stop.pace();
    let terms = index.terms();
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
        return Ok(());
    };
    if keys.len() < MERGED_MIN || keys.len().saturating_mul(MERGED_TIMES) < terms.num_terms() {
        for key in keys {
            pace.step(LOOKUP_STEPS).map_err(into_tantivy)?;
            if let Some(info) = or_later(index.get_term_info(key), None)? {
                found(&info)?;
            }
        }
        return Ok(());
    }
    let range = terms.range().ge(first.serialized_value_bytes());
    let mut stream = range.le(last.serialized_value_bytes()).into_stream()?;
    let mut keys = keys.iter().map(Term::serialized_value_bytes).peekable();
    while keys.peek().is_some() && stream.advance() {
        pace.step(PASSED_STEPS).map_err(into_tantivy)?;
        while keys.next_if(|key| *key < stream.key()).is_some() {}
        if keys.next_if(|key| *key == stream.key()).is_some() {
            found(stream.value())?;
        }
    }
    Ok(())
}
