//! Term query scored by BM25 with the field lengths of one path.

use std::sync::Arc;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::query::{Bm25Weight, EmptyScorer, Explanation, Scorer, Weight};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Score, SegmentReader, Term};

use super::statistics::Norms;
use super::weight::no_explanation;

/// A scored term.
pub(crate) struct ScoredTerm {
    pub(crate) term: Term,
    pub(crate) bm25: Bm25Weight,
    pub(crate) norms: Arc<Norms>,
}

impl Weight for ScoredTerm {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let index = reader.inverted_index(self.term.field())?;
        let norms = self.norms.get(&reader.segment_id());
        let (Some(info), Some(norms)) = (index.get_term_info(&self.term)?, norms) else {
            return Ok(Box::new(EmptyScorer));
        };
        Ok(Box::new(TermDocs {
            postings: index.read_postings_from_terminfo(&info, IndexRecordOption::WithFreqs)?,
            norms: norms.clone(),
            bm25: self.bm25.boost_by(boost),
        }))
    }

    fn explain(&self, _reader: &SegmentReader, _doc: DocId) -> tantivy::Result<Explanation> {
        no_explanation()
    }
}

/// The documents of a term in one segment.
pub(crate) struct TermDocs {
    postings: SegmentPostings,
    norms: FieldNormReader,
    bm25: Bm25Weight,
}

impl TermDocs {
    /// Returns a score that no document exceeds.
    pub(crate) fn max_score(&self) -> Score {
        self.bm25.max_score()
    }

    /// Returns the score of the current document.
    pub(crate) fn score_here(&self) -> Score {
        let norm = self.norms.fieldnorm_id(self.postings.doc());
        self.bm25.score(norm, self.postings.term_freq())
    }
}

impl DocSet for TermDocs {
    fn advance(&mut self) -> DocId {
        self.postings.advance()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.postings.seek(target)
    }

    fn doc(&self) -> DocId {
        self.postings.doc()
    }

    fn size_hint(&self) -> u32 {
        self.postings.size_hint()
    }
}

impl Scorer for TermDocs {
    fn score(&mut self) -> Score {
        self.score_here()
    }
}
